"""Patterns of text: LIKE and regular expressions, and the fixed text that they require."""

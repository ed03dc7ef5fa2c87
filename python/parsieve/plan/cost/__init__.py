"""Decide which files are worth opening for their footers and filters."""

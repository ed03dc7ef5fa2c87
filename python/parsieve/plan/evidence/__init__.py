"""Decide which files and row groups may hold a matching row."""

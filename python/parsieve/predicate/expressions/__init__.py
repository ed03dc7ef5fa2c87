"""Expressions of columns that an index can hold: a closed list of functions, each with one meaning for all engines."""

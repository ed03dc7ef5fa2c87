"""Texts between the command line and Python: hints of messages, values, and keys."""

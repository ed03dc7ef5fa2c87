"""Texts between the command line and Python: hints of messages, and keys."""

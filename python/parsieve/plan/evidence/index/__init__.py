"""Evidence from the index of a table."""

"""The index of a table: what is stored beside it, and how it follows the table."""

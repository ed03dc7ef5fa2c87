"""Read the rows of data files as the rows of their table."""

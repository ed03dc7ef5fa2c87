"""The row groups and row ranges of files that may match."""

"""Turn a predicate into the files, row groups and rows to read."""

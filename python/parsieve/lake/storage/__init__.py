"""List the files of a table on any filesystem and prove that a file is still the same."""

"""Read the matching rows of files: only the pages that hold candidate rows, and of the other columns only matches."""

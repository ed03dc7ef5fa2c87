"""The map of pages of a table: where the chunks and pages of its files are, so that a reader needs no footers."""

"""Build, update and query the Bloom index of a table."""

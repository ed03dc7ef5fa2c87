"""A server that plans scans of Iceberg tables for engines that never load Python. No other part but `cli` uses it."""

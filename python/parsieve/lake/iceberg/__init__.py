"""Read Iceberg tables."""

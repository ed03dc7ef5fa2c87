"""Read, add, drop and check the Bloom filters inside Parquet files."""

"""Read plain folders of Parquet files."""

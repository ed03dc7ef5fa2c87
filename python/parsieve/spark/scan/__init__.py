"""Prune Spark's own scans of Parquet, Hudi, Delta and Iceberg."""

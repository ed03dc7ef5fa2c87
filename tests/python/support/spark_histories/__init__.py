"""Random histories of tables that Spark writes. Spark's own reading of each version is the model."""

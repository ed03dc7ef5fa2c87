"""Random Parquet files and predicates, to compare the rows that plans return with the rows that pyarrow reads."""

"""Read predicates from SQL, pyarrow, Polars and tuples into the typed form."""

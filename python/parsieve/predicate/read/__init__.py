"""Read predicates from SQL, pyarrow, Polars, tuples and lists of keys into the typed form."""

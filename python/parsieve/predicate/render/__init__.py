"""The typed form written for engines, for the same rows in each: what an engine does otherwise is said explicitly."""

from parsieve.predicate.render.arrow import to_pyarrow
from parsieve.predicate.render.frames import to_polars
from parsieve.predicate.render.sql import to_duckdb, to_spark

__all__ = ["to_duckdb", "to_polars", "to_pyarrow", "to_spark"]

"""Render a typed predicate for engines such that all select the same rows, although their rules for NaN differ."""

from parsieve.predicate.render.arrow import to_pyarrow
from parsieve.predicate.render.frames import to_polars
from parsieve.predicate.render.sql import to_duckdb, to_spark

__all__ = ["to_duckdb", "to_polars", "to_pyarrow", "to_spark"]

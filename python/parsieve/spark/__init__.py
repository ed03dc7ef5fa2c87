"""Parquet lakes on Spark. Importing this starts nothing and needs no PySpark; its functions do."""

from parsieve.spark.build import build_index
from parsieve.spark.maintain import compact, expire, update_index
from parsieve.spark.reading import read
from parsieve.spark.session import session

__all__ = ["build_index", "compact", "expire", "read", "session", "update_index"]

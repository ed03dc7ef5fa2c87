"""Parquet lakes on Spark. Importing this starts nothing and needs no PySpark; its functions do."""

from parsieve.spark.session import session

__all__ = ["session"]

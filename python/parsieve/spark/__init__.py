"""Parquet lakes on Spark. Importing this starts nothing and needs no PySpark; its functions do."""

from parsieve.spark.adding import add_filters
from parsieve.spark.build import build_index
from parsieve.spark.joining import semi_join
from parsieve.spark.maintain import compact, expire, update_index
from parsieve.spark.matching import filter_of, keep_matching
from parsieve.spark.reading import read
from parsieve.spark.registering import register
from parsieve.spark.scans import Scan, last_scan
from parsieve.spark.session import session

__all__ = [
    "Scan",
    "add_filters",
    "build_index",
    "compact",
    "expire",
    "filter_of",
    "keep_matching",
    "last_scan",
    "read",
    "register",
    "semi_join",
    "session",
    "update_index",
]


def __dir__() -> list[str]:
    return __all__

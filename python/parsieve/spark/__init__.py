"""Skip files of Parquet lakes on Spark. Importing this module needs no PySpark and starts nothing; its functions do."""

from parsieve.spark.build.add_filters import add_filters
from parsieve.spark.build.build import build_index
from parsieve.spark.build.maintain import compact, expire, update_index
from parsieve.spark.join.key_filter import filter_of, keep_matching
from parsieve.spark.join.semi_join import semi_join
from parsieve.spark.runtime.session import session
from parsieve.spark.scan.last_scan import last_scan
from parsieve.spark.scan.read import read
from parsieve.spark.scan.record import Scan
from parsieve.spark.source.register import register

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

"""Read tables of Parquet files: plain folders, Delta Lake, Iceberg and Hudi, at any version that still exists."""

from parsieve.lake.base import Changes, Lake, Location, Slice, Snapshot, Statistics
from parsieve.lake.open import open_lake

__all__ = ["Changes", "Lake", "Location", "Slice", "Snapshot", "Statistics", "open_lake"]


def __dir__() -> list[str]:
    return __all__

"""Tables of Parquet files: what a folder, Delta Lake, Iceberg or Hudi holds at an instant, and how it is read."""

from parsieve.lake.base import Changes, Lake, Location, Slice, Snapshot, Statistics
from parsieve.lake.open import open_lake

__all__ = ["Changes", "Lake", "Location", "Slice", "Snapshot", "Statistics", "open_lake"]


def __dir__() -> list[str]:
    return __all__

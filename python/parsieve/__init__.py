"""Skip the Parquet files and row groups that a query does not need."""

from parsieve._core import (
    BloomFilter,
    DecryptionError,
    FileKeys,
    FormatError,
    ParsieveError,
    UnsupportedError,
    __version__,
    false_positive_rate,
    hash_column,
    instruction_sets,
    optimal_num_bytes,
)
from parsieve.errors import ColumnNotFoundError
from parsieve.filters import FileFilters, FilterRange, open_filters

__all__ = [
    "BloomFilter",
    "ColumnNotFoundError",
    "DecryptionError",
    "FileFilters",
    "FileKeys",
    "FilterRange",
    "FormatError",
    "ParsieveError",
    "UnsupportedError",
    "__version__",
    "false_positive_rate",
    "hash_column",
    "instruction_sets",
    "open_filters",
    "optimal_num_bytes",
]

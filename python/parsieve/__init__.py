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
from parsieve.checking import Finding, check_filters
from parsieve.errors import ColumnNotFoundError, ConflictError
from parsieve.filters import FileFilters, FilterRange, open_filters
from parsieve.rewrite import AddedFilter, RewriteReport, add_filters, drop_filters

__all__ = [
    "AddedFilter",
    "BloomFilter",
    "ColumnNotFoundError",
    "ConflictError",
    "DecryptionError",
    "FileFilters",
    "FileKeys",
    "FilterRange",
    "Finding",
    "FormatError",
    "ParsieveError",
    "RewriteReport",
    "UnsupportedError",
    "__version__",
    "add_filters",
    "check_filters",
    "drop_filters",
    "false_positive_rate",
    "hash_column",
    "instruction_sets",
    "open_filters",
    "optimal_num_bytes",
]

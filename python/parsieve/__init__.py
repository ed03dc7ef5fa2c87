"""Skip the Parquet files and row groups that a query does not need."""

from parsieve._core import (
    BloomFilter,
    DecryptionError,
    FormatError,
    ParsieveError,
    UnsupportedError,
    __version__,
    false_positive_rate,
    hash_column,
    instruction_sets,
    optimal_num_bytes,
)

__all__ = [
    "BloomFilter",
    "DecryptionError",
    "FormatError",
    "ParsieveError",
    "UnsupportedError",
    "__version__",
    "false_positive_rate",
    "hash_column",
    "instruction_sets",
    "optimal_num_bytes",
]

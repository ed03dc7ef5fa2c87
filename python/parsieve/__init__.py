"""Skip the Parquet files and row groups that a query does not need."""

from typing import TYPE_CHECKING, Any

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
from parsieve.errors import (
    ColumnNotFoundError,
    ConflictError,
    FolderError,
    IndexNotFoundError,
    ParsieveWarning,
    StaleIndexError,
)

if TYPE_CHECKING:
    from parsieve.filters.check import Finding, check_filters
    from parsieve.filters.open import FileFilters, FilterRange, open_filters
    from parsieve.filters.report import AddedFilter, RewriteReport
    from parsieve.filters.rewrite import add_filters, drop_filters
    from parsieve.index.advice import Advice
    from parsieve.index.text.advice import TextEstimate
    from parsieve.integrations import duckdb as duckdb
    from parsieve.integrations.polars.scan import scan_polars
    from parsieve.io.remote_speed import RemoteSpeed, remote_speed, set_remote_speed
    from parsieve.observe.counters import Metrics, metrics
    from parsieve.plan.lookup import LookupResult
    from parsieve.plan.plan import Plan
    from parsieve.plan.verdict import Keep, Skip
    from parsieve.predicate.expressions.expression import expr, key
    from parsieve.table import Table, advise, open_table

__all__ = [
    "AddedFilter",
    "Advice",
    "BloomFilter",
    "ColumnNotFoundError",
    "ConflictError",
    "DecryptionError",
    "FileFilters",
    "FileKeys",
    "FilterRange",
    "Finding",
    "FolderError",
    "FormatError",
    "IndexNotFoundError",
    "Keep",
    "LookupResult",
    "Metrics",
    "ParsieveError",
    "ParsieveWarning",
    "Plan",
    "RemoteSpeed",
    "RewriteReport",
    "Skip",
    "StaleIndexError",
    "Table",
    "TextEstimate",
    "UnsupportedError",
    "__version__",
    "add_filters",
    "advise",
    "check_filters",
    "drop_filters",
    "expr",
    "false_positive_rate",
    "hash_column",
    "instruction_sets",
    "key",
    "metrics",
    "open_filters",
    "open_table",
    "optimal_num_bytes",
    "remote_speed",
    "scan_polars",
    "set_remote_speed",
]

# Tables need pyarrow, which takes longer to import than everything else, and no program needs all of parsieve. So each
# name is imported when it is first used.
_LATER = {
    "AddedFilter": "filters.report",
    "Advice": "index.advice",
    "FileFilters": "filters.open",
    "FilterRange": "filters.open",
    "Finding": "filters.check",
    "Keep": "plan.verdict",
    "LookupResult": "plan.lookup",
    "Metrics": "observe.counters",
    "Plan": "plan.plan",
    "RemoteSpeed": "io.remote_speed",
    "RewriteReport": "filters.report",
    "Skip": "plan.verdict",
    "Table": "table",
    "TextEstimate": "index.text.advice",
    "add_filters": "filters.rewrite",
    "advise": "table",
    "check_filters": "filters.check",
    "drop_filters": "filters.rewrite",
    "expr": "predicate.expressions.expression",
    "key": "predicate.expressions.expression",
    "metrics": "observe.counters",
    "open_filters": "filters.open",
    "open_table": "table",
    "remote_speed": "io.remote_speed",
    "scan_polars": "integrations.polars.scan",
    "set_remote_speed": "io.remote_speed",
}


# Public modules that are imported when they are first used.
_MODULES = {
    "duckdb": "integrations.duckdb",
    "index": "index",
    "lake": "lake",
    "spark": "spark",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"parsieve.{_MODULES[name]}")
    if name not in _LATER:
        raise AttributeError(f"module 'parsieve' has no attribute {name!r}")
    value = getattr(import_module(f"parsieve.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])

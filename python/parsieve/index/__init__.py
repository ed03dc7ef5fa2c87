"""The index of a table: versions of it in a store, built from a lake and asked by a planner."""

from parsieve.index.index import TableIndex
from parsieve.index.inspect import IndexStats
from parsieve.index.lies import IndexProblem
from parsieve.index.opening import open_store
from parsieve.index.query import Query
from parsieve.index.reports import (
    BuildReport,
    CompactReport,
    DropReport,
    ExpireReport,
    LeftOut,
    Remaining,
    UpdateReport,
)
from parsieve.index.store import LocalStore, ObjectStore, Store
from parsieve.index.view import View

__all__ = [
    "BuildReport",
    "CompactReport",
    "DropReport",
    "ExpireReport",
    "IndexProblem",
    "IndexStats",
    "LeftOut",
    "LocalStore",
    "ObjectStore",
    "Query",
    "Remaining",
    "Store",
    "TableIndex",
    "UpdateReport",
    "View",
    "open_store",
]


def __dir__() -> list[str]:
    return __all__

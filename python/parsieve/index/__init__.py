"""Build, update and query the index of a table."""

from parsieve.index.findings import IndexProblem
from parsieve.index.inspect import IndexStats
from parsieve.index.reports import (
    BuildReport,
    CompactReport,
    ConvertReport,
    DropReport,
    ExpireReport,
    LeftOut,
    Remaining,
    UpdateReport,
)
from parsieve.index.sieve import query as query
from parsieve.index.sieve.query import Query
from parsieve.index.table_index import TableIndex
from parsieve.index.view import View
from parsieve.io.store.base import Store
from parsieve.io.store.local import LocalStore
from parsieve.io.store.objects import ObjectStore
from parsieve.io.store.open import open_store

__all__ = [
    "BuildReport",
    "CompactReport",
    "ConvertReport",
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

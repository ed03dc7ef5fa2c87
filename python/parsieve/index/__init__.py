"""Build, update and query the index of a table."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# A plan needs few modules of this package, so each name is imported when it is first used.
_LATER = {
    "BuildReport": "index.reports",
    "CompactReport": "index.reports",
    "ConvertReport": "index.reports",
    "DropReport": "index.reports",
    "ExpireReport": "index.reports",
    "IndexProblem": "index.findings",
    "IndexStats": "index.inspect",
    "LeftOut": "index.reports",
    "LocalStore": "io.store.local",
    "ObjectStore": "io.store.objects",
    "Query": "index.sieve.query",
    "Remaining": "index.reports",
    "Store": "io.store.base",
    "TableIndex": "index.table_index",
    "UpdateReport": "index.reports",
    "View": "index.view",
    "open_store": "io.store.open",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "query":
        return import_module("parsieve.index.sieve.query")
    if name not in _LATER:
        raise AttributeError(f"module 'parsieve.index' has no attribute {name!r}")
    value = getattr(import_module(f"parsieve.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

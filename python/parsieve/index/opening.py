"""The store that a caller means by a path, a URI or a filesystem."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from parsieve._core import UnsupportedError
from parsieve.files import local_path
from parsieve.index.mounted import MountedStore
from parsieve.index.store import FOLDER, LocalStore, ObjectStore, Store


def open_store(where: Any, storage_options: Mapping[str, str] | None = None) -> Store:
    """The store that a caller means: a store, a folder's path, a URI, or a (filesystem, path) pair."""
    if isinstance(where, Store):
        return where
    if isinstance(where, tuple) and len(where) == 2:
        if hasattr(where[0], "get_range"):
            return ObjectStore(where[0], where[1])
        if hasattr(where[0], "open_input_file") or hasattr(where[0], "cat_file"):
            return MountedStore(where[0], os.fspath(where[1]))
    if isinstance(where, str) and "://" in where and not where.startswith("file:"):
        try:
            import obstore.store as stores
        except ImportError:
            raise UnsupportedError(f"an index at {where} needs the package obstore") from None
        from_url: Any = stores.from_url
        return ObjectStore(from_url(where, config=dict(storage_options or {})), name=where)
    if isinstance(where, (str, os.PathLike)):
        text = os.fspath(where)
        return LocalStore(local_path(text) if text.startswith("file:") else text)
    raise TypeError(
        f"an index lies in a folder, at a URI, or in a (filesystem, path) pair, not in a {type(where).__qualname__}"
    )


def beside(uri: str, storage_options: Mapping[str, str] | None = None) -> Store:
    """The store of a table's index where nobody says otherwise: a folder in the table's own."""
    return open_store(f"{uri.rstrip('/')}/{FOLDER}", storage_options)

"""The store that a caller means by a path, a URI or a filesystem."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parsieve._core import UnsupportedError
from parsieve.io.object_store import store_at
from parsieve.io.sources import filesystem_of, local_path
from parsieve.io.store.read_only import MountedStore
from parsieve.io.store.store import LocalStore, ObjectStore, Store


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
        return _at(where, storage_options)
    if isinstance(where, (str, os.PathLike)):
        text = os.fspath(where)
        return LocalStore(local_path(text) if text.startswith("file:") else Path(text).expanduser())
    raise TypeError(
        f"an index lies in a folder, at a URI, or in a (filesystem, path) pair, not in a {type(where).__qualname__}"
    )


def _at(uri: str, storage_options: Mapping[str, str] | None) -> Store:
    """The store at a URI: obstore's, or one that reads through the filesystem that the table is read by."""
    try:
        return ObjectStore(store_at(uri, storage_options), name=uri)
    except UnsupportedError as error:
        if storage_options:
            # Only obstore would know what they mean.
            raise
        try:
            filesystem, path = filesystem_of(uri)
        except ValueError:
            raise error from None
        return MountedStore(filesystem, path, uri, why=str(error))

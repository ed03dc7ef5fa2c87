"""Open the index store at a path, a URI or a filesystem."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parsieve._core import UnsupportedError
from parsieve.io.object_store import store_at
from parsieve.io.sources import filesystem_of, local_path
from parsieve.io.store.base import Store
from parsieve.io.store.local import LocalStore
from parsieve.io.store.objects import ObjectStore
from parsieve.io.store.read_only import MountedStore


def open_store(where: Any, storage_options: Mapping[str, str] | None = None) -> Store:
    """Open the store at a folder's path, a URI, or a (filesystem, path) pair. A `Store` is returned unchanged."""
    if isinstance(where, Store):
        return where
    if isinstance(where, tuple) and len(where) == 2:
        if hasattr(where[0], "get_range"):
            return ObjectStore(where[0], where[1])
        if hasattr(where[0], "open_input_file") or hasattr(where[0], "cat_file"):
            return MountedStore(where[0], os.fspath(where[1]))
    if isinstance(where, str) and "://" in where and not where.startswith("file:"):
        return _open_uri(where, storage_options)
    if isinstance(where, (str, os.PathLike)):
        text = os.fspath(where)
        return LocalStore(local_path(text) if text.startswith("file:") else Path(text).expanduser())
    raise TypeError(
        "the location of an index must be a folder, a URI or a (filesystem, path) pair, "
        f"not a {type(where).__qualname__}"
    )


def _open_uri(uri: str, storage_options: Mapping[str, str] | None) -> Store:
    """Open a URI with obstore, or else read-only with the filesystem that also reads the table."""
    try:
        return ObjectStore(store_at(uri, storage_options), name=uri)
    except UnsupportedError as error:
        if storage_options:
            # Other filesystems do not know these options.
            raise
        try:
            filesystem, path = filesystem_of(uri)
        except ValueError:
            raise error from None
        return MountedStore(filesystem, path, uri, why=str(error))

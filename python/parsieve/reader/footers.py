"""Keep the metadata of files between reads, up to a budget of memory."""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from typing import NamedTuple

import pyarrow as pa

from parsieve._core import RowFile, UnsupportedError
from parsieve.lake.base import Lake
from parsieve.sharing import Lock

# The memory for the metadata of one table's files.
BUDGET = 64 << 20


class FileVersion(NamedTuple):
    """One version of a file: its path, its size and its token."""

    path: str
    size: int
    token: str


class KnownFile(NamedTuple):
    """The metadata of a file, and its columns as Arrow fields."""

    rows: RowFile
    fields: tuple[pa.Field, ...]

    @classmethod
    def of(cls, rows: RowFile) -> KnownFile:
        """Return the metadata with its columns. Raise `UnsupportedError` if pyarrow cannot represent them."""
        try:
            fields = tuple(rows.schema)
        except Exception as error:
            # The Arrow C data interface has no type for its errors. It refuses names that contain a NUL.
            raise UnsupportedError(f"the schema of the file cannot be read: {error}") from error
        return cls(rows, fields)


# All caches of the process.
_EVERY_CACHE: weakref.WeakSet[FooterCache] = weakref.WeakSet()


class FooterCache:
    """The metadata of the files that were read most recently. Threads may share it."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._size = 0
        self._files: OrderedDict[FileVersion, tuple[KnownFile, int]] = OrderedDict()
        self._lock = Lock()
        _EVERY_CACHE.add(self)

    def get(self, version: FileVersion) -> KnownFile | None:
        """Return the metadata of a version of a file, or None if it is not known."""
        with self._lock:
            known = self._files.get(version)
            if known is None:
                return None
            self._files.move_to_end(version)
            return known[0]

    def put(self, version: FileVersion, file: KnownFile) -> None:
        """Remember the metadata of a version of a file, or its new size if it has grown by the indexes of its pages."""
        weight = file.rows.memory
        with self._lock:
            _, before = self._files.pop(version, (file, 0))
            self._files[version] = file, weight
            self._size += weight - before
            while self._size > self._budget and self._files:
                _, (_, oldest) = self._files.popitem(last=False)
                self._size -= oldest

    def clear(self) -> None:
        """Forget the metadata of all files."""
        self._files, self._size = OrderedDict(), 0


def _clear_caches() -> None:
    for cache in list(_EVERY_CACHE):
        cache.clear()


if hasattr(os, "register_at_fork"):
    # Another thread may hold the lock of a `RowFile` during the fork, and the process would wait for it forever.
    os.register_at_fork(after_in_child=_clear_caches)


_CACHES: weakref.WeakKeyDictionary[Lake, FooterCache] = weakref.WeakKeyDictionary()
_LOCK = Lock()


def cache_of(lake: Lake) -> FooterCache:
    """Return the metadata that reads of a table share. It lives as long as the table's object."""
    with _LOCK:
        return _CACHES.setdefault(lake, FooterCache())

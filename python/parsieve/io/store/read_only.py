"""An index on a pyarrow or fsspec filesystem.

It is read-only, because these filesystems cannot write a file on the condition that it does not exist.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from parsieve._core import UnsupportedError
from parsieve.io.remote_speed import remote_speed
from parsieve.io.sources import any_os_errors, open_source
from parsieve.io.store.base import Data, Store, Stored


class _File(NamedTuple):
    path: str
    size: int
    modified: float


class MountedStore(Store):
    """A folder of a filesystem, read-only."""

    @property
    def gap(self) -> int:
        """The longest gap between two ranges that are read with one request."""
        return remote_speed().gap

    def __init__(self, filesystem: Any, folder: str, name: str | None = None, why: str | None = None) -> None:
        super().__init__()
        self._filesystem = filesystem
        self._root = folder.rstrip("/")
        self._name = name or self._root
        # Why obstore could not open the location, if it was tried.
        self._why = why

    def __str__(self) -> str:
        return self._name

    def _get(self, name: str) -> bytes:
        with any_os_errors(self), contextlib.closing(open_source((self._filesystem, f"{self._root}/{name}"))) as source:
            return bytes(source.read(0, source.size()))

    def _get_range(self, name: str, start: int, end: int) -> bytes:
        with any_os_errors(self), contextlib.closing(open_source((self._filesystem, f"{self._root}/{name}"))) as source:
            return bytes(source.read(start, end))

    def _by_pyarrow(self, base: str) -> Iterator[_File]:
        from pyarrow import fs

        infos = self._filesystem.get_file_info(fs.FileSelector(base, allow_not_found=True))
        for info in infos:
            if info.type == fs.FileType.File:
                yield _File(info.path, info.size, (info.mtime_ns or 0) / 1e9)

    def _by_fsspec(self, base: str) -> Iterator[_File]:
        # Another process may have written files since fsspec cached the listing.
        self._filesystem.invalidate_cache(base)
        try:
            entries = self._filesystem.ls(base, detail=True)
        except FileNotFoundError:
            return
        for entry in entries:
            if entry["type"] == "file":
                # Only deletions need the modification time, and a read-only store has none.
                yield _File(entry["name"], int(entry["size"] or 0), 0.0)

    def list(self, folder: str, after: str = "") -> list[Stored]:
        """Return the files of a folder, or those whose names are greater than `after`."""
        base = f"{self._root}/{folder}"
        files = self._by_pyarrow(base) if hasattr(self._filesystem, "get_file_info") else self._by_fsspec(base)
        with any_os_errors(self):
            stored = sorted(Stored(f"{folder}/{path.rpartition('/')[2]}", size, when) for path, size, when in files)
        self._count(0)
        return [file for file in stored if file.name > after]

    def require_writable(self) -> NoReturn:
        """Refuse: the store is read-only."""
        self._refuse()

    def put(self, name: str, data: Data) -> NoReturn:
        """Refuse: the store is read-only."""
        self._refuse()

    def put_if_absent(self, name: str, data: bytes) -> NoReturn:
        """Refuse: the store is read-only."""
        self._refuse()

    def delete(self, name: str) -> NoReturn:
        """Refuse: the store is read-only."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        if self._why is not None:
            raise UnsupportedError(f"the index at {self} can only be read: {self._why}")
        raise UnsupportedError(
            f"the index at {self} can only be read: {type(self._filesystem).__name__} cannot create a file only "
            "if it does not exist, so two writers could overwrite each other. Pass a URI or an obstore "
            "store as the table or as index_location="
        )

"""Remove the files of a build or an update that fails."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator, Sequence

from parsieve._core import FormatError
from parsieve.index.log.folders import contains
from parsieve.index.log.garbage import referenced_files
from parsieve.index.log.log import Log
from parsieve.io.store.base import Data, Store, Stored
from parsieve.io.store.local import LocalStore


class Drafts(Store):
    """A store that remembers the files written since the last commit. Threads may share it."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._names: builtins.list[str] = []
        # Whether a commit since the files were written may have succeeded, and its version then references them.
        self._is_uncertain = False

    @property
    def gap(self) -> int:
        """The longest gap between two ranges that are read with one request."""
        return self._store.gap

    def __str__(self) -> str:
        return str(self._store)

    def _get(self, name: str) -> bytes:
        return self._store.get(name)

    def _get_range(self, name: str, start: int, end: int) -> bytes:
        return self._store.get_ranges(name, [(start, end)])[0]

    @property
    def final(self) -> Store:
        """Return the store itself, which remembers nothing."""
        return self._store

    def put(self, name: str, data: Data) -> None:
        """Write a file."""
        # Record the name first, because an upload that fails halfway may leave a file.
        self._names.append(name)
        self._store.put(name, data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file unless its name is taken. Return whether the file has these bytes."""
        # If this fails, the outcome of this commit is unknown. The results of later commits do not change that.
        was_uncertain, self._is_uncertain = self._is_uncertain, True
        # A client sends a request again if the answer was lost. The store then answers that the name is taken.
        written = self._store.put_if_absent(name, data) or contains(self._store, name, data)
        self._is_uncertain = was_uncertain and not written
        if written:
            self._names.clear()
        return written

    def list(self, folder: str, after: str = "") -> list[Stored]:
        """Return the files of a folder."""
        return self._store.list(folder, after)

    def delete(self, name: str) -> None:
        """Remove a file."""
        self._store.delete(name)

    def discard(self) -> None:
        """Remove the files that no version references."""
        names, self._names = self._names, []
        if self._is_uncertain:
            # In an object store the version may still appear later and reference these files, so keep them.
            names = self._unreferenced(names) if isinstance(self._store, LocalStore) else []
        for name in names:
            # `expire_index` removes what cannot be removed now.
            with contextlib.suppress(OSError):
                self._store.delete(name)

    def _unreferenced(self, names: Sequence[str]) -> builtins.list[str]:
        try:
            referenced = referenced_files(Log(self._store))
        except (OSError, FormatError):
            return []
        return [name for name in names if name not in referenced]


@contextlib.contextmanager
def drafting(log: Log) -> Iterator[Log]:
    """Yield a log to commit to. After an error or Ctrl-C, remove the files that were written since the last commit."""
    drafts = Drafts(log.store)
    try:
        yield log.within(drafts)
    except BaseException:
        drafts.discard()
        raise

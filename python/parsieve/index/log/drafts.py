"""The files of a build that is under way, which are removed at once if it fails."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator, Sequence

from parsieve._core import FormatError
from parsieve.index.log.commit import Log
from parsieve.index.log.garbage import named
from parsieve.io.sources import Range
from parsieve.io.store.base import Data, Store, Stored
from parsieve.io.store.local import LocalStore


class Drafts(Store):
    """A store that remembers what was put since the last version was committed. Threads may share it."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.gap = store.gap
        self._store = store
        self._names: builtins.list[str] = []
        # A version may have arrived without our knowing: then it names the files.
        self._is_uncertain = False

    def __str__(self) -> str:
        return str(self._store)

    def get(self, name: str) -> bytes:
        """A whole file."""
        return self._store.get(name)

    def get_ranges(self, name: str, ranges: Sequence[Range]) -> list[bytes]:
        """Some ranges of a file."""
        return self._store.get_ranges(name, ranges)

    def _get(self, name: str) -> bytes:
        return self._store._get(name)

    def _get_range(self, name: str, start: int, end: int) -> bytes:
        return self._store._get_range(name, start, end)

    def put(self, name: str, data: Data) -> None:
        """Write a file."""
        # Noted first: an upload that failed halfway may have left something.
        self._names.append(name)
        self._store.put(name, data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file unless the name is taken."""
        self._is_uncertain = True
        written = self._store.put_if_absent(name, data)
        self._is_uncertain = False
        if written:
            self._names.clear()
        return written

    def list(self, folder: str) -> list[Stored]:
        """The files of a folder."""
        return self._store.list(folder)

    def delete(self, name: str) -> None:
        """Remove a file."""
        self._store.delete(name)

    def discard(self) -> None:
        """Remove the files that no version names."""
        names, self._names = self._names, []
        if self._is_uncertain:
            # On an object store the version may still arrive, and then it names these files.
            names = self._of_no_version(names) if isinstance(self._store, LocalStore) else []
        for name in names:
            # What cannot be removed now is removed by `expire_index`.
            with contextlib.suppress(OSError):
                self._store.delete(name)

    def _of_no_version(self, names: Sequence[str]) -> builtins.list[str]:
        try:
            taken = named(Log(self._store))
        except (OSError, FormatError):
            return []
        return [name for name in names if name not in taken]


@contextlib.contextmanager
def drafting(store: Store) -> Iterator[Log]:
    """A log to commit to. What was put is removed again if that fails, and also on Ctrl-C."""
    drafts = Drafts(store)
    try:
        yield Log(drafts)
    except BaseException:
        drafts.discard()
        raise

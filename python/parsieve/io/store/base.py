"""The interface of index stores: files that are written once, on a local disk or in an object store.

```text
LocalStore    write a temporary file, fsync, link it to its name (fails if the name exists), fsync the folder
ObjectStore   one conditional put
MountedStore  read-only
```

File names have the form `folder/name`. None ends in `.parquet`, so no engine mistakes an index file for data.
"""

from __future__ import annotations

import errno
import secrets
import time
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parsieve import _core
from parsieve._core import UnsupportedError
from parsieve.io.parallel import map_in_threads
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.io.sources import LOCAL_GAP, Range
from parsieve.observe import counters
from parsieve.sharing import Lock

# The chunk size for copying a local file into a store.
CHUNK_BYTES = 8 << 20

# The content of a file: bytes, or local files to concatenate.
Data = bytes | Sequence[Path]


class Stored(NamedTuple):
    """A file of a store: its name, its size in bytes, and its modification time in seconds since 1970."""

    name: str
    size: int
    modified: float


class Store(ABC):
    """A set of files by name. `requests` and `bytes_fetched` count its reads. Threads may share it."""

    def __init__(self) -> None:
        self.requests = 0
        self.bytes_fetched = 0
        self._lock = Lock()

    @property
    def gap(self) -> int:
        """The longest gap between two ranges that are read with one request."""
        return LOCAL_GAP

    def threads_for(self, num_ranges: int) -> int:
        """Return how many threads to read this many ranges with."""
        return REQUESTS_AT_ONCE

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs to access the same files."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_obstore")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

    @abstractmethod
    def __str__(self) -> str:
        """Return the location of the store, for messages."""

    def get(self, name: str) -> bytes:
        """Read a file. Raises `FileNotFoundError` if it does not exist."""
        data = self._get(name)
        self._count(len(data))
        return data

    def get_ranges(self, name: str, ranges: Sequence[Range]) -> list[bytes]:
        """Read ranges of a file. Neighboring ranges share a request; other requests run at the same time.

        A range that reaches past the end of the file is returned shorter.
        """

        def fetch(block: Range) -> tuple[Range, bytes]:
            data = self._get_range(name, *block)
            self._count(len(data))
            return block, data

        spans = _core.coalesce(list(ranges), self.gap)
        blocks = list(map_in_threads(fetch, spans, self.threads_for(len(spans)), "parsieve-read"))
        parts = []
        for start, end in ranges:
            if start >= end:
                parts.append(b"")
                continue
            (block_start, _), data = blocks[bisect_right(blocks, start, key=lambda block: block[0][0]) - 1]
            parts.append(data[start - block_start : end - block_start])
        return parts

    def _count(self, length: int) -> None:
        with self._lock:
            self.requests += 1
            self.bytes_fetched += length
        counters.add(requests=1, bytes_read=length)

    @abstractmethod
    def _get(self, name: str) -> bytes: ...

    @abstractmethod
    def _get_range(self, name: str, start: int, end: int) -> bytes: ...

    @property
    def final(self) -> Store:
        """Return the store for files that stay even if the operation that writes them fails."""
        return self

    @abstractmethod
    def put(self, name: str, data: Data) -> None:
        """Write a file under a name that no other writer uses, see `unique`."""

    @abstractmethod
    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file unless its name is taken; return whether it was written.

        Raises `OSError` if the outcome is unknown.
        """

    def require_writable(self) -> None:  # noqa: B027 - many stores cannot check this
        """Raise an error if the store is known to be read-only, before a table is read."""

    @abstractmethod
    def list(self, folder: str, after: str = "") -> list[Stored]:
        """Return the files of a folder, sorted by name. With `after`, return only those whose names are greater."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file, if it exists."""


class NoStore(Store):
    """The store of a table that has no place for an index. It is empty, and writing to it raises an error."""

    def __init__(self, problem: str) -> None:
        super().__init__()
        self._problem = problem

    def __str__(self) -> str:
        return "nowhere"

    def _get(self, name: str) -> bytes:
        raise FileNotFoundError(errno.ENOENT, self._problem, name)

    def _get_range(self, name: str, start: int, end: int) -> bytes:
        return self._get(name)

    def require_writable(self) -> None:
        """Raise the error that explains why there is no place."""
        raise UnsupportedError(self._problem)

    def put(self, name: str, data: Data) -> None:
        """Refuse to write a file."""
        raise UnsupportedError(self._problem)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Refuse to write a file."""
        raise UnsupportedError(self._problem)

    def list(self, folder: str, after: str = "") -> list[Stored]:
        """Return no files."""
        return []

    def delete(self, name: str) -> None:
        """Do nothing, because there are no files."""


def unique(folder: str, kind: str) -> str:
    """Return a file name that no other writer uses."""
    return f"{folder}/{int(time.time()):010x}-{secrets.token_hex(10)}.{kind}"


def chunks_of(data: Data) -> Iterator[bytes]:
    """Yield the content of a file in chunks that fit into memory."""
    if isinstance(data, bytes):
        yield data
        return
    for path in data:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

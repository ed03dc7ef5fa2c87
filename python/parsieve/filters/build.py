"""Make filters from a file's own data: column chunks are hashed in threads, and filters wait in a scratch file.

Memory is bounded by the threads: each holds the distinct hashes of one column chunk, its filter, and a few pages.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from parsieve import _core
from parsieve.filters.open import FileFilters
from parsieve.io import interrupts
from parsieve.io.atomic import naming

Chunk = tuple[int, int]

# Filters that wait in memory until there are more of them.
IN_MEMORY = 32 << 20


class MadeFilter(NamedTuple):
    """A filter that was made, and where it waits."""

    num_blocks: int
    ndv: int
    fpp: float
    start: int
    length: int
    digest: bytes


def digest(filter: _core.BloomFilter) -> bytes:
    """What two filters with the same bits have in common."""
    return hashlib.blake2b(memoryview(filter), digest_size=32).digest()


def scan(file: FileFilters, rewriter: _core.Rewriter, chunk: Chunk) -> _core.ChunkScan:
    """The values of a column chunk, read piece by piece."""
    values = rewriter.scan(chunk)
    for piece in file._reader.pieces(*values.left()):
        interrupts.check()
        values.feed(piece)
    return values


class Filters:
    """The filters that were made of one file, until they are written."""

    def __init__(self, file: FileFilters, rewriter: _core.Rewriter, folder: Path) -> None:
        self._file = file
        self._rewriter = rewriter
        self._folder = folder
        # Only what is encrypted as its column is goes into it, and no name leads to it where the system allows that.
        self._scratch = tempfile.SpooledTemporaryFile(IN_MEMORY, dir=str(folder), prefix=".parsieve-")  # noqa: SIM115
        self._lock = threading.Lock()
        self.made: dict[Chunk, MadeFilter] = {}

    def __enter__(self) -> Filters:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scratch.close()

    def make(self, chunk: Chunk, fpp: float, max_bytes: int) -> int:
        """Make the filter of a column chunk; how many distinct values it has."""
        filter, ndv, rate = scan(self._file, self._rewriter, chunk).make(fpp, max_bytes)
        encoded = self._rewriter.encode(chunk, filter)
        bits = digest(filter)
        with self._lock, naming(self._folder):
            start = self._scratch.seek(0, os.SEEK_END)
            self._scratch.write(encoded)
            self.made[chunk] = MadeFilter(filter.num_blocks, ndv, rate, start, len(encoded), bits)
        return ndv

    def forget(self, column: int) -> None:
        """Let go of the filters of a column."""
        self.made = {chunk: made for chunk, made in self.made.items() if chunk[1] != column}

    def encoded(self, chunk: Chunk) -> bytes:
        """The bytes of a filter in the file."""
        made = self.made[chunk]
        self._scratch.seek(made.start)
        data: bytes = self._scratch.read(made.length)
        return data

"""Build filters from the data of a file: threads hash column chunks, and a scratch file holds the finished filters.

Each thread needs memory for a filter of as many distinct values as its column chunk has rows, and for a few pages.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pyarrow as pa

from parsieve import _core
from parsieve.filters.open import Chunk, ParquetFile
from parsieve.io import interrupts
from parsieve.io.fd import name_in_errors

# Up to this size, the finished filters stay in memory instead of a scratch file.
IN_MEMORY = 32 << 20


class BuiltFilter(NamedTuple):
    """A finished filter, and where it is in the scratch file."""

    num_blocks: int
    ndv: int
    fpp: float
    start: int
    length: int
    digest: int


def digest(filter: _core.BloomFilter) -> int:
    """Return the XXH64 of the filter's bits, which takes a small part of the time to build the filter."""
    bits = pa.FixedSizeBinaryArray.from_buffers(pa.binary(filter.num_bytes), 1, [None, pa.py_buffer(filter)])
    value: int = _core.hash_column(bits)[0].as_py()
    return value


def feed(file: ParquetFile, scan: _core.ChunkBuild | _core.ChunkCheck) -> None:
    """Read the pages of a column chunk."""
    for data in file.reader.chunks(*scan.left()):
        interrupts.check()
        scan.feed(data)


class BuiltFilters:
    """The finished filters of one file, until they are written into it."""

    def __init__(self, file: ParquetFile, rewriter: _core.Rewriter, folder: Path) -> None:
        self._file = file
        self._rewriter = rewriter
        self._folder = folder
        # Filters of encrypted columns are stored encrypted. Where the system allows it, the scratch file has no name.
        self._scratch = tempfile.SpooledTemporaryFile(IN_MEMORY, dir=str(folder), prefix=".parsieve-")  # noqa: SIM115
        self._lock = threading.Lock()
        self.by_chunk: dict[Chunk, BuiltFilter] = {}

    def __enter__(self) -> BuiltFilters:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scratch.close()

    def build(self, chunk: Chunk, fpp: float, max_bytes: int) -> int:
        """Build the filter of a column chunk, and return the estimated number of distinct values."""
        scan = self._rewriter.build(chunk, fpp, max_bytes)
        try:
            feed(self._file, scan)
            filter, ndv, rate = scan.finish()
        except (_core.FormatError, _core.UnsupportedError) as error:
            row_group, column = chunk
            file = "" if self._file.reader.name is None else f"{self._file.reader.name}, "
            place = f"{file}column {self._file.name_of(column)}, row group {row_group}"
            error.args = (f"{place}: {error}", *error.args[1:])
            raise
        encoded = self._rewriter.encode(chunk, filter)
        bits = digest(filter)
        with self._lock, name_in_errors(self._folder):
            start = self._scratch.seek(0, os.SEEK_END)
            self._scratch.write(encoded)
            self.by_chunk[chunk] = BuiltFilter(filter.num_blocks, ndv, rate, start, len(encoded), bits)
        return ndv

    def discard(self, column: int) -> None:
        """Discard the filters of a column."""
        self.by_chunk = {chunk: built for chunk, built in self.by_chunk.items() if chunk[1] != column}

    def encoded(self, chunk: Chunk) -> bytes:
        """Return the bytes of a filter in the format of Parquet files."""
        built = self.by_chunk[chunk]
        self._scratch.seek(built.start)
        data: bytes = self._scratch.read(built.length)
        return data

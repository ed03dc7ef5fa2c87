"""Read the byte ranges that an operation needs from a source, with few requests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from parsieve import _core
from parsieve.errors import ConflictError
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.io.sources import Bytes, Range, open_source
from parsieve.observe import counters
from parsieve.sharing import Lock

# Large enough to be worth a request, and small enough to stay in the processor's cache.
CHUNK = 2 << 20

Answer = TypeVar("Answer")
# Returns the ranges that must be read first, or none and the answer.
Step = Callable[[_core.Fetched], tuple[list[Range], Answer | None]]


class Sink(Protocol):
    """Takes the bytes of ranges."""

    def insert(self, start: int, data: Bytes, /) -> None:
        """Add the bytes at offset `start`."""


class RangeReader:
    """Reads ranges of a source into memory, and counts requests and bytes. Threads may share it."""

    def __init__(self, source: Any) -> None:
        self._source = open_source(source)
        # The path or URI for error messages, or None for a source without a name.
        self.name = _name(source)
        self._lock = Lock()
        self.bytes_fetched = 0
        self.requests = 0
        # The number of calls of `fetch`, each of which waits for the one before it.
        self.round_trips = 0
        try:
            self.size = self._source.size()
            # The first part of this version's token in a listing of a plain folder.
            self.version = self._source.version() or f"{self.size}-"
            self.round_trip_bytes = self._source.round_trip_bytes
        except BaseException:
            self._source.close()
            raise

    def fetch(self, needed: Sequence[Range], into: Sink) -> None:
        """Read all ranges into `into`: nearby ranges in one request, others in parallel if the source allows it."""
        self.round_trips += 1
        ranges = needed if len(needed) == 1 else _core.coalesce(list(needed), self._source.gap)
        if self._source.concurrent and len(ranges) > 1:
            with ThreadPoolExecutor(min(REQUESTS_AT_ONCE, len(ranges)), "parsieve-read") as pool:
                # `list` raises the first error, once all requests have ended.
                list(pool.map(lambda range_: self._fetch(range_, into), ranges))
        else:
            for range_ in ranges:
                self._fetch(range_, into)

    def check_unchanged(self) -> None:
        """Raise `ConflictError` if the file has changed since it was opened."""
        if self._source.changed():
            raise ConflictError(f"{self.name} was changed since it was opened; open it again")

    def chunks(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of a long range in chunks of at most `CHUNK` bytes."""
        while start < end:
            data = self._read(start, min(end, start + CHUNK))
            yield data if isinstance(data, bytes) else bytes(data)
            start += len(data)

    def _fetch(self, range_: Range, into: Sink) -> None:
        start, end = range_
        while start < end:
            data = self._read(start, end)
            into.insert(start, data)
            start += len(data)

    def _read(self, start: int, end: int) -> Bytes:
        data = self._source.read(start, end)
        if not isinstance(data, bytes):
            data = memoryview(data).cast("B")
        if len(data) > end - start:
            data = data[: end - start]
        with self._lock:
            self.requests += 1
            self.bytes_fetched += len(data)
        counters.add(requests=1, bytes_read=len(data))
        if not data:
            raise OSError(f"unexpected end of {self.name or 'the source'}: no bytes at {start} to {end} of {self.size}")
        return data

    def close(self) -> None:
        """Close what this reader opened; a file object of the caller stays open."""
        self._source.close()


def run_step(reader: RangeReader, step: Step[Answer], fetched: _core.Fetched | None = None) -> Answer | None:
    """Call `step` until it returns an answer, and read the ranges that it needs in between."""
    fetched = _core.Fetched() if fetched is None else fetched
    while True:
        needed, answer = step(fetched)
        if not needed:
            return answer
        reader.fetch(needed, fetched)


def open_footer(reader: RangeReader, keys: _core.FileKeys | None = None) -> _core.FileReader:
    """Read the footer of a Parquet file."""
    footer = run_step(reader, lambda fetched: _core.FileReader.open(reader.size, fetched, keys))
    assert footer is not None
    return footer


def _name(source: Any) -> str | None:
    """Return the path or URI of a source, or None if it has none."""
    if isinstance(source, tuple) and len(source) == 2:
        source = source[1]
    return os.fsdecode(source) if isinstance(source, (str, os.PathLike)) else None

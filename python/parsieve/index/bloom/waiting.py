"""Keep finished filters until their shelf is written: in memory up to a budget, then in a temporary file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from parsieve._core import BloomFilter
from parsieve.index.bloom.shelf import Filled, filter_of
from parsieve.index.scan.spill import Room


class Budget:
    """A limit on the bytes that threads hold together. A claim above the limit waits until no other is left."""

    def __init__(self, num_bytes: int) -> None:
        """Allow this many bytes at the same time."""
        self._limit = num_bytes
        self._used = 0
        self._freed = threading.Condition()

    @contextmanager
    def claim(self, num_bytes: int) -> Iterator[None]:
        """Wait for room, and claim some bytes."""
        with self._freed:
            self._freed.wait_for(lambda: not self._used or self._used + num_bytes <= self._limit)
            self._used += num_bytes
        try:
            yield
        finally:
            with self._freed:
                self._used -= num_bytes
                self._freed.notify_all()


@dataclass(frozen=True, slots=True)
class _Spilled:
    """A location whose filter is in a temporary file. Each access to `filter` reads it again."""

    location: tuple[str, str]
    column_type: str
    num_bytes: int
    nulls: bool
    nans: bool
    unknown: bool
    file: BinaryIO
    start: int
    length: int

    @property
    def filter(self) -> BloomFilter:
        """Read the filter."""
        self.file.seek(self.start)
        data = self.file.read(self.length)
        while len(data) < self.length:
            more = self.file.read(self.length - len(data))
            if not more:
                raise OSError(f"a temporary file of the index build ended at {self.start + len(data)} bytes")
            data += more
        return filter_of(data, self.column_type)


class WaitingFilters:
    """The filters of one column, in the order of their slices. Threads may put them; one thread reads them all."""

    def __init__(self, room: Room, count: int) -> None:
        """Prepare for `count` filters, which use the memory budget of `room`."""
        self._room = room
        self._filters: list[Filled | _Spilled | None] = [None] * count
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._end = 0

    def put(self, number: int, filled: Filled) -> None:
        """Set the filter of the slice with this number."""
        if filled.filter is None or self._room.take(filled.num_bytes):
            self._filters[number] = filled
        else:
            self._filters[number] = self._spill(filled, filled.filter)

    def append(self, filled: Filled) -> None:
        """Append a filter."""
        self._filters.append(None)
        self.put(len(self._filters) - 1, filled)

    def _spill(self, filled: Filled, filter: BloomFilter) -> _Spilled:
        data = memoryview(filter.to_bytes())
        with self._lock:
            if self._file is None:
                self._file = self._room.open()
            start = self._end
            self._end += len(data)
            self._file.seek(start)
            written = 0
            while written < len(data):
                written += self._file.write(data[written:])
        self._room.note(len(data))
        assert filled.column_type is not None
        return _Spilled(
            location=filled.location,
            column_type=filled.column_type,
            num_bytes=filled.num_bytes,
            nulls=filled.nulls,
            nans=filled.nans,
            unknown=filled.unknown,
            file=self._file,
            start=start,
            length=len(data),
        )

    def __iter__(self) -> Iterator[Filled | _Spilled]:
        for filled in self._filters:
            assert filled is not None
            yield filled

"""Keep finished filters until their shelf is written: in memory up to a budget, then in a temporary file."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from parsieve._core import BloomFilter
from parsieve.index.bloom.shelf import BLOCK, Filled, bytes_of, filters_of
from parsieve.index.scan.spill import Room
from parsieve.index.scan.units import UnitLayout


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
    """A location whose filters are in a temporary file. Each access to `filters` reads them again."""

    location: tuple[str, str]
    column_type: str
    blocks: tuple[int | None, ...]
    nulls: bool
    nans: bool
    unknown: bool
    layout: UnitLayout
    file: BinaryIO
    start: int
    # The bytes of each filter, 0 for a unit without one.
    lengths: tuple[int, ...]

    @property
    def filters(self) -> Sequence[BloomFilter | None]:
        """Read the filters."""
        self.file.seek(self.start)
        length = sum(self.lengths)
        data = self.file.read(length)
        while len(data) < length:
            more = self.file.read(length - len(data))
            if not more:
                raise OSError(f"a temporary file of the index build ended at {self.start + len(data)} bytes")
            data += more
        return filters_of(data, self.lengths, self.column_type)


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
        """Set the filters of the slice with this number."""
        num_bytes = BLOCK * sum(filter(None, filled.blocks))
        if self._room.take(num_bytes):
            self._filters[number] = filled
        else:
            self._filters[number] = self._spill(filled)

    def append(self, filled: Filled) -> None:
        """Append the filters of a slice."""
        self._filters.append(None)
        self.put(len(self._filters) - 1, filled)

    def _spill(self, filled: Filled) -> _Spilled:
        data, lengths = bytes_of(filled.filters)
        with self._lock:
            if self._file is None:
                self._file = self._room.open()
            start = self._end
            self._end += len(data)
            self._file.seek(start)
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        self._room.note(len(data))
        assert filled.column_type is not None
        return _Spilled(
            location=filled.location,
            column_type=filled.column_type,
            blocks=filled.blocks,
            nulls=filled.nulls,
            nans=filled.nans,
            unknown=filled.unknown,
            layout=filled.layout,
            file=self._file,
            start=start,
            lengths=lengths,
        )

    def __iter__(self) -> Iterator[Filled | _Spilled]:
        for filled in self._filters:
            assert filled is not None
            yield filled

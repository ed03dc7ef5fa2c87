"""A table's Bloom index made by Spark's executors: slices to filters, filters to shelves, one commit by the driver.

```text
slices ── fill: a filter each ── files in the store ── which filter on which shelf ── arrange ── shelves
          one task for several                         driver, by sizes alone         one task each
```

The driver learns some hundred bytes of each slice and column; keys and filters never come to it. The shelves are those
of a build in one process, byte for byte.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parsieve import _core
from parsieve.index.bloom import build as bloom
from parsieve.index.bloom.shelf import SHELF_BYTES, Filled, arranged, on_shelves
from parsieve.index.log.commit import Shelf
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import ColumnPath, Lake, Location, Slice
from parsieve.spark.runtime import executors

# In the folder of shelves, where what a killed build leaves is found and removed.
FOLDER = "shelves"
# Filters that an executor holds before it writes them.
FILE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Held:
    """A filter that waits in a file of the store, or what else is known of a slice without one."""

    location: tuple[str, str]
    column_type: str | None
    # The size of its bits; its bytes in the file have a header, too.
    num_bytes: int
    nulls: bool
    nans: bool
    unknown: bool
    name: str = ""
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one slice: its filters' bytes, or why it could not be read."""

    piece: Slice
    filters: int
    num_bytes: int
    seconds: float
    error: Exception | None


@dataclass
class Executors:
    """The hands of `parsieve.index.bloom` that read and write on Spark's executors."""

    spark: Any
    lake: Lake
    store: Store
    shelf_bytes: int = SHELF_BYTES
    outcomes: list[Outcome] = field(default_factory=list)

    def shelve(
        self, slices: Sequence[Slice], rates: Mapping[ColumnPath, float]
    ) -> tuple[dict[ColumnPath, tuple[Shelf, ...]], dict[Location, Exception]]:
        """Shelves with a filter for each slice and column, read in one scan; and the slices that could not be read."""
        tasks = [
            _Filling(self.store, self.lake, slices[start:end], rates)
            for start, end in executors.shares(self.spark, [piece.size for piece in slices])
        ]
        names = ", ".join(".".join(path) for path in rates)
        found = [
            one
            for several in executors.run(self.spark, f"fill filters of {names} of {self.lake.uri}", _fill, tasks)
            for one in several
        ]
        written = dict.fromkeys(one.name for read in found for one in read.held if one.name)
        try:
            shelves: dict[ColumnPath, tuple[Shelf, ...]] = dict.fromkeys(rates, ())
            jobs = [
                (path, _Shelving(self.store, column_type, tuple(stands)))
                for at, path in enumerate(rates)
                for column_type, stands in on_shelves((read.held[at] for read in found), self.shelf_bytes)
            ]
            label = f"arrange filters of {names}"
            made = executors.run(self.spark, label, _shelve, [job for _, job in jobs])
            for (path, _), shelf in zip(jobs, made, strict=True):
                shelves[path] += (shelf,)
        finally:
            for name in written:
                self.store.delete(name)
        failed = {}
        for piece, read in zip(slices, found, strict=True):
            size = sum(one.num_bytes for one in read.held)
            self.outcomes.append(Outcome(piece, len(rates), size, read.seconds, read.error))
            if read.error is not None:
                failed[piece.location] = read.error
        return shelves, failed

    def reshelve(self, shelves: Sequence[Shelf], bound: Mapping[Location, str]) -> tuple[Shelf, ...]:
        """Fewer shelves with the filters that still count, by one task that holds one of them at a time."""
        task = (self.store, shelves, bound, self.shelf_bytes)
        [fewer] = executors.run(self.spark, "arrange filters anew", _reshelve, [task])
        return fewer


@dataclass(frozen=True)
class _Filling:
    store: Store
    lake: Lake
    slices: Sequence[Slice]
    rates: Mapping[ColumnPath, float]


@dataclass(frozen=True)
class _Read:
    held: list[Held]
    seconds: float
    error: Exception | None


def _fill(task: _Filling) -> list[_Read]:
    """On an executor: some slices into filters, in files that hold no more than fits into memory."""
    found: list[_Read] = []
    waiting = bytearray()
    name = unique(FOLDER, "filters")
    for piece in task.slices:
        started = time.monotonic()
        filled, error = bloom.fill(task.lake, piece, task.rates)
        held = []
        for one in filled:
            start = len(waiting)
            if one.filter is not None:
                waiting += one.filter.to_bytes()
            place = (name, start, len(waiting)) if one.filter is not None else ("", 0, 0)
            sides = (one.nulls, one.nans, one.unknown)
            held.append(Held(one.location, one.column_type, one.num_bytes, *sides, *place))
        found.append(_Read(held, time.monotonic() - started, error))
        if len(waiting) >= FILE_BYTES:
            task.store.put(name, bytes(waiting))
            waiting, name = bytearray(), unique(FOLDER, "filters")
    if waiting:
        task.store.put(name, bytes(waiting))
    return found


@dataclass(frozen=True)
class _Shelving:
    store: Store
    column_type: str
    held: tuple[Held, ...]


def _shelve(task: _Shelving) -> Shelf:
    """On an executor: filters from wherever they wait onto one shelf."""
    return bloom.put_shelf(task.store, *arranged(task.column_type, _filled(task.store, task.held)))


def _filled(store: Store, held: Sequence[Held]) -> Iterator[Filled]:
    """The filters in their order; neighbours lie in one file, and are fetched at once."""
    files: dict[str, list[Held]] = {}
    for one in held:
        if one.name:
            files.setdefault(one.name, []).append(one)
    data: dict[tuple[str, int], bytes] = {}
    for name, within in files.items():
        pieces = store.get_ranges(name, [(one.start, one.end) for one in within])
        data |= {(name, one.start): piece for one, piece in zip(within, pieces, strict=True)}
    for one in held:
        filter = None
        if one.name:
            filter = _core.BloomFilter._restore(data.pop((one.name, one.start)), one.column_type)
        yield Filled(one.location, filter, one.nulls, one.nans, one.unknown)


def _reshelve(task: tuple[Store, Sequence[Shelf], Mapping[Location, str], int]) -> tuple[Shelf, ...]:
    """On an executor: shelves into fewer."""
    store, shelves, bound, shelf_bytes = task
    return bloom.put(store, bloom.live(store, shelves, bound), shelf_bytes)

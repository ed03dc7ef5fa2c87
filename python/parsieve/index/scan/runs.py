"""A table's rows -> sorted runs of (key, location, rows) -> one merged stream -> segments; without Spark or Java.

```text
slices ── threads: read, keys, sort ── runs in memory or spilled ── merge ── builder ── root + segment file
```

The bytes depend on the rows alone: not on threads, memory, or the order in which slices arrive.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from parsieve import _core
from parsieve._core import UnsupportedError
from parsieve.errors import ConflictError
from parsieve.index.scan.spill import Room, Runs, Sections
from parsieve.io import interrupts
from parsieve.lake.base import ColumnPath, Lake, Location, Slice

# Of the memory that a caller allows: shares for unsorted rows, and for runs that wait. The rest is for reading.
UNSORTED_SHARE = 0.4
WAITING_SHARE = 0.4
LEAST_BUFFER = 1 << 20
# One piece of each run is in memory while they are merged: as bytes, and as what is read of them.
PIECE_BYTES = 128 << 10
MERGE_SHARE = 0.5
LEAST_FAN = 8

Advance = Callable[[int], None]


@dataclass
class Gathered:
    """The rows of one column of some slices: its runs, and what has no key, by number of the location."""

    axis: _core.SieveAxis
    runs: Runs
    nulls: list[int] = field(default_factory=list)
    nans: list[int] = field(default_factory=list)
    # Slices that could not be read, or whose values are of another kind: they belong to every answer.
    unread: list[bool] = field(default_factory=list)
    # Slices that could not be read now, and may be another time.
    failed: dict[int, Exception] = field(default_factory=dict)


class _Worker:
    """One thread's buffers."""

    def __init__(self, columns: Sequence[Gathered], most: int, first: int) -> None:
        self._columns = columns
        self._most = most
        self._first = first
        self._pairs = [_core.SievePairs(column.axis) for column in columns]

    def push(self, at: int, values: pa.Array, number: int) -> None:
        column, pairs = self._columns[at], self._pairs[at]
        if column.unread[number]:
            return
        try:
            _, nulls, nans = pairs.push(values, self._first + number)
        except TypeError:
            # Another unit or kind than the column's: what it holds cannot be compared.
            column.unread[number] = True
            return
        # Each location is read by one thread.
        column.nulls[number] += nulls
        column.nans[number] += nans
        if pairs.num_bytes >= self._most:
            column.runs.add(pairs.sort())

    def finish(self) -> None:
        for column, pairs in zip(self._columns, self._pairs, strict=True):
            column.runs.add(pairs.sort())


def gather(
    lake: Lake,
    slices: Sequence[Slice],
    columns: Sequence[tuple[ColumnPath, _core.SieveAxis]],
    room: Room,
    *,
    memory: int,
    threads: int,
    advance: Advance,
    first: int = 0,
) -> list[Gathered]:
    """Read some columns of some slices in one scan. The number of a slice is its place in `slices`, after `first`."""
    gathered = [
        Gathered(axis, Runs(room), [0] * len(slices), [0] * len(slices), [False] * len(slices)) for _, axis in columns
    ]
    paths = [path for path, _ in columns]
    most = max(LEAST_BUFFER, int(memory * UNSORTED_SHARE) // (max(1, threads) * max(1, len(columns))))
    # Vectors grow by doubling: what is full at this size had twice the room.
    most = max(LEAST_BUFFER, most // 2)
    local, workers, lock = threading.local(), [], threading.Lock()

    def read(number: int) -> None:
        worker: _Worker | None = getattr(local, "worker", None)
        if worker is None:
            worker = local.worker = _Worker(gathered, most, first)
            with lock:
                workers.append(worker)
        try:
            for batch in lake.read_keys(slices[number], paths):
                for at in range(len(paths)):
                    worker.push(at, batch.column(at), number)
        except (ConflictError, FileNotFoundError, UnsupportedError) as error:
            # Somebody changed or removed it, or it is of a kind that nobody can read right: one slice of many.
            for column in gathered:
                column.unread[number] = True
                column.failed[number] = error
        advance(1)

    each(read, range(len(slices)), threads)
    each(lambda at: workers[at].finish(), range(len(workers)), threads)
    return gathered


def each(act: Callable[[int], None], items: Iterable[int], threads: int) -> None:
    """Act on all items, some at once; the first error ends the rest."""
    if threads <= 1:
        for item in items:
            act(item)
        return
    with ThreadPoolExecutor(threads, "parsieve-index") as pool:
        futures = [pool.submit(act, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            # What has not begun would only delay the error.
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@dataclass
class Built:
    """A built column: its root, and its segment file as bytes or as files end to end."""

    root: bytes
    file: bytes | list[Path]
    file_size: int


def merge(
    gathered: Gathered,
    locations: Sequence[Location],
    instant: int,
    room: Room,
    memory: int,
    options: _core.SieveOptions | None = None,
) -> Built:
    """Merge the runs of a column into its root and segment file; the runs are forgotten."""
    runs = _few(gathered.axis, gathered.runs, room, memory)
    build = _core.SieveBuild(gathered.axis, len(locations), num_runs=len(runs), options=options)
    feeds = [runs.pieces(run) for run in range(len(runs))]
    sections = Sections(room)
    while (hungry := build.step()) is not None:
        interrupts.check()
        build.feed(hungry, next(feeds[hungry], None))
        sections.add(build.take())
    places = [(location.partition, location.group) for location in locations]
    sides = list(zip(gathered.nulls, gathered.nans, gathered.unread, strict=True))
    root, last = build.finish(instant, places, sides)
    sections.add(last)
    runs.close()
    size = sections.size()
    return Built(root, sections.finish(), size)


def _few(axis: _core.SieveAxis, runs: Runs, room: Room, memory: int) -> Runs:
    """Runs of which one piece each fits into memory: too many are merged to fewer first."""
    most = max(LEAST_FAN, int(memory * MERGE_SHARE) // PIECE_BYTES)
    while len(runs) > most:
        fewer = Runs(room)
        for start in range(0, len(runs), most):
            fewer.add_spilled(_joined(axis, runs, range(start, min(start + most, len(runs)))))
        runs.close()
        runs = fewer
    return runs


def _joined(axis: _core.SieveAxis, runs: Runs, which: range) -> Iterator[list[bytes]]:
    joining = _core.SieveRuns(axis, len(which))
    feeds = [runs.pieces(run) for run in which]
    while (hungry := joining.step()) is not None:
        interrupts.check()
        joining.feed(hungry, next(feeds[hungry], None))
        yield joining.take()
    yield joining.finish()


class Progress:
    """A bar on standard error, if somebody looks."""

    def __init__(self, label: str, total: int, show: bool | None) -> None:
        self._label = label
        self._total = total
        self._done = 0
        self._lock = threading.Lock()
        self._show = sys.stderr.isatty() if show is None else show
        self.advance(0)

    def advance(self, steps: int) -> None:
        """Some steps more are done."""
        with self._lock:
            self._done += steps
            if not self._show or not self._total:
                return
            filled = 30 * self._done // self._total
            bar = "#" * filled + "." * (30 - filled)
            end = "\n" if self._done >= self._total else ""
            sys.stderr.write(f"\r{self._label} [{bar}] {self._done}/{self._total}{end}")
            sys.stderr.flush()


def threads_of(threads: int | None) -> int:
    """How many threads a caller gets."""
    if threads is not None and threads < 1:
        raise ValueError("threads must be at least 1")
    if threads is not None:
        return threads
    # What this process may use, which a container may have cut.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

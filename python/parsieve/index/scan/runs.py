"""Read rows as (key, unit, rows), sort them, and build a Sieve index.

```text
slices ── threads: read, encode keys ── rows in memory ── threads: sort, build partitions ── root + segment file
                                     └─ if memory is short: sorted runs, in memory or spilled ── merge ── build
```

The result depends only on the rows, not on the number of threads, the memory, or the order in which slices are read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from parsieve import _core
from parsieve._core import UnsupportedError
from parsieve.errors import ConflictError
from parsieve.index.scan.spill import Room, Runs, Sections, Unsorted
from parsieve.index.scan.units import UnitCutter, UnitNumbers
from parsieve.io import interrupts
from parsieve.io.parallel import run_in_threads
from parsieve.lake.base import ColumnPath, Lake, Location, Slice
from parsieve.lake.slices import InBlocks
from parsieve.predicate.elements import flat

# Shares of the allowed memory for unsorted rows, and for finished runs or more unsorted rows. The rest is for reading.
UNSORTED_SHARE = 0.4
WAITING_SHARE = 0.4
# Without a room, rows become a run when they take this part of their share. Blocks take up to twice the memory.
RUN_SHARE = 0.25
MIN_MEMORY = 1 << 20
MIN_BUFFER = 1 << 20
# A merge holds one block of each run, encoded and decoded.
BLOCK_BYTES = 128 << 10
MERGE_SHARE = 0.5
MIN_FAN_IN = 8


def check_is_number(memory: int) -> None:
    """Raise `TypeError` unless the memory is a number of bytes."""
    if not hasattr(memory, "__index__"):
        raise TypeError(f"memory must be a number of bytes, such as 1 << 30, not {memory!r}")


def check_memory(memory: int) -> None:
    """Raise an error if the memory is not a number, or is too small to sort rows."""
    check_is_number(memory)
    if memory < MIN_MEMORY:
        raise ValueError(f"memory must be at least 1 MiB ({1 << 20} bytes), not {memory} bytes")


@dataclass
class Gathered:
    """The rows of one column of some slices: sorted runs, and the rows without a key. The lists count by unit."""

    axis: _core.SieveAxis
    runs: Runs
    nulls: list[int] = field(default_factory=list)
    nans: list[int] = field(default_factory=list)
    # Units of slices that could not be read, or whose values are of another type. Every answer includes them.
    unread: list[bool] = field(default_factory=list)
    # Slices that could not be read this time, by their position.
    failed: dict[int, Exception] = field(default_factory=dict)


class _Buffers:
    """The unsorted rows of one thread."""

    def __init__(self, columns: Sequence[_Column], share: int, room: Room | None) -> None:
        self._columns = columns
        self._unsorted = [Unsorted(column.pairs.sibling(), share, room) for column in columns]

    def push(self, at: int, values: pa.Array, cutter: UnitCutter) -> bool:
        """Add the next values of a slice, or lists of values. Return whether they are of the column's type."""
        column, unsorted = self._columns[at], self._unsorted[at]
        rows, first = column.rows, column.units.first
        for unit, start, stop in cutter.cut(len(values)):
            try:
                _, nulls, nans = unsorted.pairs.push(flat(values.slice(start, stop - start)), unit)
            except TypeError:
                # The values have another unit or type than the column, so they cannot be compared.
                return False
            # No lock is needed, because only one thread reads a slice.
            rows.nulls[unit - first] += nulls
            rows.nans[unit - first] += nans
        if not unsorted.fits():
            rows.runs.add_batches(unsorted.run())
        return True

    def finish(self) -> None:
        for column, unsorted in zip(self._columns, self._unsorted, strict=True):
            column.rows.runs.keep(unsorted)


@dataclass(frozen=True, slots=True)
class _Column:
    # The place of the values in each batch.
    place: int
    rows: Gathered
    units: UnitNumbers
    # Empty; its siblings hold the rows.
    pairs: _core.SievePairs

    @classmethod
    def of(cls, place: int, axis: _core.SieveAxis, units: UnitNumbers, room: Room) -> _Column:
        count = len(units)
        rows = Gathered(axis, Runs(room), [0] * count, [0] * count, [False] * count)
        return cls(place, rows, units, _core.SievePairs(axis))

    def leave_out(self, position: int) -> None:
        """Mark all units of a slice as not read, even if some of its rows were."""
        for unit in self.units.of(position):
            self.rows.unread[unit - self.units.first] = True


def gather(
    lake: Lake,
    slices: Sequence[Slice],
    axes: Mapping[ColumnPath, _core.SieveAxis],
    room: Room,
    *,
    memory: int,
    threads: int,
    advance: Callable[[], None] = lambda: None,
    units: Mapping[ColumnPath, UnitNumbers] | None = None,
    together: bool = False,
) -> dict[ColumnPath, Gathered]:
    """Read some columns of some slices in one scan. Each row gets the number of its unit in its column.

    Without `units`, each slice is a unit, and its number is its position. `advance` is called after each slice.
    `together` leaves the rows unsorted while there is memory, so that `merge` can sort them together.
    """
    whole = UnitNumbers.of_slices(len(slices))
    paths = list(axes)
    columns = [
        _Column.of(at, axes[path], whole if units is None else units[path], room) for at, path in enumerate(paths)
    ]
    extra = room if together else None
    _scan(lake, slices, paths, columns, memory=memory, threads=threads, advance=advance, room=extra)
    return {path: column.rows for path, column in zip(paths, columns, strict=True)}


def gather_by_units(
    lake: Lake,
    slices: Sequence[Slice],
    path: ColumnPath,
    axis: _core.SieveAxis,
    units: Sequence[UnitNumbers],
    *,
    room: Room,
    memory: int,
) -> list[Gathered]:
    """Read one column once, and return its rows for each of several ways to divide the slices into units."""
    columns = [_Column.of(0, axis, numbers, room) for numbers in units]
    _scan(lake, slices, [path], columns, memory=memory, threads=1)
    return [column.rows for column in columns]


def _scan(
    lake: Lake,
    slices: Sequence[Slice],
    paths: Sequence[ColumnPath],
    columns: Sequence[_Column],
    *,
    memory: int,
    threads: int,
    advance: Callable[[], None] = lambda: None,
    room: Room | None = None,
) -> None:
    """Read the paths of some slices, and add their rows to the columns.

    With a `room`, rows may use its memory, so that more of them stay unsorted.
    """
    share = memory * UNSORTED_SHARE / (max(1, threads) * max(1, len(columns)))
    share = max(MIN_BUFFER, int(share if room is not None else share * RUN_SHARE))
    local, lock = threading.local(), threading.Lock()
    all_buffers: list[_Buffers] = []

    in_blocks = InBlocks(slices)

    def read(number: int) -> None:
        buffers: _Buffers | None = getattr(local, "buffers", None)
        if buffers is None:
            buffers = local.buffers = _Buffers(columns, share, room)
            with lock:
                all_buffers.append(buffers)
        # Columns that are still read, and what cuts their rows at unit borders.
        cutters = {at: column.units.cutter(number) for at, column in enumerate(columns)}
        try:
            for batch in lake.read_keys(in_blocks[number], list(paths)):
                for at, cutter in list(cutters.items()):
                    if not buffers.push(at, batch.column(columns[at].place), cutter):
                        columns[at].leave_out(number)
                        del cutters[at]
            for cutter in cutters.values():
                cutter.finish()
        except (ConflictError, FileNotFoundError, UnsupportedError) as error:
            # The file was changed or removed, or is not supported. The other slices are not affected.
            lake.leave_out(in_blocks[number], error)
            for column in columns:
                column.leave_out(number)
                column.rows.failed[number] = error
        advance()

    run_in_threads(read, range(len(slices)), threads, "parsieve-index")
    for buffers in all_buffers:
        buffers.finish()


@dataclass
class BuiltColumn:
    """A column that was built: its root, and its segment file as bytes or as local files to concatenate."""

    root: bytes
    file: bytes | list[Path]
    file_size: int
    # Format 2: the unit pages, b"" if they are in the root. None in format 1.
    pages: bytes | None = None


@dataclass(frozen=True)
class KeptSegments:
    """The segments of an earlier base in format 2 that a new base takes over."""

    timeline: _core.SieveUnitTimeline
    # The other segments, by number.
    rebuilt: Sequence[int]
    # The numbers that the files of the earlier base have in the new one, and the number of the file to write.
    files: Sequence[int]
    file: int
    # The ids that no location has any more, and the ids whose rows have changed.
    masked: Sequence[int]
    changed: Sequence[int]


def merge(
    gathered: Gathered,
    slices: Sequence[Location] | _core.SieveUnits,
    instant: int,
    room: Room,
    *,
    memory: int,
    options: _core.SieveOptions | None = None,
    kept: KeptSegments | None = None,
    threads: int = 1,
) -> BuiltColumn:
    """Build a root and a segment file from the rows of a column. Frees the rows.

    `slices` are units in format 2, and locations in format 1.
    """
    sections = Sections(room)
    count = slices.num_units if isinstance(slices, _core.SieveUnits) else len(slices)
    file = 0 if kept is None else kept.file
    runs = gathered.runs
    # A build around kept segments merges runs.
    unsorted = runs.unsorted() if kept is None else None
    build = _core.SieveBuild(gathered.axis, count, options=options, file=file)
    if unsorted is not None and build.sort_rows([rows.pairs for rows in unsorted], threads):
        while build.build_rows():
            interrupts.check()
            sections.add(build.take())
    else:
        runs = _reduced(gathered.axis, runs, room, memory)
        build = _core.SieveBuild(gathered.axis, count, num_runs=len(runs), options=options, file=file)
        if kept is not None:
            build.keep(kept.timeline, kept.rebuilt, kept.files, masked=kept.masked, changed=kept.changed)
        _feed(build, runs, sections)
    sides = list(zip(gathered.nulls, gathered.nans, gathered.unread, strict=True))
    pages = None
    if isinstance(slices, _core.SieveUnits):
        root, pages, last = build.finish(instant, slices, sides, pages_file=file + 1)
    else:
        places = [(location.partition, location.group) for location in slices]
        root, last = build.finish(instant, places, sides)
    sections.add(last)
    runs.close()
    size = sections.size()
    return BuiltColumn(root, sections.finish(), size, pages)


def _feed(build: _core.SieveBuild, runs: Runs, sections: Sections) -> None:
    """Merge runs into a build."""
    feeds = [runs.blocks(run) for run in range(len(runs))]
    while (hungry := build.step()) is not None:
        interrupts.check()
        build.feed(hungry, next(feeds[hungry], None))
        sections.add(build.take())


def _reduced(axis: _core.SieveAxis, runs: Runs, room: Room, memory: int) -> Runs:
    """Return runs that can be merged in one pass: while one block of each exceeds the memory, merge groups of them."""
    fan_in = max(MIN_FAN_IN, int(memory * MERGE_SHARE) // BLOCK_BYTES)
    while len(runs) > fan_in:
        merged = Runs(room)
        for start in range(0, len(runs), fan_in):
            merged.add_spilled(_merged(axis, runs, range(start, min(start + fan_in, len(runs)))))
        runs.close()
        runs = merged
    return runs


def _merged(axis: _core.SieveAxis, runs: Runs, group: range) -> Iterator[list[bytes]]:
    merging = _core.SieveRuns(axis, len(group))
    feeds = [runs.blocks(run) for run in group]
    while (hungry := merging.step()) is not None:
        interrupts.check()
        merging.feed(hungry, next(feeds[hungry], None))
        yield merging.take()
    yield merging.finish()

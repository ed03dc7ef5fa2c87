"""Tasks that build a Sieve index on Spark's executors.

```text
slices ── read, encode keys, sort ── runs in the store ── merge and build by key ranges ── segment files ── join ── root
          one task for several slices                     one task for each key range                       driver
```

- The executors read slices with parsieve's own adapters. So deletes, logs and deletion vectors mean the same as in
  plans, each slice is bound to the version that was read, and a slice that cannot be read affects only itself.
- Runs pass through the index store and not through a shuffle. After a failure, Spark would read a file again that may
  have changed since; a run never changes.
- A part starts and ends at a page border of the complete index. A task finds the border from the keys after a cut
  (`Builder::border`). The driver handles nothing per key, and a local build writes the same segments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from parsieve import _core
from parsieve.index.build.units import read_row_groups
from parsieve.index.log.commit import Base, ColumnState, DeltaPart
from parsieve.index.log.parts import Part
from parsieve.index.scan.runs import WAITING_SHARE, gather
from parsieve.index.scan.spill import Room, Sections
from parsieve.index.scan.units import UnitNumbers
from parsieve.index.sieve.base import put_root
from parsieve.index.sieve.compact import compact_column
from parsieve.index.sieve.delta import Delta
from parsieve.index.sieve.slice_delta import SliceDelta
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import ColumnPath, Lake, Location, Slice
from parsieve.spark.build import runs
from parsieve.spark.build.runs import Run
from parsieve.spark.runtime import executors

# How many bytes of runs are worth a separate task: some ten million pairs.
PART_BYTES = 32 << 20
# Each part sends the driver the smallest and greatest key of each location, about twenty bytes.
MAX_SPANS = 4_000_000


@dataclass
class StoredRows:
    """The sorted rows of one column of some slices, as runs in the store. The lists have one entry per unit."""

    type: pa.DataType
    num_slices: int = 0
    runs: list[Run] = field(default_factory=list)
    nulls: list[int] = field(default_factory=list)
    nans: list[int] = field(default_factory=list)
    unread: list[bool] = field(default_factory=list)
    # Why slices could not be read, by their position.
    failed: dict[int, Exception] = field(default_factory=dict)

    def append(self, rows: StoredRows) -> None:
        """Append the rows of the slices that follow."""
        self.failed |= {self.num_slices + number: error for number, error in rows.failed.items()}
        self.num_slices += rows.num_slices
        self.runs += rows.runs
        self.nulls += rows.nulls
        self.nans += rows.nans
        self.unread += rows.unread


@dataclass(frozen=True)
class FooterTask:
    """Slices whose footers to read."""

    lake: Lake
    slices: Sequence[Slice]


def read_footers(task: FooterTask) -> list[tuple[int, ...]]:
    """Return the rows of each row group of some slices, on an executor."""
    return read_row_groups(task.lake, task.slices)


@dataclass(frozen=True)
class ReadTask:
    """Slices to read into runs."""

    store: Store
    lake: Lake
    slices: Sequence[Slice]
    # The numbers of the units of these slices in each column.
    units: Mapping[ColumnPath, UnitNumbers]
    columns: Mapping[ColumnPath, pa.DataType]
    memory: int


def read(task: ReadTask) -> dict[ColumnPath, StoredRows]:
    """Read some slices into runs, on an executor."""
    axes = {path: _core.SieveAxis(data_type) for path, data_type in task.columns.items()}
    with Room(int(task.memory * WAITING_SHARE)) as room:
        gathered = gather(task.lake, task.slices, axes, room, memory=task.memory, threads=1, units=task.units)
        return {
            path: StoredRows(
                task.columns[path],
                len(task.slices),
                runs.write(task.store, rows),
                rows.nulls,
                rows.nans,
                rows.unread,
                rows.failed,
            )
            for path, rows in gathered.items()
        }


@dataclass(frozen=True)
class ColumnJob:
    """A column to build, or in a task the part of it between two page borders."""

    store: Store
    type: pa.DataType
    runs: tuple[Run, ...]
    num_units: int
    options: Mapping[str, Any]
    path: ColumnPath
    # The ordinals of the last key before the part, of its first key, and of the first key after it.
    after: bytes | None = None
    low: bytes | None = None
    high: bytes | None = None
    file: int = 0

    def usual_parts(self) -> int:
        """Return how many parts are worth a task."""
        max_parts = max(8, MAX_SPANS // max(1, self.num_units))
        return min(-(-sum(run.size for run in self.runs) // PART_BYTES), max_parts)

    def builder(self, num_runs: int, *, partition: bool = False) -> _core.SieveBuild:
        """Return a builder for this part."""
        return _core.SieveBuild(
            _core.SieveAxis(self.type),
            self.num_units,
            num_runs=num_runs,
            options=_core.SieveOptions(**self.options),
            partition=partition,
            file=self.file,
            low=self.low,
            high=self.high,
            after=self.after,
        )


@dataclass(frozen=True)
class BuiltPart:
    """A part that was built: the data to join it with other parts, and its segment file unless it has no keys."""

    share: bytes
    files: tuple[Part, ...]


def build_parts(spark: Any, jobs: Sequence[ColumnJob], parts: int | None = None) -> list[list[BuiltPart]]:
    """Build columns on the executors. Return the parts of each column in the order of their keys."""
    border_jobs: list[ColumnJob] = []
    for job in jobs:
        num_parts = parts or job.usual_parts()
        if num_parts > 1:
            border_jobs += [replace(_without_samples(job), low=cut) for cut in runs.cuts(job.runs, num_parts)]
    borders: dict[ColumnPath, set[tuple[bytes, bytes]]] = {job.path: set() for job in jobs}
    found_borders = executors.run(spark, "cut the keys into parts", _find_border, border_jobs)
    for job, border in zip(border_jobs, found_borders, strict=True):
        if border is not None:
            borders[job.path].add(border)
    tasks = [task for job in jobs for task in _parts_of(_without_samples(job), sorted(borders[job.path]))]
    label = f"build {', '.join('.'.join(job.path) for job in jobs)}"
    built: dict[ColumnPath, list[BuiltPart]] = {job.path: [] for job in jobs}
    for task, part in zip(tasks, executors.run(spark, label, _build, tasks), strict=True):
        built[task.path].append(part)
    return [built[job.path] for job in jobs]


def _without_samples(job: ColumnJob) -> ColumnJob:
    """Return a job without the samples of its runs, which tasks do not need."""
    return replace(job, runs=tuple(replace(run, sample=()) for run in job.runs))


def _parts_of(job: ColumnJob, borders: Sequence[tuple[bytes, bytes]]) -> list[ColumnJob]:
    """Return the part before the first border, and the part after each border. If there are several, each has keys."""
    ends: list[bytes | None] = [*(first for _, first in borders), None]
    starts: list[tuple[bytes | None, bytes | None]] = [(None, None), *borders]
    return [
        replace(job, after=after, low=low, high=high, file=file)
        for file, ((after, low), high) in enumerate(zip(starts, ends, strict=True))
    ]


def _find_border(task: ColumnJob) -> tuple[bytes, bytes] | None:
    """Return the first page border after a cut, on an executor; None if there is none."""
    feeds = runs.read(task.store, task.runs, task.low, None)
    build = task.builder(len(feeds), partition=True)
    while (hungry := build.step()) is not None and build.border() is None:
        build.feed(hungry, next(feeds[hungry], None))
    return build.border()


def _build(task: ColumnJob) -> BuiltPart:
    """Build the segments of a part, on an executor."""
    feeds = runs.read(task.store, task.runs, task.low, task.high)
    build = task.builder(len(feeds))
    # Segments are much smaller than their runs. If they are not, the rest is spilled to disk.
    with Room(2 * PART_BYTES) as room:
        sections = Sections(room)
        while (hungry := build.step()) is not None:
            build.feed(hungry, next(feeds[hungry], None))
            sections.add(build.take())
        share, last = build.finish_pages()
        sections.add(last)
        size = sections.size()
        if not size:
            return BuiltPart(share, ())
        part = Part(unique(runs.FOLDER, "segments"), size)
        task.store.put(part.name, sections.finish())
        return BuiltPart(share, (part,))


def join_parts(
    job: ColumnJob,
    parts: Sequence[BuiltPart],
    rows: StoredRows,
    slices: Sequence[Location] | _core.SieveUnits,
    instant: int,
) -> Base:
    """Join the parts of a column, and store the root, on the driver. `slices` are units in format 2."""
    axis = _core.SieveAxis(job.type)
    files = tuple(file for part in parts for file in part.files)
    shares = [part.share for part in parts]
    sides = list(zip(rows.nulls, rows.nans, rows.unread, strict=True))
    options = _core.SieveOptions(**job.options)
    pages = None
    if isinstance(slices, _core.SieveUnits):
        root, pages, border = _core.join_sieve_shares(
            axis,
            shares,
            instant=instant,
            locations=slices,
            sides=sides,
            options=options,
            file=len(files),
            pages_file=len(files),
        )
    else:
        names = [(location.partition, location.group) for location in slices]
        root, border = _core.join_sieve_shares(
            axis, shares, instant=instant, locations=names, sides=sides, options=options, file=len(files)
        )
    assert not border
    return put_root(job.store, axis, root, files, instant, pages=pages)


@dataclass(frozen=True)
class CompactTask:
    """A column in format 1 to compact."""

    store: Store
    state: ColumnState


def compact(task: CompactTask) -> Base:
    """Store the new base of a column, on an executor."""
    return compact_column(task.store, task.state, None)


@dataclass(frozen=True)
class DeltaTask:
    """A delta to store, with the runs of the rows that were read."""

    store: Store
    delta: Delta | SliceDelta
    runs: Sequence[Run]


def write_delta(task: DeltaTask) -> DeltaPart:
    """Store a delta, on an executor."""
    feeds = runs.read(task.store, task.runs, None, None)
    return task.delta.put(task.store, [block for feed in feeds for block in feed])

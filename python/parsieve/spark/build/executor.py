"""The executor that reads slices and writes index files on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from parsieve import _core
from parsieve.index.accounts import Account
from parsieve.index.bloom.shelf import BLOCK, SHELF_BYTES
from parsieve.index.build.executor import CHANGE_COST
from parsieve.index.pages.build import put_in_parts
from parsieve.index.scan.runs import check_memory
from parsieve.index.scan.units import UnitNumbers
from parsieve.index.sieve.slice_delta import core_units
from parsieve.predicate.expressions.expression import index_name
from parsieve.spark.build import bloom, pages, runs, sieve
from parsieve.spark.build.sieve import StoredRows
from parsieve.spark.runtime import executors

if TYPE_CHECKING:
    from parsieve._core import FileMap
    from parsieve.index.build.executor import Shelves
    from parsieve.index.log.commit import Base, ColumnState, Content, DeltaPart, Layout
    from parsieve.index.log.parts import Shelf
    from parsieve.index.pages.build import MapReport
    from parsieve.index.scan.units import UnitLayout
    from parsieve.index.sieve.delta import Delta
    from parsieve.index.sieve.reader import ColumnReader
    from parsieve.index.sieve.reread import Masks
    from parsieve.index.sieve.slice_delta import SliceDelta
    from parsieve.io.store.base import Store
    from parsieve.lake.base import ColumnPath, Lake, Location, Slice

# How much of a table's rows a task holds in memory.
MEMORY = 256 << 20


@dataclass
class SparkExecutor:
    """Reads slices and writes index files in tasks on Spark's executors."""

    spark: Any
    store: Store
    memory: int = MEMORY
    # The options of a Sieve index, and in how many parts to build it; None depends on the number of rows.
    options: Mapping[str, Any] | None = None
    parts: int | None = None
    # The size of a shelf of filters; None is the size for the memory.
    shelf_bytes: int | None = None
    # The slices that filters were filled for so far.
    outcomes: list[bloom.Outcome] = field(default_factory=list)
    # Records the slices that could not be read.
    account: Account = field(default_factory=Account)
    _runs: list[runs.Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_memory(self.memory)
        # Reject wrong options before reading the table.
        _core.SieveOptions(**(self.options or {}))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        written, self._runs = self._runs, []
        runs.delete(self.store, written)

    def read_row_groups(self, lake: Lake, slices: Sequence[Slice]) -> list[tuple[int, ...]]:
        """Return the rows of each row group of the slices. Tasks read the footers."""
        count = max(1, -(-len(slices) // (executors.TASKS_PER_CORE * executors.parallelism(self.spark))))
        tasks = [sieve.FooterTask(lake, slices[start : start + count]) for start in range(0, len(slices), count)]
        answers = executors.run(self.spark, f"read row groups of {lake.uri}", sieve.read_footers, tasks)
        return [row_groups for answer in answers for row_groups in answer]

    def read_rows(
        self,
        lake: Lake,
        slices: Sequence[Slice],
        columns: Mapping[ColumnPath, pa.DataType],
        units: Mapping[ColumnPath, Sequence[UnitLayout]] | None = None,
    ) -> dict[ColumnPath, StoredRows]:
        """Read some columns of some slices in one scan, and store their rows as sorted runs."""
        whole = UnitNumbers.of_slices(len(slices))
        numbers = {path: whole if units is None else UnitNumbers(units[path]) for path in columns}
        tasks = [
            sieve.ReadTask(
                self.store,
                lake,
                slices[start:end],
                {path: column.part(start, end) for path, column in numbers.items()},
                columns,
                self.memory,
            )
            for start, end in executors.shares(self.spark, [file_slice.size for file_slice in slices])
        ]
        label = f"read {', '.join('.'.join(path) for path in columns)} of {lake.uri}"
        rows = {path: StoredRows(data_type) for path, data_type in columns.items()}
        for answer in executors.run(self.spark, label, sieve.read, tasks):
            for path, column in answer.items():
                rows[path].append(column)
        self._runs += [run for column in rows.values() for run in column.runs]
        for column in rows.values():
            for number, error in column.failed.items():
                self.account.leave_out(slices[number], error)
        return rows

    def build_bases(
        self,
        rows: Mapping[ColumnPath, StoredRows],
        units: Mapping[ColumnPath, Sequence[UnitLayout]],
        layouts: Mapping[ColumnPath, Layout | None],
        locations: Sequence[Location],
        instant: int,
    ) -> dict[ColumnPath, Base]:
        """Merge the rows of each column into a Sieve index, and store it."""
        jobs = []
        for path, column in rows.items():
            layout = layouts[path]
            options = {**(layout.options() if layout is not None else {}), **(self.options or {})}
            num_units = len(UnitNumbers(units[path]))
            jobs.append(sieve.ColumnJob(self.store, column.type, tuple(column.runs), num_units, options, path))
        built = sieve.build_parts(self.spark, jobs, self.parts)
        bases = {}
        for job, parts in zip(jobs, built, strict=True):
            path = job.path
            slices = locations if layouts[path] is None else core_units(range(len(locations)), units[path])
            bases[path] = sieve.join_parts(job, parts, rows[path], slices, instant)
        return bases

    def write_delta(self, delta: Delta | SliceDelta, rows: StoredRows | None) -> DeltaPart | None:
        """Store a delta of one column with these rows, in one task. Return None if it does not fit into its memory."""
        if rows is None or not rows.runs:
            return delta.put(self.store)
        if sum(run.size for run in rows.runs) * CHANGE_COST > self.memory:
            # A build divides the rows among tasks instead.
            return None
        task = sieve.DeltaTask(self.store, delta, rows.runs)
        [part] = executors.run(self.spark, "write the changes", sieve.write_delta, [task])
        return part

    def compact(self, states: Sequence[ColumnState]) -> list[Base]:
        """Merge the base and the deltas of each column into a new base, and store it."""
        label = f"compact {', '.join('.'.join(state.path) for state in states)}"
        tasks = [sieve.CompactTask(self.store, state) for state in states]
        return executors.run(self.spark, label, sieve.compact, tasks)

    def compact_units(
        self, lake: Lake, path: ColumnPath, reader: ColumnReader, masks: Masks, slices: Mapping[int, Slice]
    ) -> None:
        """Return None: everything is read again, because one process may not hold the segments of a large index."""

    def fill_shelves(
        self,
        lake: Lake,
        slices: Sequence[Slice],
        rates: Mapping[ColumnPath, float],
        *,
        content: Content = "values",
        units: Mapping[ColumnPath, Sequence[UnitLayout]] | None = None,
    ) -> tuple[dict[ColumnPath, Shelves], dict[Location, Exception]]:
        """Store shelves with a Bloom filter for each unit and column; also return why slices could not be read."""
        tasks = [
            bloom.FillTask(
                self.store,
                lake,
                slices[start:end],
                rates,
                content,
                {path: layouts[start:end] for path, layouts in (units or {}).items()},
            )
            for start, end in executors.shares(self.spark, [file_slice.size for file_slice in slices])
        ]
        names = ", ".join(index_name(path) for path in rates)
        answers = executors.run(self.spark, f"fill filters of {names} of {lake.uri}", bloom.fill_filters, tasks)
        filled = [filled_slice for answer in answers for filled_slice in answer]
        files = dict.fromkeys(stored.name for part in filled for stored in part.filters if stored.name)
        try:
            shelves: dict[ColumnPath, Shelves] = dict.fromkeys(rates, ())
            jobs = bloom.shelf_tasks(self.store, filled, list(rates), self.shelf_size)
            label = f"arrange filters of {names}"
            stored_shelves = executors.run(self.spark, label, bloom.arrange_shelf, [task for _, task in jobs])
            for (path, _), shelf in zip(jobs, stored_shelves, strict=True):
                shelves[path] += (shelf,)
        finally:
            for name in files:
                self.store.delete(name)
        failed = {}
        for file_slice, part in zip(slices, filled, strict=True):
            num_bytes = sum(BLOCK * sum(filter(None, stored.blocks)) for stored in part.filters)
            self.outcomes.append(bloom.Outcome(file_slice, len(rates), num_bytes, part.seconds, part.error))
            if part.error is not None:
                failed[file_slice.location] = part.error
                self.account.leave_out(file_slice, part.error)
        return shelves, failed

    def map_pages(self, lake: Lake, slices: Sequence[Slice]) -> MapReport:
        """Read the footers of the slices in tasks, and store the map of their pages on the driver."""

        def read(start: int, end: int) -> Iterator[FileMap | Exception]:
            # One job for each part of the map, so that few maps are on the driver at once.
            return pages.read_maps(self.spark, lake, slices[start:end])

        return put_in_parts(self.store, [file_slice.location for file_slice in slices], read)

    def merge_shelves(self, shelves: Sequence[Shelf], tokens: Mapping[Location, str]) -> Shelves:
        """Store the live filters of these locations on fewer shelves, in one task."""
        task = bloom.MergeTask(self.store, shelves, tokens, self.shelf_size)
        [merged] = executors.run(self.spark, "merge shelves of filters", bloom.merge_shelves, [task])
        return merged

    @property
    def shelf_size(self) -> int:
        """Return the size of a full shelf."""
        return min(SHELF_BYTES, self.memory) if self.shelf_bytes is None else self.shelf_bytes

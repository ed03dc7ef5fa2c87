"""The executor that reads slices and writes index files in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from parsieve import _core
from parsieve.index.bloom.compact import live_filters
from parsieve.index.bloom.fill import put_filters
from parsieve.index.bloom.shelf import SHELF_BYTES
from parsieve.index.bloom.waiting import Budget, WaitingFilters
from parsieve.index.build.executor import CHANGE_COST
from parsieve.index.build.units import read_row_groups
from parsieve.index.pages.build import build_maps
from parsieve.index.scan.runs import UNSORTED_SHARE, WAITING_SHARE, check_is_number, check_memory, gather, merge
from parsieve.index.scan.spill import Room
from parsieve.index.scan.units import UnitNumbers
from parsieve.index.sieve.base import put_base
from parsieve.index.sieve.compact import compact_column
from parsieve.index.sieve.reread import compact_units
from parsieve.index.sieve.slice_delta import core_units
from parsieve.index.text.fill import fill_content
from parsieve.io.parallel import ProgressBar, map_in_threads, run_in_threads, thread_count
from parsieve.lake.slices import InBlocks

if TYPE_CHECKING:
    from parsieve.index.build.executor import Shelves
    from parsieve.index.log.commit import Base, ColumnState, Content, DeltaPart, Layout
    from parsieve.index.log.parts import Shelf
    from parsieve.index.pages.build import MapReport
    from parsieve.index.scan.runs import Gathered
    from parsieve.index.scan.units import UnitLayout
    from parsieve.index.sieve.delta import Delta
    from parsieve.index.sieve.reader import ColumnReader
    from parsieve.index.sieve.reread import Masks
    from parsieve.index.sieve.slice_delta import SliceDelta
    from parsieve.io.store.base import Store
    from parsieve.lake.base import ColumnPath, Lake, Location, Slice


@dataclass
class LocalExecutor:
    """Reads slices in threads, and spills rows that exceed the memory to a temporary folder."""

    store: Store
    memory: int = 1 << 30
    threads: int | None = None
    # Whether to show a progress bar on standard error, and the label before it; None shows it on a terminal.
    progress: bool | None = None
    label: str = "index"
    # Where to spill rows that exceed the memory; None is the system's temporary folder.
    spill: Path | str | None = None
    # Further arguments of `SieveOptions`.
    options: Mapping[str, Any] | None = None
    _room: Room | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_is_number(self.memory)

    def __enter__(self) -> Self:
        check_memory(self.memory)
        self._room = self._new_room()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rows_room().__exit__(kind, error, trace)
        self._room = None

    def _rows_room(self) -> Room:
        assert self._room is not None, "use the executor in a with statement"
        return self._room

    @property
    def _threads(self) -> int:
        return thread_count(self.threads)

    def read_row_groups(self, lake: Lake, slices: Sequence[Slice]) -> list[tuple[int, ...]]:
        """Return the rows of each row group of the slices."""
        return read_row_groups(lake, slices)

    def read_rows(
        self,
        lake: Lake,
        slices: Sequence[Slice],
        columns: Mapping[ColumnPath, pa.DataType],
        units: Mapping[ColumnPath, Sequence[UnitLayout]] | None = None,
    ) -> dict[ColumnPath, Gathered]:
        """Read some columns of some slices in one scan, and sort their rows by key."""
        axes = {path: _core.SieveAxis(data_type) for path, data_type in columns.items()}
        numbers = None if units is None else {path: UnitNumbers(layouts) for path, layouts in units.items()}
        return self._gather(lake, slices, axes, numbers)

    def _gather(
        self,
        lake: Lake,
        slices: Sequence[Slice],
        axes: Mapping[ColumnPath, _core.SieveAxis],
        units: Mapping[ColumnPath, UnitNumbers] | None,
    ) -> dict[ColumnPath, Gathered]:
        label = f"{self.label} {', '.join('.'.join(path) for path in axes)}"
        with ProgressBar(len(slices), label=label, show=self.progress) as bar:
            return gather(
                lake,
                slices,
                axes,
                self._rows_room(),
                memory=self.memory,
                threads=self._threads,
                advance=bar.step,
                units=units,
                together=True,
            )

    def build_bases(
        self,
        rows: Mapping[ColumnPath, Gathered],
        units: Mapping[ColumnPath, Sequence[UnitLayout]],
        layouts: Mapping[ColumnPath, Layout | None],
        locations: Sequence[Location],
        instant: int,
    ) -> dict[ColumnPath, Base]:
        """Merge the rows of each column into a Sieve index, and store it."""
        room = self._rows_room()

        def build(path: ColumnPath) -> Base:
            column, layout = rows[path], layouts[path]
            options = _core.SieveOptions(**(layout.options() if layout is not None else {}) | dict(self.options or {}))
            slices = locations if layout is None else core_units(range(len(locations)), units[path])
            built = merge(column, slices, instant, room, memory=self.memory, options=options, threads=self._threads)
            return put_base(self.store, column.axis, built, instant)

        bases = map_in_threads(build, rows, self._threads, "parsieve-index")
        return dict(zip(rows, bases, strict=True))

    def write_delta(self, delta: Delta | SliceDelta, rows: Gathered | None) -> DeltaPart | None:
        """Store a delta of one column with these rows. Return None if it does not fit into memory."""
        if rows is None:
            return delta.put(self.store)
        if rows.runs.num_bytes * CHANGE_COST > self.memory:
            # A build sorts on disk instead.
            return None
        return delta.put(self.store, rows.runs.all_blocks())

    def compact(self, states: Sequence[ColumnState]) -> list[Base]:
        """Merge the base and the deltas of each column into a new base, and store it."""
        return [
            compact_column(self.store, state, _core.SieveOptions(**self.options) if self.options else None)
            for state in states
        ]

    def compact_units(
        self, lake: Lake, path: ColumnPath, reader: ColumnReader, masks: Masks, slices: Mapping[int, Slice]
    ) -> tuple[Base, set[int]] | None:
        """Store a new base of a column in format 2, which keeps segments of the old one."""

        def read(chosen: Sequence[Slice], units: UnitNumbers) -> Gathered:
            return self._gather(lake, chosen, {path: reader.axis}, {path: units})[path]

        return compact_units(reader, masks, slices, read, room=self._rows_room(), memory=self.memory)

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
        failed: dict[Location, Exception] = {}
        budget = Budget(int(self.memory * UNSORTED_SHARE))
        in_blocks = InBlocks(slices)
        with self._new_room() as room:
            waiting = {path: WaitingFilters(room, len(slices)) for path in rates}

            def read(number: int) -> None:
                layouts = {path: of_slices[number] for path, of_slices in (units or {}).items()}
                filters, error = fill_content(lake, in_blocks[number], rates, budget, content=content, layouts=layouts)
                for column, filled in zip(waiting.values(), filters, strict=True):
                    column.put(number, filled)
                if error is not None:
                    failed[in_blocks[number].location] = error

            run_in_threads(read, range(len(slices)), self._threads, "parsieve-index")
            shelves = {path: put_filters(self.store, column, self.shelf_size) for path, column in waiting.items()}
        return shelves, failed

    def map_pages(self, lake: Lake, slices: Sequence[Slice]) -> MapReport:
        """Read the footers of the slices, and store the map of their pages."""
        spill = None if self.spill is None else str(self.spill)
        with ProgressBar(len(slices), label=f"{self.label} pages", show=self.progress) as bar:
            return build_maps(self.store, lake, slices, spill=spill, advance=bar.step)

    def merge_shelves(self, shelves: Sequence[Shelf], tokens: Mapping[Location, str]) -> Shelves:
        """Store the live filters of these locations on fewer shelves."""
        with self._new_room() as room:
            waiting = WaitingFilters(room, 0)
            for filled in live_filters(self.store, shelves, tokens):
                waiting.append(filled)
            return put_filters(self.store, waiting, self.shelf_size)

    def _new_room(self) -> Room:
        """Return a memory budget for rows or filters that wait. The rest goes to temporary files."""
        return Room(int(self.memory * WAITING_SHARE), self.spill)

    @property
    def shelf_size(self) -> int:
        """Return the size of a full shelf, whose rows are in memory twice while they are stored."""
        return min(SHELF_BYTES, max(1, self.memory // 4))

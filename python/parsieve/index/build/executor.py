"""The interface of executors, which read the slices of a table and write the files of its index.

`LocalExecutor` does so in this process, `SparkExecutor` on Spark. Everything else about builds, updates and compactions
is the same for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import pyarrow as pa

from parsieve.index.scan.column_rows import ColumnRows
from parsieve.index.scan.units import UnitLayout
from parsieve.lake.base import ColumnPath, Lake, Location, Slice

if TYPE_CHECKING:
    from parsieve.index.log.commit import Base, ColumnState, Content, DeltaPart, Layout
    from parsieve.index.log.parts import Shelf
    from parsieve.index.pages.build import MapReport
    from parsieve.index.sieve.delta import Delta
    from parsieve.index.sieve.reader import ColumnReader
    from parsieve.index.sieve.reread import Masks
    from parsieve.index.sieve.slice_delta import SliceDelta


# A change takes this many times more memory in a delta than in a run.
CHANGE_COST = 5

RowsT = TypeVar("RowsT", bound=ColumnRows)
Shelves = tuple["Shelf", ...]


class Executor(Protocol[RowsT]):
    """Reads slices of a table, and writes index files. The caller commits a version that references these files.

    An executor is a context manager. At the end of the `with` block it removes the rows that it has read.
    """

    @property
    def shelf_size(self) -> int:
        """The size of a full shelf in bytes."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def read_row_groups(self, lake: Lake, slices: Sequence[Slice]) -> list[tuple[int, ...]]:
        """Return the rows of each row group of the slices, as `units.read_row_groups` does."""

    def read_rows(
        self,
        lake: Lake,
        slices: Sequence[Slice],
        columns: Mapping[ColumnPath, pa.DataType],
        units: Mapping[ColumnPath, Sequence[UnitLayout]] | None = None,
    ) -> dict[ColumnPath, RowsT]:
        """Read some columns of some slices in one scan, and sort their rows by key.

        `units` is how each column divides the slices into units. Without it, each slice is one unit.
        """

    def build_bases(
        self,
        rows: Mapping[ColumnPath, RowsT],
        units: Mapping[ColumnPath, Sequence[UnitLayout]],
        layouts: Mapping[ColumnPath, Layout | None],
        locations: Sequence[Location],
        instant: int,
    ) -> dict[ColumnPath, Base]:
        """Merge the rows of each column into a Sieve index, and store it.

        `units` divides the slices that were read into units. The id of a slice is its position. A column with the
        layout None gets an index in format 1, in which the slices are known by `locations`.
        """

    def write_delta(self, delta: Delta | SliceDelta, rows: RowsT | None) -> DeltaPart | None:
        """Store a delta of one column with these rows. Return None if it is too large, so that a build is due."""

    def compact(self, states: Sequence[ColumnState]) -> list[Base]:
        """Merge the base and the deltas of each column in format 1 into a new base, and store it."""

    def compact_units(
        self, lake: Lake, path: ColumnPath, reader: ColumnReader, masks: Masks, slices: Mapping[int, Slice]
    ) -> tuple[Base, set[int]] | None:
        """Store a new base of a column in format 2, as `reread.compact_units` does.

        Return None if everything should be read again.
        """

    def fill_shelves(
        self,
        lake: Lake,
        slices: Sequence[Slice],
        rates: Mapping[ColumnPath, float],
        *,
        content: Content = "values",
        units: Mapping[ColumnPath, Sequence[UnitLayout]] | None = None,
    ) -> tuple[dict[ColumnPath, Shelves], dict[Location, Exception]]:
        """Store shelves with a Bloom filter for each unit and column, read in one scan.

        `rates` are the false positive rates, and `content` is what the filters contain. `units` has the division of
        each slice into units, for each column. Without it, each slice is one unit. Also return why slices could not be
        read.
        """

    def map_pages(self, lake: Lake, slices: Sequence[Slice]) -> MapReport:
        """Read the footers of the slices, and store the map of their pages. The slices have the ids from 0 on."""

    def merge_shelves(self, shelves: Sequence[Shelf], tokens: Mapping[Location, str]) -> Shelves:
        """Store the live filters of these locations on fewer shelves."""

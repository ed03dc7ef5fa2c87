"""The units of slices: the parts of a file that an index can skip. Each row of a scan gets the number of its unit.

A unit is a range of rows of the file as stored, inside one row group. A slice that is not exactly the rows of one
Parquet file has a single unit of unknown range.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from parsieve._core import SieveUnits
from parsieve.errors import ConflictError

Unit = Literal["file", "row_group", "rows"]
UNITS: tuple[Unit, ...] = ("file", "row_group", "rows")


class UnitLayout(NamedTuple):
    """How one slice is divided into units, with the arguments of `SieveUnits.add`.

    >>> from parsieve.index.scan.units import UnitLayout
    >>> UnitLayout((60_000, 10), 20_000).ends()
    [20000, 40000, 60000, 60010]
    """

    # The rows of each row group; empty if the slice has one unit of unknown range.
    row_groups: Sequence[int] = ()
    # None makes each row group a unit, 0 the whole file. Another number cuts large row groups into pieces of this size.
    rows_per_unit: int | None = None

    def ends(self) -> list[int]:
        """Return the position after the last row of each unit; none if the ranges are unknown."""
        if self.rows_per_unit == 0:
            return [sum(self.row_groups)] if self.row_groups else []
        ends: list[int] = []
        start = 0
        for rows in self.row_groups:
            end = start + rows
            if self.rows_per_unit is not None and rows > SieveUnits.UNCUT_ROWS:
                ends += range(start + self.rows_per_unit, end, self.rows_per_unit)
            ends.append(end)
            start = end
        return ends

    @property
    def num_units(self) -> int:
        """Return the number of units. A damaged footer may claim so many rows that no list can hold their units."""
        if self.rows_per_unit == 0:
            return 1
        if self.rows_per_unit is None:
            return max(1, len(self.row_groups))
        uncut, each = SieveUnits.UNCUT_ROWS, self.rows_per_unit
        return max(1, sum(1 if rows <= uncut else -(-rows // each) for rows in self.row_groups))

    def shares(self) -> list[float]:
        """Return the share of the rows that each unit has."""
        ends = self.ends()
        if not ends or not ends[-1]:
            return [1.0] * self.num_units
        return [(end - start) / ends[-1] for start, end in pairwise([0, *ends])]

    def coarsened(self) -> UnitLayout:
        """Return the same layout, or a coarser one if it has too many units, as `SieveUnits.add` does."""
        layout = self
        for rows_per_unit in (None, 0):
            if layout.num_units > SieveUnits.MAX_UNITS:
                layout = UnitLayout(self.row_groups, rows_per_unit)
        return layout


# A slice with one unit of unknown range.
WHOLE = UnitLayout()


class UnitNumbers:
    """The numbers of the units of some slices, in order, beginning with `first`."""

    def __init__(self, layouts: Sequence[UnitLayout], first: int = 0) -> None:
        self.layouts = layouts
        self.first = first
        self._starts = list(accumulate((layout.num_units for layout in layouts), initial=first))

    @classmethod
    def of_slices(cls, count: int, first: int = 0) -> UnitNumbers:
        """Return numbers that count slices: each slice is one unit."""
        return cls([UnitLayout()] * count, first)

    def __len__(self) -> int:
        """Return the number of units."""
        return self._starts[-1] - self.first

    def part(self, start: int, stop: int) -> UnitNumbers:
        """Return the same numbers for the slices at some positions only."""
        return UnitNumbers(self.layouts[start:stop], self._starts[start])

    def of(self, position: int) -> range:
        """Return the numbers of the units of the slice at a position."""
        return range(self._starts[position], self._starts[position + 1])

    def cutter(self, position: int) -> UnitCutter:
        """Return what assigns the rows of the slice at a position to its units."""
        return UnitCutter(self.of(position), self.layouts[position].ends())


class UnitCutter:
    """Assigns the rows of one slice, which arrive in the order of the file, to its units."""

    def __init__(self, numbers: range, ends: Sequence[int]) -> None:
        self._numbers = numbers
        self._ends = ends
        self._row = 0

    def cut(self, rows: int) -> Iterator[tuple[int, int, int]]:
        """Divide the next rows at unit borders. Yields the number of a unit, and a range of these rows.

        Raises `ConflictError` if the file has more rows than its row groups had.
        """
        if not self._ends:
            yield self._numbers.start, 0, rows
            return
        start, stop = self._row, self._row + rows
        self._row = stop
        if stop > self._ends[-1]:
            raise self._changed()
        # Skips units without rows, because they end where they start.
        place = bisect_right(self._ends, start)
        while start < stop:
            end = min(self._ends[place], stop)
            if end > start:
                yield self._numbers[place], start - (stop - rows), end - (stop - rows)
            start = end
            place += 1

    def finish(self) -> None:
        """Raise `ConflictError` if the file had fewer rows than its row groups had."""
        if self._ends and self._row != self._ends[-1]:
            raise self._changed()

    def _changed(self) -> ConflictError:
        return ConflictError(
            f"the file was changed while it was indexed: its footer had {self._ends[-1]:,} rows; try again"
        )

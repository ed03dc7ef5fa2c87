"""Sets of rows of many files, as sorted ranges, with the union and the intersection of such sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.plan.rows.base import KeptRows
from parsieve.sharing import cached_property


@dataclass(frozen=True, eq=False)
class RowSet:
    """Rows of the files on an axis: ranges that neither overlap nor touch, in the order of the axis.

    Each range has the position of its file on the axis, its first row in the file, and the row after its last one.
    """

    file: pa.Int64Array
    start: pa.Int64Array
    end: pa.Int64Array

    def of_files(self, mask: pa.BooleanArray) -> RowSet:
        """Return the rows of the files for which a mask is true."""
        keep = mask.take(self.file)
        return RowSet(self.file.filter(keep), self.start.filter(keep), self.end.filter(keep))


class RowAxis:
    """The rows of some files, one file after the other. Files are numbered by their slices in a snapshot."""

    def __init__(self, numbers: pa.Int64Array, row_groups: pa.ListArray) -> None:
        """`numbers` are the files' slices in ascending order, `row_groups` the rows of each row group of each file."""
        self.numbers = numbers
        # The row groups of all files in order, and the place of each file's first row group.
        self._group_rows = row_groups.flatten()
        counts = pc.list_value_length(row_groups).cast(pa.int64())
        self._group_offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(counts)])
        before = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(self._group_rows)])
        self._first_rows = before.take(self._group_offsets[:-1])
        self.num_rows = pc.subtract(before.take(self._group_offsets[1:]), self._first_rows)
        # The place of each file's first row on the axis. Between files is a gap, so that their ranges never touch.
        self.positions = pc.indices_nonzero(pa.repeat(pa.scalar(True), len(numbers))).cast(pa.int64())
        self._bases = pc.add(self._first_rows, self.positions)

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self.numbers)

    @cached_property
    def whole_files(self) -> RowSet:
        """All rows of all files."""
        return self._without_empty(self.positions, pc.multiply(self.num_rows, 0), self.num_rows)

    @property
    def no_rows(self) -> RowSet:
        """No rows of any file."""
        return RowSet(*(pa.array([], pa.int64()) for _ in range(3)))

    @property
    def num_groups(self) -> pa.Int64Array:
        """The number of row groups of each file."""
        return pc.subtract(self._group_offsets[1:], self._group_offsets[:-1])

    @cached_property
    def _groups(self) -> tuple[RowSet, pa.Int64Array]:
        """The row groups with rows, as ranges that may touch, and their numbers in their files."""
        nested = pa.ListArray.from_arrays(self._group_offsets.cast(pa.int32()), self._group_rows)
        files = pc.list_parent_indices(nested).cast(pa.int64())
        ends = pc.subtract(pc.cumulative_sum(self._group_rows), self._first_rows.take(files))
        places = pc.indices_nonzero(pa.repeat(pa.scalar(True), len(files))).cast(pa.int64())
        names = pc.subtract(places, self._group_offsets.take(files))
        has_rows = pc.greater(self._group_rows, 0)
        ranges = self._without_empty(files, pc.subtract(ends, self._group_rows), ends)
        return ranges, names.filter(has_rows)

    def of_groups(self, files: pa.Int64Array, groups: pa.Int64Array) -> RowSet:
        """Return the rows of some row groups, given by positions of files on the axis and numbers of row groups."""
        ends = pc.cumulative_sum(self._group_rows)
        places = pc.add(self._group_offsets.take(files), groups)
        rows = self._group_rows.take(places)
        start = pc.subtract(pc.subtract(ends.take(places), rows), self._first_rows.take(files))
        return self.ranges(files, start, rows)

    @staticmethod
    def _without_empty(file: pa.Int64Array, start: pa.Int64Array, end: pa.Int64Array) -> RowSet:
        keep = pc.less(start, end)
        return RowSet(file.filter(keep), start.filter(keep), end.filter(keep))

    def ranges(self, file: pa.Int64Array, start: pa.Int64Array, rows: pa.Int64Array) -> RowSet:
        """Return ranges in any order, which may overlap, as a set. `file` has positions on the axis."""
        return self.union([self._without_empty(file, start, pc.add(start, rows))])

    def union(self, sets: Sequence[RowSet]) -> RowSet:
        """Return the rows that are in at least one set."""
        return self._at_least(1, sets, ends_first=False)[0]

    def intersection(self, sets: Sequence[RowSet]) -> RowSet:
        """Return the rows that are in every set."""
        return sets[0] if len(sets) == 1 else self._at_least(len(sets), sets, ends_first=True)[0]

    def groups_with(self, rows: RowSet) -> tuple[pa.Int64Array, pa.Int64Array]:
        """Return the row groups that contain a row of a set: positions of files, and numbers of row groups."""
        ranges, names = self._groups
        parts, groups = self._at_least(2, [ranges, rows], ends_first=True)
        # The ranges of one row group are neighbors.
        if not len(groups):
            return parts.file, groups
        is_new = pa.concat_arrays([pa.array([True]), pc.not_equal(groups[1:], groups[:-1])])
        return parts.file.filter(is_new), names.take(groups.filter(is_new))

    def _at_least(self, count: int, sets: Sequence[RowSet], ends_first: bool) -> tuple[RowSet, pa.Int64Array]:
        """Return the rows in at least `count` sets, and the last range of the first set that began at each result.

        A sweep over the borders of all ranges. Where ranges touch, `ends_first` separates them in the result.
        """
        borders, steps, files, firsts = [], [], [], []
        for at, rows in enumerate(sets):
            base = self._bases.take(rows.file)
            for places, is_end in ((rows.start, False), (rows.end, True)):
                # Borders at one place are ordered by the last bit.
                last_bit = int(is_end != ends_first)
                borders.append(pc.add(pc.multiply(pc.add(base, places), 2), last_bit))
                steps.append(pc.add(pc.multiply(places, 0), -1 if is_end else 1))
                firsts.append(pc.add(pc.multiply(places, 0), int(at == 0 and not is_end)))
                files.append(rows.file)
        border = pa.concat_arrays(borders)
        order = pc.array_sort_indices(border)
        step, file = pa.concat_arrays(steps).take(order), pa.concat_arrays(files).take(order)
        depth = pc.cumulative_sum(step)
        before = pc.subtract(depth, step)
        opens = pc.and_(pc.greater_equal(depth, count), pc.less(before, count))
        closes = pc.and_(pc.less(depth, count), pc.greater_equal(before, count))
        place = pc.shift_right(border.take(order), 1)
        file = file.filter(opens)
        base = self._bases.take(file)
        last_range = pc.subtract(pc.cumulative_sum(pa.concat_arrays(firsts).take(order)), 1).filter(opens)
        start, end = pc.subtract(place.filter(opens), base), pc.subtract(place.filter(closes), base)
        return RowSet(file, start, end), last_range


@dataclass(frozen=True, eq=False)
class RowsOnAxis(KeptRows):
    """The rows that may match, of the files on an axis."""

    axis: RowAxis
    rows: RowSet

    @cached_property
    def ranges(self) -> dict[int, list[tuple[int, int]] | None]:
        """For each slice's number, the first row and the number of rows of each range; None if all rows are kept."""
        by_position: list[list[tuple[int, int]]] = [[] for _ in range(len(self.axis))]
        sizes = pc.subtract(self.rows.end, self.rows.start)
        columns = (self.rows.file, self.rows.start, sizes)
        for position, start, rows in zip(*(column.to_pylist() for column in columns), strict=True):
            by_position[position].append((start, rows))
        totals = self.axis.num_rows.to_pylist()
        numbers = self.axis.numbers.to_pylist()
        return {
            number: None if ranges == [(0, total)] else ranges
            for number, ranges, total in zip(numbers, by_position, totals, strict=True)
        }

    @cached_property
    def row_groups(self) -> dict[int, tuple[int, list[int]]]:
        """For each slice's number, the number of row groups, and the row groups with rows that may match."""
        files, groups = self.axis.groups_with(self.rows)
        kept: list[list[int]] = [[] for _ in range(len(self.axis))]
        for position, group in zip(files.to_pylist(), groups.to_pylist(), strict=True):
            kept[position].append(group)
        totals = self.axis.num_groups.to_pylist()
        numbers = self.axis.numbers.to_pylist()
        return {number: (total, some) for number, total, some in zip(numbers, totals, kept, strict=True)}

    @cached_property
    def num_rows(self) -> tuple[int, int]:
        """The number of kept rows, and of all rows of the files that have some."""
        kept = pc.sum(pc.subtract(self.rows.end, self.rows.start)).as_py() or 0
        return kept, pc.sum(self.axis.num_rows.take(pc.unique(self.rows.file))).as_py() or 0

    def without_rows(self) -> pa.Int64Array:
        """Return the numbers of the slices in which no row may match."""
        has_rows = pc.is_in(self.axis.positions, value_set=self.rows.file)
        return self.axis.numbers.filter(pc.invert(has_rows))

"""Find the rows that may match in a few files, file by file with Python objects."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa

from parsieve.plan.evidence.candidates import Candidates
from parsieve.plan.evidence.index.sieve import UnitAnswer
from parsieve.plan.evidence.questions import Constant, Every, Question, Some, Tree
from parsieve.plan.evidence.row_groups import Judged
from parsieve.plan.rows.base import KeptRows
from parsieve.sharing import cached_property

# The first row of each range, and the row after its last one. Ranges are sorted, not empty, and do not touch.
Ranges = list[tuple[int, int]]


def union(ranges: Sequence[tuple[int, int]]) -> Ranges:
    """Return the rows of ranges in any order, which may be empty or overlap."""
    joined: Ranges = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            if end > joined[-1][1]:
                joined[-1] = (joined[-1][0], end)
        elif start < end:
            joined.append((start, end))
    return joined


def intersection(left: Ranges, right: Ranges) -> Ranges:
    """Return the rows that two sets have in common."""
    common: Ranges = []
    at_left = at_right = 0
    while at_left < len(left) and at_right < len(right):
        start = max(left[at_left][0], right[at_right][0])
        end = min(left[at_left][1], right[at_right][1])
        if start < end:
            common.append((start, end))
        if left[at_left][1] == end:
            at_left += 1
        else:
            at_right += 1
    return common


@dataclass(frozen=True, eq=False)
class RowsOfFiles(KeptRows):
    """The rows that may match, of each file by its number."""

    # The rows of each row group.
    sizes: Mapping[int, Sequence[int]]
    rows: Mapping[int, Ranges]

    @cached_property
    def ranges(self) -> dict[int, list[tuple[int, int]] | None]:
        """For each file, the first row and the number of rows of each range; None if all rows are kept."""
        return {
            number: None if rows == [(0, sum(self.sizes[number]))] else [(start, end - start) for start, end in rows]
            for number, rows in self.rows.items()
        }

    @cached_property
    def row_groups(self) -> dict[int, tuple[int, list[int]]]:
        """For each file, the number of row groups, and the row groups with rows that may match."""
        return {number: (len(self.sizes[number]), self._groups_with(number)) for number in self.rows}

    def _groups_with(self, number: int) -> list[int]:
        ranges, groups, first = self.rows[number], [], 0
        for group, rows in enumerate(self.sizes[number]):
            # The first range that does not end before the row group.
            at = bisect_left(ranges, first + 1, key=lambda borders: borders[1])
            if rows and at < len(ranges) and ranges[at][0] < first + rows:
                groups.append(group)
            first += rows
        return groups

    @cached_property
    def num_rows(self) -> tuple[int, int]:
        """The number of kept rows, and of all rows of the files that have some."""
        kept = sum(end - start for rows in self.rows.values() for start, end in rows)
        return kept, sum(sum(self.sizes[number]) for number, rows in self.rows.items() if rows)

    def without_rows(self) -> pa.Int64Array:
        """Return the numbers of the files in which no row may match."""
        return pa.array([number for number, rows in self.rows.items() if not rows], pa.int64())


def find_in_few(
    files: Candidates,
    kept: pa.Int64Array,
    answers: Mapping[Question, Sequence[UnitAnswer]],
    groups: Judged | None,
    footers: Mapping[int, Sequence[int]],
) -> RowsOfFiles | None:
    """Return the rows that may match of the kept files whose row groups are known, or None if nothing is known."""
    numbers = kept.to_pylist()
    layouts = list({id(answer.column): answer.column for some in answers.values() for answer in some}.values())
    sizes: dict[int, Sequence[int]] = {}
    for at, number in enumerate(numbers):
        sources = [layout.slices[at].row_groups for layout in layouts]
        sources = [source for source in (*sources, list(footers.get(number, ()))) if source]
        # The index and the footer of one version have the same row groups. If not, keep all rows.
        if sources and sum(sources[0]) and all(source == sources[0] for source in sources[1:]):
            sizes[number] = sources[0]
    if not sizes:
        return None
    evaluation = _Evaluation(files, sizes, dict(zip(numbers, range(len(numbers)), strict=True)), answers, groups)
    rows = {number: evaluation.rows(files.tree, number) for number in sizes}
    if all(ranges is None for ranges in rows.values()):
        return None
    known = {number: [(0, sum(sizes[number]))] if ranges is None else ranges for number, ranges in rows.items()}
    return RowsOfFiles(sizes, known)


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """Evaluates a tree of questions in one file after the other. A result of None means all rows of the file."""

    files: Candidates
    # The rows of each row group, of the files whose row groups are known.
    sizes: Mapping[int, Sequence[int]]
    # The position of each kept file in the answers of the index.
    positions: Mapping[int, int]
    answers: Mapping[Question, Sequence[UnitAnswer]]
    groups: Judged | None

    def rows(self, tree: Tree, number: int) -> Ranges | None:
        """Return the rows of a file that may match a tree."""
        if isinstance(tree, Constant):
            return None if tree.value else []
        if isinstance(tree, Every):
            return _all_of([self.rows(part, number) for part in tree.parts])
        if isinstance(tree, Some):
            joined: Ranges = []
            for part in tree.parts:
                rows = self.rows(part, number)
                if rows is None:
                    return None
                joined += rows
            return union(joined)
        by_file = self.files.may_match.get(tree)
        if by_file is not None and by_file[number].as_py() is False:
            return []
        by_units = [
            self._units(answer, kept, number)
            for answer, kept in zip(self.answers.get(tree, ()), self._kept_units.get(tree, ()), strict=True)
        ]
        return _all_of([*by_units, self._row_groups(tree, number)])

    def _units(self, answer: UnitAnswer, kept_units: Mapping[int, list[int]], number: int) -> Ranges | None:
        """Return the rows of the units in an answer of an index."""
        slice_id, _, units = answer.column.slices[self.positions[number]]
        # The index does not answer for slices without an id.
        if slice_id is None:
            return None
        kept = kept_units.get(slice_id, [])
        # An answer may name the whole slice, with a number that no unit has.
        if any(unit >= len(units) for unit in kept):
            return None
        return union([units[unit] for unit in kept])

    @cached_property
    def _kept_units(self) -> dict[Question, list[dict[int, list[int]]]]:
        """For each answer to each question, the units by slice id."""
        return {question: [_by_id(answer) for answer in some] for question, some in self.answers.items()}

    def _row_groups(self, question: Question, number: int) -> Ranges | None:
        """Return the rows of the row groups that may answer a question; all rows if the file was not opened."""
        units = self._units_of_groups.get(number)
        if units is None or self.groups is None:
            return None
        mask = self.groups[0].may_match.get(question)
        if mask is None:
            return None
        ends = list(accumulate(self.sizes[number], initial=0))
        return union([(ends[group], ends[group + 1]) for unit, group in units if mask[unit].as_py() is not False])

    @cached_property
    def _units_of_groups(self) -> dict[int, list[tuple[int, int]]]:
        """For each opened file, the positions of its row groups in the evidence, and their numbers."""
        by_file: dict[int, list[tuple[int, int]]] = {}
        for unit, (number, group) in enumerate(() if self.groups is None else self.groups[1]):
            by_file.setdefault(number, []).append((unit, group))
        return by_file


def _by_id(answer: UnitAnswer) -> dict[int, list[int]]:
    """Return the units of an answer by slice id."""
    by_id: dict[int, list[int]] = {}
    for slice_id, unit in zip(answer.ids.to_pylist(), answer.units.to_pylist(), strict=True):
        by_id.setdefault(slice_id, []).append(unit)
    return by_id


def _all_of(sets: Sequence[Ranges | None]) -> Ranges | None:
    """Return the rows that are in every set."""
    joined: Ranges | None = None
    for rows in sets:
        if rows is not None:
            joined = rows if joined is None else intersection(joined, rows)
    return joined

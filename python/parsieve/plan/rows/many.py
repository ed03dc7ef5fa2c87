"""Find the rows that may match in many files, with Arrow arrays of the ranges of all files together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.plan.evidence.candidates import Candidates
from parsieve.plan.evidence.index.sieve import UnitAnswer
from parsieve.plan.evidence.questions import Constant, Every, Question, Some, Tree
from parsieve.plan.evidence.row_groups import Judged
from parsieve.plan.rows.sets import RowAxis, RowSet, RowsOnAxis
from parsieve.sharing import cached_property


def find_in_many(
    files: Candidates,
    kept: pa.Int64Array,
    answers: Mapping[Question, Sequence[UnitAnswer]],
    groups: Judged | None,
    footers: Mapping[int, Sequence[int]],
) -> RowsOnAxis | None:
    """Return the rows that may match of the kept files whose row groups are known, or None if nothing is known."""
    layouts = list({id(answer.column): answer.column for some in answers.values() for answer in some}.values())
    axis = _axis(kept, [layout.row_groups for layout in layouts], footers)
    if not len(axis):
        return None
    rows = _Evaluation(files, axis, answers, kept, groups).rows(files.tree)
    return None if rows is None else RowsOnAxis(axis, rows)


def _axis(kept: pa.Int64Array, layouts: Sequence[pa.ListArray], footers: Mapping[int, Sequence[int]]) -> RowAxis:
    """Return the files whose row groups are known, if all sources agree on them."""
    if layouts and not footers and all(layout.equals(layouts[0]) for layout in layouts[1:]):
        has_rows = _has_rows(layouts[0])
        return RowAxis(kept.filter(has_rows), layouts[0].filter(has_rows))
    known: dict[int, Sequence[int]] = {}
    for number, *row_groups in zip(kept.to_pylist(), *(layout.to_pylist() for layout in layouts), strict=True):
        sources = [groups for groups in (*row_groups, list(footers.get(number, ()))) if groups]
        # The index and the footer of one version have the same row groups. If not, keep all rows.
        if sources and sum(sources[0]) and all(source == sources[0] for source in sources[1:]):
            known[number] = sources[0]
    return RowAxis(pa.array(known, pa.int64()), pa.array(known.values(), pa.list_(pa.int64())))


def _has_rows(row_groups: pa.ListArray) -> pa.BooleanArray:
    """Return for each file whether one of its row groups has rows."""
    with_rows = pc.list_parent_indices(row_groups).filter(pc.greater(row_groups.flatten(), 0))
    places = pc.indices_nonzero(pa.repeat(pa.scalar(True), len(row_groups))).cast(with_rows.type)
    return pc.is_in(places, value_set=with_rows)


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """Evaluates a tree of questions. A result of None means all rows of all files."""

    files: Candidates
    axis: RowAxis
    answers: Mapping[Question, Sequence[UnitAnswer]]
    # The numbers of the kept slices, to which the answers refer.
    kept: pa.Int64Array
    groups: Judged | None

    def rows(self, tree: Tree) -> RowSet | None:
        """Return the rows that may match a tree."""
        if isinstance(tree, Constant):
            return None if tree.value else self.axis.no_rows
        if isinstance(tree, Every):
            sets = [rows for part in tree.parts if (rows := self.rows(part)) is not None]
            return self.axis.intersection(sets) if sets else None
        if isinstance(tree, Some):
            sets = []
            for part in tree.parts:
                rows = self.rows(part)
                if rows is None:
                    return None
                sets.append(rows)
            return self.axis.union(sets)
        return self._question(tree)

    def _question(self, question: Question) -> RowSet | None:
        sets = [self._units(answer) for answer in self.answers.get(question, ())]
        by_file = self.files.may_match.get(question)
        if by_file is not None:
            mask = by_file.take(self.axis.numbers)
            if pc.all(mask).as_py() is False:
                sets.append(self.axis.whole_files.of_files(mask))
        if self.groups is not None and question in self.groups[0].may_match:
            sets.append(self._row_groups(self.groups[0].may_match[question]))
        return self.axis.intersection(sets) if sets else None

    def _units(self, answer: UnitAnswer) -> RowSet:
        """Return the rows of the units in an answer of the index."""
        column = answer.column
        ids, first_units, counts = (values.take(self._places) for values in (column.ids, column.first, column.count))
        files = pc.index_in(answer.ids, value_set=ids).cast(pa.int64())
        is_on_axis = files.is_valid()
        files, units = files.filter(is_on_axis), answer.units.filter(is_on_axis).cast(pa.int64())
        # An answer may name the whole slice, with a number that no unit has.
        has_range = pc.less(units, counts.take(files))
        places = pc.add(first_units.take(files), units).filter(has_range)
        ranges = self.axis.ranges(files.filter(has_range), column.start.take(places), column.rows.take(places))
        # The index does not answer for slices without an id.
        is_whole = pc.or_(ids.is_null(), pc.is_in(self.axis.positions, value_set=files.filter(pc.invert(has_range))))
        return self.axis.union([ranges, self.axis.whole_files.of_files(is_whole)])

    @cached_property
    def _places(self) -> pa.Int64Array:
        """The position of each file of the axis among the kept slices."""
        return pc.index_in(self.axis.numbers, value_set=self.kept).cast(pa.int64())

    def _row_groups(self, mask: pa.BooleanArray) -> RowSet:
        """Return the rows of the row groups for which a mask is true, and all rows of files that were not opened."""
        files, groups, opened = self._opened
        keep = pc.and_(mask, files.is_valid())
        chosen = self.axis.of_groups(files.filter(keep), groups.filter(keep))
        return self.axis.union([chosen, self.axis.whole_files.of_files(pc.invert(opened))])

    @cached_property
    def _opened(self) -> tuple[pa.Int64Array, pa.Int64Array, pa.BooleanArray]:
        """For each row group in the evidence, the position of its file and its number; and which files have some."""
        assert self.groups is not None
        units = self.groups[1]
        numbers = pa.array([number for number, _ in units], pa.int64())
        files = pc.index_in(numbers, value_set=self.axis.numbers).cast(pa.int64())
        groups = pa.array([group for _, group in units], pa.int64())
        return files, groups, pc.is_in(self.axis.positions, value_set=files.drop_null())

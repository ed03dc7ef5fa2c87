"""A tree of questions keeps exactly the rows in whose units, row groups and files it may be true."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import pyarrow as pa
import pytest

from parsieve.index.scan.units import UnitLayout
from parsieve.plan.evidence.base import Evidence
from parsieve.plan.evidence.candidates import Candidates
from parsieve.plan.evidence.index.sieve import UnitAnswer, UnitRanges
from parsieve.plan.evidence.questions import Constant, Every, Question, Some, Tree, leaves
from parsieve.plan.rows import judge
from parsieve.plan.rows.few import RowsOfFiles, intersection, union
from parsieve.plan.rows.judge import exclude_files, exclude_groups, find_rows
from parsieve.plan.rows.sets import RowsOnAxis
from parsieve.predicate.column_names import ColumnNames

COLUMN = ColumnNames(pa.schema([("k", pa.int64())])).find(["k"])
WHOLE = 2**32 - 1
NUM_FILES = 6


@dataclass
class HandMadeIndex(Evidence):
    """An index with units chosen by a test. Each question has a separate index, with its own units."""

    name: str = "index"
    # For each question and slice: the layout of its units, or None if the slice is not covered.
    layouts: dict[Question, list[UnitLayout | None]] = field(default_factory=dict)
    # For each question and slice: the positions of the units that may match, or `WHOLE`.
    answers: dict[Question, list[set[int]]] = field(default_factory=dict)

    def may_match(self, question: Question, candidates: pa.BooleanArray) -> pa.BooleanArray | None:
        if question not in self.answers:
            return None
        pairs = zip(self.layouts[question], self.answers[question], strict=True)
        return pa.array([layout is None or bool(answer) for layout, answer in pairs], pa.bool_())

    def describe(self, question: Question, unit: int) -> str:
        return "not in the file"

    def find_units(self, question: Question, numbers: pa.Int64Array) -> UnitAnswer | None:
        if question not in self.answers:
            return None
        slices = numbers.to_pylist()
        layouts = [self.layouts[question][number] for number in slices]
        # Ids in another order than slices, as after updates.
        ids = [None if layout is None else 1000 - number for layout, number in zip(layouts, slices, strict=True)]
        covered = [layout for layout in layouts if layout is not None]
        ends = [layout.ends() for layout in covered]
        starts = [[0, *some[:-1]] if some else [] for some in ends]
        columns = (
            [len(layout.row_groups) for layout in covered],
            [len(some) for some in ends],
            [rows for layout in covered for rows in layout.row_groups],
            [start for some in starts for start in some],
            [
                end - start
                for one, other in zip(ends, starts, strict=True)
                for end, start in zip(one, other, strict=True)
            ],
        )
        ranges = UnitRanges(pa.array(ids, pa.uint32()), [pa.array(column, pa.int64()) for column in columns])
        pairs = sorted(
            (1000 - number, unit)
            for number, answer in enumerate(self.answers[question])
            if self.layouts[question][number] is not None
            for unit in answer
        )
        return UnitAnswer(ranges, *(pa.array([pair[at] for pair in pairs], pa.uint32()) for at in range(2)))

    def keeps(self, question: Question, number: int, row: int) -> bool:
        """Return whether a row is in a unit that may match."""
        if question not in self.answers or self.layouts[question][number] is None:
            return True
        answer = self.answers[question][number]
        ends = cast(UnitLayout, self.layouts[question][number]).ends()
        unit = next((at for at, end in enumerate(ends) if row < end), None)
        return WHOLE in answer or (bool(answer) and unit is None) or unit in answer


def random_tree(r: random.Random, depth: int = 2) -> Tree:
    if depth and r.random() < 0.6:
        parts = tuple(random_tree(r, depth - 1) for _ in range(r.randrange(1, 4)))
        return Every(parts) if r.random() < 0.5 else Some(parts)
    return Constant(r.random() < 0.5) if r.random() < 0.1 else Question(COLUMN)


def is_true(tree: Tree, keeps: Any) -> bool:
    if isinstance(tree, Constant):
        return tree.value
    if isinstance(tree, Every | Some):
        return (all if isinstance(tree, Every) else any)(is_true(part, keeps) for part in tree.parts)
    return bool(keeps(tree))


def random_index(r: random.Random, tree: Tree, groups: list[list[int]]) -> HandMadeIndex:
    index = HandMadeIndex()
    for question in leaves(tree):
        if r.random() < 0.2:
            continue
        layouts: list[UnitLayout | None] = []
        answers = []
        for rows in groups:
            kind = r.random()
            layout = UnitLayout(rows, r.choice([None, 0])) if kind < 0.8 else UnitLayout() if kind < 0.9 else None
            layouts.append(layout)
            count = 0 if layout is None else layout.num_units
            answers.append({WHOLE} if r.random() < 0.1 else {unit for unit in range(count) if r.random() < 0.5})
        index.layouts[question], index.answers[question] = layouts, answers
    return index


class RandomGroups(Evidence):
    """Footers that exclude random row groups."""

    name = "footers"

    def __init__(self, masks: Mapping[Question, pa.BooleanArray]) -> None:
        self._masks = masks

    def may_match(self, question: Question, candidates: pa.BooleanArray) -> pa.BooleanArray | None:
        return self._masks.get(question)

    def describe(self, question: Question, unit: int) -> str:
        return "not in the row group"


@pytest.mark.parametrize("few", [1000, 0])
@pytest.mark.parametrize("seed", range(300))
def test_kept_rows_are_those_for_which_the_tree_may_be_true(
    seed: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With 0, the files count as many.
    monkeypatch.setattr(judge, "FEW", few)
    r = random.Random(seed)
    groups = [[r.randrange(1, 5) for _ in range(r.randrange(1, 4))] for _ in range(NUM_FILES)]
    tree = random_tree(r)
    index = random_index(r, tree, groups)
    files = Candidates.all(tree, NUM_FILES)
    files.apply(index)
    rows = find_rows(files, [cast(Any, index)])
    if rows is not None:
        exclude_files(files, rows)

    def keeps(number: int, row: int) -> bool:
        return is_true(tree, lambda question: index.keeps(question, number, row))

    check(files, rows, groups, keeps, index)

    # Open some of the kept files, whose footers exclude row groups for some questions.
    opened = [number for number in range(NUM_FILES) if files.kept[number].as_py() and r.random() < 0.6]
    units = [(number, group) for number in opened for group in range(len(groups[number]))]
    masks = {
        question: pa.array([r.random() < 0.6 for _ in units], pa.bool_())
        for question in leaves(tree)
        if r.random() < 0.6
    }
    candidates = files.split([number for number, _ in units])
    candidates.apply(RandomGroups(masks))
    judged = (candidates, units)
    rows = find_rows(files, [cast(Any, index)], judged, {number: groups[number] for number in opened})
    if rows is not None:
        exclude_groups(judged, rows)

    def keeps_group(question: Question, number: int, row: int) -> bool:
        if number not in opened or question not in masks:
            return True
        ends = UnitLayout(groups[number]).ends()
        unit = units.index((number, next(at for at, end in enumerate(ends) if row < end)))
        return bool(masks[question][unit].as_py())

    def keeps_both(number: int, row: int) -> bool:
        return is_true(tree, lambda question: index.keeps(question, number, row) and keeps_group(question, number, row))

    check(files, rows, groups, keeps_both, index)
    for unit, (number, group) in enumerate(units):
        start = sum(groups[number][:group])
        may_match = any(keeps_both(number, row) for row in range(start, start + groups[number][group]))
        assert candidates.kept[unit].as_py() == may_match
        if not may_match:
            assert candidates.evidence(unit)
            assert candidates.proof(unit)


@pytest.mark.parametrize("seed", range(300))
def test_few_files_have_the_same_rows_as_if_they_were_many(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    r = random.Random(seed)
    # Here row groups may be empty, and the index may answer with units without rows.
    groups = [[r.randrange(3) for _ in range(r.randrange(1, 5))] for _ in range(NUM_FILES)]
    tree = random_tree(r)
    index = random_index(r, tree, groups)
    files = Candidates.all(tree, NUM_FILES)
    files.apply(index)
    opened = [number for number in range(NUM_FILES) if files.kept[number].as_py() and r.random() < 0.5]
    units = [(number, group) for number in opened for group in range(len(groups[number]))]
    candidates = files.split([number for number, _ in units])
    candidates.apply(
        RandomGroups({question: pa.array([r.random() < 0.6 for _ in units], pa.bool_()) for question in leaves(tree)})
    )
    # A footer of another version, which has other row groups.
    footers = {number: groups[number] if r.random() < 0.8 else [*groups[number], 1] for number in opened}
    for judged, by_file in ((None, None), ((candidates, units), footers)):
        found = []
        for few in (1000, 0):
            monkeypatch.setattr(judge, "FEW", few)
            found.append(find_rows(files, [cast(Any, index)], judged, by_file))
        few_rows, many_rows = found
        if few_rows is None or many_rows is None:
            # All rows of all files are kept.
            assert all(set(rows.ranges.values()) == {None} for rows in found if rows is not None)
            continue
        assert isinstance(few_rows, RowsOfFiles)
        assert isinstance(many_rows, RowsOnAxis)
        assert few_rows.ranges == many_rows.ranges
        assert few_rows.row_groups == many_rows.row_groups
        assert few_rows.num_rows == many_rows.num_rows
        assert few_rows.without_rows().to_pylist() == many_rows.without_rows().to_pylist()


@pytest.mark.parametrize("seed", range(100))
def test_ranges_of_a_file_are_sets_of_rows(seed: int) -> None:
    r = random.Random(seed)
    unsorted = [[(start, start + r.randrange(4)) for start in r.choices(range(20), k=r.randrange(5))] for _ in range(2)]
    sets = [{row for start, end in ranges for row in range(start, end)} for ranges in unsorted]
    left, right = (union(ranges) for ranges in unsorted)
    both = union([*left, *right])
    for ranges, rows in ((left, sets[0]), (both, sets[0] | sets[1]), (intersection(left, right), sets[0] & sets[1])):
        assert [row for start, end in ranges for row in range(start, end)] == sorted(rows)
        assert all(end < start for (_, end), (start, _) in pairwise(ranges))


def check(files: Candidates, rows: Any, groups: list[list[int]], keeps: Any, index: HandMadeIndex) -> None:
    for number, sizes in enumerate(groups):
        expected = [row for row in range(sum(sizes)) if keeps(number, row)]
        if rows is None or number not in rows.ranges:
            # Nothing is known about ranges, so the file is kept or skipped as a whole.
            assert not expected or files.kept[number].as_py()
            continue
        ranges = rows.ranges[number]
        kept = list(range(sum(sizes))) if ranges is None else [row for a, n in ranges for row in range(a, a + n)]
        assert kept == expected
        starts = [sum(sizes[:group]) for group in range(len(sizes))]
        with_rows = [at for at, size in enumerate(sizes) if {*range(starts[at], starts[at] + size)} & {*expected}]
        assert rows.row_groups[number] == (len(sizes), with_rows)
    for number in range(NUM_FILES):
        if not files.kept[number].as_py():
            assert files.evidence(number)
            assert files.proof(number)


def test_row_groups_of_another_version_are_not_combined() -> None:
    tree = Question(COLUMN)
    index = HandMadeIndex(layouts={tree: [UnitLayout([3, 3])]}, answers={tree: [{0}]})
    files = Candidates.all(tree, 1)
    files.apply(index)
    units = [(0, 0), (0, 1)]
    judged = (files.split([0, 0]), units)
    assert find_rows(files, [cast(Any, index)], judged, {0: [2, 4]}) is None
    rows = find_rows(files, [cast(Any, index)], judged, {0: [3, 3]})
    assert rows is not None
    assert rows.ranges == {0: [(0, 3)]}


@pytest.mark.parametrize("few", [1000, 0])
def test_evidence_about_files_excludes_all_their_rows(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "FEW", few)
    left, right = Question(COLUMN), Question(COLUMN)
    index = HandMadeIndex(layouts={right: [UnitLayout([3, 3])] * 2}, answers={right: [{0}, {1}]})
    files = Candidates.all(Some((left, right)), 2)
    # As if a partition value excluded the first file for the left question.
    files.apply(RandomGroups({left: pa.array([False, True])}))
    files.apply(index)
    rows = find_rows(files, [cast(Any, index)])
    assert rows is not None
    assert rows.ranges == {0: [(0, 3)], 1: None}


@pytest.mark.parametrize(("few", "form"), [(17, RowsOfFiles), (16, RowsOnAxis)])
def test_many_units_and_answers_are_arrays(few: int, form: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "FEW", few)
    tree = Question(COLUMN)
    # A file, its five row groups and five units, an id for them, and five answers.
    index = HandMadeIndex(layouts={tree: [UnitLayout([1] * 5)]}, answers={tree: [set(range(5))]})
    files = Candidates.all(tree, 1)
    files.apply(index)
    assert isinstance(find_rows(files, [cast(Any, index)]), form)

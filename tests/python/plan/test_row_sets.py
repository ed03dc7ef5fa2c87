"""Sets of rows of many files have the union, the intersection and the row groups of the sets of their rows."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from parsieve.plan.rows.sets import RowAxis, RowSet, RowsOnAxis

Pairs = set[tuple[int, int]]


def random_axis(r: random.Random) -> dict[int, list[int]]:
    """Return some files by number, with the rows of their row groups, some of which are empty."""
    return {number: [r.randrange(6) for _ in range(r.randrange(4))] for number in sorted(r.sample(range(20), 4))}


def axis_of(files: dict[int, list[int]]) -> RowAxis:
    return RowAxis(pa.array(files, pa.int64()), pa.array(files.values(), pa.list_(pa.int64())))


def random_set(r: random.Random, axis: RowAxis, files: dict[int, list[int]]) -> tuple[RowSet, Pairs]:
    ranges = []
    for position, groups in enumerate(files.values()):
        for _ in range(r.randrange(4)):
            start = r.randrange(sum(groups) + 1)
            ranges.append((position, start, r.randrange(sum(groups) - start + 1)))
    r.shuffle(ranges)
    numbers = list(files)
    pairs = {(numbers[position], row) for position, start, rows in ranges for row in range(start, start + rows)}
    columns = [pa.array([one[at] for one in ranges], pa.int64()) for at in range(3)]
    return axis.ranges(*columns), pairs


def pairs_of(rows: RowSet, numbers: list[int]) -> Pairs:
    """Return the rows of a set, and check that its ranges are sorted, not empty, and do not touch."""
    pairs: Pairs = set()
    last = (-1, 0)
    for position, start, end in zip(*(column.to_pylist() for column in (rows.file, rows.start, rows.end)), strict=True):
        assert start < end
        assert (position, start) > last
        last = (position, end)
        pairs |= {(numbers[position], row) for row in range(start, end)}
    return pairs


@pytest.mark.parametrize("seed", range(300))
def test_sets_of_rows_agree_with_sets_of_python(seed: int) -> None:
    r = random.Random(seed)
    files = random_axis(r)
    numbers = list(files)
    axis = axis_of(files)
    sets = [random_set(r, axis, files) for _ in range(r.randrange(1, 4))]
    assert all(pairs_of(rows, numbers) == pairs for rows, pairs in sets)
    assert pairs_of(axis.union([rows for rows, _ in sets]), numbers) == set.union(*(pairs for _, pairs in sets))
    rows, pairs = axis.intersection([rows for rows, _ in sets]), set.intersection(*(pairs for _, pairs in sets))
    assert pairs_of(rows, numbers) == pairs
    mask = [r.random() < 0.5 for _ in numbers]
    chosen = {number for number, is_chosen in zip(numbers, mask, strict=True) if is_chosen}
    assert pairs_of(rows.of_files(pa.array(mask)), numbers) == {pair for pair in pairs if pair[0] in chosen}

    kept = RowsOnAxis(axis, rows)
    for number, groups in files.items():
        expected = sorted(row for file, row in pairs if file == number)
        ranges = kept.ranges[number]
        whole = [(0, sum(groups))]
        assert [row for start, count in ranges or whole for row in range(start, start + count)] == expected or (
            ranges == [] and not expected
        )
        starts = [sum(groups[:at]) for at in range(len(groups))]
        with_rows = [
            at for at, size in enumerate(groups) if any(starts[at] <= row < starts[at] + size for row in expected)
        ]
        assert kept.row_groups[number] == (len(groups), with_rows)
    assert kept.without_rows().to_pylist() == [number for number in numbers if all(file != number for file, _ in pairs)]
    assert kept.num_rows == (len(pairs), sum(sum(files[number]) for number in {file for file, _ in pairs}))


def test_row_groups_are_ranges_of_rows() -> None:
    axis = axis_of({3: [2, 0, 4], 5: [3]})
    rows = axis.of_groups(pa.array([1, 0, 0], pa.int64()), pa.array([0, 2, 1], pa.int64()))
    assert pairs_of(rows, [3, 5]) == {(3, row) for row in range(2, 6)} | {(5, row) for row in range(3)}


def test_no_files_have_no_rows() -> None:
    axis = axis_of({})
    kept = RowsOnAxis(axis, axis.whole_files)
    assert (kept.ranges, kept.row_groups, kept.num_rows, len(kept.without_rows())) == ({}, {}, (0, 0), 0)

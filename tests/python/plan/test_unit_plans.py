"""Plans with an index of row groups and row ranges keep every matching row, and read the rows of all engines."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from support.aging import wait_until_old
from support.formats import FORMATS
from support.models.plan_truth import check_plans, random_predicate, some_rows
from support.models.unit_truth import UnitTruth

import parsieve as ps
from parsieve.predicate import And, Or
from parsieve.predicate.builder import Builder, Operand, scalar_value
from parsieve.predicate.column_names import ColumnNames
from parsieve.table import Table

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore:Delete:UserWarning"
)
# Each column has units of its own.
UNITS = {"id": "row_group", "name": "rows", "real": "row_group", "at": "file"}
COLUMNS = ["id", "name", "real", "at"]


def rows_of(r: random.Random, count: int, first: int) -> pa.Table:
    return some_rows(r, count, first).select(COLUMNS)


def build(table: ps.Table) -> None:
    for unit in sorted(set(UNITS.values())):
        columns = [name for name, other in UNITS.items() if other == unit]
        table.build_index(columns, kind="sieve", unit=unit, progress=False)


def check(table: ps.Table, r: random.Random, count: int = 12, as_of: Any = None) -> None:
    """Check random predicates on the table: the kept rows of each file, and the rows of every engine."""
    truth = UnitTruth(table, as_of)
    full = pa.concat_tables([rows for _, rows in truth.rows])
    for _ in range(count):
        expr = random_predicate(r, full)
        for options in ({}, {"row_groups": False}, {"row_groups": True}):
            truth.check(expr, **options)
    check_plans(table, full, r, 2, as_of)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", [1, 2])
def test_plans_of_all_formats_keep_the_rows_that_match(form: str, seed: int, tmp_path: Path) -> None:
    r = random.Random(seed)
    files = [rows_of(r, count, 30 * at) for at, count in enumerate((40, 9, 1, 26, 33))]
    table = Table(FORMATS[form](tmp_path / "t", files, 6))
    build(table)
    check(table, r)
    assert table.verify_index() == []


@pytest.mark.parametrize("form", FORMATS)
def test_conditions_on_two_columns_intersect_their_rows(form: str, tmp_path: Path) -> None:
    r = random.Random(5)
    # Both columns have all their values in every file, in another order.
    files = [
        pa.table({"a": r.sample(range(40), 40), "b": r.sample(range(40), 40), "c": pa.array(range(40))})
        for _ in range(3)
    ]
    table = Table(FORMATS[form](tmp_path / "t", files, 5))
    table.build_index(["a", "b"], kind="sieve", unit="row_group", progress=False)
    truth = UnitTruth(table)
    names, builder = ColumnNames(truth.rows[0][1].schema), Builder()

    def equals(name: str, value: int) -> Any:
        return builder.compare(Operand(names.find([name])), "=", scalar_value(pa.scalar(value)))

    kept = {"one": 0, "both": 0, "either": 0}
    skipped = 0
    for value in range(40):
        first, second = equals("a", value), equals("b", (value * 7) % 40)
        kept["one"] += truth.check(first, row_groups=False)[0]
        kept["both"] += truth.check(And((first, second)), row_groups=False)[0]
        kept["either"] += truth.check(Or((first, second)), row_groups=False)[0]
        plan = table.plan(And((first, second)), row_groups=False)
        skipped += len(plan.skipped)
        assert all(skip.evidence == "index row ranges" and "range of rows" in skip.proof for skip in plan.skipped)
        assert plan.record.cost.files == 0
    # A value is in one of eight row groups of each file; two values share it in one of eight.
    assert kept["one"] == 40 * 3 * 5
    assert kept["both"] < kept["one"] // 4
    assert kept["one"] < kept["either"] <= 2 * kept["one"]
    assert skipped > 40


def test_large_row_groups_have_ranges_of_rows(tmp_path: Path) -> None:
    keys = list(range(130_000))
    random.Random(1).shuffle(keys)
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"k": keys}), folder / "0.parquet", row_group_size=70_000)
    wait_until_old(folder)
    table = ps.open_table(str(folder))
    table.build_index("k", kind="sieve", unit="rows", progress=False)
    ends = [0, 20_000, 40_000, 60_000, 70_000, 90_000, 110_000, 130_000]
    for row in (0, 19_999, 20_000, 69_999, 70_000, 129_999):
        plan = table.plan(f"k = {keys[row]}", row_groups=False)
        [ranges] = plan.row_ranges.values()
        start = max(end for end in ends if end <= row)
        assert (start, ends[ends.index(start) + 1] - start) in (ranges or [])
        assert sum(count for _, count in ranges or []) <= 60_000
        assert list(plan.row_groups.values()) == [[int(row >= 70_000)]]
        assert plan.to_arrow()["k"].to_pylist() == [keys[row]]


def test_filters_are_not_read_if_index_and_footers_exclude_all_row_groups(tmp_path: Path) -> None:
    write_row_groups(tmp_path)

    def requests(where: str) -> int:
        plan = ps.open_table(str(tmp_path)).plan(where, row_groups=True)
        assert plan.files == []
        return plan.requests

    # The index excludes the second row group, and the statistics of b exclude the first.
    assert requests("a = 100 AND b = 2 AND c = 5") == requests("a = 100 AND b = 2")
    assert requests("a = 100 AND c = 5") > requests("a = 100 AND b = 2")


def test_a_row_group_needs_rows_for_all_conditions_of_an_alternative(tmp_path: Path) -> None:
    """Only the index knows the row group of each `a`, and only the footer that of each `b`."""
    write_row_groups(tmp_path)
    table = ps.open_table(str(tmp_path))
    plan = table.plan("(a = 100 AND b = 2) OR (a = 101 AND b = 4)", row_groups=True)
    assert [skip.evidence for skip in plan.skipped] == ["index row ranges"]
    plan = table.plan("(a = 100 AND b = 4) OR (a = 101 AND b = 4)", row_groups=True)
    assert list(plan.row_groups.values()) == [[0]]


def write_row_groups(folder: Path) -> None:
    """Write even numbers, then odd numbers, in two row groups of a file, and index them."""
    a = [*range(0, 1000, 2), *range(1, 1000, 2)]
    rows = pa.table({"a": a, "b": [4] * 500 + [2] * 500, "c": [1, 9] * 500})
    pq.write_table(rows, folder / "0.parquet", row_group_size=500, bloom_filter_options={"c": True})
    wait_until_old(folder)
    ps.open_table(str(folder)).build_index("a", kind="sieve", unit="row_group", progress=False)


def test_a_changing_delta_table(tmp_path: Path) -> None:
    r = random.Random(7)
    lake = FORMATS["delta"](tmp_path / "t", [rows_of(r, 40, 0), rows_of(r, 20, 20)], 6)
    table = Table(lake)
    build(table)
    for step in range(6):
        delta_table = DeltaTable(lake.uri)
        if step % 3 == 0:
            FORMATS["delta"](tmp_path / "t", [rows_of(r, 25, 10 * step)], 6)
        elif step % 3 == 1:
            delta_table.delete(f"id % 7 = {step}")
        else:
            delta_table.update(updates={"id": "id + 500"}, predicate=f"id % 5 = {step % 5}")
        # A stale index answers for the files that did not change.
        check(table, r, 4)
        if step % 2:
            table.update_index(progress=False)
            check(table, r, 4)
    for version in (0, 2, 5):
        check(table, r, 4, as_of=version)
    table.compact_index()
    check(table, r)
    assert table.verify_index() == []


@pytest.mark.parametrize("hive", [False, True])
def test_a_changing_folder(tmp_path: Path, hive: bool) -> None:
    r = random.Random(8 + hive)
    folder = tmp_path / "t"

    def path_of(number: int) -> Path:
        path = folder / (f"year={2020 + number % 2}" if hive else "") / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    for number in range(4):
        pq.write_table(rows_of(r, 30, 10 * number), path_of(number), row_group_size=7)
    wait_until_old(folder)
    table = ps.open_table(str(folder))
    build(table)
    check(table, r)
    for step in range(5):
        number = r.randrange(1, 6)
        pq.write_table(rows_of(r, r.randrange(1, 40), 10 * step), path_of(number), row_group_size=r.choice([3, 11]))
        # The replaced file has other row groups than the index knows.
        check(table, r, 4)
        wait_until_old(folder)
        check(table, r, 4)
        if step % 2:
            table.update_index(progress=False)
            check(table, r, 4)
    table.compact_index()
    check(table, r)
    assert table.verify_index() == []


def test_pickled_plans_keep_their_row_ranges(tmp_path: Path) -> None:
    import json
    import pickle

    r = random.Random(3)
    table = Table(FORMATS["delta"](tmp_path / "t", [rows_of(r, 40, 0)], 5))
    build(table)
    expr = "id = 7 OR id = 60"
    plan = table.plan(expr, row_groups=False)
    copy = pickle.loads(pickle.dumps(plan))
    assert copy.row_ranges == plan.row_ranges
    assert copy.row_groups == plan.row_groups
    assert copy.explain() == plan.explain()
    assert copy.to_arrow().equals(plan.to_arrow())
    stored = json.loads(plan.to_json())
    assert stored["row_ranges"] == {
        path: None if ranges is None else [list(pair) for pair in ranges] for path, ranges in plan.row_ranges.items()
    }
    assert "rows to read: " in plan.explain()

"""Predicates and their negations over files of different types: no file with a matching row is skipped."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old
from support.models import negations
from support.models.negations import PAIRS, Written

import parsieve as ps


@pytest.mark.parametrize("name", PAIRS)
def test_every_comparison_and_its_negation_keeps_matching_files(tmp_path: Path, name: str) -> None:
    """Write a file for each value that only the other type can represent, and compare with each of them."""
    pair = PAIRS[name]
    first = [value for value in pair.values if negations.fits(value, pair.first)]
    other = [value for value in pair.values if negations.fits(value, pair.other)]
    wide = [value for value in other if value not in first] or other
    files = []
    for number, value in enumerate([first[1], *wide[:4]]):
        data_type = pair.other if number else pair.first
        path = str(tmp_path / f"{number}.parquet")
        numbers = pa.array([number], pa.int64())
        table = pa.table({"x": negations.raw_array([value], data_type), "y": numbers, "row": numbers})
        pq.write_table(table, path, bloom_filter_options={"x": True})
        os.utime(path, (1, 1))
        files.append(Written(path, data_type, [{"x": value, "y": number, "row": number}]))
    table = ps.open_table(str(tmp_path))
    for value in [file.rows[0]["x"] for file in files] + list(pair.more[:2]):
        for op in ("=", "<>", "<", "<=", ">", ">="):
            compared = negations.compared(pair, "x", op, value)
            for predicate in (compared, negations.negated(compared)):
                negations.check(table, files, predicate.text, predicate.truth, [None])


@pytest.mark.parametrize("name", PAIRS)
def test_random_predicates_and_their_negations_keep_matching_files(tmp_path: Path, name: str) -> None:
    # One seed is enough here: thousands of seeds passed before.
    negations.run(1, name, tmp_path)


def test_a_wider_file_is_kept(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([1], pa.int32()), "y": [7]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([2**40], pa.int64()), "y": [7]}), tmp_path / "b.parquet")
    table = ps.open_table(str(tmp_path))
    for where in (
        f"x = {2**40}",
        f"NOT (x <> {2**40})",
        f"NOT (x <> {2**40} OR y = 8)",
        f"NOT (NOT (NOT (x <> {2**40})))",
        f"NOT (x IS DISTINCT FROM {2**40})",
        f"NOT (x < {2**40} OR x > {2**40})",
        f"NOT (x NOT IN ({2**40}))",
        f"NOT (x NOT BETWEEN {2**40} AND {2**41})",
    ):
        plan = table.plan(where)
        assert plan.files == [str(tmp_path / "b.parquet")], where
        with pytest.raises(ps.UnsupportedError, match="a file holds"):
            plan.to_arrow()
    # All values of the table's type differ from the literal.
    assert table.plan(f"x <> {2**40} AND y = 8").files == []


# Row 2 of the second file has a value that the table's type cannot represent.
OTHER_TYPES: dict[str, tuple[pa.DataType, pa.DataType, Any]] = {
    "integers": (pa.int32(), pa.int64(), 2**40),
    "signs": (pa.uint8(), pa.int64(), -1),
    "floats": (pa.float32(), pa.float64(), 0.1),
}
FORMS = (
    "x = {} OR y = 1",
    "x = {} OR y > 5",
    "x IN (3, {}) OR y > 5",
    "x >= {} OR y = 1",
    "NOT (x <> {} AND y = 2)",
    "NOT (x IS DISTINCT FROM {} AND y > 0)",
    "(x = {} OR y = 1) AND y < 5",
    "array_contains(l, 9) OR x = {}",
    "(x = {} OR y = 1) AND array_contains(l, 2)",
    "array_contains(l, 1) OR m['a'] = {}",
    "y = 1 OR array_contains(v, {})",
)
READERS: dict[str, Callable[[ps.Table, str], pa.Table]] = {
    "to_arrow": lambda table, where: table.plan(where).to_arrow(["y"]),
    "to_batches": lambda table, where: pa.Table.from_batches(table.plan(where).to_batches(["y"])),
    "to_polars": lambda table, where: table.plan(where).to_polars().select("y").collect(),
    "to_duckdb": lambda table, where: table.plan(where).to_duckdb().select("y").to_arrow_table(),
    "order_by": lambda table, where: table.plan(where, order_by="y", limit=9).to_arrow(["y"]),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", OTHER_TYPES)
def test_readers_do_not_lose_rows_with_values_of_another_type(tmp_path: Path, case: str, reader: str) -> None:
    """The other part of each condition is false for such a row, so a reader need not look at its value."""
    first, other, value = OTHER_TYPES[case]
    for number, (kind, xs, ys) in enumerate([(first, [1, None], [1, 1]), (other, [value, 3, None], [2, 7, 2])]):
        columns = {
            "x": pa.array(xs, kind),
            "y": ys,
            "l": [[y] for y in ys],
            "m": pa.array([[("a", x)] for x in xs], pa.map_(pa.string(), kind)),
            "v": pa.array([[x] for x in xs], pa.list_(kind)),
        }
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    for form in FORMS:
        with pytest.raises(ps.UnsupportedError, match=r"1\.parquet, column .: a file holds "):
            READERS[reader](table, form.format(value))
    if reader in ("to_arrow", "to_batches", "order_by") and case != "floats":
        # These conditions are false for the value, so a reader of pages need not convert it.
        assert READERS[reader](table, f"y = 7 AND x <> {value}")["y"].to_pylist() == [7]
        assert READERS[reader](table, f"y = 7 AND x NOT IN ({value}, 9)")["y"].to_pylist() == [7]
    # The kept files have the table's type.
    assert READERS[reader](table, f"x = {value} AND y = 1 OR y = 1 AND x = 1").shape == (1, 1)


def test_a_column_whose_name_differs_in_case_is_not_skipped(tmp_path: Path) -> None:
    """Some engines take `X` for `x`, so a reader must not skip its values."""
    pq.write_table(pa.table({"x": pa.array([1], pa.int32()), "y": [1]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"X": pa.array([2**40], pa.int64()), "y": [2]}), tmp_path / "1.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    for where in ("x = 5 OR y = 1", f"x = {2**40} OR y = 1"):
        with pytest.raises(ps.UnsupportedError, match="engines disagree"):
            table.plan(where).to_arrow(["y"])


def test_lazy_readers_do_not_lose_rows_of_a_wider_file_that_replaces_another(tmp_path: Path) -> None:
    """The first part of the condition is true for the new values, which the table's type cannot represent."""
    for name in ("0", "1"):
        pq.write_table(pa.table({"x": pa.array([1] * 8, pa.int32()), "y": [1] * 8}), tmp_path / f"{name}.parquet")
    wait_until_old(tmp_path)
    plan = ps.open_table(tmp_path).plan(f"x = {2**40} OR y >= 1")
    dataset = plan.to_dataset()
    frame = plan.to_polars().select("y")
    pq.write_table(pa.table({"x": pa.array([2**40] * 8, pa.int64()), "y": [0] * 8}), tmp_path / "1.parquet")
    reads: list[Callable[[], Any]] = [
        dataset.count_rows,
        lambda: dataset.to_table(columns=["y"]),
        lambda: dataset.head(20, columns=["y"]),
        lambda: pickle.loads(pickle.dumps(dataset)).to_table(columns=["y"]),
        lambda: dataset.filter(pc.field("y") < 9).count_rows(),
    ]
    for read in reads:
        with pytest.raises((ps.UnsupportedError, ps.ConflictError), match=r"1\.parquet"):
            read()
    with pytest.raises(Exception, match=r"1\.parquet"):
        frame.collect()

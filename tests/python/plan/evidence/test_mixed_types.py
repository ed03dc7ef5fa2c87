"""Files with a wider type than the table's, which comes from the first file: plans do not skip their values."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old

import parsieve as ps

INT, MILLIS = pa.array([1, None], pa.int32()), pa.array([1], pa.timestamp("ms"))
CASES: dict[str, tuple[pa.Array, pa.Array, Any]] = {
    "a larger number": (INT, pa.array([2**40], pa.int64()), f"x = {2**40}"),
    "beyond all numbers": (INT, pa.array([2**40], pa.int64()), f"x > {2**33}"),
    "below all numbers": (INT, pa.array([-(2**40)], pa.int64()), [("x", "<", -(2**33))]),
    "among others": (INT, pa.array([2**40], pa.int64()), f"x IN (1, {2**40})"),
    "among others of Arrow": (INT, pa.array([2**40], pa.int64()), pc.field("x").isin(pa.array([1, 2**40]))),
    "a negative number": (pa.array([1], pa.uint32()), pa.array([-1], pa.int32()), "x = -1"),
    "a fraction": (INT, pa.array([1.5]), "x = 1.5"),
    "a fraction in as many bits": (pa.array([1, None], pa.int64()), pa.array([1.5]), "x = 1.5"),
    "a double": (pa.array([0.5], pa.float32()), pa.array([0.1]), "x = 0.1"),
    "a finer moment": (MILLIS, pa.array([1500], pa.timestamp("us")), "x = '1970-01-01 00:00:00.0015'"),
    "a moment between whole ones": (
        MILLIS,
        pa.array([1000, 1500, 2000], pa.timestamp("us")),
        "x = '1970-01-01 00:00:00.0015'",
    ),
    "more digits": (pa.array([Decimal("1.5")]), pa.array([Decimal("1.25")]), "x = 1.25"),
    "fewer bytes": (pa.array([b"abc"], pa.binary(3)), pa.array([b"ab"], pa.binary(2)), "x = X'6162'"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_with_a_wider_type_is_kept_for_values_outside_the_tables_type(tmp_path: Path, case: str) -> None:
    first, wider, where = CASES[case]
    folder, same_type = tmp_path / "more", tmp_path / "like"
    for folder_of_case, arrays in ((folder, [first, wider]), (same_type, [first, first])):
        folder_of_case.mkdir()
        for number, array in enumerate(arrays):
            # The file's Bloom filter excludes the remaining values of the predicate.
            pq.write_table(
                pa.table({"x": array}), folder_of_case / f"{number}.parquet", bloom_filter_options={"x": True}
            )
    wait_until_old(tmp_path)
    for kind in (None, "sieve", "bloom"):
        more, same = (ps.open_table(str(path)) for path in (folder, same_type))
        if kind is not None:
            more.build_index("x", kind=kind, progress=False)
            same.build_index("x", kind=kind, progress=False)
        for row_groups in (None, True, False):
            plan = more.plan(where, row_groups=row_groups)
            assert str(folder / "1.parquet") in plan.files, plan.explain()
        plan = more.plan(where)
        assert [keep for keep in plan.kept if keep.path == str(folder / "1.parquet") and keep.doubt], plan.explain()
        with duckdb.connect() as con:
            for read in (plan.to_arrow, plan.to_polars, partial(plan.to_duckdb, con)):
                with pytest.raises(ps.UnsupportedError, match="a file holds"):
                    read()
        # If all files have the table's type, no file contains such a value.
        assert same.plan(where).files == (
            [] if "among" not in case else [str(same_type / f"{n}.parquet") for n in (0, 1)]
        )


@pytest.mark.parametrize(
    ("kind", "wide_kind", "value"),
    [
        (pa.int32(), pa.int64(), 2**40),
        (pa.int32(), pa.float64(), 1.5),
        (pa.float32(), pa.float64(), 0.1),
        (pa.decimal128(18, 2), pa.decimal128(18, 4), Decimal("1.2345")),
        (pa.timestamp("ms"), pa.timestamp("us"), datetime(2026, 1, 1, microsecond=5)),
    ],
)
def test_tables_of_engines_do_not_skip_a_file_with_a_wider_type(
    tmp_path: Path, kind: pa.DataType, wide_kind: pa.DataType, value: Any
) -> None:
    pq.write_table(pa.table({"x": pa.array([None], kind)}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"x": pa.array([value], wide_kind)}), tmp_path / "1.parquet")
    table, x, is_x = ps.open_table(str(tmp_path)), pc.field("x"), pl.col("x")
    literal = pa.scalar(value, wide_kind)
    for condition in (x == literal, ~(x != literal), (x == literal) & (x == x)):
        for read in (table.dataset().to_table, table.dataset().count_rows):
            with pytest.raises(ps.UnsupportedError, match="a file holds"):
                read(filter=condition)
    for selected in (is_x == value, ~(is_x != value), (is_x == value) & (is_x == is_x)):
        with pytest.raises(ps.UnsupportedError, match="a file holds"):
            ps.scan_polars(table).filter(selected).collect()


def test_bounds_of_a_wider_type_are_not_rounded(tmp_path: Path) -> None:
    # The nearest float32 of the second file's value is 1, which is less than the literal.
    for number, array in enumerate([pa.array([0.5], pa.float32()), pa.array([1.00000002])]):
        pq.write_table(pa.table({"x": array}), tmp_path / f"{number}.parquet")
    plan = ps.open_table(str(tmp_path)).plan("x BETWEEN 1.00000001 AND 2")
    assert plan.files == [str(tmp_path / "1.parquet")]


def test_an_index_from_before_a_change_of_the_type_keeps_the_file(tmp_path: Path) -> None:
    """The index covers a file that was indexed with the wider type, but not with the narrow type."""

    def write(name: str, value: int, data_type: pa.DataType) -> None:
        pq.write_table(pa.table({"x": pa.array([value], data_type)}), tmp_path / f"{name}.parquet")

    for name in ("0", "1"):
        write(name, 7, pa.int32())
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.build_index("x", kind="both", progress=False)
    for data_type in (pa.int64(), pa.int32()):
        write("0", 7, data_type)
        if data_type == pa.int64():
            write("1", 2**40, data_type)
        wait_until_old(tmp_path)
        for updated in (False, True):
            if updated:
                table.update_index(progress=False)
            for row_groups in (None, True, False):
                plan = table.plan(f"x = {2**40}", row_groups=row_groups)
                assert str(tmp_path / "1.parquet") in plan.files, plan.explain()
    # The file cannot be read with the narrow type, so `verify_index` cannot report more.
    assert not any(problem.loses_rows for problem in table.verify_index())


def test_keys_outside_the_tables_type_keep_the_wider_file(tmp_path: Path) -> None:
    for number, array in enumerate([INT, pa.array([2**40], pa.int64())]):
        pq.write_table(pa.table({"x": array}), tmp_path / f"{number}.parquet", bloom_filter_options={"x": True})
    table = ps.open_table(str(tmp_path))
    assert len(table.plan(keys={"x": pa.array([5, 2**40])}).files) == 1
    assert len(table.plan(keys={"x": pa.array([1, 2**40])}).files) == 2
    assert len(table.plan(keys={"x": pa.array([1, 2])}).files) == 1

"""Wrong statistics, as some versions of writers compute them: plans keep each of these files."""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from support import footer_edit as footer

import parsieve as ps


def write(folder: Path, column: Any, **options: Any) -> str:
    path = str(folder / "part-0.parquet")
    pq.write_table(pa.table({"x": column}), path, **options)
    return path


def keeps(path: str, where: Any) -> bool:
    """Return whether a plan keeps the only file."""
    return ps.open_table(path).plan(where).files == [path]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("parquet-cpp version 1.3.1", "parquet-cpp version 1.5.1-SNAPSHOT"),
        ("impala version 2.11.0-cdh5.14.0 (build d6826)", "impala version 3.0.0 (build 1)"),
        ("github.com/parquet-go/parquet-go version 0.27.0(build )", "parquet-go version 18.1.0"),
        ("github.com/segmentio/parquet-go version 0.0.0(build )", "parquet-cpp-arrow version 21.0.0"),
        ("Polars (python) version 2.0.0 (build 22a1)", "Polars (python) version 2.1.0 (build 7f90)"),
        ("parquet-cpp", "github.com/parquet-go/parquet-go version 0.28.0(build )"),
    ],
)
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_values_that_a_writer_lost_next_to_nan_are_found(
    tmp_path: Path, wrong: str, right: str, kind: pa.DataType
) -> None:
    # parquet-go 0.27 writes these bounds if a page begins with the NaN: it compares the NaN with the bounds so far.
    path = write(tmp_path, pa.array([1.0, 8.0, math.nan, 100.0, 2.0], kind))
    pack = struct.Struct("<f" if kind == pa.float32() else "<d").pack
    footer.set_bounds(path, pack(1.0), pack(8.0))
    footer.set_writer(path, wrong)
    for where in ("x = 100", "x > 50 AND x < 200", "x IN (100, 300)"):
        plan = ps.open_table(path).plan(where)
        assert plan.files == [path]
        assert (
            plan.to_arrow().num_rows == plan.to_dataset().to_table().num_rows == plan.to_polars().collect().height == 1
        )
        assert plan.to_duckdb().fetchall() == [(100.0,)]
    assert ps.open_table(path).plan().to_polars().filter(pl.col("x") == 100).collect().height == 1
    footer.set_bounds(path, pack(1.0), pack(100.0))
    footer.set_writer(path, right)
    assert not keeps(path, "x = 200")


def test_old_statistics_of_floats_are_ignored(tmp_path: Path) -> None:
    # parquet-java before 1.10 lost the other values of a page that began with NaN.
    path = write(tmp_path, pa.array([1.0, 8.0, math.nan, 100.0]))
    old = {"OLD_MIN": (footer.BINARY, struct.pack("<d", 1)), "OLD_MAX": (footer.BINARY, struct.pack("<d", 8))}
    footer.set_bounds(path, None, None, **old)
    footer.set_writer(path, "parquet-mr version 1.8.0 (build x)")
    assert keeps(path, "x = 100")


@pytest.mark.parametrize("writer", ["parquet-cpp version 1.5.1-SNAPSHOT", "parquet-cpp-arrow version 3.0.0", "Polars"])
def test_decimals_that_were_compared_by_their_bytes_are_found(tmp_path: Path, writer: str) -> None:
    # Before version 4, 0x0080 was less than 0x0001 to Arrow C++. Polars 1 compared the bytes as unsigned.
    values = [Decimal(1), Decimal(128), Decimal(272)]
    path = write(tmp_path, pa.array(values, pa.decimal128(25, 0)))
    lower, upper = (int(value).to_bytes(11, "big") for value in (128, 272))
    footer.set_bounds(path, lower, upper)
    footer.set_writer(path, writer)
    assert keeps(path, "x = 1")
    assert ps.open_table(path).plan("x = 1").to_arrow()["x"].to_pylist() == [Decimal(1)]
    footer.set_writer(path, "parquet-cpp-arrow version 4.0.0")
    assert not keeps(path, "x = 500")


# Polars 1 counts nulls once for each page. Arrow C++ did not count nulls in dictionaries, and parquet-java not in pages
# without values.
@pytest.mark.parametrize(
    ("wrong", "right", "nulls", "where"),
    [
        ("Polars", "Polars (python) version 2.1.0 (build 7f90)", 2, "x = 'b'"),
        ("Polars", "Polars (python) version 2.1.0 (build 7f90)", 2, "x IS NOT NULL"),
        ("parquet-cpp version 1.5.1-SNAPSHOT", "parquet-cpp-arrow version 6.0.0", 0, "x IS NULL"),
        ("parquet-cpp-arrow version 5.0.0", "parquet-cpp-arrow version 21.0.0", 0, "x IS NULL"),
        ("parquet-mr version 1.5.0", "parquet-mr version 1.10.0 (build x)", 0, "x IS NULL"),
    ],
)
def test_rows_of_files_with_miscounted_nulls_are_found(
    tmp_path: Path, wrong: str, right: str, nulls: int, where: str
) -> None:
    path = write(tmp_path, pa.array([None, "b"]))
    # Without bounds, nothing contradicts the number of nulls.
    for bound in (None, b"b"):
        footer.set_bounds(path, bound, bound, NULL_COUNT=(footer.I64, nulls))
        footer.set_writer(path, wrong)
        plan = ps.open_table(path).plan(where)
        assert plan.files == [path]
        dataset = plan.to_dataset()
        assert plan.to_arrow().num_rows == dataset.to_table().num_rows == dataset.count_rows() == 1
        assert plan.to_polars().collect().height == len(plan.to_duckdb().fetchall()) == 1
        whole = ps.open_table(path).plan().to_dataset()
        condition = pads.field("x").is_null() if nulls == 0 else pads.field("x") == "b"
        assert whole.count_rows(filter=condition) == whole.to_table(filter=condition).num_rows == 1
    footer.set_bounds(path, None, None, NULL_COUNT=(footer.I64, nulls))
    footer.set_writer(path, right)
    assert not keeps(path, where)


@pytest.mark.parametrize("writer", ["Polars", "github.com/parquet-go/parquet-go version 0.27.0(build )"])
def test_filters_of_duckdb_find_rows_of_files_with_wrong_statistics(tmp_path: Path, writer: str) -> None:
    # DuckDB itself reads the files of Delta tables, which are never replaced.
    deltalake = pytest.importorskip("deltalake")
    values: list[Any] = [None, "b"] if writer == "Polars" else [1.0, math.nan, 100.0]
    where = "x = 'b'" if writer == "Polars" else "x = 100"
    deltalake.write_deltalake(tmp_path, pa.table({"x": values}))
    (path,) = map(str, tmp_path.glob("*.parquet"))
    if writer == "Polars":
        footer.set_bounds(path, None, None, NULL_COUNT=(footer.I64, 2))
    else:
        footer.set_bounds(path, struct.pack("<d", 1), struct.pack("<d", 1))
    footer.set_writer(path, writer)
    (log,) = (tmp_path / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"] |= {"size": Path(path).stat().st_size, "stats": None}
    log.write_text("\n".join(map(json.dumps, actions)))
    relation = ps.open_table(tmp_path).plan().to_duckdb()
    assert relation.filter(where).fetchall() == [(values[-1],)]


def test_bounds_contradict_a_chunk_of_nulls(tmp_path: Path) -> None:
    path = write(tmp_path, pa.array([None, "b"]))
    footer.set_bounds(path, b"b", b"b", NULL_COUNT=(footer.I64, 2))
    assert keeps(path, "x = 'b'")
    assert keeps(path, "x IS NOT NULL")
    assert not keeps(path, "x = 'c'")


def test_polars_skips_row_groups_by_right_statistics(tmp_path: Path) -> None:
    path = write(tmp_path, pa.array(range(8)), row_group_size=4, use_dictionary=False, compression="none")
    second = pq.read_metadata(path).row_group(1).column(0)
    with Path(path).open("r+b") as file:
        file.seek(second.data_page_offset)
        file.write(b"\xff" * second.total_compressed_size)
    # Polars could not decode the second row group.
    frame = ps.open_table(path).plan().to_polars()
    assert frame.filter(pl.col("x") == 1).collect()["x"].to_list() == [1]
    footer.set_writer(path, "Polars")
    with pytest.raises(pl.exceptions.PolarsError):
        ps.open_table(path).plan().to_polars().filter(pl.col("x") == 1).collect()

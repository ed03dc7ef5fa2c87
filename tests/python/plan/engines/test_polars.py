"""Polars pushes columns, predicates and slices down into the frame of a plan, over many windows of files."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import parsieve as ps

FILES = 70
QUERIES: dict[str, Callable[[pl.LazyFrame], pl.LazyFrame]] = {
    "all": lambda frame: frame,
    "column": lambda frame: frame.select("b"),
    "length": lambda frame: frame.select(pl.len()),
    "filtered": lambda frame: frame.filter(pl.col("a") % 7 == 3).select("b"),
    "head": lambda frame: frame.head(75),
    "none": lambda frame: frame.head(0),
    "head_then_filter": lambda frame: frame.head(75).filter(pl.col("a") % 7 == 3).select("b"),
    "filter_then_head": lambda frame: frame.filter(pl.col("a") % 7 == 3).head(5),
    "slice": lambda frame: frame.slice(60, 20),
    "tail": lambda frame: frame.tail(5),
    "group": lambda frame: frame.group_by(pl.col("a") % 5).agg(pl.col("b").max()).sort("a"),
    "join": lambda frame: frame.join(frame.select("a"), on="a").sort("a"),
}


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("keeps_files_open", [True, False])
@pytest.mark.parametrize("where", [None, "a >= 20"])
def test_pushed_down_queries_return_the_same_rows(
    tmp_path: Path, where: str | None, keeps_files_open: bool, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not keeps_files_open:
        monkeypatch.setattr("parsieve.lake.rows.checked_files.HELD_BYTES", 0)
    for part in range(FILES):
        pq.write_table(
            pa.table({"a": [2 * part, 2 * part + 1], "b": [f"{part}", None]}), tmp_path / f"{part:02}.parquet"
        )
    plan = ps.open_table(tmp_path).plan(where, row_groups=False)
    frame = plan.to_polars()
    assert "PYTHON" in frame.explain()
    all_rows = pl.DataFrame(pl.from_arrow(plan.to_arrow())).lazy()
    for name, query in QUERIES.items():
        actual, expected = query(frame).collect(engine=engine), query(all_rows).collect()  # type: ignore[call-overload]
        assert actual.equals(expected), name


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_pushed_down_queries_on_a_few_rows_return_the_same_rows(tmp_path: Path, engine: Any) -> None:
    for part in range(8):
        keys = range(100 * part, 100 * part + 100)
        pq.write_table(pa.table({"a": keys, "b": [f"{key}" for key in keys]}), tmp_path / f"{part}.parquet")
    plan = ps.open_table(tmp_path).plan("a < 100")
    assert "also for Polars" in plan.explain()
    frame, all_rows = plan.to_polars(), pl.DataFrame(pl.from_arrow(plan.to_arrow())).lazy()
    for name, query in QUERIES.items():
        assert query(frame).collect(engine=engine).equals(query(all_rows).collect()), name


def test_query_plans_of_polars_name_parsieve(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "a.parquet")
    explained = ps.open_table(tmp_path).plan("a > 0").to_polars().explain()
    # Polars 1 does not show names.
    assert ("[parsieve]" in explained) == (not pl.__version__.startswith("1."))


def test_polars_uses_its_own_order_of_nan(tmp_path: Path) -> None:
    pq.write_table(pa.table({"i": [1, 2], "f": [1.5, math.nan]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"i": [3, 4], "f": pa.array([math.nan, -1], pa.float32())}), tmp_path / "b.parquet")
    frame = ps.open_table(tmp_path).plan("i > 0").to_polars()
    for _ in range(2):
        # In Polars, NaN is greater than all numbers and equal to itself.
        assert frame.filter(pl.col("f") > 0).collect()["i"].to_list() == [1, 2, 3]
        assert frame.filter(pl.col("f").is_in([math.nan])).select("i").collect()["i"].to_list() == [2, 3]
    assert frame.filter(pl.col("f") > 0).head(2).select("i").collect()["i"].to_list() == [1, 2]
    assert frame.head(3).filter(pl.col("f") > 1.5).collect()["i"].to_list() == [2, 3]
    assert frame.select(pl.len()).collect().item() == 4


def test_a_dataset_without_rows_can_be_pickled(tmp_path: Path) -> None:
    pq.write_table(pa.table({"i": [1, 2]}), tmp_path / "a.parquet")
    dataset = ps.open_table(tmp_path).plan("i = 9").to_dataset()
    copied = pickle.loads(pickle.dumps(dataset.filter(pads.field("i") > 1)))
    assert (dataset.count_rows(), dataset.head(1).num_rows, copied.to_table().num_rows) == (0, 0, 0)
    assert copied.schema == dataset.schema == pa.schema({"i": pa.int64()})


@pytest.mark.parametrize("where", ["f < 3", "f = 1.5", "f <= 1.5 AND i > 0", "f IN (1.5, 7)"])
def test_count_rows_does_not_count_nan_by_statistics(tmp_path: Path, where: str) -> None:
    pq.write_table(pa.table({"i": [1, 2, 3], "f": [1.5, math.nan, 1.5]}), tmp_path / "a.parquet")
    plan = ps.open_table(tmp_path).plan(where)
    assert plan.to_arrow()["i"].to_pylist() == [1, 3]
    assert plan.to_dataset().count_rows() == 2
    assert plan.to_dataset().count_rows(filter=pads.field("i") > 1) == 1


def test_rows_by_a_prefix_that_is_not_utf8_can_be_counted(tmp_path: Path) -> None:
    pq.write_table(pa.table({"b": [b"a", b"\xff\xfe", b"\xffb"]}), tmp_path / "a.parquet")
    table, condition = ps.open_table(tmp_path), pc.starts_with(pads.field("b"), b"\xff")
    assert table.plan(condition).to_dataset().count_rows() == 2
    assert table.plan().to_dataset().count_rows(filter=condition) == 2
    assert table.dataset().count_rows(filter=condition) == 2


def test_rows_by_pages_have_only_the_columns_that_polars_needs(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": range(100), "damaged": range(100)}), path, row_group_size=10)
    data = bytearray(path.read_bytes())
    for group in range(10):
        column = pq.read_metadata(path).row_group(group).column(1)
        start = column.dictionary_page_offset
        data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)
    frame = ps.open_table(tmp_path).plan("k < 15", row_groups=True).to_polars()
    assert frame.select("k").collect()["k"].to_list() == list(range(15))
    assert frame.filter(pl.col("k") > 12).select("k").collect()["k"].to_list() == [13, 14]
    with pytest.raises((OSError, pl.exceptions.PolarsError), match="page header"):
        frame.collect()


MAPPING = """
import resource, sys
import parsieve as ps
resource.setrlimit(resource.RLIMIT_AS, (256 << 30, 256 << 30))
plan = ps.open_table(sys.argv[1]).plan("k = 5", row_groups=False)
print(plan.to_polars().collect()["k"].to_list())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs sparse files and a limit of the address space")
def test_polars_does_not_map_files_into_memory(tmp_path: Path) -> None:
    """The operating system kills a process that reads a mapped file after another process has truncated it."""
    path = tmp_path / "t" / "a.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"k": [5, 6]}), path)
    data = path.read_bytes()
    footer = int.from_bytes(data[-8:-4], "little") + 8
    with path.open("r+b") as file:
        # The file has a hole of a tebibyte, so it does not fit into the address space.
        file.truncate(len(data) - footer)
        file.seek((1 << 40) - footer)
        file.write(data[-footer:])
    command = [sys.executable, "-c", MAPPING, str(path.parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert (done.stdout, done.returncode) == ("[5]\n", 0), done.stderr


@pytest.mark.parametrize(("zone", "is_supported"), [("-03:00", True), ("+14:00", True), ("+05:30", False)])
def test_polars_does_not_have_every_offset(tmp_path: Path, zone: str, is_supported: bool) -> None:
    nested = pa.array([{"at": 0}], pa.struct({"at": pa.timestamp("us", zone)}))
    pq.write_table(pa.table({"id": [1], "nested": nested}), tmp_path / "a.parquet")
    table = ps.open_table(tmp_path)
    reads: list[Callable[[], Any]] = [lambda: table.plan("id = 1").to_polars(), lambda: ps.scan_polars(table)]
    for read in reads:
        if is_supported:
            assert read().collect()["id"].to_list() == [1]
        else:
            with pytest.raises(ps.UnsupportedError, match=r"no time zone \+05:30, the one of column nested"):
                read()
    assert table.plan("id = 1").to_arrow()["id"].to_pylist() == [1]


def test_polars_does_not_have_every_nested_decimal(tmp_path: Path) -> None:
    nested = pa.array([{"x": Decimal(10**40)}], pa.struct({"x": pa.decimal256(50, 0)}))
    pq.write_table(pa.table({"id": [1], "nested": nested}), tmp_path / "a.parquet")
    with pytest.raises(ps.UnsupportedError, match="Polars has no decimals of more than 38 digits"):
        ps.open_table(tmp_path).plan("id = 1").to_polars()


@pytest.mark.parametrize(
    "condition",
    [
        pl.col("big") < pl.lit(127, dtype=pl.UInt8),
        ~pl.col("text").is_in([]),
        pl.lit(None, dtype=pl.Boolean),
        pl.col("part") == 1,
        pl.col("text").str.starts_with("a") & (pl.col("big") % 2 == 1),
        # In Polars, NaN is the greatest number. Statistics in the files do not contain it.
        pl.col("real") > 1,
        ~(pl.col("real") <= 1),
        pl.col("real") == math.nan,
        pl.col("real") == 0,
    ],
    ids=str,
)
def test_filters_mean_the_same_for_partitioned_tables(tmp_path: Path, condition: pl.Expr) -> None:
    """Polars does not read these files itself, because the column `part` is in their paths only."""
    for part in (1, 2):
        (tmp_path / f"part={part}").mkdir()
        rows = {"big": pa.array([part, 2**64 - part], pa.uint64()), "text": ["abc"[part], None]}
        rows["real"] = [math.nan, -0.0]
        pq.write_table(pa.table(rows), tmp_path / f"part={part}" / "a.parquet")
    plan = ps.open_table(tmp_path).plan()
    expected = pl.DataFrame(pl.from_arrow(plan.to_arrow())).filter(condition)
    assert plan.to_polars().filter(condition).collect().equals(expected)

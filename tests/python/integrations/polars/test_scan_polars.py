"""`scan_polars` plans each query on the table's current state, and reads only what may match."""

from __future__ import annotations

import io
import logging
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from support.rows import lakes

import parsieve as ps

FILES = 12
# Polars 1 wraps the errors of a source.
ERRORS = (ps.ConflictError, pl.exceptions.ComputeError)


def _write(folder: Path, number: int) -> None:
    rows = range(number * 10, number * 10 + 10)
    table = pa.table({"id": rows, "name": [f"n{row}" for row in rows], "group": [row % 3 for row in rows]})
    pq.write_table(table, folder / f"{number:02}.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    path.mkdir()
    for number in range(FILES):
        _write(path, number)
    return path


def _kept(caplog: pytest.LogCaptureFixture) -> list[int]:
    """Return the number of files that each plan kept."""
    plans = [record for record in caplog.records if record.name == "parsieve.plan" and "kept" in record.msg]
    return [record.args[0] for record in plans if isinstance(record.args, tuple)]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (pl.col("id") == 42, [1]),
        ((pl.col("id") > 95) & pl.col("name").str.contains("9"), [3]),
        (pl.col("id").is_in([5, 17]) | (pl.col("id") == 119), [3]),
        (~(pl.col("id") < 100), [2]),
        (pl.col("id") % 2 == 1, [FILES]),
        (pl.col("id") == -1, [0]),
    ],
)
def test_a_filter_skips_files(
    folder: Path, condition: pl.Expr, kept: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "parsieve.plan")
    actual = ps.scan_polars(folder).filter(condition).collect()
    assert _kept(caplog) == kept
    assert actual.equals(pl.read_parquet(folder / "*.parquet").filter(condition))


def test_filters_after_other_steps_skip_files(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "parsieve.plan")
    frame = ps.scan_polars(folder)
    wanted = pl.LazyFrame({"group": [0, 1, 2], "label": ["a", "b", "c"]})
    query = frame.with_columns(double=pl.col("id") * 2).join(wanted, on="group").filter(pl.col("id") == 42)
    assert query.select("double", "label").collect().rows() == [(84, "a")]
    query = pl.concat([frame, frame]).select("id", "name").filter(pl.col("name") == "n7").group_by("id").len()
    assert query.collect().rows() == [(7, 2)]
    assert _kept(caplog) == [1, 1, 1]


def test_limits_and_offsets(folder: Path) -> None:
    frame = ps.scan_polars(folder)
    assert frame.head(5).collect()["id"].to_list() == [0, 1, 2, 3, 4]
    assert frame.slice(8, 4).select("name").collect()["name"].to_list() == ["n8", "n9", "n10", "n11"]
    assert frame.tail(2).collect()["id"].to_list() == [118, 119]
    assert frame.head(0).collect().schema == frame.collect_schema()


def test_each_query_sees_new_files(folder: Path) -> None:
    frame, pinned = ps.scan_polars(folder), ps.scan_polars(folder, pin=True)
    assert frame.select(pl.len()).collect().item() == 120
    _write(folder, FILES)
    assert frame.filter(pl.col("id") >= 115).collect().height == 15
    assert pinned.filter(pl.col("id") >= 115).collect().height == 5
    assert pinned.join(pinned.select("id"), on="id").collect().height == 120


def test_as_of_reads_an_earlier_version(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(str(tmp_path), pa.table({"id": [number]}), mode="append")
    frame = ps.scan_polars(ps.open_table(tmp_path), as_of=1)
    assert sorted(frame.collect()["id"]) == [0, 1]
    assert frame.filter(pl.col("id") == 2).collect().height == 0


def test_a_column_that_changes_its_type_is_an_error(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"id": [1], "name": ["a"], "size": [1]}))
    frame = ps.scan_polars(tmp_path)
    changed = pa.table({"id": [1, 2], "name": [5, 6], "more": [1, 1]})
    write_deltalake(str(tmp_path), changed, mode="overwrite", schema_mode="overwrite")
    assert frame.select("id").filter(pl.col("id") == 2).collect().rows() == [(2,)]
    with pytest.raises(ERRORS, match=r"column name of .* is now of type int64: .* open it again"):
        frame.select("name").collect()
    with pytest.raises(ERRORS, match=r"column size of .* no longer exists"):
        frame.filter(pl.col("size") == 1).select("id").collect()


def test_a_sort_with_a_limit(folder: Path) -> None:
    """Some versions of Polars send a condition that changes while the query runs."""
    frame = ps.scan_polars(folder)
    for engine in ("in-memory", "streaming"):
        top = frame.filter(pl.col("group") == 1).sort("id", descending=True).head(3)
        assert top.collect(engine=engine)["id"].to_list() == [118, 115, 112]
        assert frame.sort("id").head(2).collect(engine=engine)["id"].to_list() == [0, 1]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_deleted_rows_and_renamed_columns(tmp_path: Path, format_: str, seed: int) -> None:
    source, _ = lakes.LAKES[format_](tmp_path / "table", random.Random(seed))
    table = ps.open_table(source)
    rows = pl.DataFrame(pl.from_arrow(table.plan().to_arrow()))
    frame = ps.scan_polars(table)
    assert frame.collect().equals(rows)
    middle = rows["uid"].median()
    for condition in (pl.col("uid") > middle, pl.col("uid") == middle, pl.col("part") == 1, pl.col("part").is_null()):
        assert frame.filter(condition).collect().equals(rows.filter(condition))
        assert frame.filter(condition).select(pl.len()).collect().item() == rows.filter(condition).height


def test_a_frame_can_be_serialized(folder: Path) -> None:
    frame = ps.scan_polars(folder).filter(pl.col("id") == 42)
    copied = pl.LazyFrame.deserialize(io.BytesIO(frame.serialize()))
    assert copied.collect().rows() == [(42, "n42", 0)]
    assert pickle.loads(pickle.dumps(frame)).collect().rows() == [(42, "n42", 0)]


def test_an_enum_has_the_order_of_its_categories(tmp_path: Path) -> None:
    sizes = ["small", "medium", "large"]
    for number, name in enumerate(sizes):
        pq.write_table(pa.table({"size": [name]}), tmp_path / f"{number}.parquet")
    medium, large = (pl.lit(name, dtype=pl.Enum(sizes)) for name in sizes[1:])
    size = pl.col("size")
    for condition in (size < large, large > size, size.is_between(medium, large), size == medium, size != large):
        # Older versions of Polars panic if `scan_parquet` compares a column with an Enum.
        expected = pl.read_parquet(tmp_path).filter(condition)
        assert ps.scan_polars(tmp_path).filter(condition).collect().equals(expected)


def test_a_decimal_of_76_digits_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"wide": pa.array([None], pa.decimal256(60, 2))}), tmp_path / "a.parquet")
    with pytest.raises(ps.UnsupportedError, match="column wide"):
        ps.scan_polars(tmp_path)


MANY_SCANS = """
import sys, polars as pl, parsieve as ps
frames = [ps.scan_polars(sys.argv[1]).filter(pl.col("id") % (n + 2) == 0).select("id") for n in range(8)]
joined = frames[0]
for frame in frames[1:]:
    joined = joined.join(frame, on="id")
print(joined.collect(engine=sys.argv[2])["id"].to_list(), pl.thread_pool_size())
"""


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_many_scans_in_one_query_do_not_wait_for_each_other(folder: Path, engine: str) -> None:
    command = [sys.executable, "-c", MANY_SCANS, str(folder), engine]
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment)
    assert done.stdout == "[0] 1\n", done.stderr

"""All engines open the same files of a plan, as counted by the kernel, and return the same rows."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from support.aging import wait_until_old

import parsieve as ps

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify counts opened files")
IN_OPEN, IN_ISDIR = 0x20, 0x40000000
FILES = 12


@contextmanager
def count_opened(folder: Path) -> Iterator[dict[str, int]]:
    """Count how often each file of a folder is opened by any code. The counts are complete after the block."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK)
    assert fd >= 0
    counts: dict[str, int] = {}
    try:
        assert libc.inotify_add_watch(fd, os.fsencode(folder), IN_OPEN) >= 0
        yield counts
        with suppress(BlockingIOError):
            while events := os.read(fd, 1 << 16):
                offset = 0
                while offset < len(events):
                    _, mask, _, length = struct.unpack_from("iIII", events, offset)
                    name = events[offset + 16 : offset + 16 + length].rstrip(b"\0").decode()
                    offset += 16 + length
                    # Ignore folders, which are opened for listings.
                    if not mask & IN_ISDIR:
                        counts[name] = counts.get(name, 0) + 1
    finally:
        os.close(fd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write files with a scattered key: the min/max range of each file covers all keys."""
    for part in range(FILES):
        key = [*range(part, 6_000, FILES), 0, 6_000]
        rows = {"key": pa.array(key, pa.int64()), "row": [part * 10_000 + number for number in range(len(key))]}
        pq.write_table(pa.table(rows), tmp_path / f"part-{part:02}.parquet", row_group_size=100)
    wait_until_old(tmp_path)
    return tmp_path


def by_duckdb(plan: ps.Plan) -> list[int]:
    with duckdb.connect() as con:
        return [row for (row,) in plan.to_duckdb(con).project("row").fetchall()]


ENGINES: dict[str, Callable[[ps.Plan], list[int]]] = {
    "pyarrow": lambda plan: plan.to_arrow(["row"])["row"].to_pylist(),
    "dataset": lambda plan: plan.to_dataset().to_table(columns=["row"])["row"].to_pylist(),
    "polars": lambda plan: plan.to_polars().select("row").collect()["row"].to_list(),
    "duckdb": by_duckdb,
}


@pytest.mark.parametrize("kind", ["sieve", "bloom"])
def test_all_engines_open_only_the_files_of_the_plan(folder: Path, kind: str) -> None:
    ps.open_table(str(folder)).build_index("key", kind=kind)
    table = ps.open_table(str(folder))
    all_rows = pq.read_table(folder)
    for where, keys in {
        "key = 4242": {4242},
        "key IN (17, 18, 6001)": {17, 18},
        "key BETWEEN 100 AND 101": {100, 101},
        "key = 4242 OR key = 4243": {4242, 4243},
        "key = -5": set(),
    }.items():
        expected = sorted(
            row
            for row, key in zip(*(all_rows[name].to_pylist() for name in ("row", "key")), strict=True)
            if key in keys
        )
        plan = table.plan(where)
        planned = {Path(path).name for path in plan.files}
        if kind == "sieve" or "BETWEEN" not in where:
            assert len(planned) <= len(keys) + (kind == "bloom")
        for name, rows in ENGINES.items():
            with count_opened(folder) as counts:
                actual = sorted(rows(plan))
            assert actual == expected, (name, where)
            assert set(counts) == planned, (name, where)
    with count_opened(folder) as counts:
        pq.read_table(folder)
    # Check that the kernel counts: without a plan, all files are opened.
    assert len(counts) == FILES


def test_a_plan_with_an_index_opens_one_file_for_the_schema_only(folder: Path) -> None:
    ps.open_table(str(folder)).build_index("key", kind="sieve")
    table = ps.open_table(str(folder))
    with count_opened(folder) as counts:
        cold = table.plan("key = 4242")
    assert counts == {"part-00.parquet": 1}
    assert cold.requests <= 4
    with count_opened(folder) as counts:
        warm = table.plan("key = 17")
        open_range = table.plan("key > 5999")
    assert counts == {}
    assert warm.requests <= 1
    assert len(open_range.files) == FILES


def test_several_columns_are_indexed_in_one_scan(folder: Path) -> None:
    """A build of two columns opens each file as often as a build of one column."""
    for kind in ("sieve", "bloom"):
        counts_of_builds = []
        for columns in (["key"], ["key", "row"]):
            table = ps.open_table(str(folder))
            _ = table.schema
            with count_opened(folder) as counts:
                table.build_index(columns, kind=kind)
            assert set(counts) == {path.name for path in folder.glob("*.parquet")}
            counts_of_builds.append(counts)
        assert counts_of_builds[0] == counts_of_builds[1]


@pytest.mark.parametrize("kind", ["sieve", "bloom", "both"])
def test_an_update_opens_only_changed_files(folder: Path, kind: str) -> None:
    table = ps.open_table(str(folder))
    table.build_index(["key", "row"], kind=kind)
    for name in ("part-03.parquet", "part-12.parquet"):
        pq.write_table(pa.table({"key": [7_000], "row": [1]}), folder / name)
    (folder / "part-05.parquet").unlink()
    (folder / "part-06.parquet").rename(folder / "part-13.parquet")
    wait_until_old(folder)
    # So many files are replaced that a compaction would pay, and it would open the other files too.
    with count_opened(folder) as counts:
        table.update_index(compact=False)
    assert set(counts) == {"part-03.parquet", "part-12.parquet", "part-13.parquet"}
    with count_opened(folder) as counts:
        table.update_index(compact=False)
    assert counts == {}
    assert table.verify_index() == []
    assert len(table.plan("key = 7000", row_groups=False).files) == 2


@pytest.mark.parametrize("kind", [None, "sieve", "bloom"])
def test_a_plan_by_keys_opens_only_the_files_of_its_keys(folder: Path, kind: str | None) -> None:
    table = ps.open_table(str(folder))
    if kind is not None:
        table.build_index("key", kind=kind)
    # Every twelfth number is in the same file.
    keys = pa.chunked_array([[17, None, 29], [41, 9_999]])
    plan = table.plan("row >= 0", keys={"key": keys}, row_groups=None if kind is None else False)
    expected = [17, 29, 41]
    with count_opened(folder) as counts:
        assert sorted(plan.to_arrow(["key"])["key"].to_pylist()) == expected
    if kind is not None:
        assert set(counts) == {"part-05.parquet"}
    assert sorted(plan.to_polars().collect()["key"].to_list()) == expected
    with duckdb.connect() as con:
        assert sorted(key for (key,) in plan.to_duckdb(con).project("key").fetchall()) == expected
    assert table.plan(keys={"key": pa.array([], pa.int64())}).to_arrow().num_rows == 0
    rows = table.plan(keys={"key": keys}).to_arrow(["row"])["row"].to_pylist()
    both = table.plan(keys={"key": keys, "row": pa.array([rows[0], rows[1], -1])})
    assert sorted(both.to_arrow(["row"])["row"].to_pylist()) == sorted(rows[:2])


def test_a_second_plan_of_a_delta_table_does_not_read_the_log(tmp_path: Path) -> None:
    for part in range(FILES):
        write_deltalake(str(tmp_path), pa.table({"key": [part, 1000 - part]}), mode="append")
    wait_until_old(tmp_path)
    ps.open_table(str(tmp_path)).build_index("key", kind="sieve")
    table = ps.open_table(str(tmp_path))
    log = tmp_path / "_delta_log"
    with count_opened(log) as counts:
        assert len(table.plan("key = 7").files) == 1
    assert len(counts) == FILES
    with count_opened(log) as counts:
        assert len(table.plan("key = 8").files) == 1
    assert counts == {}
    write_deltalake(str(tmp_path), pa.table({"key": [7]}), mode="append")
    assert len(table.plan("key = 7").files) == 2

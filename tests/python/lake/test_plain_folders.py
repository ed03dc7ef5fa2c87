"""Plain folders: their files and rows, and when a token proves that a file is unchanged."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import random
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from support.aging import wait_until_old
from support.models.lake_truth import check_snapshot, check_tokens, rows

import parsieve as ps
from parsieve.lake import Changes, Location, Snapshot, open_lake
from parsieve.lake.storage.listing import TICK_NS


def some_rows(seed: int, count: int) -> pa.Table:
    random_ = random.Random(seed)
    return pa.table(
        {
            "id": pa.array([random_.randrange(-5, 1000) for _ in range(count)], pa.int64()),
            "name": pa.array([random_.choice(["", "a", "ü" * 40, None]) for _ in range(count)]),
            "price": pa.array([random_.choice([0.0, -0.0, float("nan"), 2.5, None]) for _ in range(count)]),
            "paid": pa.array([random_.choice([Decimal("1.20"), None]) for _ in range(count)], pa.decimal128(12, 2)),
            "at": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * count, pa.timestamp("us", "UTC")),
            "point": pa.array(
                [random_.choice([{"x": 1, "y": None}, None, {"x": None, "y": "q"}]) for _ in range(count)]
            ),
            "tags": pa.array([random_.choice([[1, None], [], None]) for _ in range(count)], pa.list_(pa.int64())),
        }
    )


def hive_text(value: Any) -> str:
    return "__HIVE_DEFAULT_PARTITION__" if value is None else str(value)


def test_random_histories_by_three_writers_are_read_correctly(tmp_path: Path) -> None:
    random_ = random.Random(5)
    lake, histories = open_lake(str(tmp_path)), []
    for step in range(12):
        folder = tmp_path / f"year={random_.choice([2024, 2025, None])}".replace("None", hive_text(None))
        folder = folder / f"day={random_.choice(['2026-01-01', '2026-01-02'])}"
        folder.mkdir(parents=True, exist_ok=True)
        files = sorted(tmp_path.rglob("*.parquet"))
        operation = random_.choice(["pyarrow", "duckdb", "polars", "remove", "rewrite"]) if files else "pyarrow"
        table = some_rows(step, random_.randrange(1, 40))
        if operation == "pyarrow":
            pq.write_table(table, folder / f"{step}.parquet", row_group_size=7)
        elif operation == "rewrite":
            pq.write_table(table, random_.choice(files))
        elif operation == "duckdb":
            duckdb.sql("SET TimeZone='UTC'")
            duckdb.from_arrow(table).write_parquet(str(folder / f"{step}.parquet"))
        elif operation == "polars":
            frame: Any = pl.from_arrow(table)
            frame.write_parquet(folder / f"{step}.parquet")
        elif len(files) > 1:
            random_.choice(files).unlink()
        wait_until_old(tmp_path)
        snapshot = lake.snapshot()
        full = pads.dataset(
            tmp_path,
            schema=snapshot.schema,
            partitioning=pads.HivePartitioning(pa.schema([("year", pa.int32()), ("day", pa.date32())])),
        ).to_table()
        assert {data_slice.group for data_slice in snapshot.slices} == {
            str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")
        }
        histories.append((snapshot, check_snapshot(lake, snapshot, full)))
    check_tokens(histories)
    # Tokens of unchanged files stay the same.
    assert lake.snapshot().tokens == histories[-1][0].tokens
    assert all(histories[-1][0].tokens.values())
    for (before, _), (after, live) in itertools.pairwise(histories):
        changes = lake.changes(before, after)
        assert {data_slice.location for data_slice in changes.added} == after.tokens.keys() - before.tokens.keys()
        assert set(changes.removed) == before.tokens.keys() - after.tokens.keys()
        assert {data_slice.location for data_slice in changes.changed} == {
            location
            for location in after.tokens.keys() & before.tokens.keys()
            if after.tokens[location] != before.tokens[location]
        }
        assert live


def test_hidden_and_empty_files_are_ignored(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, 3]})
    for name in ("part.parquet", "000000_0", "_hidden=1/a.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
    pq.write_table(table, tmp_path / "part.parquet")
    pq.write_table(table, tmp_path / "000000_0")
    for name in (
        "_SUCCESS",
        "_metadata",
        ".part.parquet.crc",
        "_parsieve/v1.commit",
        ".tmp/a.parquet",
        "empty.parquet",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"" if name == "empty.parquet" else b"no Parquet")
    assert [data_slice.group for data_slice in open_lake(tmp_path).snapshot().slices] == ["000000_0", "part.parquet"]
    # Spark reads a folder `_name=value` as a partition, although its name begins with an underscore.
    (tmp_path / "_hidden=1").rmdir()
    other = tmp_path / "other"
    (other / "_hidden=1").mkdir(parents=True)
    pq.write_table(table, other / "_hidden=1" / "a.parquet")
    (data_slice,) = open_lake(other).snapshot().slices
    assert data_slice.partition_values == {"_hidden": 1}


def test_nan_rows_survive_pyarrows_statistics(tmp_path: Path) -> None:
    nan = float("nan")
    table = pa.table({"f": [1.0, nan, 1.0, None], "s": [{"x": nan}, {"x": 1.0}, None, None], "i": [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "1.parquet")
    lake = open_lake(tmp_path)
    snapshot = lake.snapshot()
    f, x, literal = pc.field("f"), pc.field("s", "x"), pc.scalar(1.0)
    lost = 0
    for condition in (
        f != literal,
        ~(f == literal),
        ~(f >= literal),
        f.isin([nan]),
        pc.is_nan(f),
        x != literal,
        ~(x <= literal),
        pc.field(0) != literal,
    ):
        expected = table.filter(condition)
        assert lake.read(snapshot, snapshot.slices, ["i"], condition).read_all() == expected.select(["i"])
        dataset = lake.dataset(snapshot, snapshot.slices)
        assert dataset is not None
        assert dataset.to_table(["i"], filter=condition) == expected.select(["i"])
        assert dataset.filter(condition).count_rows() == expected.num_rows
        lost += pads.dataset(tmp_path / "1.parquet").to_table(filter=condition).num_rows < expected.num_rows
    # If this fails, pyarrow keeps NaN rows now and the workaround can be removed.
    assert lost


def test_a_rewrite_within_a_tick_never_counts_as_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rewritten file has the same size, inode and times. Git calls this case "racily clean"."""
    path = tmp_path / "a.parquet"
    lake = open_lake(tmp_path)

    def write_and_look(value: int) -> Snapshot:
        pq.write_table(pa.table({"a": [value]}), path)
        # A fixed clock, so that the snapshot is within the tick on a slow machine too.
        with monkeypatch.context() as clock:
            soon = path.stat().st_ctime_ns + TICK_NS // 2
            clock.setattr("parsieve.lake.storage.listing.time.time_ns", lambda: soon)
            return lake.snapshot()

    first, second = write_and_look(1), write_and_look(2)
    (before,), (after,) = first.slices, second.slices
    assert before.size == after.size
    assert not before.same_rows(after)
    assert before.token == ""
    assert [data_slice.location for data_slice in Changes.between(first.tokens, second).changed] == [after.location]
    wait_until_old(tmp_path)
    third = lake.snapshot().slices[0]
    assert third.token
    assert third.same_rows(lake.snapshot().slices[0])


def test_a_file_with_a_future_time_has_no_token(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    os.utime(path, (0, int(time.time()) + 5000))
    while path.stat().st_ctime_ns > time.time_ns() - TICK_NS:
        time.sleep(0.005)
    # A later write could produce the same time.
    assert open_lake(tmp_path).snapshot().slices[0].token == ""


def test_ctime_reveals_a_rewrite_with_equal_size_and_mtime(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    wait_until_old(tmp_path)
    before, stat = open_lake(tmp_path).snapshot().slices[0], path.stat()
    pq.write_table(pa.table({"a": [2]}), path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    wait_until_old(tmp_path)
    after = open_lake(tmp_path).snapshot().slices[0]
    assert path.stat().st_mtime_ns == stat.st_mtime_ns
    assert before.token
    assert after.token
    assert not before.same_rows(after)


def test_a_change_during_a_read_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    wait_until_old(tmp_path)
    lake = open_lake(tmp_path)
    keys = lake.read_keys(lake.snapshot().slices[0], [("a",)])
    next(keys)
    path.touch()
    with pytest.raises(ps.ConflictError, match="changed while it was read"):
        next(keys)


def test_files_that_are_not_parquet_are_rejected(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    (tmp_path / "2.csv").write_text("a\n1\n")
    lake = open_lake(tmp_path)
    snapshot = lake.snapshot()
    with pytest.raises(ps.FormatError, match=r"2\.csv"):
        list(lake.read_keys(snapshot.slices[1], [("a",)]))
    with pytest.raises(ps.FormatError, match=r"2\.csv"):
        lake.read(snapshot, snapshot.slices).read_all()
    with pytest.raises(ps.UnsupportedError, match="earlier"):
        lake.snapshot(3)
    with pytest.raises(FileNotFoundError):
        open_lake(tmp_path / "none").snapshot()


def test_paths_uris_and_filesystems_return_the_same_rows(tmp_path: Path) -> None:
    import fsspec
    import obstore.store

    for day in (1, 2):
        (tmp_path / "t" / f"d={day}").mkdir(parents=True)
        pq.write_table(some_rows(day, 9), tmp_path / "t" / f"d={day}" / "a.parquet")
        (tmp_path / "t" / "_parsieve").mkdir(exist_ok=True)
        (tmp_path / "t" / "_parsieve" / "x").write_bytes(b"x")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "t"), "/lake/t", recursive=True)
    in_store = obstore.store.MemoryStore()
    for path in (tmp_path / "t").rglob("*.parquet"):
        in_store.put("lake/t/" + str(path.relative_to(tmp_path / "t")), path)
    expected = rows(pads.dataset(tmp_path / "t", partitioning="hive").to_table())
    sources: list[Any] = [
        tmp_path / "t",
        (tmp_path / "t").as_uri(),
        "memory://lake/t",
        "memory://lake/t/",
        (memory, "lake/t"),
        (fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "t"),
        (fs.LocalFileSystem(), str(tmp_path / "t")),
        (obstore.store.LocalStore(str(tmp_path)), "t"),
        (in_store, "lake/t"),
    ]
    for source in sources:
        lake = open_lake(source)
        snapshot = lake.snapshot()
        assert [data_slice.group for data_slice in snapshot.slices] == ["d=1/a.parquet", "d=2/a.parquet"], source
        assert rows(lake.read(snapshot, snapshot.slices).read_all()) == expected
        check_snapshot(lake, snapshot, pads.dataset(tmp_path / "t", partitioning="hive").to_table())
        one_file: Any = source / "d=1" if isinstance(source, Path) else None
        if isinstance(source, tuple):
            one_file = (source[0], source[1] + "/d=1/a.parquet")
        elif isinstance(source, str):
            one_file = source.rstrip("/") + "/d=1/a.parquet"
        assert [data_slice.group for data_slice in open_lake(one_file).snapshot().slices] == ["a.parquet"], source
        with ps.open_filters(lake.open_base(snapshot.slices[0])) as filters:
            assert filters.num_row_groups == 1
        assert lake.row_groups_usable(snapshot.slices[0])
    uri = open_lake("memory://lake/t").snapshot().slices[0].path
    assert uri is not None
    assert pq.read_table(fsspec.open(uri).open()).num_rows == 9
    assert all(data_slice.token for data_slice in open_lake((in_store, "lake/t")).snapshot().slices)


def test_links_to_a_parent_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "b" / "a.parquet")
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "c").symlink_to(tmp_path / "b")
    assert {data_slice.group for data_slice in open_lake(tmp_path).snapshot().slices} == {"b/a.parquet", "c/a.parquet"}


def test_the_format_of_a_folder_is_detected(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / ".hoodie").mkdir()
    with pytest.raises(ValueError, match=r"several formats \(delta, hudi\)"):
        open_lake(tmp_path)
    with pytest.raises(ValueError, match="format must be one of"):
        open_lake(tmp_path, format="orc")
    with pytest.raises(TypeError, match="a table must be"):
        open_lake(3)
    assert Location("a", "b") == Location("a", "b")


def test_unchanged_slices_are_the_same_objects_and_changes_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    paths = [tmp_path / f"day=1/{name}.parquet" for name in "abcd"]
    for path in paths:
        pq.write_table(pa.table({"a": [1]}), path)
    wait_until_old(tmp_path)
    lake = open_lake(tmp_path)
    first = lake.snapshot()
    second = lake.snapshot()
    assert second.slices is first.slices
    assert second.instant > first.instant
    # Change one file in place with the same size and time, delete one, add one, and replace one with a link.
    old = paths[0].stat()
    with paths[0].open("r+b") as file:
        file.write(b"PAR1")
    os.utime(paths[0], ns=(old.st_atime_ns, old.st_mtime_ns))
    paths[1].unlink()
    pq.write_table(pa.table({"a": [2]}), tmp_path / "day=1/e.parquet")
    elsewhere = tmp_path / "_elsewhere"
    pq.write_table(pa.table({"a": [3]}), elsewhere)
    os.utime(elsewhere, ns=(old.st_atime_ns, paths[2].stat().st_mtime_ns))
    paths[2].unlink()
    paths[2].symlink_to(elsewhere)
    wait_until_old(tmp_path)
    later = lake.snapshot()
    changes = Changes.between(first.tokens, later)
    assert [data_slice.group for data_slice in changes.changed] == ["day=1/a.parquet", "day=1/c.parquet"]
    assert [data_slice.group for data_slice in changes.added] == ["day=1/e.parquet"]
    assert [data_slice.group for data_slice in changes.removed] == ["day=1/b.parquet"]
    assert later.slices[2].same_rows(first.slices[3])
    assert later.slices[2].location == first.slices[3].location
    # If the type of the partition column changes, all slices are new.
    (tmp_path / "day=x").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "day=x/a.parquet")
    assert [data_slice.partition_values["day"] for data_slice in lake.snapshot().slices] == ["1", "1", "1", "1", "x"]


def test_files_have_no_token_after_the_clock_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    wait_until_old(tmp_path)
    lake = open_lake(tmp_path)
    assert lake.snapshot().slices[0].token
    past = time.time_ns() - 10**12
    monkeypatch.setattr("parsieve.lake.storage.listing.time.time_ns", lambda: past)
    assert lake.snapshot().slices[0].token == ""

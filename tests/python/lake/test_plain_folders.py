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
from uuid import UUID

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from support.aging import wait_until_old
from support.models.lake_truth import check_snapshot, check_tokens, path_in_base, rows

import parsieve as ps
from parsieve.lake import Changes, Location, Snapshot, open_lake
from parsieve.lake.folder.table import ParquetDir
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


@pytest.mark.parametrize(
    ("texts", "data_type", "values"),
    [
        (["1", "02", "-3"], pa.int32(), [1, 2, -3]),
        (["1", str(2**40)], pa.int64(), [1, 2**40]),
        (["1", str(2**64)], pa.string(), ["1", str(2**64)]),
        ([str(-(2**31)), str(2**31 - 1)], pa.int32(), [-(2**31), 2**31 - 1]),
        ([str(-(2**31) - 1)], pa.int64(), [-(2**31) - 1]),
        ([str(-(2**63)), str(2**63 - 1)], pa.int64(), [-(2**63), 2**63 - 1]),
        ([str(-(2**63) - 1)], pa.string(), [str(-(2**63) - 1)]),
        (["2026-01-31", "__HIVE_DEFAULT_PARTITION__"], pa.date32(), [dt.date(2026, 1, 31), None]),
        (["2026-01-31", "2026-02-30"], pa.string(), ["2026-01-31", "2026-02-30"]),
        (["a%2Fb", "c d", "ü"], pa.string(), ["a/b", "c d", "ü"]),
        (["__HIVE_DEFAULT_PARTITION__"], pa.string(), [None]),
        (["1.5"], pa.string(), ["1.5"]),
    ],
)
def test_types_of_partition_columns_are_inferred(
    tmp_path: Path, texts: list[str], data_type: pa.DataType, values: list[Any]
) -> None:
    for text in texts:
        (tmp_path / f"p={text}").mkdir()
        pq.write_table(pa.table({"a": [1]}), tmp_path / f"p={text}" / "a.parquet")
    lake = open_lake(tmp_path)
    snapshot = lake.snapshot()
    assert snapshot.schema.field("p").type == data_type
    actual = {str(data_slice.partition_values["p"]) for data_slice in snapshot.slices}
    assert actual == {str(value) for value in values}
    table = lake.read(snapshot, snapshot.slices).read_all()
    assert table.schema == snapshot.schema
    assert {str(value) for value in table["p"].to_pylist()} == actual


def test_files_with_different_partition_columns_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "a=1").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a=1" / "a.parquet")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "b.parquet")
    with pytest.raises(ps.UnsupportedError, match="partition columns"):
        open_lake(tmp_path).snapshot()


def test_a_partition_value_overrides_the_column_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a=1").mkdir()
    pq.write_table(pa.table({"a": [7], "x": [1]}), tmp_path / "a=1" / "a.parquet")
    lake = open_lake(tmp_path)
    snapshot = lake.snapshot()
    assert snapshot.schema.names == ["x", "a"]
    assert lake.read(snapshot, snapshot.slices).read_all().to_pylist() == [{"x": 1, "a": 1}]
    assert next(lake.read_keys(snapshot.slices[0], [("a",)])).to_pylist() == [{"a": 1}]


def two_files(folder: Path, first: pa.Table, second: pa.Table) -> tuple[ParquetDir, Snapshot]:
    pq.write_table(first, folder / "1.parquet")
    pq.write_table(second, folder / "2.parquet")
    lake = ParquetDir(folder)
    return lake, lake.snapshot()


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (pa.array([1], pa.int64()), pa.array([2], pa.int32()), 2),
        (pa.array([1], pa.int32()), pa.array([2], pa.int64()), 2),
        (pa.array([1], pa.int32()), pa.array([2**40], pa.int64()), None),
        (pa.array([1.5], pa.float64()), pa.array([2.5], pa.float32()), 2.5),
        (pa.array([1.5], pa.float32()), pa.array([2.5], pa.float64()), None),
        (pa.array([1.5], pa.float64()), pa.array([2**53 + 1], pa.int64()), None),
        (pa.array([Decimal("1.00")]), pa.array([Decimal("2.5")]), Decimal("2.50")),
        (pa.array([Decimal("1.0")]), pa.array([Decimal("2.55")]), None),
        (pa.array(["a"]), pa.array(["b"]).dictionary_encode(), "b"),
        (pa.array(["a"]), pa.array([1]), None),
        (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC")), None),
        (pa.array([1], pa.timestamp("us", "UTC")), pa.array([1], pa.timestamp("us")), None),
        (pa.array([1], pa.uint64()), pa.array([-1], pa.int64()), None),
    ],
)
def test_types_are_widened_exactly_or_rejected(tmp_path: Path, first: Any, second: Any, expected: Any) -> None:
    lake, snapshot = two_files(tmp_path, pa.table({"a": first}), pa.table({"a": second}))
    data_slice = snapshot.slices[1]
    if expected is None:
        with pytest.raises(ps.UnsupportedError, match="column a"):
            list(lake.read_keys(data_slice, [("a",)]))
        with pytest.raises(ps.UnsupportedError, match="column a"):
            lake.read(snapshot, snapshot.slices, filter=pc.field("a") == first[0]).read_all()
        return
    assert next(lake.read_keys(data_slice, [("a",)]))["a"].to_pylist() == [expected]
    rows_read = lake.read(snapshot, snapshot.slices, filter=pc.field("a") == pa.scalar(expected, first.type)).read_all()
    assert rows_read["a"].to_pylist() == [expected]


COLUMNS_OF_EACH_SHAPE = {
    "number": pa.array([1]),
    "struct": pa.array([{"x": 1}]),
    "list": pa.array([[1]]),
    "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(COLUMNS_OF_EACH_SHAPE, 2)))
def test_columns_that_are_nested_in_different_ways_are_rejected(tmp_path: Path, first: str, second: str) -> None:
    tables = [pa.table({"a": COLUMNS_OF_EACH_SHAPE[shape], "b": [1]}) for shape in (first, second)]
    lake, snapshot = two_files(tmp_path, *tables)
    with pytest.raises(ps.UnsupportedError, match=r"2\.parquet, column a: a file holds"):
        lake.read(snapshot, snapshot.slices).read_all()
    assert lake.read(snapshot, snapshot.slices, ["b"]).read_all()["b"].to_pylist() == [1, 1]


def test_uuids_and_their_bytes_are_read_as_each_other(tmp_path: Path) -> None:
    storage = pa.array([UUID(int=7).bytes, None], pa.binary(16))
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), storage)
    for name, first, second in (("a", uuids, storage), ("b", storage, uuids), ("c", storage.cast(pa.binary()), uuids)):
        (tmp_path / name).mkdir()
        lake, snapshot = two_files(tmp_path / name, pa.table({"u": first}), pa.table({"u": second}))
        column = lake.read(snapshot, snapshot.slices).read_all()["u"]
        assert column.type == first.type
        assert column.to_pylist() == first.to_pylist() * 2


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.float64(), pa.string(), pa.timestamp("us", "UTC"), pa.list_(pa.int8())]
)
def test_a_column_of_nulls_is_read_as_any_type(tmp_path: Path, kind: pa.DataType) -> None:
    lake, snapshot = two_files(tmp_path, pa.table({"a": pa.nulls(1, kind)}), pa.table({"a": pa.nulls(2)}))
    rows_read = lake.read(snapshot, snapshot.slices).read_all()
    assert rows_read.schema == pa.schema({"a": kind})
    assert rows_read["a"].null_count == 3


@pytest.mark.parametrize(
    "data_type", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_every_string_type_is_read(tmp_path: Path, data_type: pa.DataType) -> None:
    pq.write_table(pa.table({"a": ["x", None]}), tmp_path / "1.parquet")
    text = pa.array(["x", "y", None] * 9)
    values = text.dictionary_encode() if pa.types.is_dictionary(data_type) else text.cast(data_type)
    pq.write_table(pa.table({"a": values, "b": range(27)}), tmp_path / "2.parquet", row_group_size=5)
    lake = ParquetDir(tmp_path, schema=pa.schema([("a", pa.string()), ("b", pa.int64())]))
    snapshot = lake.snapshot()
    assert (lake.dataset(snapshot, snapshot.slices) is None) == (data_type == pa.string_view())
    for value, count in (("x", 10), ("y", 9), ("z", 0)):
        assert lake.read(snapshot, snapshot.slices, ["b"], pc.field("a") == value).read_all().num_rows == count
    assert lake.read(snapshot, snapshot.slices, []).read_all().num_rows == 29
    assert lake.read(snapshot, snapshot.slices, ["a", "a"]).read_all().num_rows == 29


def test_views_inside_lists_maps_and_structs_are_read(tmp_path: Path) -> None:
    views = pa.string_view()
    values = {
        "id": pa.array([1, 2, 3]),
        "l": pa.array([["a", "b"], None, ["c"]], pa.list_(views)),
        "big": pa.array([["a"], [], ["c", None]], pa.large_list(views)),
        "m": pa.array([[("k", "v")], None, [("k", "w"), ("q", None)]], pa.map_(views, views)),
        "s": pa.array([{"x": ["q"]}, None, {"x": []}], pa.struct({"x": pa.list_(views)})),
    }
    pq.write_table(pa.table(values), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    for condition, places in (
        ("id >= 2", [1, 2]),
        ("list_contains(l, 'c')", [2]),
        ("list_contains(big, 'c')", [2]),
        ("m['k'] = 'v'", [0]),
        ("list_contains(s.x, 'q')", [0]),
    ):
        answer = table.plan(condition).to_arrow()
        expected = [pa.table(values).slice(place, 1).to_pylist()[0] for place in places]
        assert answer.to_pylist() == expected, condition
        assert table.plan(condition).to_polars().collect()["id"].to_list() == answer["id"].to_pylist()


def test_values_of_a_map_are_widened(tmp_path: Path) -> None:
    """A null struct may have a null in a field that is required."""
    for number, kind in enumerate((pa.int64(), pa.int32())):
        fields = [pa.field("a", kind, nullable=False)]
        values = pa.StructArray.from_arrays([pa.array([1, 0], kind)], fields=fields, mask=pa.array([False, True]))
        maps = pa.MapArray.from_arrays(pa.array([0, 2, 2], pa.int32()), pa.array(["x", "y"]), values)
        pq.write_table(pa.table({"id": [number, number], "m": maps}), tmp_path / f"{number}.parquet")
    rows = [{"id": number, "m": entries} for number in range(2) for entries in ([("x", {"a": 1}), ("y", None)], [])]
    table = ps.open_table(tmp_path)
    assert table.plan("id >= 0").to_arrow().to_pylist() == table.plan().to_arrow().to_pylist() == rows
    assert table.plan("id = 1").to_arrow().to_pylist() == rows[2:]


def test_entries_of_maps_keep_their_names(tmp_path: Path) -> None:
    """pyarrow names the entries of a map after the column if the file has no Arrow schema."""
    maps = pa.array([[("a", [1])], None], pa.map_(pa.string(), pa.list_(pa.int64())))
    pq.write_table(pa.table({"m": maps}), tmp_path / "0.parquet", store_schema=False)
    expected = pq.read_schema(tmp_path / "0.parquet")
    assert expected.field("m").type.field(0).name == "m"
    table = ps.open_table(tmp_path)
    for schema in (table.schema, table.plan().to_arrow().schema, table.dataset().schema):
        assert schema.equals(expected, check_metadata=True)


def test_a_partition_column_whose_name_differs_only_in_case_is_rejected(tmp_path: Path) -> None:
    """DuckDB reads the values of the files, and Polars has two columns."""
    (tmp_path / "P=1").mkdir()
    pq.write_table(pa.table({"k": [1], "p": [5]}), tmp_path / "P=1" / "0.parquet")
    with pytest.raises(ps.UnsupportedError, match=r"column 'p' and that of partition 'P' in .* differ only in case"):
        ps.open_table(tmp_path).plan("p = 1")


def test_missing_columns_are_null(tmp_path: Path) -> None:
    first = pa.table({"a": [1], "b": ["x"], "s": [{"p": 1, "q": {"r": 2}}]})
    second = pa.table({"s": [{"q": {"z": 1}}, None], "new": [1, 2]})
    lake, snapshot = two_files(tmp_path, first, second)
    rows_read = lake.read(snapshot, snapshot.slices).read_all()
    assert rows_read.schema == snapshot.schema
    assert rows_read.to_pylist()[1:] == [
        {"a": None, "b": None, "s": {"p": None, "q": {"r": None}}},
        {"a": None, "b": None, "s": None},
    ]
    keys = pa.Table.from_batches(lake.read_keys(snapshot.slices[1], [("b",), ("s", "q", "r"), ("s", "p")]))
    assert keys.to_pylist() == [{"b": None, "s.q.r": None, "s.p": None}] * 2
    with pytest.raises(ps.ColumnNotFoundError):
        list(lake.read_keys(snapshot.slices[1], [("new",)]))
    unified = ParquetDir(tmp_path, schema="unify")
    assert unified.snapshot().schema.names == ["a", "b", "s", "new"]
    given = ParquetDir(tmp_path, schema=pa.schema([("new", pa.int64())]))
    given_snapshot = given.snapshot()
    assert given.read(given_snapshot, given_snapshot.slices).read_all()["new"].to_pylist() == [None, 1, 2]


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


def test_names_that_differ_in_case_are_rejected(tmp_path: Path) -> None:
    # Spark reads 2, but pyarrow reads null. An index of the nulls would lose the row in Spark.
    lake, snapshot = two_files(tmp_path, pa.table({"id": [1]}), pa.table({"ID": [2]}))
    with pytest.raises(ps.UnsupportedError, match="'ID'"):
        list(lake.read_keys(snapshot.slices[1], [("id",)]))
    with pytest.raises(ps.UnsupportedError, match="'ID'"):
        lake.read(snapshot, snapshot.slices).read_all()
    paths = [path_in_base(lake, data_slice, snapshot.schema, ("id",)) for data_slice in snapshot.slices]
    assert paths == [("id",), None]


def test_int96_is_read_exactly_or_rejected(tmp_path: Path) -> None:
    old = pa.table({"t": pa.array([dt.datetime(1066, 10, 14)], pa.timestamp("us"))})
    new = pa.table({"t": pa.array([1_700_000_000_000_000_123], pa.timestamp("ns"))})
    for number, table in enumerate((new, old)):
        pq.write_table(table, tmp_path / f"{number}.parquet", use_deprecated_int96_timestamps=True)
    lake = open_lake(tmp_path)
    snapshot = lake.snapshot()
    assert next(lake.read_keys(snapshot.slices[0], [("t",)]))["t"].cast(pa.int64()).to_pylist() == [
        1_700_000_000_000_000_123
    ]
    # The error is UnsupportedError, not FormatError, so that an index still covers the other files.
    with pytest.raises(ps.UnsupportedError, match=r"1\.parquet.*INT96"):
        list(lake.read_keys(snapshot.slices[1], [("t",)]))
    micros = ParquetDir(tmp_path / "1.parquet", schema=pa.schema([("t", pa.timestamp("us"))]))
    (data_slice,) = micros.snapshot().slices
    assert next(micros.read_keys(data_slice, [("t",)]))["t"].to_pylist() == [dt.datetime(1066, 10, 14)]


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

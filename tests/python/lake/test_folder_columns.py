"""Plain folders: columns whose types differ between files, and columns that come from the names of folders."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import re
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.models.lake_truth import path_in_base

import parsieve as ps
from parsieve.lake import Snapshot, open_lake
from parsieve.lake.folder.table import ParquetDir
from parsieve.lake.rows.columns import BY_NAME, conform, pruned


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


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        ("p=1/p=2", "p=1/p=2 has two values of the partition column 'p'"),
        ("p=1/x/%70=1", "has two values of the partition column 'p'"),
        ("p=1/P=1", "p=1/P=1 has two partition columns whose names differ only in case"),
        ("p=%FF", "the escapes in the name of the folder p=%FF are not UTF-8"),
        ("%C3=1", "the escapes in the name of the folder %C3=1 are not UTF-8"),
    ],
)
def test_partitions_that_engines_read_in_different_ways_are_rejected(tmp_path: Path, folder: str, problem: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    pq.write_table(pa.table({"v": [1]}), tmp_path / folder / "0.parquet")
    with pytest.raises(ps.UnsupportedError, match=re.escape(problem)):
        ps.open_table(tmp_path).plan("v = 1")


@pytest.mark.skipif(os.name == "nt" or os.uname().sysname == "Darwin", reason="the system accepts only Unicode names")
def test_folders_whose_names_are_not_utf_8_are_rejected(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/t\xff"))
    folder.mkdir()
    pq.write_table(pa.table({"v": [1]}), tmp_path / "0.parquet")
    (folder / "0.parquet").write_bytes((tmp_path / "0.parquet").read_bytes())
    for table in (tmp_path, folder, folder / "0.parquet"):
        with pytest.raises(ps.UnsupportedError, match=r"name is not UTF-8.*rename it"):
            ps.open_table(table).plan("v = 1")


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ([True], [pa.string(), pa.binary(), pa.int64()]),
        (["x"], [pa.binary(), pa.bool_()]),
        ([b"x"], [pa.bool_(), pa.int64()]),
    ],
)
def test_booleans_texts_and_bytes_are_not_converted_to_each_other(values: list[Any], kinds: list[pa.DataType]) -> None:
    for kind in kinds:
        with pytest.raises(ps.UnsupportedError):
            conform(pa.array(values), kind, BY_NAME)


def test_texts_of_a_slice_can_be_changed_to_upper_case() -> None:
    # pyarrow's `ascii_upper` reads wrong bytes if the offsets of an array do not begin with 0.
    texts = pa.array(["first", "second", "third"], pa.large_string())[1:]
    assert pc.ascii_upper(conform(texts, pa.string(), BY_NAME)).to_pylist() == ["SECOND", "THIRD"]
    structs = pa.StructArray.from_arrays([pa.array(["first", None, "third"], pa.string())], ["text"])[1:]
    converted = conform(structs, pa.struct([("text", pa.large_string())]), BY_NAME)
    assert pc.ascii_upper(converted.field("text")).to_pylist() == [None, "THIRD"]


def test_texts_are_read_as_the_dictionary_that_another_file_has_inside_a_struct(tmp_path: Path) -> None:
    for number, texts in enumerate((pa.array(["a", "b", None]).dictionary_encode(), pa.array(["c", None, "a"]))):
        lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), texts)
        # The order of the fields differs, so pyarrow cannot convert the structs itself.
        columns = {"tags": lists, "n": pa.array([1, 2])}
        names = list(columns)[:: 1 if number == 0 else -1]
        structs = pa.StructArray.from_arrays([columns[name] for name in names], names)
        pq.write_table(pa.table({"x": structs}), tmp_path / f"{number}.parquet")
    plan = ps.open_table(tmp_path).plan("x.n = 1")
    rows = [{"tags": ["a", "b"], "n": 1}, {"tags": ["c", None], "n": 1}]
    assert plan.to_arrow()["x"].to_pylist() == rows
    assert plan.to_polars().collect()["x"].to_list() == rows


def test_a_pruned_schema_has_only_the_chosen_fields_of_nested_structs() -> None:
    place = pa.struct([("city", pa.string()), ("point", pa.struct([("x", pa.int64()), ("y", pa.int64())]))])
    schema = pa.schema([("id", pa.int64()), ("place", place), ("tags", pa.list_(pa.string()))])
    point = pa.struct([("y", pa.int64())])
    expected = pa.schema([("id", pa.int64()), ("place", pa.struct([("point", point)]))])
    assert pruned(schema, [("id",), ("place", "point", "y")]).equals(expected)
    expected = pa.schema([("place", place), ("tags", pa.list_(pa.string()))])
    assert pruned(schema, [("place",), ("place", "city"), ("tags", "element")]).equals(expected)

"""Iceberg tables compared with pyiceberg's reader: histories, schema and partition evolution, bounds, name mapping."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import random
import struct
import time
import uuid
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import DecimalType, DoubleType, ListType, LongType, StringType
from support.models.lake_truth import check_snapshot, check_tokens, path_in_base

import parsieve as ps
from parsieve.lake import open_lake
from parsieve.lake.iceberg.statistics import _decoded
from parsieve.predicate import parse

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore:Delete:UserWarning"
)


def full_read(table: Any, snapshot_id: int | None, schema: pa.Schema) -> pa.Table:
    """Return the rows that pyiceberg reads."""
    result: pa.Table = table.scan(snapshot_id=snapshot_id).to_arrow()
    return result.cast(schema)


def some_rows(random_: random.Random, count: int, schema: pa.Schema | None = None) -> pa.Table:
    def pick(*values: Any) -> list[Any]:
        return [random_.choice(values) for _ in range(count)]

    micros = [-1_999, -1, 0, 1, 1_234_567, 1_767_225_600_123_456, -40_000_000_000_000_000]
    table = pa.table(
        {
            "id": pa.array([random_.randrange(-50, 1000) for _ in range(count)], pa.int64()),
            "small": pa.array(pick(-(2**31), 0, 7, None), pa.int32()),
            "name": pa.array(pick("", "a", "ü" * 40, "x" * 15 + "😀" * 4, "\uffff", "😀", None), pa.string()),
            "real": pa.array(pick(0.0, -0.0, float("nan"), 0.1, -1e300, float("inf"), None), pa.float64()),
            "single": pa.array(pick(0.0, -0.0, float("nan"), 0.5, 3e38, None), pa.float32()),
            "paid": pa.array(pick(Decimal("1.20"), Decimal("-99999.99"), None), pa.decimal128(7, 2)),
            "huge": pa.array(pick(Decimal("12345678901234567890123456789.123456789"), None), pa.decimal128(38, 9)),
            "at": pa.array(pick(*micros, None), pa.timestamp("us", "UTC")),
            "local": pa.array(pick(*micros, None), pa.timestamp("us")),
            "clock": pa.array(pick(0, 86_399_999_999, None), pa.time64("us")),
            "day": pa.array(pick(dt.date(1066, 1, 1), dt.date(1970, 1, 1), dt.date(2026, 1, 1), None), pa.date32()),
            "flag": pa.array(pick(True, False, None), pa.bool_()),
            "raw": pa.array(pick(b"\xff" * 20, b"", b"\xff", None), pa.binary()),
            "fixed": pa.array(pick(b"\xff" * 3, b"abc", None), pa.binary(3)),
            "point": pa.array(
                pick({"x": 1, "y": "p"}, {"x": None, "y": None}, None),
                pa.struct([("x", pa.int64()), ("y", pa.string())]),
            ),
            "tags": pa.array(pick([1, None], [], None), pa.list_(pa.int64())),
        }
    )
    if schema is None:
        return table
    # Columns that were renamed or added since then are null.
    arrays = []
    for field in schema:
        column = table.column(field.name) if field.name in table.column_names else None
        arrays.append(pa.nulls(count, field.type) if column is None else column.cast(field.type))
    return pa.table(arrays, schema=schema)


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("version", ["1", "2"])
def test_random_histories_match_the_reader_of_pyiceberg(
    catalog: SqlCatalog, tmp_path: Path, seed: int, version: str
) -> None:
    random_ = random.Random(seed)
    first = some_rows(random_, 20)
    table = catalog.create_table("n.t", first.schema, properties={"format-version": version})
    table.append(first)
    for step in range(9):
        operation = random_.choice(
            ["append", "append", "delete", "overwrite", "columns", "partitions", "promote", "upsert"]
        )
        schema = table.schema().as_arrow()
        if operation == "append":
            table.append(some_rows(random_, random_.randrange(1, 25), schema))
        elif operation == "delete":
            table.delete(f"id < {random_.randrange(-50, 300)} and id > {random_.randrange(-60, 100)}")
        elif operation == "overwrite":
            table.overwrite(some_rows(random_, 6, schema), f"id > {random_.randrange(400, 1000)}")
        elif operation == "upsert":
            table_rows = table.scan().to_arrow()
            if table_rows.num_rows and table_rows["id"].null_count == 0:
                ids = sorted(set(table_rows["id"].to_pylist()))
                if len(ids) == table_rows.num_rows:
                    table.upsert(some_rows(random_, 1, schema), join_cols=["id"])
        elif operation == "columns":
            texts = [name for name in schema.names if name.startswith(("new", "name", "old"))]
            with table.update_schema() as update:
                if random_.random() < 0.5:
                    update.add_column(f"new{step}", random_.choice([LongType(), StringType(), DoubleType()]))
                elif random_.random() < 0.6:
                    update.rename_column(random_.choice(texts), f"old{step}")
                elif "flag" in schema.names:
                    update.delete_column("flag")
        elif operation == "promote":
            with table.update_schema() as update:
                update.update_column("small", LongType())
                update.update_column("single", DoubleType())
                update.update_column("paid", DecimalType(12, 2))
        elif operation == "partitions":
            with table.update_spec() as spec:
                names = {field.name for field in table.spec().fields}
                changes: list[tuple[str, str, Any]] = [
                    ("days", "day", DayTransform()),
                    ("same", "local", IdentityTransform()),
                    ("bucket", "id", BucketTransform(4)),
                    ("cut", "small", TruncateTransform(100)),
                    # pyiceberg does not write two partition fields of one column.
                    ("own", "clock", IdentityTransform()),
                ]
                for name, source, transform in changes:
                    if name in names and random_.random() < 0.5:
                        spec.remove_field(name)
                    elif name not in names and random_.random() < 0.3:
                        spec.add_field(source, transform, name)
        table = catalog.load_table("n.t")
    folder = table.location()
    by_folder = open_lake(folder)
    assert by_folder.format == "iceberg"
    lake, histories = open_lake(table), []
    assert by_folder.snapshot().id == lake.snapshot().id
    assert by_folder.snapshot().tokens == lake.snapshot().tokens
    check_snapshot(lake, lake.snapshot(), full_read(table, None, lake.snapshot().schema))
    for entry in table.metadata.snapshots:
        snapshot = lake.snapshot(entry.snapshot_id)
        full = full_read(table, entry.snapshot_id, snapshot.schema)
        histories.append((snapshot, check_snapshot(lake, snapshot, full)))
        assert sum(data_slice.num_rows or 0 for data_slice in snapshot.slices) == full.num_rows
    check_tokens(histories)
    assert len(histories) >= 5
    for snapshot, _ in histories:
        tokens = lake.snapshot(snapshot.id).tokens
        assert tokens == snapshot.tokens


def test_columns_are_found_by_id_not_by_name(catalog: SqlCatalog) -> None:
    """Drop a column and add it again, and give one column the former name of another."""
    first = pa.table({"a": [1, 2], "b": [10, 20], "s": [{"x": 1, "y": 2}, None]})
    table = catalog.create_table("n.t", first.schema)
    table.append(first)
    before = open_lake(table).snapshot()
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("a")
    with table.update_schema() as update:
        update.rename_column("b", "c")
        update.rename_column("s.x", "z")
    with table.update_schema() as update:
        update.add_column("a", LongType())
        update.add_column("b", LongType())
        update.rename_column("s.y", "x")
    table.append(
        pa.table(
            [[{"z": 5, "x": 6}], [30], [3], [4]],
            schema=pa.schema(
                [
                    ("s", pa.struct([("z", pa.int64()), ("x", pa.int64())])),
                    ("c", pa.int64()),
                    ("a", pa.int64()),
                    ("b", pa.int64()),
                ]
            ),
        ).select(table.schema().as_arrow().names)
    )
    lake = open_lake(table)
    after = lake.snapshot()
    check_snapshot(lake, after, full_read(table, None, after.schema))
    old = next(data_slice for data_slice in after.slices if data_slice.location in before.tokens)
    assert old.token == before.tokens[old.location]
    keys = pa.Table.from_batches(lake.read_keys(old, [("a",), ("b",), ("c",), ("s", "x"), ("s", "z")]))
    assert keys.to_pylist()[0] == {"a": None, "b": None, "c": 10, "s.x": 2, "s.z": 1}
    paths = {("c",): ("b",), ("a",): None, ("b",): None, ("s", "x"): ("s", "y")}
    assert {column: path_in_base(lake, old, after.schema, column) for column in paths} == paths
    assert lake.dataset(after, [old]) is None
    new = [data_slice for data_slice in after.slices if data_slice is not old]
    assert lake.dataset(after, new) is not None
    position = after.slices.index(old)
    for name, bounds in (("a", (None, None)), ("c", (10, 20))):
        statistics = after.statistics((name,))
        assert statistics is not None
        assert (statistics.lower[position].as_py(), statistics.upper[position].as_py()) == bounds
    rows_read = lake.read(after, after.slices, ["c"], pc.field("a").is_null()).read_all()
    assert sorted(rows_read["c"].to_pylist()) == [10, 20]


def test_a_predicate_from_an_older_schema_is_about_the_column_that_has_the_name_now(catalog: SqlCatalog) -> None:
    rows = pa.table({"a": [1, 2], "b": [1, 2], "tags": [["x"], ["y"]]})
    table = catalog.create_table("n.t", rows.schema)
    table.append(rows)
    conditions = ("a IS NULL", "a = 1 OR b = 2", "tags IS NULL OR list_contains(tags, 'z')", "lower(s) = 'x' OR b = 2")
    with table.update_schema() as update:
        update.add_column("s", StringType())
    without_ids = pa.schema({"a": pa.int64(), "b": pa.int64(), "tags": pa.list_(pa.string()), "s": pa.string()})
    older = [parse(text, schema) for text in conditions for schema in (open_lake(table).snapshot().schema, without_ids)]
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("a").delete_column("tags").delete_column("s")
    with table.update_schema() as update:
        update.add_column("a", LongType())
        update.add_column("tags", ListType(99, StringType(), element_required=False))
        update.add_column("s", StringType())
    planned = ps.open_table(table)
    for number, predicate in enumerate(older):
        expected = planned.plan(conditions[number // 2], row_groups=True)
        plan = planned.plan(predicate, row_groups=True)
        assert plan.files == expected.files
        assert plan.to_arrow().to_pylist() == expected.to_arrow().to_pylist()
    assert planned.plan(older[0], row_groups=True).to_arrow().num_rows == 2


def test_columns_of_files_without_ids_are_found_by_the_name_mapping(catalog: SqlCatalog, tmp_path: Path) -> None:
    rows = pa.table({"a": [1, 2], "s": [{"x": 1}, None]})
    pq.write_table(rows, tmp_path / "plain.parquet")
    table = catalog.create_table("n.t", rows.schema)
    table.add_files([(tmp_path / "plain.parquet").as_uri()])
    with table.update_schema() as update:
        update.rename_column("a", "b")
        update.rename_column("s.x", "y")
    lake = open_lake(table)
    snapshot = lake.snapshot()
    check_snapshot(lake, snapshot, full_read(table, None, snapshot.schema))
    assert snapshot.slices[0].group == (tmp_path / "plain.parquet").as_uri()
    assert snapshot.slices[0].path == str(tmp_path / "plain.parquet")
    with table.transaction() as transaction:
        transaction.remove_properties("schema.name-mapping.default")
    bare = open_lake(table)
    with pytest.raises(ps.UnsupportedError, match=r"plain\.parquet: column 'b': .* no field ids.*name-mapping"):
        list(bare.read_keys(bare.snapshot().slices[0], [("b",)]))


@pytest.mark.parametrize("by_folder", [True, False])
def test_a_changed_name_mapping_applies_to_the_next_plan(catalog: SqlCatalog, tmp_path: Path, by_folder: bool) -> None:
    rows = pa.table({"a": [1, 2], "b": [3, 4]})
    pq.write_table(rows, tmp_path / "plain.parquet")
    table = catalog.create_table("n.t", rows.schema)
    table.add_files([(tmp_path / "plain.parquet").as_uri()])
    planned = ps.open_table(table.location() if by_folder else table)
    assert planned.plan().to_arrow()["a"].to_pylist() == [1, 2]
    first = planned.opened.snapshot().slices
    assert planned.opened.snapshot().slices is first
    swapped = [{"field-id": 1, "names": ["b"]}, {"field-id": 2, "names": ["a"]}]
    with table.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": json.dumps(swapped)})
    assert planned.plan().to_arrow()["a"].to_pylist() == [3, 4]


def test_bounds_of_each_type_are_decoded_safely() -> None:
    def both(data: bytes, kind: pa.DataType) -> tuple[Any, Any]:
        return _decoded(data, kind, False), _decoded(data, kind, True)

    day = 86_400_000_000
    assert both(struct.pack("<i", -5), pa.int64()) == (-5, -5)
    assert both(struct.pack("<q", 2**40), pa.int32()) == (None, None)
    assert both(struct.pack("<f", 0.1), pa.float64()) == (0.10000000149011612, 0.10000000149011612)
    assert [str(bound) for bound in both(struct.pack("<d", 0.0), pa.float64())] == ["-0.0", "0.0"]
    assert both(struct.pack("<d", float("nan")), pa.float64()) == (None, None)
    # A date column that was promoted to timestamp.
    assert both(struct.pack("<i", 2), pa.timestamp("us")) == (2 * day, 2 * day)
    assert both(struct.pack("<q", -(2**62)), pa.timestamp("us")) == (None, None)
    # Spark's old calendar assigns other dates to moments before this one.
    first = (dt.date(1582, 10, 15) - dt.date(1970, 1, 1)).days * day
    assert both(struct.pack("<q", first), pa.timestamp("us")) == (first, first)
    assert both(struct.pack("<q", first - 1), pa.timestamp("us")) == (None, None)
    assert both(struct.pack("<i", -200_000), pa.date32()) == (None, None)
    assert both(struct.pack("<i", 2), pa.date32()) == (2, 2)
    assert both(struct.pack("<q", 2), pa.time64("us")) == (2, 2)
    assert both(struct.pack("<i", 2), pa.time64("us")) == (None, None)
    assert both(b"\xff\x85", pa.decimal128(5, 2)) == (Decimal("-1.23"), Decimal("-1.23"))
    assert both(b"", pa.decimal128(5, 2)) == (None, None)
    assert both((1000).to_bytes(2, "big"), pa.decimal128(3, 2)) == (None, None)
    assert both(b"abc", pa.string()) == ("abc", "abc")
    assert both(b"x" * 15 + b"y", pa.string()) == ("x" * 15 + "y", "x" * 15 + "z")
    assert both(b"\xff", pa.string()) == (None, None)
    assert both(b"\xff" * 16, pa.binary()) == (b"\xff" * 16, None)
    assert both(b"a" * 16, pa.binary()) == (b"a" * 16, b"a" * 15 + b"b")
    assert both(uuid.uuid4().bytes, pa.uuid()) == (None, None)
    assert both(b"\1\2", pa.bool_()) == (None, None)
    assert both(b"\1", pa.int64()) == (None, None)


def test_a_dropped_partition_column_is_ignored(catalog: SqlCatalog) -> None:
    rows = pa.table({"a": [1, 2], "gone": [1, 2], "kept": ["x", None]})
    table = catalog.create_table("n.t", rows.schema)
    with table.update_spec() as spec:
        spec.add_identity("gone")
        spec.add_identity("kept")
    table.append(rows)
    with table.update_spec() as spec:
        spec.remove_field("gone")
    with table.update_schema() as update:
        update.delete_column("gone")
        update.rename_column("kept", "still")
    table.append(pa.table({"a": [3], "still": ["y"]}))
    lake = open_lake(table)
    for as_of in (None, table.metadata.snapshots[0].snapshot_id):
        snapshot = lake.snapshot(as_of)
        check_snapshot(lake, snapshot, full_read(table, as_of, snapshot.schema))
    current = lake.snapshot()
    assert sorted(str(data_slice.partition_values) for data_slice in current.slices) == [
        "{'still': 'x'}",
        "{'still': 'y'}",
        "{'still': None}",
    ]


def test_a_struct_may_lose_all_its_fields(catalog: SqlCatalog) -> None:
    rows = pa.table({"a": [1, 2], "s": pa.array([{"x": 1}, {"x": 2}], pa.struct([("x", pa.int64())]))})
    table = catalog.create_table("n.t", rows.schema)
    table.append(rows)
    with table.update_schema() as update:
        update.delete_column(("s", "x"))
    assert ps.open_table(table).plan("a > 0").to_arrow().to_pylist() == [{"a": 1, "s": {}}, {"a": 2, "s": {}}]


def now_in_its_own_millisecond() -> dt.datetime:
    """Return the time, once the clock shows a later millisecond: snapshots have timestamps in milliseconds."""
    now = time.time_ns()
    while time.time_ns() // 10**6 == now // 10**6:
        time.sleep(0.0001)
    return dt.datetime.fromtimestamp(now // 10**6 / 1000, dt.UTC)


def test_snapshots_are_found_by_id_time_and_tag(catalog: SqlCatalog) -> None:
    rows = pa.table({"a": [1]})
    table = catalog.create_table("n.t", rows.schema)
    empty = open_lake(table).snapshot()
    assert (empty.id, list(empty.slices), empty.schema.names) == (None, [], ["a"])
    assert open_lake(table).read(empty, ()).read_all().num_rows == 0
    start = now_in_its_own_millisecond()
    table.append(rows)
    between = now_in_its_own_millisecond()
    table.append(rows)
    first, second = table.metadata.snapshots
    table.manage_snapshots().create_tag(first.snapshot_id, "old").create_tag(first.snapshot_id, "2026").commit()
    lake = open_lake(table)
    assert lake.snapshot().id == second.snapshot_id
    assert lake.snapshot(between).id == lake.snapshot("old").id == first.snapshot_id
    assert lake.snapshot(str(first.snapshot_id)).id == lake.snapshot("2026").id == first.snapshot_id
    assert lake.snapshot(first.snapshot_id).instant < lake.snapshot().instant
    for unknown in (start, 17, "nothing"):
        with pytest.raises(ValueError, match="no snapshot"):
            lake.snapshot(unknown)
    changes = lake.changes(first.snapshot_id, lake.snapshot())
    assert [len(slices) for slices in (changes.added, changes.removed, changes.changed)] == [1, 0, 0]
    assert open_lake(table.metadata_location).snapshot().id == second.snapshot_id


def test_the_current_metadata_file_is_found_or_ambiguous(catalog: SqlCatalog) -> None:
    rows = pa.table({"a": [1]})
    table = catalog.create_table("n.t", rows.schema)
    table.append(rows)
    folder = Path(table.location().removeprefix("file://")) / "metadata"
    (current,) = folder.glob("00001-*.metadata.json")
    (folder / "00001-another.metadata.json").write_bytes(current.read_bytes())
    with pytest.raises(ps.UnsupportedError, match="only its catalog"):
        open_lake(folder.parent)
    for source in (current, str(current)):
        assert len(open_lake(source).snapshot().slices) == 1
    (folder / "00001-another.metadata.json").unlink()
    (folder / "version-hint.text").write_text("0\n")
    # A writer died after it wrote the version, but before it wrote the hint.
    assert len(open_lake(folder.parent).snapshot().slices) == 1
    (folder / "version-hint.text").write_text("7")
    with pytest.raises(ps.UnsupportedError, match="hint"):
        open_lake(folder.parent)
    with pytest.raises(FileNotFoundError):
        open_lake(folder, format="iceberg")


def test_encrypted_data_files_are_rejected(catalog: SqlCatalog) -> None:
    rows = pa.table({"a": [1]})
    table = catalog.create_table("n.t", rows.schema)
    table.append(rows)
    lake = open_lake(table)
    snapshot = lake.snapshot()
    (data_slice,) = snapshot.slices
    assert lake.row_groups_usable(data_slice)
    with ps.open_filters(lake.open_base(data_slice)) as filters:
        assert filters.num_rows == [1]
    native = dataclasses.replace(data_slice.native, is_encrypted=True)
    encrypted = dataclasses.replace(data_slice, native=native)
    assert not lake.row_groups_usable(encrypted)
    with pytest.raises(ps.UnsupportedError, match="encrypted"):
        lake.read(snapshot, [encrypted])


def test_pyiceberg_has_no_orphan_file_removal() -> None:
    """pyiceberg cannot remove orphan files, so it keeps the index folder. The pages describe Spark's removal."""
    with warnings.catch_warnings():
        from pyiceberg.table.maintenance import MaintenanceTable

    assert not hasattr(MaintenanceTable, "remove_orphan_files")


def test_files_without_equality_deletes_stay_usable(catalog: SqlCatalog, tmp_path: Path) -> None:
    """pyiceberg does not plan tables with equality deletes. parsieve uses the other files, and Spark reads the rest."""
    rows = pa.table({"a": [1, 2], "p": [1, 2]})
    table = catalog.create_table("n.t", rows.schema, properties={"format-version": "2"})
    with table.update_spec() as spec:
        spec.add_identity("p")
    table.append(rows)
    before = open_lake(table).snapshot()
    current = table.current_snapshot()
    assert current is not None
    io, sequence = table.io, current.sequence_number or 0
    (data,) = current.manifests(io)
    entries = data.fetch_manifest_entry(io)
    target = next(entry.data_file for entry in entries if entry.data_file.partition[0] == 1)

    class Deletes(ManifestWriterV2):
        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

    deletes = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES,
        file_path="file:///nowhere/eq.parquet",
        file_format=FileFormat.PARQUET,
        partition=target.partition,
        record_count=1,
        file_size_in_bytes=1,
        equality_ids=[1],
    )
    house = Path(table.location().removeprefix("file://")) / "metadata"
    with Deletes(table.spec(), table.schema(), io.new_output(f"{house}/eq.avro"), 7, "null") as writer:
        entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=7, data_file=deletes)
        writer.add_entry(entry)
    listing = f"{house}/snap-7.avro"
    with write_manifest_list(2, io.new_output(listing), 7, current.snapshot_id, sequence + 1, "null") as lists:
        lists.add_manifests([writer.to_manifest_file(), data])
    metadata = json.loads((Path(table.metadata_location.removeprefix("file://"))).read_text())
    metadata["snapshots"].append(
        dict(metadata["snapshots"][-1]) | {"snapshot-id": 7, "sequence-number": sequence + 1, "manifest-list": listing}
    )
    metadata["current-snapshot-id"] = metadata["refs"]["main"]["snapshot-id"] = 7
    metadata["last-sequence-number"] = sequence + 1
    (house / "00099-x.metadata.json").write_text(json.dumps(metadata))
    lake = open_lake(str(house / "00099-x.metadata.json"))
    snapshot = lake.snapshot()
    assert snapshot.id == 7
    deleted_from, untouched = sorted(snapshot.slices, key=lambda data_slice: data_slice.clean)
    assert (deleted_from.clean, untouched.clean) == (False, True)
    assert deleted_from.token != before.tokens[deleted_from.location]
    assert untouched.token == before.tokens[untouched.location]
    assert next(lake.read_keys(untouched, [("a",)])).to_pylist() == [{"a": 2}]
    with pytest.raises(ps.UnsupportedError, match="Spark"):
        lake.read_keys(deleted_from, [("a",)])
    with pytest.raises(ps.UnsupportedError, match="Spark"):
        lake.read(snapshot, snapshot.slices)
    assert not lake.row_groups_usable(deleted_from)
    statistics = snapshot.statistics(("a",))
    assert statistics is not None
    assert sorted(statistics.upper.to_pylist()) == [1, 2]

"""Iceberg tables that pyiceberg cannot write: changed name mappings, format version 3, and damaged metadata."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import random
import re
import tracemalloc
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimeType,
    UUIDType,
)
from support.iceberg_manifests import HandWrittenTable

import parsieve as ps
from parsieve.lake.iceberg.avro import manifest_class

TWO_NUMBERS = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", LongType()))


def with_id(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def rows_of_pyiceberg(table: HandWrittenTable, condition: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        StaticTable.from_metadata(table.metadata).scan(row_filter=condition).to_arrow().to_pylist()
    )
    return rows


def become_version_3(about: dict[str, Any]) -> None:
    about |= {"format-version": 3, "next-row-id": 0}


@pytest.mark.parametrize("kind", ["sieve", "bloom"])
@pytest.mark.parametrize(
    ("before", "after"),
    [({1: ["id"], 2: ["v"]}, {1: ["id"], 2: ["v", "a"]}), ({1: ["id"], 2: ["a"]}, {1: ["a"], 2: ["id"]})],
)
def test_an_index_is_out_of_date_after_a_change_of_the_name_mapping(
    tmp_path: Path, kind: str, before: dict[int, list[str]], after: dict[int, list[str]]
) -> None:
    table = HandWrittenTable(tmp_path / "t", TWO_NUMBERS, UNPARTITIONED_PARTITION_SPEC)
    table.add_file(pa.table({"id": [1, 2], "a": [10, 11]}), 0)

    def set_mapping(mapping: Mapping[int, Sequence[str]]) -> None:
        fields = [{"field-id": number, "names": list(names)} for number, names in mapping.items()]
        table.change_metadata(
            lambda about: about.update({"properties": {"schema.name-mapping.default": json.dumps(fields)}})
        )

    set_mapping(before)
    ps.open_table(str(table.folder)).build_index("v", kind=kind, progress=False)
    set_mapping(after)
    for condition in ("v = 10", "v = 1", "v >= 0"):
        expected = rows_of_pyiceberg(table, condition)
        opened = ps.open_table(str(table.folder))
        assert opened.plan(condition).to_arrow().to_pylist() == expected
        opened.update_index(progress=False)
        assert opened.plan(condition, stale="error").to_arrow().to_pylist() == expected


def test_defaults_inside_lists_and_maps_are_read(tmp_path: Path) -> None:
    struct = StructType(NestedField(4, "x", LongType()))
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "l", ListType(3, struct, element_required=False)),
        NestedField(6, "m", MapType(7, StringType(), 8, StructType(NestedField(9, "x", LongType())))),
    )
    table = HandWrittenTable(tmp_path / "t", schema, UNPARTITIONED_PARTITION_SPEC)
    element = with_id("element", pa.struct([with_id("x", pa.int64(), 4)]), 3)
    value = with_id("value", pa.struct([with_id("x", pa.int64(), 9)]), 8)
    key = with_id("key", pa.string(), 7).with_nullable(False)
    fields = [with_id("id", pa.int64(), 1), with_id("l", pa.list_(element), 2), with_id("m", pa.map_(key, value), 6)]
    table.add_file(pa.table([[1], [[{"x": 1}]], [[("k", {"x": 2})]]], schema=pa.schema(fields)), 0)

    def add_fields(about: dict[str, Any]) -> None:
        become_version_3(about)
        _, listed, mapped = about["schemas"][0]["fields"]
        added = {"name": "y", "required": False, "type": "long", "initial-default": 7, "write-default": 7}
        listed["type"]["element"]["fields"].append(added | {"id": 5})
        mapped["type"]["value"]["fields"].append(added | {"id": 10})

    before = ps.open_table(table.metadata).opened.snapshot().slices.token
    table.change_metadata(add_fields)
    opened = ps.open_table(table.metadata)
    [row] = opened.plan("id = 1").to_arrow().to_pylist()
    assert row == {"id": 1, "l": [{"x": 1, "y": 7}], "m": [("k", {"x": 2, "y": 7})]}
    assert rows_of_pyiceberg(table, "id = 1") == [row]
    # Version 0.1 read nulls, and its indexes contain them.
    assert opened.opened.snapshot().slices.token != before


def test_a_partition_has_the_value_of_a_nested_field_that_its_file_lacks(tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "s", StructType(NestedField(3, "x", LongType()), NestedField(4, "y", LongType()))),
    )
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "sx"), spec_id=1)
    table = HandWrittenTable(tmp_path / "t", schema, UNPARTITIONED_PARTITION_SPEC, spec)
    for number, value in enumerate((7, None)):
        fields = [with_id("id", pa.int64(), 1), with_id("s", pa.struct([with_id("y", pa.int64(), 4)]), 2)]
        table.add_file(pa.table([[number], [{"y": 5}]], schema=pa.schema(fields)), 1, value)
    opened = ps.open_table(table.metadata)
    first, second = ({"id": 0, "s": {"x": 7, "y": 5}}, {"id": 1, "s": {"x": None, "y": 5}})
    assert StaticTable.from_metadata(table.metadata).scan().to_arrow().sort_by("id").to_pylist() == [first, second]
    for indexed in (False, True):
        if indexed:
            opened.build_index("s.x", "sieve", progress=False)
        for condition, rows in (("s.x = 7", [first]), ("s.x is null", [second]), ("s.y = 5", [first, second])):
            assert opened.plan(condition).to_arrow().sort_by("id").to_pylist() == rows, condition


def test_a_partition_has_the_uuid_of_a_column_that_its_file_lacks(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "u", UUIDType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "u"), spec_id=1)
    table = HandWrittenTable(tmp_path / "t", schema, UNPARTITIONED_PARTITION_SPEC, spec)
    small, large = UUID(int=7), UUID(int=2**127 + 1)
    for number, value in enumerate((small, large, None)):
        table.add_file(pa.table([[number]], schema=pa.schema([with_id("id", pa.int64(), 1)])), 1, value)
    opened = ps.open_table(table.metadata)
    for condition, rows in (
        (f"u = '{small}'", {0: small}),
        (f"u > '{small}'", {1: large}),
        ("u IS NULL", {2: None}),
        ("u IS NOT NULL", {0: small, 1: large}),
    ):
        plan = opened.plan(condition)
        assert len(plan.files) == len(rows)
        assert {row["id"]: row["u"] for row in plan.to_arrow().to_pylist()} == rows, condition


@pytest.mark.parametrize("transform", [IdentityTransform(), DayTransform()])
@pytest.mark.parametrize("unit", ["day", "us"])
def test_a_partition_may_be_after_the_year_9999(tmp_path: Path, unit: str, transform: Any) -> None:
    kind, arrow = (DateType(), pa.date32()) if unit == "day" else (TimestampType(), pa.timestamp("us"))
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "t", kind))
    table = HandWrittenTable(tmp_path / "t", schema, PartitionSpec(PartitionField(2, 1000, transform, "p")))
    days = (-1, 20_000, 2_932_897)
    per_day = 1 if unit == "day" else 86_400_000_000
    for day in days:
        value = pa.array([day * per_day], pa.int32() if unit == "day" else pa.int64()).cast(arrow)
        partition = day if isinstance(transform, DayTransform) else day * per_day
        table.add_rows(pa.table([[day], value], ["id", "t"]), 0, partition)
    if isinstance(transform, IdentityTransform):
        table.add_file(pa.table([[5]], schema=pa.schema([with_id("id", pa.int64(), 1)])), 0, days[-1] * per_day)
    opened = ps.open_table(table.metadata)
    opened.build_index("id")
    assert set(opened.plan("t > DATE '2026-01-01'").to_arrow()["id"].to_pylist()) - {5} == {days[-1]}
    assert len(opened.plan("t < DATE '2026-01-01'").to_arrow()) == 2
    rows = opened.plan(f"id IN (5, {days[-1]})").to_arrow()
    assert all(batch.column("t") == value for row in range(len(rows)) for batch in rows.slice(row, 1).to_batches())


def test_a_partition_may_be_the_end_of_the_day(tmp_path: Path) -> None:
    """DuckDB writes 24:00:00 as a time of day, which Python does not have."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "t", TimeType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "t"))
    table = HandWrittenTable(tmp_path / "t", schema, spec)
    for hour in (0, 12, 24):
        time = hour * 3_600_000_000
        table.add_rows(pa.table([[hour], pa.array([time], pa.int64()).cast(pa.time64("us"))], ["id", "t"]), 0, time)
    opened = ps.open_table(table.metadata)
    for condition, hours in (("t > TIME '23:00:00'", [24]), ("t != TIME '00:00:00'", [12, 24])):
        assert sorted(opened.plan(condition).to_arrow()["id"].to_pylist()) == hours


def test_a_partition_by_a_date_that_became_a_timestamp_skips_nothing(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "t", DateType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "t"), spec_id=1)
    table = HandWrittenTable(tmp_path / "t", schema, UNPARTITIONED_PARTITION_SPEC, spec)
    day = dt.date(2020, 1, 1)
    fields = [with_id("id", pa.int64(), 1), with_id("t", pa.date32(), 2)]
    table.add_file(pa.table([[1], [day]], schema=pa.schema(fields)), 1, (day - dt.date(1970, 1, 1)).days)

    def widen(about: dict[str, Any]) -> None:
        become_version_3(about)
        old = json.loads(json.dumps(about["schemas"][0]))
        about["schemas"][0]["fields"][1]["type"] = "timestamp"
        about["schemas"][0]["schema-id"] = about["current-schema-id"] = 1
        about["schemas"].append(old)

    table.change_metadata(widen)
    [row] = ps.open_table(table.metadata).plan("t = TIMESTAMP '2020-01-01 00:00:00'").to_arrow().to_pylist()
    assert row == {"id": 1, "t": dt.datetime(2020, 1, 1)}


def test_conditions_on_timestamps_in_nanoseconds(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "t", TimestampNanoType()))
    table = HandWrittenTable(tmp_path / "t", schema, UNPARTITIONED_PARTITION_SPEC)
    moments = pa.array([1_700_000_000_123_456_789, -(1 << 63), None], pa.timestamp("ns"))
    table.add_rows(pa.table({"id": [1, 2, 3], "t": moments}), 0)
    table.change_metadata(become_version_3)
    opened = ps.open_table(table.metadata)
    for condition, ids in (("t is not null", [1, 2]), ("t > '2000-01-01'", [1]), ("t < '2000-01-01'", [2])):
        assert opened.plan(condition).to_arrow()["id"].to_pylist() == ids


def test_damaged_metadata_are_malformed(tmp_path: Path) -> None:
    random_ = random.Random(3)
    table = HandWrittenTable(tmp_path / "t", TWO_NUMBERS, UNPARTITIONED_PARTITION_SPEC)
    table.add_rows(pa.table({"id": [1, 2], "v": [3, 4]}), 0)
    for name in ("manifest-1.avro", "snap-1.avro", "v1.metadata.json"):
        path = table.folder / "metadata" / name
        data = path.read_bytes()
        damaged = [
            data[:length] for length in {0, len(data) // 3, len(data) // 2, *random_.sample(range(len(data)), 20)}
        ]
        for _ in range(40):
            flipped = bytearray(data)
            flipped[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
            damaged.append(bytes(flipped))
        for content in damaged:
            path.write_bytes(content)
            # Some changes do no harm, or rename a file.
            with contextlib.suppress(ps.ParsieveError, OSError):
                ps.open_table(table.metadata).plan("id = 1").to_arrow()
        path.write_bytes(data)
    assert ps.open_table(table.metadata).plan("id = 1").to_arrow().num_rows == 1


@pytest.mark.parametrize("lost", ["snapshots", "current-snapshot-id"])
def test_a_table_whose_current_snapshot_is_missing_is_malformed(tmp_path: Path, lost: str) -> None:
    table = HandWrittenTable(tmp_path / "t", TWO_NUMBERS, UNPARTITIONED_PARTITION_SPEC)
    table.add_rows(pa.table({"id": [1, 2], "v": [3, 4]}), 0)
    table.change_metadata(lambda about: about.pop(lost))
    with pytest.raises(ps.FormatError, match=r"does not contain the current snapshot, \d+; open an earlier"):
        ps.open_table(table.metadata).plan("id = 1")


def test_a_manifest_may_refer_to_a_type_by_its_name(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "a", DecimalType(9, 2)), NestedField(2, "b", DecimalType(9, 2)))
    fields = [PartitionField(number, 999 + number, IdentityTransform(), name) for number, name in ((1, "a"), (2, "b"))]
    table = HandWrittenTable(tmp_path / "t", schema, PartitionSpec(*fields))
    values = (Decimal("1.50"), Decimal("-2.00"))
    table.add_rows(pa.table([pa.array([value], pa.decimal128(9, 2)) for value in values], ["a", "b"]), 0, *values)
    path = table.folder / "metadata" / "manifest-1.avro"
    first, second, *_ = definitions = re.findall(rb'{"type": "fixed"[^}]*decimal_9_2"}', data := path.read_bytes())
    assert len(definitions) == 2
    # Java defines each type once. Spaces keep the length of the header.
    before, _, after = data.rpartition(second)
    path.write_bytes(before + b'"decimal_9_2"'.ljust(len(first)) + after)
    assert ps.open_table(table.metadata).plan("a = 1.5").to_arrow().to_pylist() == [{"a": values[0], "b": values[1]}]
    assert ps.open_table(table.metadata).plan("b = 1.5").files == []


def test_a_large_type_that_a_manifest_refers_to_often_needs_little_memory(tmp_path: Path) -> None:
    kind = {"type": "fixed", "name": "f", "size": 1, "doc": "x" * 100_000}
    fields = [{"name": f"c{number}", "type": "f" if number else kind, "field-id": number} for number in range(1000)]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields}).encode()
    # One pair in the header's map. Lengths are zigzag varints.
    pieces = [b"Obj\x01\x02", *(part for text in (b"avro.schema", schema) for part in (_varint(2 * len(text)), text))]
    (tmp_path / "m.avro").write_bytes(b"".join([*pieces, b"\0", bytes(16)]))
    tracemalloc.start()
    try:
        with manifest_class()(PyArrowFileIO().new_input(str(tmp_path / "m.avro"))) as file:
            assert len(file.schema.fields) == 1000
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


def test_a_manifest_without_its_entries_is_malformed(tmp_path: Path) -> None:
    table = HandWrittenTable(tmp_path / "t", TWO_NUMBERS, UNPARTITIONED_PARTITION_SPEC)
    table.add_rows(pa.table({"id": [1, 2], "v": [3, 4]}), 0)
    path = table.folder / "metadata" / "manifest-1.avro"
    data = path.read_bytes()
    # The header ends with the marker that also ends each block.
    path.write_bytes(data[: data.index(data[-16:]) + 16])
    with pytest.raises(ps.FormatError, match=r"manifest-1\.avro has 0 live files instead of 1"):
        ps.open_table(table.metadata).plan("id = 1")


def test_an_old_name_of_compressed_metadata_is_rejected_with_a_hint(tmp_path: Path) -> None:
    table = HandWrittenTable(tmp_path / "t", TWO_NUMBERS, UNPARTITIONED_PARTITION_SPEC)
    table.add_rows(pa.table({"id": [1], "v": [3]}), 0)
    Path(table.metadata).rename(table.metadata + ".gz")
    for source in (table.folder, table.metadata + ".gz"):
        with pytest.raises(ps.UnsupportedError, match=r"rename it, so that it ends with \.gz\.metadata\.json"):
            ps.open_table(str(source))


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ({"type": "variant"}, "does not support columns of type variant"),
        (
            {"type": "timestamp_ns", "initial-default": "2026-01-31T12:00:00"},
            "defaults of type timestamp_ns",
        ),
    ],
)
def test_types_that_pyiceberg_does_not_know_are_rejected(tmp_path: Path, field: dict[str, Any], problem: str) -> None:
    table = HandWrittenTable(tmp_path / "t", TWO_NUMBERS, UNPARTITIONED_PARTITION_SPEC)
    table.add_rows(pa.table({"id": [1], "v": [3]}), 0)

    def add_field(about: dict[str, Any]) -> None:
        become_version_3(about)
        about["schemas"][0]["fields"].append({"id": 9, "name": "x", "required": False} | field)

    table.change_metadata(add_field)
    with pytest.raises(ps.UnsupportedError, match=problem):
        ps.open_table(table.metadata).plan("id = 1")


@pytest.mark.parametrize("mapping", ["x", "{}", "[1]"])
def test_a_name_mapping_that_is_not_one_is_malformed(tmp_path: Path, mapping: str) -> None:
    table = HandWrittenTable(tmp_path / "t", TWO_NUMBERS, UNPARTITIONED_PARTITION_SPEC)
    table.add_rows(pa.table({"id": [1], "v": [3]}), 0)
    table.change_metadata(lambda about: about["properties"].update({"schema.name-mapping.default": mapping}))
    with pytest.raises(ps.FormatError, match=r"the name mapping of .*: 1 validation error"):
        ps.open_table(table.metadata).plan("id = 1")


@pytest.mark.parametrize("default", ["1e-1000", "1.005", "1000"])
def test_defaults_that_are_not_decimals_of_the_type_are_malformed(tmp_path: Path, default: str) -> None:
    table = HandWrittenTable(tmp_path / "t", TWO_NUMBERS, UNPARTITIONED_PARTITION_SPEC)
    table.add_rows(pa.table({"id": [1], "v": [3]}), 0)

    def add_field(about: dict[str, Any]) -> None:
        become_version_3(about)
        field = {"id": 9, "name": "x", "required": False, "type": "decimal(5, 2)", "initial-default": default}
        about["schemas"][0]["fields"].append(field)

    table.change_metadata(add_field)
    with pytest.raises(ps.FormatError, match="is not a decimal"):
        ps.open_table(table.metadata).plan("id = 1").to_arrow()

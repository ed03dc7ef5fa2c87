"""Files that were written before a column was added have no such column, and its rows there are null."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from support.iceberg_manifests import HandWrittenTable

import parsieve as ps

# A condition on the added column, and the ids of its rows.
CONDITIONS = {
    "coupon = 'a'": [40],
    "coupon LIKE 'a%'": [40],
    "coupon > 'a'": [41],
    "coupon <> 'b'": [40],
    "coupon IS NOT NULL": [40, 41],
    "coupon = 'a' OR id = 7": [7, 40],
}


def write_delta(folder: Path) -> None:
    for start in range(0, 40, 10):
        write_deltalake(folder, pa.table({"id": range(start, start + 10)}), mode="append")
    write_deltalake(
        folder, pa.table({"id": [40, 41, 42], "coupon": ["a", "b", None]}), mode="append", schema_mode="merge"
    )


def write_iceberg(folder: Path) -> None:
    catalog = SqlCatalog("test", uri=f"sqlite:///{folder.parent}/catalog.db", warehouse=folder.parent.as_uri())
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", pa.schema({"id": pa.int64()}), location=folder.as_uri())
    for start in range(0, 40, 10):
        table.append(pa.table({"id": range(start, start + 10)}))
    with table.update_schema() as update:
        update.add_column("coupon", StringType())
    table.append(pa.table({"id": [40, 41, 42], "coupon": ["a", "b", None]}))
    catalog.close()


@pytest.mark.parametrize("write", [write_delta, write_iceberg])
def test_files_that_lack_a_column_are_skipped(tmp_path: Path, write: Any) -> None:
    write(tmp_path / "orders")
    table = ps.open_table(tmp_path / "orders")
    for condition, ids in CONDITIONS.items():
        plan = table.plan(condition)
        assert len(plan.files) == 1 + (7 in ids), condition
        assert sorted(plan.to_arrow()["id"].to_pylist()) == ids, condition
    assert "all values are null" in table.plan("coupon = 'a'").explain()
    plan = table.plan("coupon IS NULL")
    assert len(plan.files) == 5
    assert sorted(plan.to_arrow()["id"].to_pylist()) == [*range(40), 42]


def write_nested_iceberg(folder: Path, rows: pa.Table) -> None:
    catalog = SqlCatalog("test", uri=f"sqlite:///{folder.parent}/catalog.db", warehouse=folder.parent.as_uri())
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", rows.schema, location=folder.as_uri()).append(rows)
    catalog.close()


def map_by_id(schema: dict[str, Any], stored: pa.Schema | pa.StructType) -> None:
    """Add the field ids of a file to a struct of a Delta schema, and to the structs inside it."""
    for field in schema["fields"]:
        column = stored.field(field["name"])
        number = int(column.metadata[b"PARQUET:field_id"])
        field["metadata"] |= {"delta.columnMapping.physicalName": field["name"], "delta.columnMapping.id": number}
        if pa.types.is_struct(column.type):
            map_by_id(field["type"], column.type)


def write_nested_delta(folder: Path, rows: pa.Table) -> None:
    """Write a table that finds its columns by field id."""
    write_deltalake(folder, rows)
    # The other table has a file with ids.
    write_nested_iceberg(folder.parent / "with_ids", rows)
    [source] = (folder.parent / "with_ids").rglob("*.parquet")
    file = source.rename(folder / "with_ids.parquet")
    stored = pq.read_schema(file)
    [log] = (folder / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if metadata := action.get("metaData"):
            schema = json.loads(metadata["schemaString"])
            map_by_id(schema, stored)
            metadata["schemaString"] = json.dumps(schema)
            metadata["configuration"] = {"delta.columnMapping.mode": "id", "delta.columnMapping.maxColumnId": "20"}
        if protocol := action.get("protocol"):
            protocol.update(minReaderVersion=2, minWriterVersion=5)
        if add := action.get("add"):
            add |= {"path": file.name, "size": file.stat().st_size, "stats": None}
    log.write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.parametrize("row_groups", [None, True, False])
@pytest.mark.parametrize("write", [write_nested_iceberg, write_nested_delta])
def test_lists_maps_and_structs_are_not_taken_for_absent(tmp_path: Path, write: Any, row_groups: bool | None) -> None:
    # Field ids are known only for leaves.
    columns = {
        "tags": pa.array([[1], None, []], pa.list_(pa.int64())),
        "attributes": pa.array([[("a", "b")], None, []], pa.map_(pa.string(), pa.string())),
        "address": pa.array([{"city": "a"}, None, {"city": None}], pa.struct([("city", pa.string())])),
    }
    write(tmp_path / "orders", pa.table({"id": [1, 2, 3], **columns}))
    table = ps.open_table(tmp_path / "orders")
    for column in columns:
        for condition, ids in (
            (f"{column} IS NOT NULL", [1, 3]),
            (f"NOT ({column} IS NULL)", [1, 3]),
            (f"{column} IS NULL", [2]),
        ):
            plan = table.plan(condition, row_groups=row_groups)
            assert plan.to_arrow()["id"].to_pylist() == ids, condition
        known = pc.field(column).is_valid()
        assert table.dataset().to_table(filter=known)["id"].to_pylist() == [1, 3]
        rows = ps.scan_polars(table).filter(pl.col(column).is_not_null()).collect()
        assert rows["id"].to_list() == [1, 3]
    assert table.plan(f"NOT list_contains(tags, {10**30})", row_groups=row_groups).count_rows() == 2


def test_a_file_whose_column_differs_in_case_is_kept(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1], "Coupon": ["a"]}))
    [log] = (tmp_path / "_delta_log").glob("*.json")
    log.write_text(log.read_text().replace(r"\"name\":\"Coupon\"", r"\"name\":\"coupon\""))
    assert DeltaTable(tmp_path).schema().fields[1].name == "coupon"
    assert len(ps.open_table(tmp_path).plan("coupon = 'b'").files) == 1


def test_files_that_lack_a_column_with_a_value_in_the_metadata_are_kept(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", LongType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "v"), spec_id=1)
    table = HandWrittenTable(tmp_path / "t", schema, UNPARTITIONED_PARTITION_SPEC, spec)
    fields = [pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})]
    table.add_file(pa.table([[5]], schema=pa.schema(fields)), 1, 8)

    def add_column(about: dict[str, Any]) -> None:
        about |= {"format-version": 3, "next-row-id": 0}
        column = {"id": 3, "name": "w", "required": False, "type": "long", "initial-default": 7, "write-default": 7}
        about["schemas"][0]["fields"].append(column)

    table.change_metadata(add_column)
    opened = ps.open_table(table.metadata)
    for condition in ("v = 8", "w = 7", "w > 6 AND v > 7"):
        assert opened.plan(condition).to_arrow()["id"].to_pylist() == [5], condition
    for condition in ("v = 7", "v IS NULL", "w IS NULL"):
        assert opened.plan(condition).to_arrow().num_rows == 0, condition


def test_files_without_ids_that_lack_a_mapped_name_are_kept(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", LongType()))
    table = HandWrittenTable(tmp_path / "t", schema, UNPARTITIONED_PARTITION_SPEC)
    table.add_file(pa.table({"id": [1], "old": [10]}), 0)
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["old"]}]'
    table.change_metadata(lambda about: about.update({"properties": {"schema.name-mapping.default": mapping}}))
    assert ps.open_table(table.metadata).plan("v = 10").to_arrow()["id"].to_pylist() == [1]

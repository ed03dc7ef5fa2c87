"""The data files of Iceberg tables: their versions, and fields that have changed since they were written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType

import parsieve as ps
from parsieve.lake import open_lake
from parsieve.lake.iceberg.table import Iceberg


def test_pyarrow_does_not_read_a_field_that_was_dropped_and_added_again(catalog: SqlCatalog) -> None:
    kind = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    rows = pa.table({"a": [1], "s": pa.array([{"x": 5, "y": 6}], kind)})
    table = catalog.create_table("n.t", rows.schema)
    table.append(rows)
    with table.update_schema() as update:
        update.delete_column(("s", "x"))
    with table.update_schema() as update:
        update.add_column(("s", "x"), LongType())
        update.move_first(("s", "x"))
    plan = ps.open_table(table).plan("a = 1")
    assert plan.to_arrow()["s"].to_pylist() == table.scan().to_arrow()["s"].to_pylist() == [{"x": None, "y": 6}]
    with pytest.raises(ps.UnsupportedError, match=r"stores the column s as struct.*may not read exactly"):
        plan.to_dataset()


def test_a_replaced_file_has_another_version(catalog: SqlCatalog) -> None:
    rows = pa.table({"a": [1]})
    table = catalog.create_table("n.t", rows.schema)
    table.append(rows)
    lake = open_lake(table)
    [file_slice] = lake.snapshot().slices
    before = lake.version(file_slice)
    assert before is not None
    assert lake.version(file_slice) == before
    path = Path(str(file_slice.path).removeprefix("file://"))
    path.write_bytes(path.read_bytes() + b"x")
    assert lake.version(file_slice) != before


def test_a_table_has_the_metadata_file_of_its_newest_state(catalog: SqlCatalog) -> None:
    table = catalog.create_table("n.t", pa.schema([("a", pa.int64())]))
    lakes = [Iceberg(table), Iceberg(table.location())]
    for _ in range(2):
        table.append(pa.table({"a": [1]}))
        assert [lake.metadata_file for lake in lakes] == [table.metadata_location] * 2


def test_files_from_before_and_after_a_change_of_the_partitioning(catalog: SqlCatalog) -> None:
    table = catalog.create_table("n.t", pa.schema([("p", pa.int64())]))
    for value, is_partitioned in ((1, True), (2, False), (3, True)):
        with table.update_spec() as spec:
            if is_partitioned:
                spec.add_identity("p")
            else:
                spec.remove_field("p")
        table.append(pa.table({"p": [value]}))
    slices = open_lake(table).snapshot().slices
    assert [file_slice.partition_values for file_slice in slices] == [{"p": 3}, {}, {"p": 1}]
    for value in (1, 2, 3):
        assert ps.open_table(table).plan(f"p = {value}").to_arrow().to_pylist() == [{"p": value}]


@pytest.mark.parametrize("version", ["1", "2"])
def test_snapshots_have_ascending_instants(catalog: SqlCatalog, version: str) -> None:
    """Snapshots of format 1 have no sequence number."""
    rows = pa.table({"a": [1]})
    table = catalog.create_table("n.t", rows.schema, properties={"format-version": version})
    for _ in range(2):
        table.append(rows)
    lake = open_lake(table)
    instants = [lake.snapshot(snapshot.snapshot_id).instant for snapshot in table.metadata.snapshots]
    if version == "2":
        assert instants == [1, 2]
    else:
        assert instants == [snapshot.timestamp_ms for snapshot in table.metadata.snapshots]

"""Plans of Delta and Iceberg tables stay correct through their histories, with a current, a stale and no index."""

from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform
from support.models.plan_truth import build, check_no_more_is_kept, check_plans, some_rows

import parsieve as ps
from parsieve.lake import open_lake

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore:Delete:UserWarning"
)


@pytest.mark.parametrize(("seed", "index"), [(1, "sieve"), (2, "sieve"), (1, "bloom"), (2, "both")])
def test_plans_of_a_changing_delta_table_are_correct(tmp_path: Path, seed: int, index: str) -> None:
    random_ = random.Random(seed)
    path = str(tmp_path)
    write_deltalake(path, some_rows(random_, 30), partition_by=["year"] if seed == 1 else None)
    table = ps.open_table(path)
    for step in range(8):
        operation = random_.choice(["append", "append", "delete", "update", "compact"])
        delta_table = DeltaTable(path)
        if operation == "append":
            write_deltalake(path, some_rows(random_, 20, first=step * 50), mode="append")
        elif operation == "delete":
            delta_table.delete(f"id % 7 = {step % 7}")
        elif operation == "update":
            delta_table.update(updates={"id": "id + 500"}, predicate=f"id % 3 = {step % 3}")
        else:
            delta_table.optimize.compact()
        if step == 3:
            build(table, index)
        elif step == 6:
            table.update_index(progress=False)
        full = table.plan().to_arrow()
        check_plans(table, full, random_, 4)
        check_no_more_is_kept(table, full, random_)
    for version in (0, 3, 5):
        full = table.plan(as_of=version).to_arrow()
        check_plans(table, full, random_, 4, as_of=version)
        check_no_more_is_kept(table, full, random_, as_of=version)
    assert table.verify_index() == []
    table.update_index(progress=False)
    assert table.verify_index() == []
    check_plans(table, table.plan().to_arrow(), random_, 4)


@pytest.mark.parametrize(("seed", "index"), [(1, "sieve"), (2, "sieve"), (1, "bloom"), (2, "both")])
def test_plans_of_a_changing_iceberg_table_are_correct(catalog: SqlCatalog, seed: int, index: str) -> None:
    random_ = random.Random(seed)
    first = some_rows(random_, 30)
    iceberg_table = catalog.create_table("n.t", first.schema)
    iceberg_table.append(first)
    snapshots = [iceberg_table.metadata.current_snapshot_id]
    for step in range(8):
        operation = ["append", "delete", "columns", "append", "overwrite", "partition", "append", "delete"][step]
        names = iceberg_table.schema().as_arrow().names
        more = some_rows(random_, 20, first=step * 50)
        more = more.rename_columns([name for name in names if not name.startswith("new")])
        if operation == "append":
            iceberg_table.append(more)
        elif operation == "delete":
            iceberg_table.delete(f"id > {random_.randrange(40, 60)} and id < {random_.randrange(60, 80)}")
        elif operation == "overwrite":
            iceberg_table.overwrite(more, "id > 90")
        elif operation == "columns":
            # One column takes the former name of another. A lookup by name would read the wrong statistics.
            with iceberg_table.update_schema() as update:
                update.rename_column("paid", "was_paid")
            with iceberg_table.update_schema() as update:
                update.rename_column("day", "paid")
                update.add_column("new", iceberg_table.schema().find_type("id"))
        elif operation == "partition":
            with iceberg_table.update_spec() as spec:
                spec.add_field("year", IdentityTransform())
        iceberg_table = catalog.load_table("n.t")
        snapshots.append(iceberg_table.metadata.current_snapshot_id)
        table = ps.open_table(iceberg_table)
        if step == 2:
            build(table, index)
        elif step == 6:
            table.update_index(progress=False)
        full = table.plan().to_arrow()
        check_plans(table, full, random_, 4)
        check_no_more_is_kept(table, full, random_)
    for snapshot in (snapshots[0], snapshots[4]):
        full = table.plan(as_of=snapshot).to_arrow()
        check_plans(table, full, random_, 4, as_of=snapshot)
        check_no_more_is_kept(table, full, random_, as_of=snapshot)
    assert table.verify_index() == []


def test_timestamps_above_a_maximum_in_milliseconds_are_kept(tmp_path: Path) -> None:
    """Delta's log truncates timestamps to milliseconds, so the greatest value is above the logged maximum."""
    last = dt.datetime(2026, 1, 1, 12, 0, 0, 123_999, tzinfo=dt.UTC)
    write_deltalake(str(tmp_path), pa.table({"at": pa.array([last], pa.timestamp("us", "UTC"))}))
    (log,) = (tmp_path / "_delta_log").glob("*.json")
    log.write_text(log.read_text().replace("12:00:00.123999", "12:00:00.123"))
    assert "12:00:00.123Z" in log.read_text()
    table = ps.open_table(str(tmp_path))
    assert len(table.plan([("at", "=", last)]).files) == 1
    assert table.plan("at > '2026-01-01T12:00:00.123500Z'").to_arrow().num_rows == 1
    assert table.plan("at > '2026-01-01T12:00:00.125Z'").files == []


@pytest.mark.parametrize("indexed", [False, True])
def test_swapped_names_of_mapped_columns_use_the_right_statistics(tmp_path: Path, indexed: bool) -> None:
    """Two columns of a mapped Delta table swap names. Files and statistics keep the physical names."""
    write_deltalake(
        str(tmp_path),
        pa.table({"a": pa.array([1, 2], pa.int64()), "b": pa.array([100, 200], pa.int64())}),
        configuration={"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"},
    )
    (log,) = (tmp_path / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            for number, field in enumerate(schema["fields"]):
                field["metadata"] = {
                    "delta.columnMapping.id": number + 1,
                    "delta.columnMapping.physicalName": field["name"],
                }
                field["name"] = {"a": "b", "b": "a"}[field["name"]]
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
    log.write_text("\n".join(map(json.dumps, actions)))
    table = ps.open_table(str(tmp_path))
    if indexed:
        table.build_index(["a", "b"], progress=False)
    for row_groups in (None, True):
        assert table.plan("a = 100", row_groups=row_groups).to_arrow().num_rows == 1
        assert table.plan("b = 1", row_groups=row_groups).to_arrow().num_rows == 1
        assert table.plan("a = 1", row_groups=row_groups).files == []
        assert table.plan("b = 100", row_groups=row_groups).files == []


def test_a_delta_plan_filters_rows_but_lists_files_with_all_rows(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"id": pa.array(range(10), pa.int64())}))
    plan = ps.open_table(str(tmp_path)).plan("id >= 3")
    assert plan.count_rows() == plan.to_dataset().count_rows() == 7
    assert open_lake(str(tmp_path)).format == "delta"
    assert pq.read_table(plan.files[0]).num_rows == 10


def test_cached_statistics_of_a_renamed_column_are_not_reused(catalog: SqlCatalog) -> None:
    """A table stays open during a rename. A new column with the old name is another column of the same files."""
    iceberg_table = catalog.create_table("n.t", pa.schema([("id", pa.int64()), ("a", pa.int64())]))
    iceberg_table.append(pa.table({"id": [1, 2, 3], "a": [10, 20, 30]}))
    table = ps.open_table(iceberg_table)
    assert table.plan("a = 10", row_groups=True).to_arrow().num_rows == 1
    with iceberg_table.update_schema() as update:
        update.rename_column("a", "b")
    with iceberg_table.update_schema() as update:
        update.add_column("a", iceberg_table.schema().find_type("id"))
    iceberg_table.append(pa.table({"id": [4], "b": [5], "a": [99]}))
    iceberg_table.refresh()
    for opened in (table, ps.open_table(iceberg_table)):
        assert opened.plan("a IS NULL", row_groups=True).to_arrow()["id"].to_pylist() == [1, 2, 3]
        assert opened.plan("b = 20", row_groups=True).to_arrow()["id"].to_pylist() == [2]
        assert opened.plan("a = 10", row_groups=True).to_arrow().num_rows == 0

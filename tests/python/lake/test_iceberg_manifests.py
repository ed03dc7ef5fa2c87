"""The files of Iceberg tables as columns: the same files as in plans of pyiceberg, and up to date after each commit."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from support.models.lake_truth import check_columns

import parsieve as ps
from parsieve.lake import open_lake
from parsieve.lake.iceberg.statistics import _array, _decoded

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore:Delete:UserWarning"
)


def test_a_snapshot_is_read_once_until_the_schema_changes(catalog: SqlCatalog) -> None:
    table = catalog.create_table("n.once", pa.schema([("a", pa.int64())]))
    table.append(pa.table({"a": [1]}))
    lake = open_lake(table.location())
    first = lake.snapshot()
    assert lake.snapshot() is first
    table.append(pa.table({"a": [2]}))
    second = lake.snapshot()
    assert len(second.slices) == 2
    # The same snapshot, read with another schema.
    with table.update_schema() as update:
        update.rename_column("a", "b")
    third = lake.snapshot()
    assert third.id == second.id
    assert third.schema.names == ["b"]
    assert lake.snapshot(first.id).schema.names == ["a"]


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("kind", ["none", "sieve", "bloom"])
def test_a_rewritten_file_is_noticed_when_it_is_added_again(
    catalog: SqlCatalog, tmp_path: Path, kind: str, version: str
) -> None:
    """A job may register the same path each night. The size and the number of rows may be the same each time."""
    file = tmp_path / "daily.parquet"

    def register(*ids: int) -> None:
        pq.write_table(
            pa.table({"id": pa.array(ids, pa.int64())}),
            file,
            compression="none",
            use_dictionary=False,
            row_group_size=2,
        )
        iceberg_table.add_files([file.as_uri()])

    schema = pa.schema([("id", pa.int64())])
    iceberg_table = catalog.create_table("n.t", schema, properties={"format-version": version})
    register(1, 3, 5, 9)
    size = file.stat().st_size
    table = ps.open_table(iceberg_table)
    if kind != "none":
        table.build_index("id", kind=kind)
    assert table.plan("id = 3", row_groups=True).to_arrow().num_rows == 1
    iceberg_table.delete("id >= 0")
    register(1, 4, 6, 9)
    assert file.stat().st_size == size
    for row_groups in (None, True):
        assert table.plan("id = 4", row_groups=row_groups).to_arrow()["id"].to_pylist() == [4]
        assert table.plan("id = 6", row_groups=row_groups).to_arrow()["id"].to_pylist() == [6]


@pytest.mark.parametrize("version", ["1", "2"])
def test_columns_of_manifests_equal_the_files_that_pyiceberg_plans(catalog: SqlCatalog, version: str) -> None:
    day, moment = dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
    kinds = {"a": pa.int64(), "b": pa.int32(), "p": pa.string(), "day": pa.date32(), "at": pa.timestamp("us", "UTC")}
    rows = [
        {"a": step * 10 + at, "b": -step, "p": [None, "x y", "ü/z"][step % 3], "day": day, "at": moment}
        for step in range(4)
        for at in range(2)
    ]
    schema = pa.schema(kinds)
    table = catalog.create_table("n.columns", schema, properties={"format-version": version})
    with table.update_spec() as spec:
        spec.add_identity("p")
    for step in range(4):
        table.append(pa.Table.from_pylist(rows[2 * step : 2 * step + 2], schema))
    with table.update_spec() as spec:
        spec.add_identity("b")
    table.append(pa.Table.from_pylist([rows[0] | {"a": None, "b": 7}], schema))
    table.delete("a = 11")
    snapshot = open_lake(table).snapshot()
    check_columns(snapshot)
    planned = {str(task.file.file_path).removeprefix("file://"): task.file for task in table.scan().plan_files()}
    slices = snapshot.slices
    assert sorted(planned) == sorted(slices.path.to_pylist())
    for number, data_slice in enumerate(slices):
        file = planned[str(data_slice.path)]
        assert (data_slice.size, data_slice.num_rows) == (file.file_size_in_bytes, file.record_count)
        assert data_slice.partition_values["p"] == file.partition[0]
        assert ("b" in data_slice.partition_values) == (len(file.partition) == 2)
        for name, kind in kinds.items():
            statistics = snapshot.statistics((name,))
            assert statistics is not None
            at = table.schema().find_field(name).field_id
            for array, held, is_upper in (
                (statistics.lower, file.lower_bounds, False),
                (statistics.upper, file.upper_bounds, True),
            ):
                decoded = _decoded((held or {}).get(at), kind, is_upper)
                expected = None if decoded is None else _array([decoded], kind)[0].as_py()
                assert array[number].as_py() == expected
            assert statistics.null_count[number].as_py() == (file.null_value_counts or {}).get(at)
            assert statistics.value_count[number].as_py() == (file.value_counts or {}).get(at)


def test_percent_signs_in_paths_are_part_of_the_names(catalog: SqlCatalog, tmp_path: Path) -> None:
    """Writers escape partition values in the names of folders, and do not escape these names once more."""
    schema = pa.schema([("a", pa.int64()), ("p", pa.string())])
    location = f"file://{tmp_path}/house%20of%2Ftables"
    table = catalog.create_table("n.escaped", schema, location=location)
    with table.update_spec() as spec:
        spec.add_identity("p")
    table.append(pa.Table.from_pylist([{"a": 1, "p": "a/b"}, {"a": 2, "p": "c%20d"}, {"a": 3, "p": "plain"}], schema))
    planned = ps.open_table(table)
    assert planned.uri == location.removeprefix("file://")
    assert all(Path(path).exists() for path in planned.plan("a > 0").files)
    planned.build_index("a", kind="sieve")
    assert sorted(path.name for path in Path(planned.uri).iterdir()) == ["_parsieve", "data", "metadata"]
    assert planned.plan("a = 2").to_duckdb().fetchall() == [(2, "c%20d")]

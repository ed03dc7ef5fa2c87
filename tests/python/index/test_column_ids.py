"""A new column with the name of an indexed one does not use its index, even if the columns got their ids later."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType
from support.formats import catalog_at
from support.models.lake_truth import commit
from support.models.model_lake import ModelLake, place

import parsieve as ps
from parsieve.index import TableIndex
from parsieve.index.sieve import query


def metadata(folder: Path, *columns: tuple[str, int, str]) -> dict[str, Any]:
    """Return the table's metadata with mapped columns: name, id and the name in files."""
    log = (folder / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    action: dict[str, Any] = next(action["metaData"] for action in map(json.loads, log) if "metaData" in action)
    fields = [
        {
            "name": name,
            "type": "long",
            "nullable": True,
            "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical},
        }
        for name, number, physical in columns
    ]
    configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}
    schema = json.dumps({"type": "struct", "fields": fields})
    return {"metaData": action | {"schemaString": schema, "configuration": configuration}}


@pytest.mark.parametrize("kind", ["sieve", "bloom", "both"])
@pytest.mark.parametrize("updated", [False, True], ids=["as it was built", "updated between"])
def test_columns_that_are_mapped_after_the_build_keep_their_index(tmp_path: Path, kind: str, updated: bool) -> None:
    """The columns get ids after the build. Then one is dropped and a new column takes its name. No file changes."""
    x, y = [1, 2, 3], [7, 8, 9]
    for shift in (0, 10):
        shifted = {"x": [number + shift for number in x], "y": [number + shift for number in y]}
        write_deltalake(tmp_path, pa.table(shifted, pa.schema([("x", pa.int64()), ("y", pa.int64())])), mode="append")
    table = ps.open_table(tmp_path)
    table.build_index(["x", "y"], kind=kind)
    mapped = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    commit(tmp_path, mapped, metadata(tmp_path, ("x", 1, "x"), ("y", 2, "y")))
    assert table.plan("x = 2", row_groups=False).to_arrow().num_rows == 1
    if updated:
        table.update_index()
        # It is still the same column, which has an id now.
        assert len(table.plan("x = 2", row_groups=False, stale="error").files) == 1
    commit(tmp_path, metadata(tmp_path, ("y", 2, "y"), ("x", 3, "col-3")))

    def check() -> None:
        for opened in (table, ps.open_table(tmp_path)):
            for row_groups in (None, True, False):
                assert opened.plan("x IS NULL", row_groups=row_groups).to_arrow().num_rows == 6
                assert opened.plan("x = 2", row_groups=row_groups).to_arrow().num_rows == 0
                assert opened.plan("y = 18", row_groups=row_groups).to_arrow().num_rows == 1
                for where, *counts in (("x = 2", 1, 1), ("x IN (3, 12)", 1, 2), ("x IS NULL", 0, 0)):
                    for version, count in enumerate(counts):
                        plan = opened.plan(where, as_of=version, row_groups=row_groups)
                        assert plan.to_arrow().num_rows == count, (where, plan.explain())

    check()
    table.update_index()
    assert table.verify_index() == []
    assert set(table.index_kinds()) == {"y"}
    check()
    table.drop_index()
    table.build_index(["x", "y"], kind=kind)
    assert table.verify_index() == []
    check()
    # Only one version of the index remains for queries of earlier table versions.
    table.expire_index(dt.timedelta(0))
    check()


def test_an_expired_version_falls_back_to_the_same_column(tmp_path: Path) -> None:
    """Its files are deleted, so the newest version answers, for the column with the same id and not the same name."""

    def schema(*names: tuple[str, int]) -> pa.Schema:
        return pa.schema(
            [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)}) for name, number in names]
        )

    lake, five = ModelLake(schema(("v", 2))), query.equals(pa.scalar(5, pa.int64()))
    index = TableIndex(tmp_path)
    first = lake.change({place("a"): pa.table({"v": [5]})})
    index.build(lake, first, ["v"], progress=False)
    old = TableIndex(tmp_path).at(first)
    assert old is not None
    # The same file later: the new column has no value in it, and the old column has another name.
    lake.change({}, schema(("v", 3), ("w", 2)))
    current = pa.table({"v": pa.array([None], pa.int64()), "w": [5]})
    lake.states[-1] = {place("a"): (first.slices[0].token, current)}
    index.drop()
    index.build(lake, lake.snapshot(), ["v", "w"], progress=False)
    for part in old.columns[("v",)].parts():
        (tmp_path / part.name).unlink(missing_ok=True)
    assert old.may_match("v", five, first.slices).to_pylist() == [True]
    assert old.may_match("v", query.equals(pa.scalar(6, pa.int64())), first.slices).to_pylist() == [False]


def test_a_compaction_skips_the_index_of_a_dropped_column(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def append(start: int) -> None:
        columns = {"x": range(start, start + 9), "y": range(start, start + 9)}
        write_deltalake(tmp_path, pa.table(columns, pa.schema([("x", pa.int64()), ("y", pa.int64())])), mode="append")

    append(0)
    table = ps.open_table(tmp_path)
    table.build_index(["x", "y"], kind="sieve")
    append(100)
    table.update_index(compact=False)
    mapped = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    commit(tmp_path, mapped, metadata(tmp_path, ("y", 2, "y")))
    # A purge that left the index of x as it is would keep traces of deleted rows.
    for options in ({"columns": "x"}, {"purge": True}):
        with pytest.raises(ps.ColumnNotFoundError, match=r"x was dropped from the table; call update_index\(\) first"):
            table.compact_index(**options)
    with caplog.at_level("WARNING", "parsieve"):
        report = table.compact_index()
    assert "x was dropped from the table, so its index was not compacted" in caplog.text
    assert report.columns == ("y",)
    assert report.notes == ("x was dropped from the table, so its index was not compacted; update_index() removes it",)
    assert table.verify_index() == []
    assert table.plan("y = 104", row_groups=False).to_arrow()["y"].to_pylist() == [104]
    assert len(table.plan("y = 104", row_groups=False, stale="error").files) == 1
    table.update_index()
    assert table.index_kinds() == {"y": "sieve"}
    assert table.compact_index(purge=True).notes == ()


def test_a_new_column_does_not_have_the_partition_values_of_a_dropped_one(tmp_path: Path) -> None:
    """Between two plans, only the id of the column changes."""
    with catalog_at(tmp_path) as catalog:
        iceberg = catalog.create_table("n.t", pa.schema([("id", pa.int64()), ("p", pa.string())]))
        with iceberg.update_spec() as spec:
            spec.add_field("p", IdentityTransform(), "part")
        iceberg.append(pa.table({"id": [1, 2], "p": ["a", "a"]}))
        table = ps.open_table(iceberg.location())
        assert table.plan("p = 'a'").to_arrow().num_rows == 2
        with iceberg.update_spec() as spec:
            spec.remove_field("part")
        with iceberg.update_schema() as update:
            update.delete_column("p")
        with iceberg.update_schema() as update:
            update.add_column("p", StringType())
        assert table.plan("p = 'a'").to_arrow().num_rows == 0
        assert table.plan("p IS NULL").to_arrow()["id"].to_pylist() == [1, 2]

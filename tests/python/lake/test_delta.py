"""Delta tables compared with deltalake's reader: histories, deletion vectors and mapped columns."""

from __future__ import annotations

import base64
import datetime as dt
import itertools
import json
import os
import random
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from support.aging import wait_until_old
from support.delta_vectors import write_table_with_vectors, write_vector, z85
from support.models.lake_truth import check_snapshot, check_tokens, commit, path_in_base

import parsieve as ps
from parsieve.lake import open_lake
from parsieve.lake.storage.storage import Storage


def full_read(table: Any, schema: pa.Schema) -> pa.Table:
    """Return the rows that deltalake's query engine reads."""
    result = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t"))
    return result.select(schema.names).cast(schema)


def some_rows(random_: random.Random, count: int) -> pa.Table:
    def pick(*values: Any) -> list[Any]:
        return [random_.choice(values) for _ in range(count)]

    micros = [-1_999, -1, 0, 1, 999, 1_234_567, 1_767_225_600_123_456]
    return pa.table(
        {
            "id": pa.array([random_.randrange(-50, 1000) for _ in range(count)], pa.int64()),
            "small": pa.array(pick(-128, 0, 127, None), pa.int8()),
            "name": pa.array(pick("", "a", "ü" * 40, "x" * 31 + "😀" * 4, "\uffff", "😀", None), pa.string()),
            "real": pa.array(pick(0.0, -0.0, float("nan"), 0.1, -1e300, float("inf"), None), pa.float64()),
            "single": pa.array(pick(0.0, -0.0, float("nan"), 0.1, 3e38, None), pa.float32()),
            "paid": pa.array(pick(Decimal("1.20"), Decimal("9999999999.99"), None), pa.decimal128(12, 2)),
            "huge": pa.array(
                pick(Decimal("12345678901234567890123456789.123456789"), Decimal("-0.000000001"), None),
                pa.decimal128(38, 9),
            ),
            "at": pa.array(pick(*micros, None), pa.timestamp("us", "UTC")),
            "local": pa.array(pick(*micros, None), pa.timestamp("us")),
            "day": pa.array(pick(dt.date(1066, 1, 1), dt.date(1970, 1, 1), dt.date(2026, 1, 1), None), pa.date32()),
            "flag": pa.array(pick(True, False, None), pa.bool_()),
            "raw": pa.array(pick(b"\xff\xff", b"", None), pa.binary()),
            "point": pa.array(
                pick({"x": 1, "y": "p"}, {"x": None, "y": None}, None),
                pa.struct([("x", pa.int64()), ("y", pa.string())]),
            ),
            "part": pa.array(pick("a", "b/ c%", None), pa.string()),
            "year": pa.array(pick(2025, 2026), pa.int32()),
        }
    )


@pytest.mark.parametrize("seed", [1, 11])
def test_random_histories_match_the_reader_of_deltalake(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    path = str(tmp_path)
    write_deltalake(path, some_rows(random_, 30), partition_by=["part", "year"])
    for step in range(11):
        table = DeltaTable(path)
        operation = random_.choice(
            ["append", "append", "delete", "update", "merge", "compact", "checkpoint", "add column", "restore"]
        )
        if operation == "append":
            write_deltalake(path, some_rows(random_, random_.randrange(1, 30)), mode="append", schema_mode="merge")
        elif operation == "delete":
            table.delete(f"id % 7 = {step % 7}")
        elif operation == "update":
            table.update(updates={"id": "id + 500"}, predicate=f"id % 3 = {step % 3}")
        elif operation == "merge":
            source = some_rows(random_, 5)
            merge = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
            merge.when_matched_update({"name": "s.name"}).execute()
        elif operation == "compact":
            table.optimize.compact()
        elif operation == "add column":
            more = some_rows(random_, 4).append_column(f"new{step}", pa.array([1, 2, 3, None]))
            write_deltalake(path, more, mode="append", schema_mode="merge")
        elif operation == "restore" and table.version():
            table.restore(random_.randrange(table.version()))
        table = DeltaTable(path)
        if operation == "checkpoint":
            table.create_checkpoint()
    (tmp_path / "_parsieve").mkdir()
    (tmp_path / "_parsieve" / "x").write_bytes(b"x")
    lake, histories = open_lake(path), []
    last = DeltaTable(path).version()
    assert last >= 6
    for version in range(last + 1):
        snapshot = lake.snapshot(version)
        assert snapshot.id == version
        delta_table = DeltaTable(path, version=version)
        histories.append((snapshot, check_snapshot(lake, snapshot, full_read(delta_table, snapshot.schema))))
        actions = pa.table(delta_table.get_add_actions())
        num_rows = sorted(data_slice.num_rows or 0 for data_slice in snapshot.slices)
        assert num_rows == sorted(actions["num_records"].to_pylist())
    check_tokens(histories)
    assert lake.snapshot().tokens == histories[-1][0].tokens
    assert lake.snapshot().id == last
    for (before, _), (after, _) in itertools.pairwise(histories):
        changes = lake.changes(before.id or 0, after)
        assert {data_slice.location for data_slice in changes.added} == after.tokens.keys() - before.tokens.keys()
        assert set(changes.removed) == before.tokens.keys() - after.tokens.keys()
    assert open_lake(DeltaTable(path, version=1)).snapshot().id == 1


@pytest.mark.parametrize(("inline", "optimize"), [(False, False), (False, True), (True, False)])
def test_deletion_vectors_remove_rows_and_change_tokens(tmp_path: Path, inline: bool, optimize: bool) -> None:
    first, second = write_table_with_vectors(tmp_path)
    sparse = [0, 5, 65_535, 65_536, 99_999] if inline else [*range(0, 90_000, 7), *range(40_000, 60_000)]
    vector = write_vector(tmp_path, sparse, inline, optimize)
    commit(
        tmp_path, {"remove": {"path": first["path"], "dataChange": True}}, {"add": first | {"deletionVector": vector}}
    )
    more = write_vector(tmp_path, {*sparse, 1, 99_998}, inline, optimize)
    commit(
        tmp_path,
        {"remove": {"path": first["path"], "dataChange": True, "deletionVector": vector}},
        {"add": first | {"deletionVector": more, "stats": first["stats"].replace("{", '{"tightBounds":false,', 1)}},
    )
    lake, histories = open_lake(tmp_path), []
    for version in range(3):
        snapshot = lake.snapshot(version)
        delta_table = DeltaTable(str(tmp_path), version=version)
        full = full_read(delta_table, snapshot.schema)
        assert full.num_rows == 200_000 - (len({*sparse}), 0)[version == 0] - (2 if version == 2 else 0)
        rows_read = lake.read(snapshot, snapshot.slices).read_all()
        assert rows_read.sort_by("id").equals(full.sort_by("id"))
        live = {part.location: pa.Table.from_batches(lake.read_keys(part, [("id",)])) for part in snapshot.slices}
        together = pa.concat_tables(live.values())
        assert sorted(together["id"].to_pylist()) == sorted(full["id"].to_pylist())
        histories.append((snapshot, live))
        assert [data_slice.clean for data_slice in snapshot.slices].count(False) == (version > 0)
        assert (lake.dataset(snapshot, snapshot.slices) is None) == (version > 0)
        clean = [data_slice for data_slice in snapshot.slices if data_slice.clean]
        assert lake.dataset(snapshot, clean) is not None
        by_filter = lake.read(
            snapshot, snapshot.slices, ["id"], (pc.field("p") == 1) & (pc.field("id") < 20)
        ).read_all()
        expected = {number for number in full["id"].to_pylist() if number % 2 and number < 20}
        assert set(by_filter["id"].to_pylist()) == expected
    check_tokens(histories)
    tokens = [{data_slice.group: data_slice.token for data_slice in snapshot.slices} for snapshot, _ in histories]
    assert len({by_group[first["path"]] for by_group in tokens}) == 3
    assert len({by_group[second["path"]] for by_group in tokens}) == 1
    assert [len(lake.changes(version, lake.snapshot(version + 1)).changed) for version in range(2)] == [1, 1]
    vectors = pa.table(DeltaTable(str(tmp_path)).deletion_vectors())
    assert vectors.num_rows == 1


def test_a_damaged_deletion_vector_is_rejected(tmp_path: Path) -> None:
    first, _ = write_table_with_vectors(tmp_path, 100)
    vector = write_vector(tmp_path, [1, 2, 3])
    commit(
        tmp_path, {"remove": {"path": first["path"], "dataChange": True}}, {"add": first | {"deletionVector": vector}}
    )
    (path,) = (tmp_path / "ab").iterdir()
    intact = path.read_bytes()
    lake = open_lake(tmp_path)
    dirty = next(data_slice for data_slice in lake.snapshot().slices if not data_slice.clean)
    assert sum(batch.num_rows for batch in lake.read_keys(dirty, [("id",)])) == 47
    for position in range(6, len(intact)):
        path.write_bytes(intact[:position] + bytes([intact[position] ^ 1]) + intact[position + 1 :])
        with pytest.raises(ps.ParsieveError):
            list(lake.read_keys(dirty, [("id",)]))
        path.write_bytes(intact[:position])
        with pytest.raises(ps.ParsieveError):
            list(lake.read_keys(dirty, [("id",)]))
    for name in ("a\0", "file:///a%00"):
        removed = {"path": first["path"], "dataChange": True, "deletionVector": dict(vector)}
        vector |= {"storageType": "p", "pathOrInlineDv": name}
        commit(tmp_path, {"remove": removed}, {"add": first | {"deletionVector": vector}})
        with pytest.raises(ps.FormatError, match="contains a null character"):
            ps.open_table(tmp_path).plan("id = 1").to_arrow()


def test_int96_is_an_instant_under_a_physical_name(tmp_path: Path) -> None:
    """By default Spark writes timestamps as INT96. Here the column also has another name in the file."""
    moments = [dt.datetime(1066, 10, 14, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC), None]
    naive = [moment and moment.replace(tzinfo=None) for moment in moments]
    table = pa.table({"c1": pa.array(naive, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    mapping = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c1"}
    field = {"name": "at", "type": "timestamp", "nullable": True, "metadata": mapping}
    meta: dict[str, Any] = {"id": "x", "format": {"provider": "parquet", "options": {}}, "createdTime": 0}
    meta |= {"schemaString": json.dumps({"type": "struct", "fields": [field]}), "partitionColumns": []}
    meta["configuration"] = {"delta.columnMapping.mode": "name"}
    add = {"path": "f.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    (tmp_path / "_delta_log").mkdir()
    commit(tmp_path, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": meta}, {"add": add})
    lake = open_lake(tmp_path)
    snapshot = lake.snapshot()
    assert lake.dataset(snapshot, snapshot.slices) is None
    assert next(lake.read_keys(snapshot.slices[0], [("at",)]))["at"].to_pylist() == moments


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_found_by_physical_name_or_id(tmp_path: Path, mode: str) -> None:
    """One column is renamed, one is dropped and added again. Physical names and ids decide, not logical names."""

    def physical_field(name: str, number: int, kind: Any = None) -> pa.Field:
        return pa.field(name, kind or pa.int64(), metadata={"PARQUET:field_id": str(number)})

    inner = pa.struct([physical_field("c7", 7), physical_field("c8", 8)])
    schema = pa.schema([physical_field("c1", 1), physical_field("c2", 2), physical_field("c6", 6, inner)])
    nested = [{"c7": 1, "c8": 2}, None]
    pq.write_table(pa.table([[1, 2], [10, None], nested], schema=schema), tmp_path / "f.parquet")

    def logical_field(name: str, number: int, kind: Any = "long") -> dict[str, Any]:
        mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"c{number}"}
        return {"name": name, "type": kind, "nullable": True, "metadata": mapping}

    def metadata(*fields: dict[str, Any]) -> dict[str, Any]:
        return {
            "metaData": {
                "id": "x",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": ["part"],
                "configuration": {"delta.columnMapping.mode": mode},
                "createdTime": 0,
            }
        }

    (tmp_path / "_delta_log").mkdir()
    stats: dict[str, Any] = {
        "numRecords": 2,
        "minValues": {"c1": 1, "c2": 10, "c6": {"c7": 1}},
        "maxValues": {"c1": 2, "c2": 10},
    }
    stats["nullCount"] = {"c2": 1}
    add: dict[str, Any] = {
        "path": "f.parquet",
        "partitionValues": {"c9": "5"},
        "size": (tmp_path / "f.parquet").stat().st_size,
    }
    add |= {"modificationTime": 0, "dataChange": True, "stats": json.dumps(stats)}
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    struct_kind = {"type": "struct", "fields": [logical_field("x", 7), logical_field("y", 8)]}
    swapped = {"type": "struct", "fields": [logical_field("y", 7), logical_field("x", 8)]}
    part = logical_field("part", 9)
    first = metadata(logical_field("a", 1), logical_field("b", 2), logical_field("s", 6, struct_kind), part)
    commit(tmp_path, {"protocol": protocol}, first, {"add": add})
    commit(tmp_path, metadata(logical_field("b", 1), logical_field("a", 3), logical_field("s", 6, swapped), part))
    lake = open_lake(tmp_path)
    before, after = lake.snapshot(0), lake.snapshot(1)
    for snapshot in (before, after):
        version = snapshot.id
        if mode == "name":
            check_snapshot(
                lake, snapshot, full_read(DeltaTable(str(tmp_path), version=int(version or 0)), snapshot.schema)
            )
    assert lake.read(before, before.slices).read_all().to_pylist() == [
        {"a": 1, "b": 10, "s": {"x": 1, "y": 2}, "part": 5},
        {"a": 2, "b": None, "s": None, "part": 5},
    ]
    assert lake.read(after, after.slices).read_all().to_pylist() == [
        {"b": 1, "a": None, "s": {"y": 1, "x": 2}, "part": 5},
        {"b": 2, "a": None, "s": None, "part": 5},
    ]
    keys = pa.Table.from_batches(lake.read_keys(after.slices[0], [("s", "x"), ("b",), ("a",)]))
    assert keys.to_pylist() == [{"s.x": 2, "b": 1, "a": None}, {"s.x": None, "b": 2, "a": None}]
    assert (
        before.schema.field("a").metadata[b"PARQUET:field_id"] == after.schema.field("b").metadata[b"PARQUET:field_id"]
    )
    bounds = after.statistics(("b",))
    assert bounds is not None
    assert (bounds.lower.to_pylist(), bounds.upper.to_pylist()) == ([1], [2])
    inner_bounds = after.statistics(("s", "y"))
    assert inner_bounds is not None
    assert inner_bounds.lower.to_pylist() == [1]
    assert after.slices[0].partition_values == {"part": 5}
    paths = {("b",): ("c1",), ("a",): None, ("s", "y"): ("c6", "c7"), ("part",): None}
    assert {column: path_in_base(lake, after.slices[0], after.schema, column) for column in paths} == paths
    assert before.slices[0].token == after.slices[0].token


def test_columns_mapped_by_id_may_have_any_names_in_a_file(tmp_path: Path) -> None:
    """A table that was converted from Iceberg has files that were written before columns were renamed."""

    def column(name: str, number: int, kind: Any = "long") -> dict[str, Any]:
        mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}
        return {"name": name, "type": kind, "nullable": True, "metadata": mapping}

    # The names of two columns changed places, also those of two fields and of two lists.
    numbers = {"b": 1, "a": 2, "s": 3, "y": 4, "x": 5, "m": 6, "l": 7}
    fields = {name: {"PARQUET:field_id": str(number)} for name, number in numbers.items()}
    inner = pa.struct([pa.field(name, pa.int64(), metadata=fields[name]) for name in ("y", "x")])
    kinds = {"b": pa.int64(), "a": pa.int64(), "s": inner, "m": pa.list_(pa.int64()), "l": pa.list_(pa.int64())}
    rows = pa.table(
        [[1, 2], [100, 200], [{"y": 1, "x": 100}, {"y": 2, "x": 200}], [[1], [2]], [[100], [200]]],
        schema=pa.schema([pa.field(name, kind, metadata=fields[name]) for name, kind in kinds.items()]),
    )
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=1)
    element = {"type": "array", "elementType": "long", "containsNull": True}
    nested = {"type": "struct", "fields": [column("x", 4), column("y", 5)]}
    columns = [column("a", 1), column("b", 2), column("s", 3, nested), column("l", 6, element), column("m", 7, element)]
    meta: dict[str, Any] = {"id": "x", "format": {"provider": "parquet", "options": {}}, "createdTime": 0}
    meta |= {"schemaString": json.dumps({"type": "struct", "fields": columns}), "partitionColumns": []}
    meta["configuration"] = {"delta.columnMapping.mode": "id"}
    add = {"path": "f.parquet", "partitionValues": {}, "size": (tmp_path / "f.parquet").stat().st_size}
    add |= {"modificationTime": 0, "dataChange": True}
    (tmp_path / "_delta_log").mkdir()
    commit(tmp_path, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": meta}, {"add": add})
    table = ps.open_table(tmp_path)
    for condition in ("a = 1", "b = 100", "s.x = 1", "s.y = 100", "list_contains(l, 1)", "list_contains(m, 100)"):
        for row_groups in (None, True, False):
            assert table.plan(condition, row_groups=row_groups).to_arrow()["a"].to_pylist() == [1], condition
    assert table.plan("s.x = 2", row_groups=True).row_groups == {str(tmp_path / "f.parquet"): [1]}


def test_the_mapping_of_a_table_without_mapped_columns_does_not_count(tmp_path: Path) -> None:
    """The schema still has physical names, but the mode of the column mapping is "none"."""
    write_deltalake(tmp_path, pa.table({"id": [1, 2], "other": [10, 20], "part": ["x", "y"]}), partition_by=["part"])
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    [metadata] = [action["metaData"] for action in actions if "metaData" in action]
    schema = json.loads(metadata["schemaString"])
    for number, (field, name) in enumerate(zip(schema["fields"], ("other", "c2", "c3"), strict=True)):
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}
    metadata["schemaString"] = json.dumps(schema)
    log.write_text("\n".join(map(json.dumps, actions)))
    lake = open_lake(tmp_path)
    check_snapshot(lake, lake.snapshot(), full_read(DeltaTable(tmp_path), lake.snapshot().schema))
    for condition in ("id = 1", "other = 10", "part = 'x'"):
        assert ps.open_table(tmp_path).plan(condition).to_arrow()["id"].to_pylist() == [1], condition


def test_versions_are_found_by_number_and_time(tmp_path: Path) -> None:
    for value in range(3):
        write_deltalake(str(tmp_path), pa.table({"a": [value]}), mode="append")
        moment = dt.datetime(2026, 1, 1 + value, tzinfo=dt.UTC)
        name = tmp_path / "_delta_log" / f"{value:020}.json"
        stamp = moment.timestamp()
        os.utime(name, (stamp, stamp))
    lake = open_lake(tmp_path)
    assert lake.snapshot(dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)).id == 1
    assert lake.snapshot(dt.datetime(2026, 1, 3, tzinfo=dt.UTC)).id == 2
    assert lake.snapshot("1").id == 1
    with pytest.raises(ValueError, match="newer"):
        lake.snapshot(dt.datetime(2025, 12, 31, tzinfo=dt.UTC))
    with pytest.raises(ValueError, match="time zone"):
        lake.snapshot(dt.datetime(2026, 1, 2))
    with pytest.raises(ValueError, match=r"has no version .*; the newest version is 2"):
        lake.snapshot(3)
    with pytest.raises(TypeError, match="as_of"):
        lake.snapshot("yesterday")
    DeltaTable(str(tmp_path)).create_checkpoint()
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    assert len(lake.snapshot(2).slices) == 3
    with pytest.raises(ps.UnsupportedError, match="version 0 is missing"):
        lake.snapshot(1)


def test_the_newest_version_may_have_a_checkpoint_and_no_commit(tmp_path: Path) -> None:
    for value in range(3):
        write_deltalake(str(tmp_path), pa.table({"a": [value]}), mode="append")
    DeltaTable(str(tmp_path)).create_checkpoint()
    table = ps.open_table(tmp_path)
    for version in (2, 1, 0):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
        assert DeltaTable(str(tmp_path)).version() == 2
        for opened in (table, ps.open_table(tmp_path)):
            assert len(opened.plan("a >= 0").files) == 3
            assert opened.plan("a = 2").to_arrow()["a"].to_pylist() == [2]
    with pytest.raises(ValueError, match=r"has no version .*; the newest version is 2"):
        table.plan("a = 2", as_of=3)


def test_v2_checkpoints_with_sidecars_are_read(tmp_path: Path) -> None:
    for value in range(2):
        write_deltalake(str(tmp_path), pa.table({"a": [value]}), mode="append")
    expected = open_lake(tmp_path).snapshot()
    log = tmp_path / "_delta_log"
    lines = [
        json.loads(line) for version in range(2) for line in (log / f"{version:020}.json").read_text().splitlines()
    ]
    DeltaTable(str(tmp_path)).create_checkpoint()
    classic = pq.read_table(log / f"{1:020}.checkpoint.parquet")
    (log / "_sidecars").mkdir()
    adds = classic.filter(pc.field("add", "path").is_valid()).select(["add", "remove"])
    pq.write_table(adds, log / "_sidecars" / "s.parquet")
    first = [action for action in lines if "protocol" in action or "metaData" in action]
    first.append({"sidecar": {"path": "s.parquet", "sizeInBytes": 1, "modificationTime": 0}})
    (log / f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json").write_text(
        "\n".join(map(json.dumps, first))
    )
    for name in (f"{1:020}.checkpoint.parquet", f"{0:020}.json", f"{1:020}.json", "_last_checkpoint"):
        (log / name).unlink()
    from parsieve.lake.delta.log import state_at

    state = state_at(Storage(tmp_path), 1)
    assert set(state.files.path.to_pylist()) == {data_slice.group for data_slice in expected.slices}
    assert set(state.files.stats.to_pylist()) - {None}


def test_vacuum_keeps_the_index(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"a": [1]}))
    write_deltalake(str(tmp_path), pa.table({"a": [2]}), mode="overwrite")
    (tmp_path / "_parsieve").mkdir()
    (tmp_path / "_parsieve" / "v1.commit").write_bytes(b"x")
    options: dict[str, Any] = {"retention_hours": 0, "enforce_retention_duration": False, "dry_run": False}
    assert len(DeltaTable(str(tmp_path)).vacuum(full=True, **options)) == 1
    assert (tmp_path / "_parsieve" / "v1.commit").exists()


def test_z85_matches_an_independent_encoder() -> None:
    from parsieve.lake.delta.schema import unpack

    data = bytes(range(256))
    assert unpack(z85(data)) == data
    assert base64.b85encode(b"1234").decode() != z85(b"1234")
    # The second text has a character that only the alphabet of Python contains.
    for wrong in ("0000", "0000~", "0000é"):
        with pytest.raises(ps.FormatError, match="not valid Z85"):
            unpack(wrong)


def test_a_version_is_read_once_and_a_new_table_is_noticed(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"a": [1]}))
    lake = open_lake(path)
    wait_until_old(tmp_path)
    first = lake.snapshot()
    assert lake.snapshot() is first
    assert first.statistics(("a",)) is first.statistics(("a",))
    write_deltalake(path, pa.table({"a": [2]}), mode="append")
    wait_until_old(tmp_path)
    assert len(lake.snapshot().slices) == 2
    assert lake.snapshot(0).id == 0
    shutil.rmtree(path)
    write_deltalake(path, pa.table({"b": [1]}))
    assert lake.snapshot().schema.names == ["b"]
    assert lake.snapshot(0).schema.names == ["b"]


def test_lookups_do_not_find_deleted_rows(tmp_path: Path) -> None:
    first, _ = write_table_with_vectors(tmp_path, 2_000)
    vector = write_vector(tmp_path, [3, 50])
    commit(
        tmp_path, {"remove": {"path": first["path"], "dataChange": True}}, {"add": first | {"deletionVector": vector}}
    )
    # Some versions of deltalake change the order of the rows.
    deleted = sorted(pq.read_table(tmp_path / first["path"])["id"].take([3, 50]).to_pylist())
    table = ps.open_table(tmp_path)
    for is_indexed in (False, True):
        if is_indexed:
            table.build_index("id")
        for keys in (deleted, [*deleted, *range(2_000)]):
            result = table.lookup("id", keys)
            assert result.table["id"].to_pylist() == [key for key in keys if key not in deleted]
            assert result.missing.to_pylist() == deleted
        assert table.lookup("id", deleted, as_of=0).table["id"].to_pylist() == deleted


@pytest.mark.parametrize("first", [0, 2])
def test_times_in_commits_decide_the_version_at_a_time(tmp_path: Path, first: int) -> None:
    """The files' own times are later. Before the first commit with a time, only they are known."""
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    for version in range(4):
        write_deltalake(tmp_path, pa.table({"a": [version]}), mode="append")
        path = tmp_path / f"_delta_log/{version:020}.json"
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        actions.sort(key=lambda action: "commitInfo" not in action)
        at = begin + dt.timedelta(hours=version)
        if version >= first:
            actions[0]["commitInfo"]["inCommitTimestamp"] = int(at.timestamp() * 1000)
            at += dt.timedelta(hours=2, minutes=10)
        path.write_text("\n".join(map(json.dumps, actions)))
        os.utime(path, (at.timestamp(), at.timestamp()))
    lake = open_lake(tmp_path)
    for hours, version in ((0, 0), (0.5, 0), (1, 1), (1.9, 1), (2, 2), (2.5, 2), (3, 3), (9, 3)):
        assert lake.snapshot(begin + dt.timedelta(hours=hours)).id == version, hours
    with pytest.raises(ValueError, match="newer than"):
        lake.snapshot(begin - dt.timedelta(hours=1))

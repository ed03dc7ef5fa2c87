"""`pss.build_index` builds the same index as one process, segment by segment, however it is divided into tasks."""

from __future__ import annotations

import datetime as dt
import os
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from support.index_bytes import sections
from support.spark_tables import wait_until_old

import parsieve as ps
import parsieve.spark as pss
from parsieve import ConflictError, UnsupportedError, _core
from parsieve.index import LocalStore, TableIndex, View
from parsieve.index.sieve import query
from parsieve.index.sieve.reader import ColumnReader
from parsieve.lake import Lake, Snapshot, open_lake
from parsieve.spark.build.executor import SparkExecutor
from parsieve.spark.runtime import executors, versions

pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")
pytestmark = pytest.mark.spark

# Pages of a few dozen keys, so that small tables have many.
SMALL = {"max_records": 120, "max_weight": 60, "max_key_bytes": 2000}
COLUMNS = ["k", "name", "real", "paid", "inner.x"]


def some_rows(seed: int, count: int = 400) -> pa.Table:
    r = random.Random(seed)
    keys = [None if r.random() < 0.05 else r.choice([7, r.randrange(-300, 300)]) for _ in range(count)]
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "name": [None if key is None else f"name {key:05}" + "x" * (key % 5) for key in keys],
            "real": [None if key is None else float("nan") if key % 9 == 0 else key / 7 for key in keys],
            "paid": pa.array([None if key is None else Decimal(key) * 10**20 for key in keys], pa.decimal128(38, 2)),
            "inner": [None if key is None or key % 4 == 0 else {"x": key % 40} for key in keys],
        }
    )


def old(folder: Path) -> None:
    """New files might still change unnoticed, so they are not indexed. Wait until they are older."""
    for file in folder.rglob("*.parquet"):
        os.utime(file, (1, 1))
    wait_until_old(folder)


def plain_table(folder: Path, files: int = 5) -> Lake:
    folder.mkdir()
    for number in range(files):
        pq.write_table(some_rows(number), folder / f"{number}.parquet", row_group_size=100)
    old(folder)
    return open_lake(str(folder))


def units_of(reader: ColumnReader) -> list[Any]:
    """Return the ids of the slices, and the ranges and the statistics of their units."""
    reader.load_all_units()
    timeline = reader.timeline
    assert isinstance(timeline, _core.SieveUnitTimeline)
    ids = pa.array(timeline.slices(), pa.uint32())
    assert len(ids)
    return [ids.to_pylist(), timeline.unit_ranges(ids), timeline.unit_statistics(ids)]


def same_as_local(lake: Lake, snapshot: Snapshot, view: View, folder: Path, columns: list[str]) -> None:
    layouts = {path: state.layout for path, state in view.columns.items() if state.layout is not None}
    ours = TableIndex(folder).build(lake, snapshot, columns, progress=False, options=SMALL, layouts=layouts)
    assert set(view.columns) == set(layouts) == set(ours.columns)
    for path, state in ours.columns.items():
        made = view.columns[path]
        assert sections(view.store, made) == sections(ours.store, state)
        assert units_of(view.reader(path)) == units_of(ours.reader(path))
        assert (made.type, made.table.id, made.base.pairs) == (state.type, state.table.id, state.base.pairs)
        for asked in [query.is_null(), query.is_not_null(), query.is_nan()]:
            assert view.lookup(path, asked) == ours.lookup(path, asked)
    assert all(view.token(piece.location) == ours.token(piece.location) != "" for piece in snapshot.slices)


@pytest.mark.parametrize(("parts", "unit"), [(None, "auto"), (None, "row_group"), (2, "rows"), (9, "row_group")])
def test_the_index_of_a_folder_equals_the_local_one(spark: Any, tmp_path: Path, parts: int | None, unit: str) -> None:
    lake = plain_table(tmp_path / "t")
    # There is a task for each part of each column.
    columns = COLUMNS[:2] if parts == 9 else COLUMNS
    view = pss.build_index(spark, str(tmp_path / "t"), columns, options=SMALL, parts=parts, kind="sieve", unit=unit)
    [ranges] = view.reader("k").unit_ranges(pa.array([0], pa.uint32()))
    assert (0 if ranges is None else len(ranges[1])) == (0 if unit == "auto" else 4)
    same_as_local(lake, lake.snapshot(), view, tmp_path / "local", columns)
    files = [len(state.base.files) for state in view.columns.values()]
    assert max(files) > 1 if parts else set(files) == {1}
    assert view.lookup("k", query.equals(pa.scalar(7, pa.int64()))) == {
        piece.location for piece in lake.snapshot().slices
    }
    # The temporary runs are deleted, and nothing else is left.
    assert TableIndex.of(lake).verify(lake, lake.snapshot()) == []
    held = {one.name for one in view.store.list("segments")}
    assert held == {part.name for state in view.columns.values() for part in state.base.files}


def test_deleted_rows_of_delta_are_not_indexed(spark: Any, tmp_path: Path) -> None:
    if "delta" not in versions.installed().jars:
        pytest.skip("no jars of delta for this PySpark")
    folder = str(tmp_path / "a table")
    pq.write_table(pa.concat_tables([some_rows(seed).drop(["paid"]) for seed in range(3)]), tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet")).selectExpr("*", "k % 2 AS part")
    writer = frame.repartition(3).write.format("delta").partitionBy("part")
    writer.option("delta.enableDeletionVectors", "true").save(folder)
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE k % 5 = 0")
    lake = open_lake(folder)
    snapshot = lake.snapshot()
    assert any(not piece.clean for piece in snapshot.slices)
    columns = ["k", "name", "part"]
    view = pss.build_index(
        spark, folder, columns, options=SMALL, parts=3, index_location=tmp_path / "index", kind="sieve"
    )
    same_as_local(lake, snapshot, view, tmp_path / "local", columns)
    earlier = pss.build_index(spark, folder, "k", as_of=0, index_location=tmp_path / "earlier", kind="sieve")
    assert earlier.columns["k",].base.pairs > view.columns["k",].base.pairs
    assert earlier.table.id == 0


def test_an_iceberg_table_with_deletes_is_indexed_by_name(spark: Any, tmp_path: Path) -> None:
    if "iceberg" not in versions.installed().jars:
        pytest.skip("no jars of iceberg for this PySpark")
    spark.sql(
        "CREATE TABLE iceberg.build.t (k BIGINT, name STRING) USING iceberg "
        "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    try:
        empty = pss.build_index(spark, "iceberg.build.t", "k", index_location=tmp_path / "empty", kind="sieve")
        assert empty.lookup("k", query.is_not_null()) == set()
        for number in range(2):
            rows = some_rows(number).select(["k", "name"]).to_pylist()
            spark.createDataFrame(rows, "k long, name string").coalesce(1).writeTo("iceberg.build.t").append()
        spark.sql("DELETE FROM iceberg.build.t WHERE k = 7")
        view = pss.build_index(
            spark,
            "iceberg.build.t",
            ["k", "name"],
            options=SMALL,
            parts=2,
            index_location=tmp_path / "index",
            kind="sieve",
        )
        place = Path(str(spark.conf.get("spark.sql.catalog.iceberg.warehouse")).removeprefix("file:")) / "build" / "t"
        lake = open_lake(str(place))
        same_as_local(lake, lake.snapshot(), view, tmp_path / "local", ["k", "name"])
        assert view.columns["k",].base.pairs > 100
    finally:
        spark.sql("DROP TABLE iceberg.build.t PURGE")


def test_columns_with_a_single_key_and_with_none_are_indexed(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    for number in range(4):
        rows = {"same": [1] * 5000, "none": pa.nulls(5000, pa.string()), "no_number": [float("nan")] * 5000}
        pq.write_table(pa.table(rows), folder / f"{number}.parquet")
    pq.write_table(pa.table(rows).slice(0, 0), folder / "empty.parquet")
    old(folder)
    lake = open_lake(str(folder))
    columns = ["same", "none", "no_number"]
    view = pss.build_index(spark, str(folder), columns, parts=4, options=SMALL, kind="sieve")
    same_as_local(lake, lake.snapshot(), view, tmp_path / "local", columns)
    assert [view.columns[path,].base.pairs for path in columns] == [4, 0, 0]
    assert len(view.lookup("none", query.is_null())) == len(view.lookup("no_number", query.is_nan())) == 4


def test_an_unreadable_file_is_never_skipped(spark: Any, tmp_path: Path) -> None:
    lake = plain_table(tmp_path / "t", 3)
    pq.write_table(pa.table({"k": ["no", "numbers"]}), tmp_path / "t" / "9.parquet")
    old(tmp_path / "t")
    view = pss.build_index(spark, lake, "k", options=SMALL, parts=2, kind="sieve")
    same = TableIndex(tmp_path / "local").build(lake, lake.snapshot(), ["k"], progress=False)
    for asked in [query.equals(pa.scalar(10**9)), query.is_null()]:
        found = view.may_match("k", asked, lake.snapshot().slices)
        assert found == same.may_match("k", asked, lake.snapshot().slices)
        assert found.to_pylist()[-1]
    only = tmp_path / "only"
    only.mkdir()
    pq.write_table(pa.table({"k": [1]}), only / "a.parquet")
    pq.write_table(pa.table({"k": ["no"]}), only / "b.parquet")
    old(only)
    (only / "a.parquet").unlink()
    with pytest.raises(UnsupportedError):
        pss.build_index(spark, open_with_schema(only), "k", index_location=tmp_path / "index", kind="sieve")
    assert TableIndex.open(tmp_path / "index") is None


def open_with_schema(folder: Path) -> Lake:
    from parsieve.lake.folder.table import ParquetDir

    return ParquetDir(str(folder), schema=pa.schema([("k", pa.int64())]))


def test_building_does_not_change_the_session(spark: Any, tmp_path: Path) -> None:
    def state() -> tuple[Any, ...]:
        settings = {row.key: row.value for row in spark.sql("SET").collect()}
        views = [table.name for table in spark.catalog.listTables() if table.isTemporary]
        return settings, views, spark.sparkContext.getLocalProperty(executors.DESCRIPTION)

    plain_table(tmp_path / "t", 2)
    spark.sparkContext.setLocalProperty(executors.DESCRIPTION, "my own")
    before = state()
    pss.build_index(spark, str(tmp_path / "t"), "k", parts=2, options=SMALL, kind="sieve")
    assert state() == before
    spark.sparkContext.setLocalProperty(executors.DESCRIPTION, None)


def test_the_slower_of_two_builds_commits_nothing(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = plain_table(tmp_path / "t", 2)
    build_bases = SparkExecutor.build_bases

    def slow(*arguments: Any) -> Any:
        TableIndex(tmp_path / "index").build(lake, lake.snapshot(), ["k"], progress=False)
        return build_bases(*arguments)

    monkeypatch.setattr(SparkExecutor, "build_bases", slow)
    with pytest.raises(ConflictError, match="k was indexed by another process"):
        pss.build_index(spark, lake, "k", index_location=tmp_path / "index", kind="sieve")
    view = TableIndex(tmp_path / "index").newest()
    assert view is not None
    assert view.version == 1
    assert not [one for one in LocalStore(tmp_path / "index").list("segments") if one.name.endswith(".run")]


def test_wrong_arguments_are_refused(spark: Any, tmp_path: Path) -> None:
    lake = plain_table(tmp_path / "t", 1)
    with pytest.raises(ValueError, match="sieve"):
        pss.build_index(spark, lake, "k", kind="tree")
    with pytest.raises(ValueError, match="at least one column"):
        pss.build_index(spark, lake, [])
    with pytest.raises(ValueError, match="parts must be at least 1"):
        pss.build_index(spark, lake, "k", parts=0, kind="sieve")
    with pytest.raises(KeyError, match="nothing"):
        pss.build_index(spark, lake, "nothing", kind="sieve")


@pytest.mark.parametrize("name", ["t[1]", "x{a,b}*", "a b%20?"])
def test_an_open_table_can_have_a_name_like_a_pattern(spark: Any, tmp_path: Path, name: str) -> None:
    """An open table can be passed like a path, with its index. Special characters in names have no effect."""
    for decoy in ("t1", "xa", "xb", "a b "):
        (tmp_path / decoy).mkdir()
        pq.write_table(pa.table({"id": [3]}), tmp_path / decoy / "a.parquet")
    folder = tmp_path / name
    for part in range(2):
        (folder / f"p={part}").mkdir(parents=True)
        for file in range(2):
            first = 4 * part + 2 * file
            pq.write_table(pa.table({"id": [first, first + 1]}), folder / f"p={part}" / f"{file}.parquet")
    old(folder)
    table = ps.open_table(folder, index_location=tmp_path / "index")
    pss.build_index(spark, table, "id", kind="sieve")
    assert not (folder / "_parsieve").exists()
    assert [Path(file).name for file in table.plan("id = 3").files] == ["1.parquet"]
    for frame in (pss.read(spark, table), pss.read(spark, str(folder), index_location=tmp_path / "index")):
        assert sorted(row.id for row in frame.collect()) == list(range(8))
        assert [(row.id, row.p) for row in frame.where("id = 3").collect()] == [(3, 0)]
    assert [row.id for row in table.plan("id = 3").to_spark(spark).collect()] == [3]
    (folder / "p=0" / "0.parquet").unlink()
    pss.update_index(spark, table)
    assert table.plan("id = 1").files == []
    pss.compact(spark, table)
    assert pss.expire(spark, table, dt.timedelta(days=1)) == (0, 0)
    assert {row.status for row in pss.add_filters(spark, table, "id").collect()} == {"added"}
    with pytest.raises(ValueError, match="to open_table instead"):
        pss.update_index(spark, table, index_location=tmp_path / "index")


@pytest.mark.parametrize("kind", ["sieve", "bloom"])
def test_decryption_keys_do_not_expose_encrypted_columns(spark: Any, tmp_path: Path, kind: str) -> None:
    """An index would reveal the values of an encrypted column to readers without its key."""
    key = b"0123456789abcdef"
    properties = pe.create_encryption_properties(key)
    pq.write_table(
        pa.table({"secret": ["secret 1", "secret 2"]}), tmp_path / "a.parquet", encryption_properties=properties
    )
    old(tmp_path)
    table = ps.open_table(tmp_path, decryption={"footer_key": key})
    assert table.plan("secret = 'secret 1'").to_arrow().num_rows == 1
    with pytest.raises(UnsupportedError, match="encrypted"):
        pss.build_index(spark, table, "secret", kind=kind)
    assert table.index_kinds() == {}
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"secret 1" in path.read_bytes()]

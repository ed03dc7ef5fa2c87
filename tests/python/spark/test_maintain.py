"""Executors update, compact and expire an index, also from a streaming query."""

from __future__ import annotations

import datetime as dt
import doctest
import inspect
import logging
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.index_bytes import sections
from support.spark_tables import wait_until_old

import parsieve as ps
import parsieve.spark as pss
from parsieve.index import LocalStore, TableIndex, View
from parsieve.index.accounts import Account
from parsieve.index.log.log import Log
from parsieve.index.sieve import query
from parsieve.lake import open_lake
from parsieve.spark.runtime import versions

pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")
pytestmark = pytest.mark.spark


def needs(lake: str) -> None:
    if lake not in versions.installed().jars:
        pytest.skip(f"no jars of {lake} for this PySpark")


def deltas(view: View) -> list[bytes]:
    return [view.store.get(part.file.name) for _, state in sorted(view.columns.items()) for part in state.deltas]


def held(folder: Path, value: int) -> set[str]:
    """Return the files that contain a value, according to the rows of the table."""
    lake = open_lake(str(folder))
    found = set()
    for piece in lake.snapshot().slices:
        if any(value in batch.column(0).to_pylist() for batch in lake.read_keys(piece, [("k",)])):
            found.add(piece.group)
    return found


def test_updates_report_the_same_changes_as_local_ones(spark: Any, tmp_path: Path) -> None:
    needs("delta")
    folder, where = tmp_path / "t", tmp_path / "index"
    frame = spark.range(300).selectExpr("id AS k", "CASE WHEN id % 10 = 0 THEN NULL ELSE 'n' || id END AS name")
    frame.repartition(3).write.format("delta").option("delta.enableDeletionVectors", "true").save(str(folder))
    lake = open_lake(str(folder))
    built = pss.build_index(spark, str(folder), ["k", "name"], index_location=where, kind="sieve")
    layouts = {path: state.layout for path, state in built.columns.items() if state.layout is not None}
    local = TableIndex(tmp_path / "local")
    local.build(lake, lake.snapshot(), ["k", "name"], progress=False, layouts=layouts)
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE k < 5")
    spark.sql(f"UPDATE delta.`{folder}` SET k = 1000 WHERE k = 100")
    spark.range(2000, 2010).selectExpr("id AS k", "'new' AS name").coalesce(1).write.format("delta").mode(
        "append"
    ).save(str(folder))
    view = pss.update_index(spark, str(folder), index_location=where, compaction=False)
    same = local.update(lake, lake.snapshot(), progress=False, compaction=False)
    assert (view.version, view.table) == (same.version, same.table)
    assert len(deltas(view)) == 2
    assert deltas(view) == deltas(same)
    for value in (3, 100, 150, 1000, 2005):
        found = {location.group for location in view.lookup("k", query.equals(pa.scalar(value)))}
        assert found >= held(folder, value)
        assert value != 3 or not found
    # Without changes, nothing is committed.
    assert pss.update_index(spark, str(folder), index_location=where, compaction=False).version == view.version
    # Overwrite the table, so that all indexed files are gone.
    spark.range(5).selectExpr("id AS k", "'x' AS name").coalesce(1).write.format("delta").mode("overwrite").save(
        str(folder)
    )
    view = pss.update_index(spark, str(folder), index_location=where)
    assert len(view.lookup("k", query.is_not_null())) == 1
    compacted = pss.compact(spark, str(folder), index_location=where)
    rebuilt = TableIndex(tmp_path / "rebuilt").build(
        lake, lake.snapshot(), ["k", "name"], progress=False, layouts=layouts
    )
    for path, state in compacted.columns.items():
        assert not state.deltas
        assert sections(compacted.store, state) == sections(rebuilt.store, rebuilt.columns[path])
    assert TableIndex(where).verify(lake, lake.snapshot()) == []
    before = len(Log(LocalStore(where)).stored())
    gone, _ = pss.expire(spark, str(folder), dt.timedelta(), index_location=where)
    assert gone == before - 1
    assert not [one for one in LocalStore(where).list("segments") if one.name.endswith(".run")]


def test_a_column_is_built_again_if_its_changes_exceed_the_memory_of_a_task(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"k": range(100), "few": [1] * 100}), folder / "a.parquet")
    pss.build_index(spark, str(folder), ["k", "few"], kind="sieve")
    shuffled = pa.array([number * 7_919_000_003 % 2**61 for number in range(200_000)])
    pq.write_table(pa.table({"k": shuffled, "few": [2] * len(shuffled)}), folder / "b.parquet")
    view = pss.update_index(spark, str(folder), memory=1 << 20, compaction=False)
    assert [len(view.columns[name,].deltas) for name in ("k", "few")] == [0, 1]
    lake = open_lake(str(folder))
    assert TableIndex.of(lake).verify(lake, lake.snapshot()) == []
    assert {location.group for location in view.lookup("k", query.equals(shuffled[1]))} == {"b.parquet"}


def test_changed_columns_are_rebuilt_and_grown_ones_compacted(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "t"
    folder.mkdir()

    def write(name: str, rows: pa.Table) -> None:
        pq.write_table(rows, folder / name)
        os.utime(folder / name, (1, 1))
        # A new file might still change unnoticed, so it is not indexed. Wait until it is older.
        wait_until_old(folder)

    write("a.parquet", pa.table({"k": [1, 2], "s": ["x", "y"]}))
    pss.build_index(spark, str(folder), ["k", "s"], kind="sieve")
    (folder / "a.parquet").unlink()
    write("b.parquet", pa.table({"k": pa.array([5, 6], pa.timestamp("us")), "s": ["x", "z"]}))
    monkeypatch.setattr("parsieve.index.sieve.update.MAX_DELTAS", 0)
    view = pss.update_index(spark, str(folder))
    assert view.columns["k",].type == pa.timestamp("us")
    assert {location.group for location in view.lookup("k", query.is_not_null())} == {"b.parquet"}
    assert not view.columns["s",].deltas
    assert {location.group for location in view.lookup("s", query.equals(pa.scalar("x")))} == {"b.parquet"}
    assert view.columns["s",].base.pairs == 2


def test_a_streaming_query_updates_its_index(spark: Any, tmp_path: Path) -> None:
    needs("delta")
    source, folder, where = tmp_path / "source", tmp_path / "t", tmp_path / "index"
    source.mkdir()
    spark.createDataFrame([], "k long").write.format("delta").save(str(folder))
    pss.build_index(spark, str(folder), "k", index_location=where, kind="sieve")
    seen: list[tuple[int, int]] = []

    def each(batch: Any, number: int) -> None:
        batch.coalesce(1).write.format("delta").mode("append").save(str(folder))
        view = pss.update_index(batch.sparkSession, str(folder), index_location=where)
        snapshot = open_lake(str(folder)).snapshot()
        for value in range(0, 60, 7):
            mask = view.may_match("k", query.equals(pa.scalar(value)), snapshot.slices).to_pylist()
            kept = {piece.group for piece, keep in zip(snapshot.slices, mask, strict=True) if keep}
            assert kept == held(folder, value)
        seen.append((number, len(snapshot.slices)))

    stream = spark.readStream.schema("k long").option("maxFilesPerTrigger", 1).parquet(str(source))
    for number in range(3):
        pq.write_table(pa.table({"k": range(number * 20, number * 20 + 20)}), source / f"{number}.parquet")
        os.utime(source / f"{number}.parquet", (number + 1, number + 1))
    running = stream.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / "checkpoint"))
    running.trigger(availableNow=True).start().awaitTermination(1000)
    assert [number for number, _ in seen] == [0, 1, 2]
    assert seen[-1][1] == 3
    view = TableIndex(where).newest()
    assert view is not None
    assert view.table.id == 3


def test_a_streaming_query_updates_the_index_of_a_hudi_table(spark: Any, tmp_path: Path) -> None:
    """In a merge-on-read table, executors merge base files and logs of each batch's snapshot."""
    needs("hudi")
    source, folder, where = tmp_path / "source", tmp_path / "t", tmp_path / "index"
    source.mkdir()
    settings = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.upsert.shuffle.parallelism": "1",
        "hoodie.compact.inline": "false",
    }
    logs = []

    def each(batch: Any, number: int) -> None:
        batch.coalesce(1).write.format("hudi").options(**settings).mode("append").save(str(folder))
        lake = open_lake(str(folder))
        if number:
            view = pss.update_index(batch.sparkSession, str(folder), index_location=where)
        else:
            view = pss.build_index(batch.sparkSession, str(folder), "k", index_location=where, kind="sieve")
        snapshot = lake.snapshot()
        assert view.table.id == snapshot.id
        assert all(view.token(piece.location) == piece.token != "" for piece in snapshot.slices)
        assert TableIndex(where).verify(lake, snapshot) == []
        for value in range(0, 300, 20):
            found = {location.group for location in view.lookup("k", query.equals(pa.scalar(value)))}
            assert found >= held(folder, value)
        logs.append(sum(not piece.clean for piece in snapshot.slices))

    stream = spark.readStream.schema("id long, k long").option("maxFilesPerTrigger", 1).parquet(str(source))
    for number in range(3):
        # Only updates: if there were new rows, Hudi would rewrite small base files instead of writing logs.
        ids = list(range(20 - number))
        keys = [identity * 10 + number * 100 for identity in ids]
        pq.write_table(pa.table({"id": ids, "k": keys}), source / f"{number}.parquet")
        # Batches are in the order of the files' times, which must differ.
        os.utime(source / f"{number}.parquet", (number + 1, number + 1))
    running = stream.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / "checkpoint"))
    running.trigger(availableNow=True).start().awaitTermination(1000)
    assert len(logs) == 3
    assert logs[0] == 0 < logs[-1]


@pytest.mark.parametrize("name", ["build_index", "update_index", "compact", "expire"])
def test_the_docstring_examples_run(spark: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # New files are not indexed yet, and the examples do not wait.
    monkeypatch.setattr("parsieve.lake.storage.listing.TICK_NS", 0)
    monkeypatch.setattr("parsieve.lake.storage.listing.COARSE_NS", 0)
    text = inspect.getdoc(getattr(pss, name)) or ""
    test = doctest.DocTestParser().get_doctest(text, {"spark": spark}, name, None, None)
    said: list[str] = []
    result = doctest.DocTestRunner().run(test, out=said.append)
    assert result.attempted > 3
    assert result.failed == 0, "".join(said)


@pytest.mark.parametrize("kind", ["sieve", "bloom", "text"])
def test_files_that_change_during_a_build_or_an_update_are_named(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    for number in range(3):
        pq.write_table(pa.table({"name": [f"n{number}-{row}" for row in range(50)]}), folder / f"{number}.parquet")
    wait_until_old(folder)
    settle, changing = Account.settle, ["1.parquet"]

    def settle_and_change(account: Account, lake: Any, snapshot: Any) -> Any:
        """Change a file after the snapshot to index was taken."""
        settled = settle(account, lake, snapshot)
        for name in changing:
            pq.write_table(pa.table({"name": ["another"] * 90}), folder / name)
        return settled

    monkeypatch.setattr(Account, "settle", settle_and_change)

    def warnings() -> list[str]:
        lines = [record.getMessage() for record in caplog.records if record.name == "parsieve.index"]
        caplog.clear()
        return lines

    with caplog.at_level(logging.WARNING, "parsieve.index"):
        view = pss.build_index(spark, str(folder), "name", kind=kind)
        [on_spark] = warnings()
        assert on_spark == (
            f"the index in {view.store} leaves out 1 file, which every plan reads: {folder / '1.parquet'}: it was "
            "changed while it was read; try again"
        )
        wait_until_old(folder)
        report = ps.open_table(str(folder)).build_index("name", kind=kind)
        assert len(report.left_out) == 1
        assert warnings() == [on_spark]
        pq.write_table(pa.table({"name": ["new"]}), folder / "3.parquet")
        wait_until_old(folder)
        changing[:] = ["3.parquet"]
        pss.update_index(spark, str(folder))
        [line] = warnings()
        assert f"leaves out 1 file, which every plan reads: {folder / '3.parquet'}: it was changed" in line
        wait_until_old(folder)
        changing.clear()
        pss.update_index(spark, str(folder))
        assert warnings() == []

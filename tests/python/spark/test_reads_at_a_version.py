"""Reads stay at their version while tables change, or raise ConflictError."""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.spark_tables import SparkTable, ids, ids_and_files, needs, settled

import parsieve as ps
import parsieve.spark as pss
from parsieve.lake.hudi.properties import retry_after_rewrite
from parsieve.lake.slices import SliceObjects
from parsieve.lake.storage.listing import TICK_NS
from parsieve.lake.storage.storage import Storage
from parsieve.predicate.bind import bind
from parsieve.spark.pushdown.catalyst import Filter
from parsieve.spark.scan import file_index
from parsieve.spark.scan.hudi import is_same_version, with_logs
from parsieve.spark.scan.kept_files import without_skipped
from parsieve.spark.tables import lake_of
from parsieve.table import Table

errors = pytest.importorskip("pyspark.errors", reason="pip install 'parsieve[spark]'")
pytestmark = pytest.mark.spark


def test_replaced_files_of_a_folder_are_conflicts(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "t"
    spark.range(0, 40, 1, 4).write.parquet(str(folder))
    table = settled(ps.open_table(folder))
    table.build_index("id", progress=False)
    frame, plan, all_of_it = pss.read(spark, table), table.plan("id = 15"), table.plan()
    [file] = [Path(path) for path in table.plan("id = 25").files]
    file.write_bytes(Path(plan.files[0]).read_bytes())
    file.with_name(f".{file.name}.crc").unlink()
    with monkeypatch.context() as however_slow_we_are:
        at_once = file.stat().st_ctime_ns + TICK_NS // 2
        however_slow_we_are.setattr("parsieve.lake.storage.listing.time.time_ns", lambda: at_once)
        with pytest.raises(ps.ConflictError, match="written again"):
            all_of_it.to_spark(spark)
    # The index was built from the old content of the file.
    assert ids(frame.where("id = 15")) == [15, 15]
    assert ids(plan.to_spark(spark)) == [15], "at the plan's snapshot there was one"
    with pytest.raises(ps.ConflictError, match="written again"):
        all_of_it.to_spark(spark)
    Path(plan.files[0]).unlink()
    with pytest.raises(ps.ConflictError, match="is gone"):
        plan.to_spark(spark)


def test_delta_reads_stay_at_their_version(spark: Any, tmp_path: Path) -> None:
    needs("delta")
    made = SparkTable(spark, "delta", "moving_delta", tmp_path / "t")
    made.insert(0, 40)
    table = ps.open_table(made.folder)
    table.build_index("name", progress=False)
    plan = table.plan("name = 'n7'")
    before = pss.read(spark, table, "name = 'new'")
    first = ids(plan.to_spark(spark))
    made.update("name = 'new'", "name = 'n7'")
    assert ids(before) == []
    assert ids(pss.read(spark, table, "name = 'new'")) == first == ids(plan.to_spark(spark))
    # A condition whose meaning changes every day skips no files.
    assert ids_and_files(pss.read(spark, table, "day <= current_date() AND id = 5"))[0] in ([5], [])
    later = pss.read(spark, table, "day < current_date() AND id = 5")
    assert ids_and_files(later)[1] == ids_and_files(pss.read(spark, table, "id = 5"))[1]
    wide = pss.read(spark, table, "day = current_date()")
    assert ids_and_files(wide)[1] == len(table.plan().kept)
    for path in plan.files:
        Path(path).unlink()
    with pytest.raises(ps.ConflictError, match="is gone"):
        plan.to_spark(spark)
    made.drop()


def test_iceberg_reads_stay_at_their_snapshot(spark: Any, tmp_path: Path) -> None:
    needs("iceberg")
    made = SparkTable(spark, "iceberg", "moving", tmp_path / "t")
    made.insert(0, 40)
    table = ps.open_table(made.folder)
    table.build_index(["id", "name"], progress=False)
    plan, first = table.plan("name = 'n7'"), table.opened.lake.snapshot().id
    expected_now = ids(plan.to_spark(spark))
    made.delete("name = 'n7'")
    table.update_index(progress=False)
    assert ids(pss.read(spark, table, "name = 'n7'")) == []
    assert ids(plan.to_spark(spark)) == expected_now == ids(pss.read(spark, made.name, "name = 'n7'", first))
    # The rollback restores the rows, in the same files.
    spark.sql(f"CALL iceberg.system.rollback_to_snapshot('{made.name.removeprefix('iceberg.')}', {first})")
    assert ids(pss.read(spark, made.name, "name = 'n7'")) == expected_now
    # Another column takes the name, without a new snapshot.
    spark.sql(f"ALTER TABLE {made.name} RENAME COLUMN name TO old_name")
    spark.sql(f"ALTER TABLE {made.name} ADD COLUMN name STRING")
    assert len(ids(pss.read(spark, table, "name IS NULL"))) == 40
    assert ids(pss.read(spark, made.name, "old_name = 'n7'")) == expected_now
    spark.sql(f"INSERT INTO {made.name} SELECT 99, 'x', 1.0, NULL, NULL, NULL, NULL, 1, 'y'")
    later = "TIMESTAMP '" + time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() + 60)) + "'"
    spark.sql(
        f"CALL iceberg.system.expire_snapshots(table => '{made.name.removeprefix('iceberg.')}', older_than => {later})"
    )
    with pytest.raises(ps.ConflictError, match="expired"):
        plan.to_spark(spark)
    made.drop()


def test_iceberg_reads_follow_the_branch_that_the_session_audits(spark: Any) -> None:
    needs("iceberg")
    name = "iceberg.reads.audited"
    spark.sql(f"CREATE TABLE {name} (id BIGINT) USING iceberg TBLPROPERTIES ('write.wap.enabled' = 'true')")
    spark.conf.set("spark.wap.branch", "audit")
    try:
        # The main branch has no snapshot yet.
        spark.sql(f"INSERT INTO {name} SELECT id FROM range(20, 24, 1, 2)")
        assert ids(pss.read(spark, name, "id >= 22")) == [22, 23]
        assert ids(pss.read(spark, name, order_by="id", limit=1)) == [20]
        spark.conf.unset("spark.wap.branch")
        assert ids(pss.read(spark, name, "id >= 22")) == []
        spark.sql(f"INSERT INTO {name} SELECT id FROM range(4)")
        spark.conf.set("spark.wap.branch", "audit")
        for where in ("id >= 0", "id = 22"):
            assert ids(pss.read(spark, name, where)) == ids(spark.table(name).where(where))
        assert ids(pss.read(spark, name, order_by="id", descending=True, limit=2)) == [22, 23]
        assert ids(pss.semi_join(name, spark.range(2, 22), "id")) == [20, 21]
        main = Table(lake_of(spark, name))
        assert ids(main.plan("id < 2").to_spark(spark)) == [0, 1]
        # A branch that the table does not have.
        spark.conf.set("spark.wap.branch", "missing")
        assert ids(pss.read(spark, name, "id >= 2")) == [2, 3]
    finally:
        spark.conf.unset("spark.wap.branch")
    spark.sql(f"DROP TABLE {name} PURGE")


def test_names_of_states_of_iceberg_tables_are_refused(spark: Any) -> None:
    needs("iceberg")
    name = "iceberg.reads.with_states"
    spark.sql(f"CREATE TABLE {name} (id BIGINT) USING iceberg")
    spark.sql(f"INSERT INTO {name} SELECT id FROM range(3)")
    snapshot = spark.table(f"{name}.snapshots").first().snapshot_id
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH b")
    for state in ("branch_b", f"snapshot_id_{snapshot}"):
        with pytest.raises(ps.UnsupportedError, match=rf"state of the table {name}; .* as as_of"):
            pss.read(spark, f"{name}.{state}", "id = 1")
    assert ids(pss.read(spark, name, "id = 1", "b")) == [1]
    with pytest.raises(errors.AnalysisException):
        pss.read(spark, f"{name}.missing", "id = 1")
    spark.sql(f"DROP TABLE {name} PURGE")


def test_hudi_reads_lose_no_row_when_logs_arrive(spark: Any, tmp_path: Path) -> None:
    """New logs change the rows of a base file. No row is lost, whether Spark or the planner looked first."""
    needs("hudi_mor")
    made = SparkTable(spark, "hudi_mor", "moving_hudi", tmp_path / "t")
    made.insert(0, 40)
    table = ps.open_table(made.folder)
    table.build_index("name", progress=False)
    old, plan = pss.read(spark, table), table.plan("name = 'n7'")
    before = table.opened.lake.snapshot()
    first = ids(plan.to_spark(spark))
    made.update("name = 'new'", "name = 'n7'")
    # Spark listed the files before the planner did.
    table.update_index(progress=False)
    assert ids(old.where("name = 'n7'")) == first
    # The planner listed the files before Spark did.
    stale = table.opened.plan(bind("name = 'new'", before.schema), before)
    assert stale.kept == []

    def keep(paths: Sequence[str], where: Filter) -> file_index.Kept:
        return file_index.Kept(without_skipped(paths, stale.record, is_same_version))

    frame = file_index.prune(made.whole(), keep, label_paths=with_logs)
    assert ids(frame.where("name = 'new'")) == first
    found, opened = ids_and_files(pss.read(spark, table, "name = 'new'"))
    assert found == first == ids(plan.to_spark(spark))
    assert opened <= len(first)
    # Spark can no longer read this state.
    changed = table.plan("id = 5")
    first_slice, *others = changed.record.snapshot.slices
    moved = dataclasses.replace(first_slice, group="another")
    planned = dataclasses.replace(changed.record.snapshot, slices=SliceObjects((moved, *others)))
    changed.record = dataclasses.replace(changed.record, snapshot=planned)
    with pytest.raises(ps.ConflictError, match="another version"):
        changed.to_spark(spark)
    made.drop()


def test_reads_during_a_streaming_write_return_a_committed_state(spark: Any, tmp_path: Path) -> None:
    """While a stream upserts and indexes batches, each read returns a state that existed during the read."""
    needs("hudi_mor")
    made = SparkTable(spark, "hudi_mor", "streamed", tmp_path / "t")
    made.insert(0, 20)
    table = ps.open_table(made.folder)
    table.build_index(["id", "name"], progress=False)
    source = tmp_path / "source"
    batches = [0, 0]

    def write(batch: Any, number: int) -> None:
        batches[0] += 1
        batch.write.format("hudi").options(
            **{
                "hoodie.table.name": "streamed",
                "hoodie.datasource.write.operation": "upsert",
                "hoodie.datasource.write.table.type": "MERGE_ON_READ",
                "hoodie.datasource.write.recordkey.field": "id",
                "hoodie.datasource.write.partitionpath.field": "part",
                "hoodie.datasource.write.hive_style_partitioning": "true",
                "hoodie.upsert.shuffle.parallelism": "1",
            }
        ).mode("append").save(made.folder)
        pss.update_index(batch.sparkSession, made.folder)
        batches[1] += 1

    for number in range(3):
        # Some rows change, and some are new.
        sql = f"SELECT * FROM ({_batch(number)})"
        spark.sql(sql).coalesce(1).write.mode("append").parquet(str(source))
    stream = spark.readStream.schema(made.whole().drop(*[n for n in made.whole().columns if n[0] == "_"]).schema)
    query = (
        stream.option("maxFilesPerTrigger", 1)
        .parquet(str(source))
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    read, storage = 0, Storage(made.folder)

    def named() -> list[tuple[int, str]]:
        return sorted((row.id, row.name) for row in pss.read(spark, table, "name LIKE 'batch%'").collect())

    while query.isActive or read < 2:
        done = batches[1]
        # Hudi opens the table again when a query runs, and fails if the properties are empty at that moment.
        found = retry_after_rewrite(storage, named)
        begun = batches[0]
        assert found in [_state(number) for number in range(done, begun + 1)]
        read += 1
    assert query.exception() is None
    assert batches == [3, 3]
    assert named() == _state(3)
    last, opened = ids_and_files(pss.read(spark, table, "name = 'batch2'"))
    assert last == [4, 5, 102]
    assert opened <= len(last)
    made.drop()


def _batch(number: int) -> str:
    row = "SELECT CAST({0} AS BIGINT) AS id, 'batch{1}' AS name, 1.5D AS price, DATE '2026-01-01' AS day, "
    row += "CAST(1 AS DECIMAL(9, 2)) AS cost, timestamp_micros(1) AS at, true AS flag, CAST({0} % 2 AS INT) AS part"
    return " UNION ALL ".join(row.format(one, number) for one in (2 * number, 2 * number + 1, 100 + number))


def _state(batches: int) -> list[tuple[int, str]]:
    return sorted((one, f"batch{n}") for n in range(batches) for one in (2 * n, 2 * n + 1, 100 + n))

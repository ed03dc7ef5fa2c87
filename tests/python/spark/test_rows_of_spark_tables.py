"""parsieve reads the same rows as Spark from tables that Spark wrote, at each instant."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.models.lake_truth import check_snapshot, check_tokens, rows

import parsieve as ps
from parsieve.lake import Lake, Snapshot, open_lake
from parsieve.spark.runtime import versions

pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")]


def needs(lake: str) -> None:
    if lake not in versions.installed().jars:
        pytest.skip(f"no jars of {lake} for this PySpark")


def collected(frame: Any, schema: pa.Schema) -> pa.Table:
    """Return the rows that Spark reads, in parsieve's schema. Columns that Spark lacks are null."""
    names = [name for name in schema.names if name in frame.columns]
    found = [row.asDict(recursive=True) for row in frame.select(*names).collect()]
    zone = {name for name in names if pa.types.is_timestamp(schema.field(name).type) and schema.field(name).type.tz}
    for row in found:
        for name in zone:
            # Spark returns timestamps in the session's time zone, here UTC, without a zone.
            row[name] = row[name] and row[name].replace(tzinfo=None)
    plain = [pa.field(one.name, pa.timestamp("us") if one.name in zone else one.type) for one in schema]
    return pa.Table.from_pylist(found, pa.schema(plain)).cast(schema)


def check_history(lake: Lake, instants: list[Any], read: Callable[[Any], Any]) -> list[tuple[Snapshot, Any]]:
    """Compare each instant with Spark, slice by slice, and check the tokens over all instants."""
    histories = []
    for instant in instants:
        snapshot = lake.snapshot(instant)
        assert snapshot.id == instant
        histories.append((snapshot, check_snapshot(lake, snapshot, collected(read(instant), snapshot.schema))))
    check_tokens(histories)
    assert lake.snapshot().tokens == histories[-1][0].tokens
    return histories


COLUMNS = """
    id, CAST(id % 3 AS INT) AS part, concat('n', id) AS name, timestamp_micros(id * 1000001 - 3) AS at,
    IF(id % 7 = 0, DOUBLE('NaN'), id / 3) AS real, CAST(id AS DECIMAL(12, 2)) AS paid,
    IF(id % 5 = 0, NULL, named_struct('a', id, 'b', IF(id % 2 = 0, NULL, 'q'))) AS point
"""


# test_read.py has tables with position deletes, too.
@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_iceberg_rows_with_merge_on_read_deletes(spark: Any, version: int) -> None:
    """Position deletes (version 2) and deletion vectors (version 3), with renamed columns and new partitions."""
    needs("iceberg")
    name = f"iceberg.lakes.v{version}"
    modes = "".join(f", 'write.{one}.mode' = 'merge-on-read'" for one in ("delete", "update", "merge"))
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, part INT, name STRING, at TIMESTAMP, real DOUBLE, paid DECIMAL(12, 2), "
        "point STRUCT<a: BIGINT, b: STRING>) USING iceberg PARTITIONED BY (part) "
        f"TBLPROPERTIES ('format-version' = '{version}'{modes})"
    )
    spark.sql(f"INSERT INTO {name} SELECT {COLUMNS} FROM range(120)")
    for statement in (
        "DELETE FROM {} WHERE id % 10 = 3",
        "UPDATE {} SET name = 'new' WHERE id % 11 = 0",
        "ALTER TABLE {} RENAME COLUMN name TO title",
        "ALTER TABLE {} ADD COLUMN more INT",
        "ALTER TABLE {} ADD PARTITION FIELD bucket(2, id)",
        "INSERT INTO {} SELECT id + 1000, 1, 't', timestamp_micros(id), 1.0, 0, NULL, 7 FROM range(20)",
        "DELETE FROM {} WHERE id % 10 = 5",
    ):
        spark.sql(statement.format(name))
    options = "options => map('rewrite-all', 'true')"
    spark.sql(f"CALL iceberg.system.rewrite_data_files(table => '{name}', where => 'part = 1', {options})")
    spark.sql(f"DELETE FROM {name} WHERE id % 10 = 6")
    snapshots = [
        row[0] for row in spark.sql(f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at").collect()
    ]
    folder = (
        Path(spark.conf.get("spark.sql.catalog.iceberg.warehouse").removeprefix("file://")) / "lakes" / f"v{version}"
    )
    lake = open_lake(folder)

    def read(snapshot: int) -> Any:
        # Spark reads an old snapshot with the current names of columns. The ids show that they are the same.
        option = "versionAsOf" if versions.installed().line >= (4, 0) else "snapshot-id"
        frame = spark.read.option(option, snapshot).table(name)
        schema = lake.snapshot(snapshot).schema
        return frame.withColumnRenamed("title", "name") if "name" in schema.names else frame

    histories = check_history(lake, snapshots, read)
    kinds = {bool(one.native.deletes.vector) for one in histories[-1][0].slices if not one.clean}
    assert kinds == {version == 3}
    our_own = folder / "_parsieve" / "v1.commit"
    foreign = folder / "data" / "orphan"
    for file in (our_own, foreign):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x")
        os.utime(file, (0, 0))
    spark.sql(f"CALL iceberg.system.remove_orphan_files(table => '{name}')")
    assert our_own.exists()
    assert not foreign.exists()
    spark.sql(f"DROP TABLE {name} PURGE")


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_delta_rows_with_features_that_deltalake_does_not_write(spark: Any, tmp_path: Path) -> None:
    """Deletion vectors, columns that are renamed and dropped by mapping, widened types, checkpoints and vacuum."""
    needs("delta")
    folder, table = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, part INT, name STRING, at TIMESTAMP, real DOUBLE, paid DECIMAL(12, 2), "
        "point STRUCT<a: BIGINT, b: STRING>) USING delta PARTITIONED BY (part) TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name', "
        "'delta.checkpointInterval' = '4')"
    )
    spark.sql(f"INSERT INTO {table} SELECT {COLUMNS} FROM range(120)")
    for statement in (
        "DELETE FROM {} WHERE id % 10 = 3",
        "UPDATE {} SET name = repeat('long', 20) WHERE id % 11 = 0",
        "ALTER TABLE {} RENAME COLUMN name TO title",
        "ALTER TABLE {} RENAME COLUMN point.a TO c",
        "ALTER TABLE {} DROP COLUMN real",
        "ALTER TABLE {} ADD COLUMNS (real STRING, more INT)",
        "INSERT INTO {} SELECT id + 1000, NULL, 't', timestamp_micros(id), 0, NULL, 'r', 7 FROM range(20)",
        "DELETE FROM {} WHERE id % 10 = 5",
        "OPTIMIZE {} WHERE part = 1",
        "DELETE FROM {} WHERE id % 10 = 6",
    ):
        spark.sql(statement.format(table))
    lake = open_lake(folder)
    last = lake.snapshot().id
    assert isinstance(last, int)
    assert list((folder / "_delta_log").glob("*.checkpoint*.parquet"))
    read = spark.read.format("delta")
    histories = check_history(
        lake, list(range(1, last + 1)), lambda at: read.option("versionAsOf", at).load(str(folder))
    )
    assert {one.clean for one in histories[-1][0].slices} == {True, False}
    (folder / "_parsieve").mkdir()
    (folder / "_parsieve" / "v1.commit").write_bytes(b"x")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    before = len(list(folder.rglob("*.parquet")))
    spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
    assert len(list(folder.rglob("*.parquet"))) < before
    assert (folder / "_parsieve" / "v1.commit").exists()
    assert rows(lake.read(lake.snapshot(), lake.snapshot().slices).read_all())


def hudi_write(frame: Any, folder: Path, operation: str, kind: str, **more: Any) -> None:
    """Write rows with Spark's data source, with few tasks."""
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "at",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.metadata.index.column.stats.enable": "false",
        **{f"hoodie.{one}.shuffle.parallelism": "1" for one in ("insert", "upsert", "delete", "bulkinsert")},
        **{"hoodie." + name.replace("__", "."): str(value) for name, value in more.items()},
    }
    frame.coalesce(1).write.format("hudi").options(**options).mode("append").save(str(folder))


def hudi_rows(spark: Any, first: int, last: int, name: str, later: int = 0, more: bool = False) -> Any:
    """Return rows with a time that orders their versions."""
    columns = COLUMNS.replace("concat('n', id)", f"'{name}'").replace("- 3", f"+ {later}")
    return spark.sql(
        f"SELECT {columns}{', IF(id % 2 = 0, NULL, id * 2) AS more' if more else ''} FROM range({first}, {last})"
    )


def instants(folder: Path) -> list[str]:
    """Return the completed instants, by the names of their files."""
    files = [*(folder / ".hoodie").iterdir(), *(folder / ".hoodie" / "timeline").glob("*")]
    held = [one.name for one in files if one.name.endswith((".commit", ".deltacommit", ".replacecommit"))]
    return sorted({name.partition(".")[0].partition("_")[0] for name in held})


# The versions of tables differ in their logs, which copy-on-write tables do not have.
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.slow), "MERGE_ON_READ"])
def test_hudi_rows_at_every_instant(spark: Any, tmp_path: Path, kind: str, version: int) -> None:
    """Upserts, late records, deletes, compaction, clustering, a new column and overwritten partitions."""
    needs("hudi")
    random_, folder = random.Random(version), tmp_path / "t"
    settings: dict[str, Any] = {"write__table__version": version, "write__auto__upgrade": "false"}
    if random_.random() < 0.5:
        settings["metadata__enable"] = "false"
    hudi_write(hudi_rows(spark, 0, 30, "first"), folder, "bulk_insert", kind, **settings)
    compact = {"compact__inline": "true", "compact__inline__max__delta__commits": 2}
    cluster = {"clustering__inline": "true", "clustering__inline__max__commits": 1}
    steps: list[tuple[Any, str, dict[str, Any]]] = [
        (hudi_rows(spark, 5, 12, "newer", later=10), "upsert", {}),
        (hudi_rows(spark, 8, 15, "late", later=-10), "upsert", {}),
        (hudi_rows(spark, 0, 4, "gone", later=20), "delete", {}),
        (hudi_rows(spark, 20, 34, "both", later=20), "upsert", compact if kind == "MERGE_ON_READ" else {}),
        (hudi_rows(spark, 2, 22, "again", later=30), "upsert", {}),
        (hudi_rows(spark, 40, 50, "apart"), "insert", cluster),
        (hudi_rows(spark, 45, 55, "more", later=40, more=True), "upsert", {}),
        (hudi_rows(spark, 3, 4, "alone", more=True), "insert_overwrite", {}),
    ]
    for frame, operation, more in steps:
        hudi_write(frame, folder, operation, kind, **settings, **more)
    (folder / "_parsieve").mkdir()
    (folder / "_parsieve" / "v1.commit").write_bytes(b"x")
    lake = open_lake(folder)
    assert lake.format == "hudi"
    read = spark.read.format("hudi")
    histories = check_history(lake, instants(folder), lambda at: read.option("as.of.instant", at).load(str(folder)))
    merged = [one for snapshot, _ in histories for one in snapshot.slices if not one.clean]
    assert bool(merged) == (kind == "MERGE_ON_READ")
    # Slices of compaction and clustering, and slices that no write changed.
    assert any(one.clean for one in histories[-1][0].slices)
    for (before, old), (after, new) in itertools.pairwise(histories):
        for location in before.tokens.keys() & after.tokens.keys():
            common = [name for name in old[location].column_names if name in new[location].column_names]
            if rows(old[location].select(common)) != rows(new[location].select(common)):
                assert before.tokens[location] != after.tokens[location]


def test_cleaned_instants_of_hudi_are_refused(spark: Any, tmp_path: Path) -> None:
    needs("hudi")
    folder = tmp_path / "t"
    settings = {"cleaner__commits__retained": 1, "clean__automatic": "true"}
    for step in range(4):
        hudi_write(hudi_rows(spark, 0, 6, f"n{step}", later=step), folder, "upsert", "COPY_ON_WRITE", **settings)
    (folder / "_parsieve").mkdir()
    (folder / "_parsieve" / "v1.commit").write_bytes(b"x")
    hudi_write(hudi_rows(spark, 0, 6, "last", later=9), folder, "upsert", "COPY_ON_WRITE", **settings)
    assert (folder / "_parsieve" / "v1.commit").exists()
    lake, known = open_lake(folder), instants(folder)
    with pytest.raises(ValueError, match="cleaned"):
        lake.snapshot(known[0])
    found = lake.snapshot(known[-1])
    check_snapshot(lake, found, collected(spark.read.format("hudi").load(str(folder)), found.schema))


def test_unfinished_writes_of_hudi_are_ignored(spark: Any, tmp_path: Path) -> None:
    """A log exists before its write completes. First none of its rows are visible, then all, with a new token."""
    needs("hudi")
    folder = tmp_path / "t"
    for step in range(3):
        operation = "upsert" if step else "bulk_insert"
        hudi_write(hudi_rows(spark, 0, 6, f"n{step}", later=step), folder, operation, "MERGE_ON_READ")
    (last,) = (folder / ".hoodie" / "timeline").glob(f"{instants(folder)[-1]}_*.deltacommit")
    held = last.read_bytes()
    lake, after = open_lake(folder), open_lake(folder).snapshot()
    last.unlink()
    before = lake.snapshot()
    assert before.id != after.id

    def names(snapshot: Snapshot) -> set[Any]:
        return set(lake.read(snapshot, snapshot.slices, ["name"]).read_all()["name"].to_pylist())

    assert names(before) == {"n1"}
    last.write_bytes(held)
    again = lake.snapshot()
    assert names(again) == {"n2"}
    changed = lake.changes(before, again).changed
    assert {one.location for one in changed} == set(again.tokens)
    assert again.tokens == after.tokens


def test_hudi_rows_of_logs_without_a_base_file(spark: Any, tmp_path: Path) -> None:
    """Some writers write the first rows of a file group to a log. They must not be lost silently."""
    needs("hudi")
    folder = tmp_path / "t"
    for step in range(2):
        operation = "upsert" if step else "bulk_insert"
        frame = hudi_rows(spark, 0, 6, f"n{step}", later=step)
        hudi_write(frame, folder, operation, "MERGE_ON_READ", metadata__enable="false")
    lake = open_lake(folder)
    piece = lake.snapshot().slices[0]
    assert not piece.clean
    Path(str(piece.path)).unlink()
    # No instant removed the file, so the open lake may return its earlier snapshot. Open the table again.
    lake = open_lake(folder)
    snapshot = lake.snapshot()
    (alone,) = [one for one in snapshot.slices if one.location == piece.location]
    assert (alone.path, alone.clean) == (None, False)
    assert not lake.row_groups_usable(alone)
    assert lake.open_base(alone) is None
    with pytest.raises(ps.UnsupportedError, match="no base file"):
        list(lake.read_keys(alone, [("id",)]))
    with pytest.raises(ps.UnsupportedError, match="no base file"):
        lake.read(snapshot, snapshot.slices)
    # At the instant of the first write, the group had no log, and so no rows.
    assert piece.location not in lake.snapshot(instants(folder)[0]).tokens

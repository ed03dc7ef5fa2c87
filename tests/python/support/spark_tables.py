"""Tables of every kind with a history that Spark wrote, and how many files a query of Spark's opened."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parsieve.lake.storage.storage import Storage
from parsieve.spark.runtime import versions

KINDS = ["parquet", "delta", "iceberg", "hudi_cow", "hudi_mor"]
COLUMNS = "id BIGINT, name STRING, price DOUBLE, day DATE, cost DECIMAL(9, 2), at TIMESTAMP, flag BOOLEAN, part INT"


def needs(kind: str) -> None:
    lake = kind.partition("_")[0]
    if lake != "parquet" and lake not in versions.installed().jars:
        pytest.skip(f"no jars of {lake} for this PySpark")


def selected(first: int, last: int, version: int = 0, files: int = 2) -> str:
    """Rows for some ids, with the edges of their types; names and prices are spread over all files."""
    return (
        f"SELECT id, concat('n', (id * 7 + {version}) % 50) AS name, "
        f"CASE WHEN id % 11 = 0 THEN double('NaN') WHEN id % 7 = 0 THEN NULL WHEN id % 13 = 0 THEN double('-0.0') "
        f"ELSE id * 37 % 100 + {version} + 0.5D END AS price, "
        "date_add(DATE '2026-01-01', CAST(id % 40 AS INT)) AS day, "
        f"CAST(id / 4 AS DECIMAL(9, 2)) AS cost, timestamp_micros(id * 3600000001) AS at, "
        f"IF(id % 5 = 0, NULL, id % 2 = 0) AS flag, CAST(id % 2 AS INT) AS part FROM range({first}, {last}, 1, {files})"
    )


class SparkTable:
    """A table of one kind in a folder, written by Spark SQL alone."""

    def __init__(self, spark: Any, kind: str, name: str, folder: Path) -> None:
        self.spark, self.kind, self.folder = spark, kind, str(folder)
        self.name = f"iceberg.reads.{name}" if kind == "iceberg" else name
        using = {
            "delta": "USING delta LOCATION '{0}' PARTITIONED BY (part) "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
            "iceberg": "USING iceberg PARTITIONED BY (part) TBLPROPERTIES ('format-version' = '2', "
            "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read')",
            "hudi_cow": "USING hudi LOCATION '{0}' PARTITIONED BY (part) TBLPROPERTIES (type = 'cow', {1})",
            "hudi_mor": "USING hudi LOCATION '{0}' PARTITIONED BY (part) TBLPROPERTIES (type = 'mor', {1})",
        }
        # Hudi lists one kind of table by its own metadata, and the other, where every write is quicker, by the folder.
        hudi = (
            "primaryKey = 'id', 'hoodie.parquet.small.file.limit' = '0', 'hoodie.compact.inline' = 'false', "
            f"'hoodie.metadata.enable' = '{str(kind == 'hudi_cow').lower()}', "
            "'hoodie.metadata.index.column.stats.enable' = 'false'"
        )
        if kind != "parquet":
            spark.sql(f"CREATE TABLE {self.name} ({COLUMNS}) {using[kind].format(self.folder, hudi)}")
        if kind == "iceberg":
            described = spark.sql(f"DESCRIBE EXTENDED {self.name}").where("col_name = 'Location'").collect()
            self.folder = described[0].data_type.removeprefix("file:")

    def insert(self, first: int, last: int, version: int = 0, files: int = 2) -> None:
        if self.kind == "parquet":
            rows = self.spark.sql(selected(first, last, version, files))
            rows.write.mode("append").partitionBy("part").parquet(self.folder)
        else:
            self.spark.sql(f"INSERT INTO {self.name} {selected(first, last, version, files)}")

    def update(self, assignment: str, where: str) -> None:
        if self.kind != "parquet":
            self.spark.sql(f"UPDATE {self.name} SET {assignment} WHERE {where}")

    def delete(self, where: str) -> None:
        if self.kind != "parquet":
            self.spark.sql(f"DELETE FROM {self.name} WHERE {where}")

    def drop(self) -> None:
        if self.kind != "parquet":
            self.spark.sql(f"DROP TABLE {self.name}")

    def whole(self, as_of: Any = None) -> Any:
        """All rows, by a reader of Spark's that knows nothing of parsieve."""
        reader = self.spark.read
        if self.kind == "parquet":
            return reader.parquet(self.folder)
        if self.kind == "iceberg":
            return (reader if as_of is None else reader.option("snapshot-id", as_of)).format("iceberg").load(self.name)
        option = "versionAsOf" if self.kind == "delta" else "as.of.instant"
        reader = reader if as_of is None else reader.option(option, as_of)
        return reader.format(self.kind.partition("_")[0]).load(self.folder)


def settled(table: Any) -> Any:
    """A table, once none of its files is so young that nothing proves it unchanged."""
    while not all(piece.token for piece in table._lake.snapshot().slices):
        time.sleep(0.01)
    return table


def wait_until_old(folder: Path | str) -> None:
    """Wait until no file of a plain folder is so young that nothing proves it unchanged."""
    while not all(file.token for file in Storage(folder).list()):
        time.sleep(0.01)


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def ids_and_files(frame: Any) -> tuple[list[int], int]:
    """The ids of a query, and how many files its scans opened: by Spark's count, for Iceberg by its tasks."""
    query = frame.select("id")
    found = sorted(row.id for row in query.collect())
    return found, sum(files_of_scans(query))


def files_of_scans(query: Any) -> list[int]:
    """How many files each scan of a query opened that has been executed."""
    return list(map(_files, _leaves(query._jdf.queryExecution().executedPlan())))


def callbacks_left(spark: Any, enough: int = -1, rounds: int = 3) -> int:
    """The objects that Java may call, once both collectors of garbage have run; at most so many, if time brings them.

    Java tells what it let go from a thread of its own: how soon, is for a busy machine to say.
    """
    pool = spark.sparkContext._gateway.gateway_property.pool
    for _ in range(rounds):
        gc.collect()
        spark._jvm.System.gc()
        time.sleep(0.3)
        if len(pool) <= enough:
            break
    return len(pool)


def _leaves(plan: Any) -> Iterator[Any]:
    """The scans of a plan; what is executed adaptively hides its parts in leaves."""
    leaves = plan.collectLeaves()
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        name = leaf.getClass().getSimpleName()
        if name == "AdaptiveSparkPlanExec":
            yield from _leaves(leaf.executedPlan())
        elif name.endswith("QueryStageExec"):
            yield from _leaves(leaf.plan())
        else:
            yield leaf


def _files(leaf: Any) -> int:
    if leaf.getClass().getSimpleName() == "BatchScanExec":
        groups = [part.taskGroup().tasks() for part in leaf.batch().planInputPartitions()]
        tasks = [task for group in groups for task in group.toArray()]
        return len({str(task.file().location()) for task in tasks})
    return leaf.metrics().apply("numFiles").value() if leaf.metrics().contains("numFiles") else 0

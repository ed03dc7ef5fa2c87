"""Create tables of every kind with a history in Spark, and count the files that a query of Spark opened."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import parsieve.spark as pss
from parsieve.lake.storage.storage import Storage
from parsieve.spark.runtime import versions

KINDS = ["parquet", "delta", "iceberg", "hudi_cow", "hudi_mor"]
COLUMNS = "id BIGINT, name STRING, price DOUBLE, day DATE, cost DECIMAL(9, 2), at TIMESTAMP, flag BOOLEAN, part INT"


def new_session(warehouse: Path) -> Any:
    """Start a session with the table formats that have jars for the installed PySpark.

    Its Iceberg catalog is named `iceberg`.
    """
    return pss.session(
        master="local[2]",
        memory="1g",
        warehouse=warehouse,
        config={
            "spark.ui.showConsoleProgress": False,
            "spark.sql.session.timeZone": "UTC",
            # The queries take milliseconds, so Java's second compiler and its threads do not pay off. With the first
            # compiler only, Java reserves 48 MiB for compiled code by default, which is too little for all tests: it
            # would discard code and compile it again.
            "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m "
            "-XX:+UseSerialGC -XX:MetaspaceSize=256m -Xms1g",
            # A busy machine may pause a healthy process for longer than Spark's default timeouts.
            "spark.network.timeout": "1200s",
            "spark.python.authenticate.socketTimeout": "600s",
        },
    )


def needs(kind: str) -> None:
    lake = kind.partition("_")[0]
    if lake != "parquet" and lake not in versions.installed().jars:
        pytest.skip(f"no jars of {lake} for this PySpark")


def selected(first: int, last: int, version: int = 0, files: int = 2) -> str:
    """Return SQL for the rows of some ids, with extreme values. Names and prices are spread over all files."""
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

    def __init__(
        self, spark: Any, kind: str, name: str, folder: Path, columns: str = COLUMNS, part: str | None = "part"
    ) -> None:
        self.spark, self.kind, self.folder = spark, kind, str(folder)
        self.name = f"iceberg.reads.{name}" if kind == "iceberg" else name
        parts = "" if part is None else f"PARTITIONED BY ({part}) "
        using = {
            "delta": f"USING delta LOCATION '{{0}}' {parts}TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
            "iceberg": f"USING iceberg {parts}TBLPROPERTIES ('format-version' = '2', "
            "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read')",
            "hudi_cow": f"USING hudi LOCATION '{{0}}' {parts}TBLPROPERTIES (type = 'cow', {{1}})",
            "hudi_mor": f"USING hudi LOCATION '{{0}}' {parts}TBLPROPERTIES (type = 'mor', {{1}})",
        }
        # One kind of Hudi table is listed by its metadata table. The other is listed by its folder: faster writes.
        hudi = (
            "primaryKey = 'id', 'hoodie.parquet.small.file.limit' = '0', 'hoodie.compact.inline' = 'false', "
            f"'hoodie.metadata.enable' = '{str(kind == 'hudi_cow').lower()}', "
            "'hoodie.metadata.index.column.stats.enable' = 'false'"
        )
        if kind != "parquet":
            spark.sql(f"CREATE TABLE {self.name} ({columns}) {using[kind].format(self.folder, hudi)}")
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
        """Return all rows, as Spark reads them without parsieve."""
        reader = self.spark.read
        if self.kind == "parquet":
            return reader.parquet(self.folder)
        if self.kind == "iceberg":
            return (reader if as_of is None else reader.option("snapshot-id", as_of)).format("iceberg").load(self.name)
        option = "versionAsOf" if self.kind == "delta" else "as.of.instant"
        reader = reader if as_of is None else reader.option(option, as_of)
        return reader.format(self.kind.partition("_")[0]).load(self.folder)


def settled(table: Any) -> Any:
    """Wait until all files of a table are old enough to have a token, and return the table."""
    while not all(piece.token for piece in table.opened.lake.snapshot().slices):
        time.sleep(0.01)
    return table


def wait_until_old(folder: Path | str) -> None:
    """Wait until all files of a plain folder are old enough to have a token."""
    while not all(file.token for file in Storage(folder).list()):
        time.sleep(0.01)


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def ids_and_files(frame: Any) -> tuple[list[int], int]:
    """Return the ids of a query, and how many files its scans opened. For Iceberg, the tasks are counted."""
    query = frame.select("id")
    found = sorted(row.id for row in query.collect())
    return found, sum(files_of_scans(query))


def files_of_scans(query: Any) -> list[int]:
    """Return how many files each scan of an executed query opened."""
    return list(map(_files, _leaves(query._jdf.queryExecution().executedPlan())))


def callbacks_left(spark: Any, enough: int = -1, rounds: int = 3) -> int:
    """Return how many Python objects Java can call after garbage collection. Wait until at most `enough` are left.

    A thread of Java reports released objects, which can take a while on a busy machine.
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
    """Yield the scans of a plan, including those inside of adaptive query stages."""
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

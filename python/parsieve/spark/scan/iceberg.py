"""An Iceberg table as Spark reads it, from some of its files: deletes and old schemas stay Iceberg's affair."""

from __future__ import annotations

import logging
import uuid
from typing import Any

from parsieve._core import UnsupportedError
from parsieve.spark.pushdown.catalyst import resolved
from parsieve.spark.runtime.versions import installed
from parsieve.spark.scan.file_index import Keep, chosen, plain_path
from parsieve.spark.scan.last_scan import Scan, remember, scan_of

_log = logging.getLogger("parsieve.spark")

# Sets of tasks that Iceberg keeps for us: the table, and a map of Java's that is empty once nobody can read the set.
_staged: dict[str, tuple[Any, Any]] = {}


def read(spark: Any, table: str, keep: Keep, where: Any = None, snapshot_id: int | None = None) -> Any:
    """The rows of a table, by its name or its folder, at a snapshot, that meet `where`, from the files `keep` leaves.

    With `where`, the snapshot is fixed when this is called, and so is the choice of files: conditions that are added
    to the DataFrame later hold, and leave out no more files.
    """
    return pruned(spark, table, load(spark, table, snapshot_id), keep, where, snapshot_id)


def load(spark: Any, table: str, snapshot_id: int | None = None) -> Any:
    """The whole table, now or at a snapshot."""
    reader = spark.read.format("iceberg")
    if snapshot_id is not None:
        # Iceberg's own name is no longer taken from Spark 4 on, which has its own.
        reader = reader.option("versionAsOf" if installed().line >= (4, 0) else "snapshot-id", str(snapshot_id))
    return reader.load(table)


def pruned(
    spark: Any, table: str, whole: Any, keep: Keep, where: Any, snapshot_id: int | None = None, latest: Any = None
) -> Any:
    """What `read` gives, of a table that was loaded; `latest` is its current snapshot, if somebody holds on to it."""
    _release(spark)
    if where is None:
        return whole
    native = table_of(whole)
    # A frame of the latest rows has the schema of today, which may be newer than the last snapshot.
    snapshot = (latest or native.currentSnapshot()) if snapshot_id is None else native.snapshot(snapshot_id)
    if snapshot is None:
        # Nothing was written to the table yet.
        return whole.where(where)
    if snapshot_id is not None and not _reads_as(native, whole.columns, snapshot):
        # Tasks are read with the table's schema of today.
        _log.warning("no file was skipped: since snapshot %s, columns were renamed or replaced", snapshot_id)
        return whole.where(where)
    tasks = []
    planned = native.newScan().useSnapshot(snapshot.snapshotId()).planFiles()
    try:
        iterator = planned.iterator()
        while iterator.hasNext():
            task = iterator.next()
            tasks.append((plain_path(str(task.file().location())), task))
    finally:
        planned.close()
    kept = chosen(keep, [path for path, _ in tasks], resolved(spark, whole.schema, where))
    scan = _scan(table, [path for path, _ in tasks], kept, keep)
    left = spark._jvm.java.util.ArrayList()
    for path, task in tasks:
        if path in kept:
            left.add(task)
    if left.isEmpty():
        nothing = whole.where("false")
        remember(nothing, scan)
        return nothing
    name = f"parsieve-{uuid.uuid4()}"
    manager = spark._jvm.org.apache.iceberg.spark.ScanTaskSetManager.get()
    manager.stageTasks(native, name, left)
    frame = _frame_of(spark, native, table, name)
    if not _reads_staged(frame):
        manager.removeTasks(native, name)
        _log.warning("no file was skipped: this release of Iceberg reads no tasks that others planned")
        return whole.where(where)
    # The plan of whatever is made of the frame holds these options; when nobody does, nobody can read the tasks.
    holders = spark._jvm.java.util.WeakHashMap()
    holders.put(_relation(frame).options(), True)
    _staged[name] = native, holders
    remember(frame, scan)
    return frame.select(*(f"`{name.replace('`', '``')}`" for name in whole.columns)).where(where)


def _scan(table: str, paths: list[str], kept: set[str], keep: Keep) -> Scan:
    """What is known of a scan; the sizes are those of the plan, since each of Iceberg's would be a call of Java."""
    plan = getattr(keep, "plan", None)
    slices = () if plan is None else plan.record.snapshot.slices
    known = {plain_path(piece.path): piece.size for piece in slices if piece.path}
    return scan_of(table, {path: known.get(path) for path in paths}, kept, plan)


def _frame_of(spark: Any, native: Any, table: str, name: str) -> Any:
    """Rows of the tasks that were staged by a name, as Iceberg's own rewriting of data files reads them."""
    rewriting = spark._jvm.org.apache.iceberg.spark.source.SparkRewriteTable
    if type(rewriting).__name__ != "JavaClass":
        return spark.read.format("iceberg").option("scan-task-set-id", name).load(table)
    # For Spark 4.1 the option is no longer taken, and such a table reads nothing but the tasks.
    from pyspark.sql import DataFrame

    none = spark._jvm.scala.Option.empty()
    relations = spark._jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
    relation = relations.create(rewriting(native, name), none, none)
    return DataFrame(spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, relation), spark)


def _reads_staged(frame: Any) -> bool:
    """Whether the scan is one of staged tasks: any other would read the rows of today, whichever snapshot was asked."""
    leaf = frame._jdf.queryExecution().optimizedPlan().collectLeaves().head()
    return str(leaf.scan().getClass().getSimpleName()) == "SparkStagedScan"


def _reads_as(table: Any, columns: list[str], snapshot: Any) -> bool:
    """Whether the columns of a snapshot are those of the table's schema of today: by their ids, with equal types."""
    then_id = snapshot.schemaId()
    now = table.schema()
    if then_id is None or int(then_id) == int(now.schemaId()):
        return True
    then = table.schemas().get(then_id)
    # The text of a field says its id, its name and its type, and those of all that it holds.
    return all(
        now.findField(name) is not None and str(now.findField(name)) == str(then.findField(name)) for name in columns
    )


def _release(spark: Any) -> None:
    """Let go of the tasks that no DataFrame can read any more."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    for name, (native, holders) in list(_staged.items()):
        try:
            # Whether something is there, not what: py4j holds whatever comes to Python for a second or more, so that
            # who asks often enough for the thing itself keeps it alive for ever.
            if not holders.isEmpty():
                continue
            spark._jvm.org.apache.iceberg.spark.ScanTaskSetManager.get().removeTasks(native, name)
        except (Py4JError, Py4JNetworkError):
            # Of a session that has ended.
            pass
        del _staged[name]


def _relation(frame: Any) -> Any:
    plan = frame._jdf.queryExecution().analyzed()
    while plan.getClass().getSimpleName() == "SubqueryAlias":
        plan = plan.child()
    if plan.getClass().getSimpleName() != "DataSourceV2Relation":
        raise UnsupportedError(f"this is no Iceberg table as Spark reads it: {plan.getClass().getSimpleName()}")
    return plan


def table_of(frame: Any) -> Any:
    """Iceberg's own object for the table that a DataFrame reads."""
    return _relation(frame).table().table()

"""Iceberg tables. Iceberg applies deletes and old schemas to the files that parsieve selects."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from parsieve._core import ParsieveError, UnsupportedError
from parsieve.lake.base import AsOf, Snapshot
from parsieve.lake.open import open_lake
from parsieve.plan.open_table import OpenTable
from parsieve.plan.record import PlanRecord
from parsieve.sharing import cached_property
from parsieve.spark.pushdown.catalyst import resolved
from parsieve.spark.pushdown.conditions import Types, ids_of
from parsieve.spark.runtime.gateway import java_session, jvm_of, query_of
from parsieve.spark.runtime.versions import installed
from parsieve.spark.scan.file_index import Keep, Kept, choose, plain_path
from parsieve.spark.scan.format_scan import (
    FixedScan,
    PlannedFiles,
    changed_since,
    condition_of,
    refuse_missing_files,
)
from parsieve.spark.scan.kept_files import Keeper
from parsieve.spark.scan.last_scan import remember
from parsieve.spark.scan.record import Scan, log_scan

if TYPE_CHECKING:
    from parsieve.lake.iceberg.table import Iceberg

_log = logging.getLogger("parsieve.spark")

# The sets of scan tasks that Iceberg stores for us, by name: the table, and a Java map that becomes empty when no
# DataFrame can read the set any more.
_staged: dict[str, tuple[Any, Any]] = {}


class IcebergScan(FixedScan):
    """An Iceberg table, now or at a snapshot."""

    lake: Iceberg

    @cached_property
    def _source(self) -> str:
        return self.name or self._address()

    @cached_property
    def _snapshot_id(self) -> int | None:
        return self._version()

    def whole(self) -> Any:
        """Return the table as Iceberg reads it."""
        return self._frame

    @cached_property
    def _frame(self) -> Any:
        reader = self.spark.read.format("iceberg")
        if self._snapshot_id is not None:
            # Spark 4 has its own option, and rejects Iceberg's.
            option = "versionAsOf" if installed().line >= (4, 0) else "snapshot-id"
            reader = reader.option(option, str(self._snapshot_id))
        return reader.load(self._source)

    @cached_property
    def _table(self) -> Any:
        """Iceberg's own object for the table."""
        return _relation(self.whole()).table().table()

    @cached_property
    def _latest(self) -> Any:
        """The snapshot that Spark reads if no other one is given; None if the table has no rows yet."""
        branch = self._branch_to_audit
        return self._table.currentSnapshot() if branch is None else self._table.snapshot(branch)

    @cached_property
    def _branch_to_audit(self) -> str | None:
        """The branch that the session reads instead of the main one, by Iceberg's rules; None if there is none."""
        name = self.spark.conf.get("spark.wap.branch", None)
        is_enabled = str(self._table.properties().get("write.wap.enabled")).lower() == "true"
        return name if name is not None and is_enabled and self._table.refs().containsKey(name) else None

    @property
    def state(self) -> AsOf:
        """The state that Spark reads."""
        if self.as_of is None and self._branch_to_audit is not None:
            return int(self._latest.snapshotId())
        return self.as_of

    def types(self) -> Types:
        """Return the columns as Spark reads them, with their field ids."""
        parser = jvm_of(self.spark).org.apache.iceberg.SchemaParser
        return Types(self.whole().schema, ids_of(str(parser.toJson(self._table.schema()))))

    def keeper(self, table: OpenTable, also: Sequence[pc.Expression]) -> Keeper:
        """Return a `Keep` that plans on the same snapshot."""
        snapshot_id = self._snapshot_id
        if snapshot_id is None and self._latest is not None:
            snapshot_id = int(self._latest.snapshotId())
        return IcebergKeeper(self.spark, self._table_of_spark(table), self.types(), snapshot_id, also)

    def _table_of_spark(self, table: OpenTable) -> OpenTable:
        """Return the table with the metadata file that Spark uses, which the folder alone does not determine."""
        try:
            file = str(self._table.operations().current().metadataFileLocation())
            lake = open_lake(file, "iceberg", table.lake.storage_options or None)
        except (ParsieveError, OSError, ValueError) as error:
            _log.warning("Iceberg's metadata file cannot be read here: %s", error)
            return table
        return OpenTable(lake, table.index, table.footers)

    def pruned(self, keep: Keep, condition: Any = None) -> Any:
        """Return the rows for which a condition is true, from files that are chosen now.

        Conditions that are added to the DataFrame later filter its rows, but skip no more files.
        """
        condition = "true" if condition is None else condition
        _release_staged(self.spark)
        whole, table = self.whole(), self._table
        # The latest snapshot is read with the current schema, which may be newer than the snapshot.
        snapshot = self._latest if self._snapshot_id is None else table.snapshot(self._snapshot_id)
        if snapshot is None:
            # The table has no rows yet.
            return whole.where(condition)
        if self._snapshot_id is not None and not _has_current_columns(table, whole.columns, snapshot):
            # Tasks are read with the current schema of the table.
            _log.warning("no file was skipped: since snapshot %s, columns were renamed or replaced", self._snapshot_id)
            return whole.where(condition)
        tasks = _tasks_by_path(table, snapshot)
        kept = choose(keep, [path for path, _ in tasks], lambda: resolved(self.spark, whole.schema, condition))
        scan = _log_scan(self._source, [path for path, _ in tasks], kept)
        kept_tasks = jvm_of(self.spark).java.util.ArrayList()
        for path, task in tasks:
            if path in kept.paths:
                kept_tasks.add(task)
        if kept_tasks.isEmpty():
            frame = whole.where("false")
        else:
            staged = self._stage(kept_tasks)
            if staged is None:
                _log.warning("no file was skipped: this release of Iceberg cannot read selected tasks")
                return whole.where(condition)
            frame = staged.select(*(f"`{name.replace('`', '``')}`" for name in whole.columns)).where(condition)
        remember(frame, scan)
        return frame

    def _stage(self, tasks: Any) -> Any | None:
        """Return the rows of some scan tasks; None if this release of Iceberg cannot read them alone."""
        name = f"parsieve-{uuid.uuid4()}"
        jvm = jvm_of(self.spark)
        manager = jvm.org.apache.iceberg.spark.ScanTaskSetManager.get()
        manager.stageTasks(self._table, name, tasks)
        frame = self._staged_frame(name)
        if not _reads_staged(frame):
            manager.removeTasks(self._table, name)
            return None
        # The plan of every DataFrame that is derived from this one refers to these options. Once they are garbage, the
        # tasks cannot be read any more.
        holders = jvm.java.util.WeakHashMap()
        holders.put(_relation(frame).options(), True)
        _staged[name] = self._table, holders
        return frame

    def _staged_frame(self, name: str) -> Any:
        """Return the rows of a set of tasks, as Iceberg's own rewriting of data files reads them."""
        jvm = jvm_of(self.spark)
        rewrite_table = jvm.org.apache.iceberg.spark.source.SparkRewriteTable
        if type(rewrite_table).__name__ != "JavaClass":
            return self.spark.read.format("iceberg").option("scan-task-set-id", name).load(self._source)
        # Iceberg for Spark 4.1 has no such option, but a table that contains nothing but the tasks.
        from pyspark.sql import DataFrame

        none = jvm.scala.Option.empty()
        relations = jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
        relation = relations.create(rewrite_table(self._table, name), none, none)
        dataset = jvm.org.apache.spark.sql.classic.Dataset.ofRows(java_session(self.spark), relation)
        return DataFrame(dataset, self.spark)

    def from_plan(self, plan: PlanRecord) -> Any:
        """Return the rows of a plan at its snapshot."""
        current = IcebergScan(self.spark, self.lake, self.name)
        if self._snapshot_id is None:
            # The table had no rows yet.
            return current.whole().where("false")
        if current._table.snapshot(self._snapshot_id) is None:
            raise changed_since(plan, "the snapshot was expired")
        refuse_missing_files(plan)
        is_latest = current._latest is not None and int(current._latest.snapshotId()) == self._snapshot_id
        # Spark reads the latest snapshot with the current schema, and others with the schema of their time.
        scan = current if is_latest and set(plan.snapshot.schema.names) <= set(current.whole().columns) else self
        keep = PlannedFiles.of(plan)
        frame = scan.pruned(keep, condition_of(plan, scan.types()))
        if keep.missing:
            raise changed_since(plan, f"{min(keep.missing)} is not part of that snapshot")
        return frame

    @classmethod
    def pinned(cls, lake: Iceberg, snapshot: Snapshot) -> tuple[str, None]:
        """Return the metadata file. A snapshot id is not enough: the schema can change without a new snapshot."""
        return lake.metadata_file, None


class IcebergKeeper(Keeper):
    """A `Keep` for an Iceberg table."""

    def _snapshot(self, paths: Sequence[str]) -> Snapshot:
        if self._planned_on is None:
            # The latest snapshot has the current schema, and others that of their time.
            latest = self._table.snapshot(None)
            self._planned_on = latest if latest.id == self._as_of else self._table.snapshot(self._as_of)
        return self._planned_on


def _tasks_by_path(table: Any, snapshot: Any) -> list[tuple[str, Any]]:
    """Return the scan tasks of a snapshot, with the paths of their data files."""
    tasks = []
    planned = table.newScan().useSnapshot(snapshot.snapshotId()).planFiles()
    try:
        iterator = planned.iterator()
        while iterator.hasNext():
            task = iterator.next()
            tasks.append((plain_path(str(task.file().location())), task))
    finally:
        planned.close()
    return tasks


def _log_scan(table: str, paths: list[str], kept: Kept) -> Scan:
    """Return the record of a scan. Sizes come from the plan, since Iceberg would need a call of Java for each."""
    plan = kept.plan
    sizes: dict[str, int] = {}
    if plan is not None:
        slices = plan.snapshot.slices
        pairs = zip(slices.path.to_pylist(), slices.size.to_pylist(), strict=True)
        sizes = {plain_path(path): size for path, size in pairs if path}
    return log_scan(table, {path: sizes.get(path) for path in paths}, kept.paths, plan)


def _reads_staged(frame: Any) -> bool:
    """Return whether a scan reads staged tasks. Any other scan would read all current rows."""
    leaf = query_of(frame).optimizedPlan().collectLeaves().head()
    return str(leaf.scan().getClass().getSimpleName()) == "SparkStagedScan"


def _has_current_columns(table: Any, columns: list[str], snapshot: Any) -> bool:
    """Return whether columns of a snapshot have the same ids and types in the table's current schema."""
    schema_id = snapshot.schemaId()
    current = table.schema()
    if schema_id is None or int(schema_id) == int(current.schemaId()):
        return True
    old = table.schemas().get(schema_id)
    # The text of a field contains the ids, names and types of the field and its children.
    return all(
        current.findField(name) is not None and str(current.findField(name)) == str(old.findField(name))
        for name in columns
    )


def _release_staged(spark: Any) -> None:
    """Remove the tasks that no DataFrame can read any more."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    for name, (table, holders) in list(_staged.items()):
        try:
            # Ask whether the map is empty instead of fetching its key: py4j keeps each object that Python gets alive
            # for a second or more, so frequent calls would keep the key alive forever.
            if not holders.isEmpty():
                continue
            jvm_of(spark).org.apache.iceberg.spark.ScanTaskSetManager.get().removeTasks(table, name)
        except (Py4JError, Py4JNetworkError):
            # The session has ended.
            pass
        del _staged[name]


def _relation(frame: Any) -> Any:
    plan = query_of(frame).analyzed()
    while plan.getClass().getSimpleName() == "SubqueryAlias":
        plan = plan.child()
    if plan.getClass().getSimpleName() != "DataSourceV2Relation":
        raise UnsupportedError(f"Spark does not read this as an Iceberg table: {plan.getClass().getSimpleName()}")
    return plan

"""Delta tables. Delta applies deletion vectors and column mapping to the files that parsieve selects."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow.compute as pc

from parsieve.lake.base import Snapshot
from parsieve.plan.open_table import OpenTable
from parsieve.plan.record import PlanRecord
from parsieve.sharing import cached_property
from parsieve.spark.pushdown.catalyst import resolved
from parsieve.spark.runtime.gateway import java_session, jvm_of
from parsieve.spark.scan.file_index import Keep, choose, plain_path, ranges_of
from parsieve.spark.scan.format_scan import (
    FixedScan,
    PlannedFiles,
    changed_since,
    condition_of,
    refuse_missing_files,
)
from parsieve.spark.scan.kept_files import Keeper
from parsieve.spark.scan.last_scan import remember
from parsieve.spark.scan.record import log_scan


class DeltaScan(FixedScan):
    """A Delta table at a version, which is looked up once."""

    @cached_property
    def _log(self) -> Any:
        delta_log = jvm_of(self.spark).org.apache.spark.sql.delta.DeltaLog
        return delta_log.forTable(java_session(self.spark), self._address())

    @cached_property
    def _snapshot(self) -> Any:
        """Delta's own snapshot of the version."""
        version = self._version()
        latest = _call_with_defaults(self._log, "update")
        # Delta caches the latest version only.
        if version is None or int(latest.version()) == version:
            return latest
        return _call_with_defaults(self._log, "getSnapshotAt", version)

    def _frame(self, files: Any) -> Any:
        """Return the rows of some files, given as a Scala list of Delta's `AddFile`."""
        from pyspark.sql import DataFrame

        no_action = jvm_of(self.spark).scala.Option.empty()
        return DataFrame(self._log.createDataFrame(self._snapshot, files, False, no_action), self.spark)

    @cached_property
    def schema(self) -> Any:
        """The columns as Spark reads them. Does not read the list of files."""
        return self._frame(jvm_of(self.spark).scala.collection.mutable.ArrayBuffer().toList()).schema

    def whole(self) -> Any:
        """Return all rows of the version."""
        return self._whole

    @cached_property
    def _whole(self) -> Any:
        return self._frame(self._scala_list(self._snapshot.allFiles().collectAsList()))

    def _scala_list(self, files: Any) -> Any:
        return jvm_of(self.spark).scala.collection.JavaConverters.asScalaBuffer(files).toList()

    def agrees(self, snapshot: Snapshot, columns: Collection[str]) -> bool:
        """Return whether no partition value of some columns depends on the time zone of the session."""
        values = snapshot.slices.partition_values
        return not any(values[name].numbers.null_count for name in columns if name in values)

    def keeper(self, table: OpenTable, also: Sequence[pc.Expression]) -> Keeper:
        """Return a `Keep` that plans on the same version."""
        return Keeper(self.spark, table, self.types(), int(self._snapshot.version()), also)

    def pruned(self, keep: Keep, condition: Any = None) -> Any:
        """Return the rows for which a condition is true, from files that are chosen now.

        Conditions that are added to the DataFrame later filter its rows, but skip no more files.
        """
        condition = "true" if condition is None else condition
        files = self._snapshot.allFiles().collectAsList()
        scala_files = self._scala_list(files)
        # One call transfers all entries, in the order of the list.
        mapper = jvm_of(self.spark).org.apache.spark.sql.delta.util.JsonUtils.mapper()
        entries = json.loads(mapper.writeValueAsString(files))
        folder = str(self._log.dataPath().toString())
        paths = [_absolute_path(folder, entry["path"]) for entry in entries]
        kept = choose(keep, paths, lambda: resolved(self.spark, self.schema, condition))
        kept_files = jvm_of(self.spark).scala.collection.mutable.ArrayBuffer()
        for start, end in ranges_of(paths, kept.paths):
            kept_files.appendAll(scala_files.slice(start, end))
        frame = self._frame(kept_files.toList()).where(condition)
        sizes = {path: int(entry["size"]) for path, entry in zip(paths, entries, strict=True)}
        remember(frame, log_scan(folder, sizes, kept.paths, kept.plan))
        return frame

    def from_plan(self, plan: PlanRecord) -> Any:
        """Return the rows of a plan at its version."""
        from py4j.protocol import Py4JJavaError

        refuse_missing_files(plan)
        try:
            types = self.types()
        except Py4JJavaError as error:
            reason = str(getattr(error, "java_exception", error)).splitlines()[0]
            raise changed_since(plan, f"Spark cannot read that version: {reason}") from error
        keep = PlannedFiles.of(plan)
        frame = self.pruned(keep, condition_of(plan, types))
        if keep.missing:
            raise changed_since(plan, f"{min(keep.missing)} is not part of that version")
        return frame

    @classmethod
    def pinned(cls, lake: Any, snapshot: Snapshot) -> tuple[None, str]:
        """Return the version."""
        return None, str(snapshot.id)


def _absolute_path(folder: str, path: str) -> str:
    """Return the path of a file, which the log stores as a URI, and relative to the table for files below it."""
    decoded = unquote(path)
    return plain_path(decoded if decoded.startswith("/") or ":/" in path else f"{folder}/{decoded}")


def _call_with_defaults(scala_object: Any, method: str, *arguments: Any) -> Any:
    """Call a Scala method with the defaults of its other parameters, whose number differs between releases."""
    from py4j.protocol import Py4JError

    all_arguments = list(arguments)
    while True:
        try:
            all_arguments.append(getattr(scala_object, f"{method}$default${len(all_arguments) + 1}")())
        except Py4JError:
            return getattr(scala_object, method)(*all_arguments)

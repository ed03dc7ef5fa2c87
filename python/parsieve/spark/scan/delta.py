"""A Delta table as Spark reads it, from some of its files: deletion vectors and column mapping stay Delta's affair."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from parsieve.spark.pushdown.catalyst import resolved
from parsieve.spark.scan.file_index import Keep, chosen, plain_path, runs
from parsieve.spark.scan.last_scan import remember, scan_of


def read(spark: Any, path: str, keep: Keep, where: Any = None, version: int | None = None) -> Any:
    """The rows of the table at a version that meet `where`, from the files that `keep` leaves.

    The version is fixed when this is called, and so is the choice of files: conditions that are added to the DataFrame
    later hold, and leave out no more files.
    """
    return State(spark, path, version).read(keep, where)


class State:
    """A table at a version, which is read once from the log."""

    def __init__(self, spark: Any, path: str, version: int | None = None) -> None:
        """The latest version, or another one."""
        self._spark = spark
        self._log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
        self._snapshot = _with_defaults(self._log, "update")
        # Delta keeps what it knows of the latest version alone.
        if version is not None and int(self._snapshot.version()) != version:
            self._snapshot = _with_defaults(self._log, "getSnapshotAt", version)

    @property
    def version(self) -> int:
        """Its number; -1 before the first."""
        return int(self._snapshot.version())

    @property
    def schema(self) -> Any:
        """Its columns, as Spark reads them."""
        return self._frame(self._spark._jvm.scala.collection.mutable.ArrayBuffer().toList()).schema

    def _frame(self, files: Any) -> Any:
        from pyspark.sql import DataFrame

        none = self._spark._jvm.scala.Option.empty()
        return DataFrame(self._log.createDataFrame(self._snapshot, files, False, none), self._spark)

    def read(self, keep: Keep, where: Any = None) -> Any:
        """Its rows that meet `where`, from the files that `keep` leaves."""
        jvm = self._spark._jvm
        files = self._snapshot.allFiles().collectAsList()
        everything = jvm.scala.collection.JavaConverters.asScalaBuffer(files).toList()
        if where is None:
            return self._frame(everything)
        # One call for all the paths, in the order of the list.
        written = json.loads(jvm.org.apache.spark.sql.delta.util.JsonUtils.mapper().writeValueAsString(files))
        folder = str(self._log.dataPath().toString())
        paths = [_absolute(folder, one["path"]) for one in written]
        kept = chosen(keep, paths, resolved(self._spark, self.schema, where))
        sizes = {path: int(one["size"]) for path, one in zip(paths, written, strict=True)}
        left = jvm.scala.collection.mutable.ArrayBuffer()
        for start, end in runs(paths, kept):
            left.appendAll(everything.slice(start, end))
        frame = self._frame(left.toList()).where(where)
        remember(frame, scan_of(folder, sizes, kept, getattr(keep, "plan", None)))
        return frame


def _absolute(folder: str, path: str) -> str:
    """The log has paths as URIs, relative to the table where they lie below it."""
    plain = unquote(path)
    return plain_path(plain if plain.startswith("/") or ":/" in path else f"{folder}/{plain}")


def _with_defaults(thing: Any, name: str, *given: Any) -> Any:
    """Call a method of Scala with the defaults of what is left; releases differ in how many parameters there are."""
    from py4j.protocol import Py4JError

    arguments = list(given)
    while True:
        try:
            arguments.append(getattr(thing, f"{name}$default${len(arguments) + 1}")())
        except Py4JError:
            return getattr(thing, name)(*arguments)

"""A Delta table as Spark reads it, from some of its files: deletion vectors and column mapping stay Delta's affair."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from parsieve.spark.catalyst import resolved
from parsieve.spark.file_index import Keep, chosen, plain_path, runs


def read(spark: Any, path: str, keep: Keep, where: Any = None, version: int | None = None) -> Any:
    """The rows of the table at a version that meet `where`, from the files that `keep` leaves.

    The version is fixed when this is called, and so is the choice of files: conditions that are added to the DataFrame
    later hold, and leave out no more files.
    """
    from pyspark.sql import DataFrame

    none = spark._jvm.scala.Option.empty()
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    snapshot = _with_defaults(log, "update") if version is None else _with_defaults(log, "getSnapshotAt", version)
    files = snapshot.allFiles().collectAsList()
    # One call for all the paths, in the order of the list.
    written = json.loads(spark._jvm.org.apache.spark.sql.delta.util.JsonUtils.mapper().writeValueAsString(files))
    folder = str(log.dataPath().toString())
    paths = [_absolute(folder, one["path"]) for one in written]

    def frame(chosen: Any) -> Any:
        return DataFrame(log.createDataFrame(snapshot, chosen, False, none), spark)

    everything = spark._jvm.scala.collection.JavaConverters.asScalaBuffer(files).toList()
    whole = frame(everything)
    if where is None:
        return whole
    kept = chosen(keep, paths, resolved(spark, whole.schema, where))
    left = spark._jvm.scala.collection.mutable.ArrayBuffer()
    for start, end in runs(paths, kept):
        left.appendAll(everything.slice(start, end))
    return frame(left.toList()).where(where)


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

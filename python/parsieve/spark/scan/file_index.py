"""Wrap Spark's list of a table's files, and leave out the files that a query does not need.

Spark makes the list as before, so partitions, deletes and log files work as without parsieve. Each time Spark plans a
query, `PrunedIndex` removes files from the list. This code runs on the driver only, and needs no jar.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from parsieve._core import UnsupportedError
from parsieve.spark.pushdown.catalyst import Filter, filter_of
from parsieve.spark.runtime.gateway import gateway_of, java_session, jvm_of, query_of
from parsieve.spark.scan.record import Scan, log_scan
from parsieve.spark.scan.watched import watched

if TYPE_CHECKING:
    from parsieve.plan.record import PlanRecord


@dataclass(frozen=True)
class Kept:
    """The listed paths that a query must read, and facts about their files."""

    paths: Set[str]
    # The plan that skipped the other paths, if there is one.
    plan: PlanRecord | None = None

    def stale(self) -> Set[str]:
        """Return the paths whose files may have changed since Spark listed them. Spark gets their current size."""
        return frozenset()

    def row_groups(self, paths: Set[str]) -> Mapping[str, Sequence[int]]:
        """Return the row groups to read, in the version that Spark listed, for each path with skipped row groups."""
        return {}


# Returns the listed paths that a query must read, given all listed paths and the query's filter. Spark may plan several
# queries of a DataFrame at the same time, so all that a `Keep` knows of one query is in its answer.
Keep = Callable[[Sequence[str], Filter], Kept]

# Adds to the paths of one folder what a `Keep` must know of their files; gets the folder's partition values, too.
LabelPaths = Callable[[Any, Sequence[str]], Sequence[str]]

# The paths in a folder, and the sizes of the files, if known.
Folder = tuple[Sequence[str], Sequence[int | None]]

# The name of the row groups in the metadata of a listed file, and the most files of a query that get them: each takes
# several calls of Java.
ROW_GROUPS = "parsieve.row_groups"
MOST_WITH_ROW_GROUPS = 1000

# The file indexes that Java still refers to, by name.
_living: WeakValueDictionary[str, PrunedIndex] = WeakValueDictionary()
_numbers = itertools.count()

_log = logging.getLogger("parsieve.spark")


def prune(frame: Any, keep: Keep, table: str = "", label_paths: LabelPaths | None = None) -> Any:
    """Return the same DataFrame, but with a scan that asks `keep` which files each query needs.

    `frame` must be a single relation over files, as `spark.read...load(...)` returns it for plain Parquet or Hudi.
    `keep` gets the paths as Spark lists them (local paths without `file:`) and the query's filter, and returns the
    paths that must be read. If it fails, Spark reads all files. Spark's cache treats two such DataFrames as equal if
    their tables and their `keep` are equal. `table` is the name of the table in logs.
    """
    from pyspark.sql import DataFrame

    spark = frame.sparkSession
    relation = _relation(frame)
    location = relation.location()
    _start_callbacks(spark)
    file_format = relation.fileFormat()
    watching = watched(spark, file_format)
    pruned_relation = relation.copy(
        PrunedIndex(spark, location, keep, table, label_paths, reads_row_groups=watching is not file_format),
        relation.partitionSchema(),
        relation.dataSchema(),
        relation.bucketSpec(),
        watching,
        relation.options(),
        relation.sparkSession(),
    )
    pruned = DataFrame(java_session(spark).baseRelationToDataFrame(pruned_relation), spark)
    names = ["`{}`".format(name.replace("`", "``")) for name in frame.columns]
    return pruned if pruned.columns == frame.columns else pruned.select(*names)


def list_paths(frame: Any, label_paths: LabelPaths | None = None) -> list[str]:
    """Return the paths of all files of a DataFrame that `prune` accepts, as `keep` gets them."""
    jvm, location = jvm_of(frame.sparkSession), _relation(frame).location()
    no_filters = jvm.scala.collection.mutable.ArrayBuffer().toList()
    folders = _folders(location.listFiles(no_filters, no_filters), label_paths)
    return [path for paths, _ in folders for path in paths]


def partition_names(frame: Any) -> frozenset[str]:
    """Return the partition columns of a DataFrame that `prune` accepts."""
    try:
        return frozenset(_relation(frame).partitionSchema().fieldNames())
    except UnsupportedError:
        return frozenset()


def refresh(frame: Any) -> None:
    """Make Spark list the files of a DataFrame again, if `prune` accepts it."""
    with contextlib.suppress(UnsupportedError):
        _relation(frame).location().refresh()


def _relation(frame: Any) -> Any:
    """Return the relation over files that a DataFrame consists of."""
    plan = query_of(frame).analyzed()
    while plan.getClass().getSimpleName() == "SubqueryAlias" or (
        # Hudi projects its relation to bring the columns into the table's order.
        plan.getClass().getSimpleName() == "Project"
        and plan.output().size() == plan.child().output().size()
        and plan.outputSet().equals(plan.child().outputSet())
    ):
        plan = plan.child()
    relation = plan.relation() if plan.getClass().getSimpleName() == "LogicalRelation" else None
    if relation is not None and ".delta." in relation.getClass().getName():
        raise UnsupportedError(
            "cannot prune this DataFrame: a Delta table would lose its deletion vectors; use pss.read"
        )
    if relation is None or relation.getClass().getSimpleName() != "HadoopFsRelation":
        raise UnsupportedError(
            "cannot prune this DataFrame: it must be what spark.read returns for a folder of Parquet files or a Hudi "
            f"table, not {plan.getClass().getSimpleName()}"
        )
    return relation


def _start_callbacks(spark: Any) -> None:
    """Let Java call Python, as PySpark does for streams."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(gateway_of(spark))


class PrunedIndex:
    """A `FileIndex` of Spark that wraps another one, and lists only the files that `keep` returns."""

    def __init__(
        self,
        spark: Any,
        inner: Any,
        keep: Keep,
        table: str = "",
        label_paths: LabelPaths | None = None,
        *,
        reads_row_groups: bool = False,
    ) -> None:
        """Wrap `inner`, a `FileIndex` in the JVM. `reads_row_groups` is whether the reader can skip row groups."""
        self._spark = spark
        self._jvm = jvm_of(spark)
        self._table = table
        # The last scan that Spark planned.
        self._scan: Scan | None = None
        self._inner = inner
        self._keep = keep
        self._label_paths = label_paths
        self._reads_row_groups = reads_row_groups
        self._hash = int(inner.hashCode())
        self._name = f"parsieve.PrunedIndex-{next(_numbers)}"
        _living[self._name] = self

    def __getattr__(self, name: str) -> Any:
        """Pass all other methods of a `FileIndex` on to the wrapped one."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def listFiles(self, partition_filters: Any, data_filters: Any) -> Any:  # noqa: N802
        """Return the folders and files to read. Spark calls this once for each plan of a query."""
        listed = self._inner.listFiles(partition_filters, data_filters)
        try:
            return self._without_skipped(listed, [*_sequence(partition_filters), *_sequence(data_filters)])
        except Exception as error:
            warn_all_kept(error)
            self._scan = self._record_failure(listed, error)
            return listed

    def _record_failure(self, listed: Any, error: Exception) -> Scan | None:
        try:
            sizes = _sizes(_folders(listed, self._label_paths))
        except Exception:
            return None
        return log_scan(self._table, sizes, set(sizes), None, f"no file was skipped: {first_line(error)}")

    def equals(self, other: Any) -> bool:
        """Return whether Spark may use one index in place of the other, as it does for cached results."""
        # `other` is the Java side of a file index; only its name leads back to the Python object.
        if not self._jvm.java.lang.reflect.Proxy.isProxyClass(other.getClass()):
            return False
        index = _living.get(str(other.toString()))
        return index is self or bool(
            index is not None and self._keep == index._keep and self._inner.equals(index._inner)
        )

    def hashCode(self) -> int:  # noqa: N802
        """Return a hash code. Equal indexes must have equal hash codes."""
        return self._hash

    def toString(self) -> str:  # noqa: N802
        """Return the name of this index, which is unique."""
        return self._name

    def _without_skipped(self, listed: Any, conditions: list[Any]) -> Any:
        """Return the listed folders without the files that `keep` leaves out, and with the current size of others."""
        folders = _folders(listed, self._label_paths)
        sizes = _sizes(folders)
        answer = self._keep(list(sizes), filter_of(conditions))
        kept = answer.paths
        self._scan = log_scan(self._table, sizes, kept, answer.plan)
        stale = answer.stale()
        groups = answer.row_groups(kept - stale) if self._reads_row_groups else {}
        if not stale and not groups and kept >= sizes.keys():
            return listed
        renewal = Renewal(self._spark) if stale else None
        pruned = self._jvm.scala.collection.mutable.ArrayBuffer()
        for folder, (paths, _) in zip(_sequence(listed), folders, strict=True):
            files, kept_files = folder.files(), self._jvm.scala.collection.mutable.ArrayBuffer()
            for start, end in ranges_of(paths, kept - stale - groups.keys()):
                kept_files.appendAll(files.slice(start, end))
            for position, path in enumerate(paths):
                if path in groups:
                    getattr(kept_files, "$plus$eq")(_with_row_groups(files.apply(position), groups[path]))
            if renewal is not None:
                for position, path in enumerate(paths):
                    if path in kept and path in stale:
                        getattr(kept_files, "$plus$eq")(renewal(files.apply(position)))
            if not kept_files.isEmpty():
                getattr(pruned, "$plus$eq")(folder.copy(folder.values(), kept_files.toList()))
        return pruned.toList()

    class Java:
        """The Java interfaces that py4j implements with this class."""

        implements = ("org.apache.spark.sql.execution.datasources.FileIndex",)


def _with_row_groups(listed: Any, groups: Sequence[int]) -> Any:
    """Return a listed file with the row groups to read, for the reader in `WatchedParquet.java`."""
    metadata = listed.metadata().updated(ROW_GROUPS, ",".join(map(str, groups)))
    return listed.copy(listed.fileStatus(), metadata)


class Renewal:
    """Replaces the size and time that Spark listed for a file by the current ones."""

    def __init__(self, spark: Any) -> None:
        """Read files with the session's Hadoop settings."""
        self._settings = java_session(spark).sessionState().newHadoopConf()

    def __call__(self, listed: Any) -> Any:
        """Return the file with its current size and time, or unchanged if it is gone."""
        from py4j.protocol import Py4JJavaError

        path = listed.getPath()
        try:
            now = path.getFileSystem(self._settings).getFileStatus(path)
        except Py4JJavaError:
            # The task that reads the file reports the problem.
            return listed
        return listed.copy(now, listed.metadata())


def scan_by_name(name: str) -> Scan | None:
    """Return the last scan of the file index with a name."""
    index = _living.get(name)
    return None if index is None else index._scan


def _folders(listed: Any, label_paths: LabelPaths | None) -> list[Folder]:
    """Return the paths and sizes of the files in each folder that a file index listed."""
    folders: list[Folder] = []
    for folder in _sequence(listed):
        files = files_of(folder.files())
        paths: Sequence[str] = [path for path, _ in files]
        if label_paths is not None:
            paths = label_paths(folder.values(), paths)
        folders.append((paths, [size for _, size in files]))
    return folders


def _sizes(folders: Sequence[Folder]) -> dict[str, int | None]:
    return {path: size for paths, sizes in folders for path, size in zip(paths, sizes, strict=True)}


def warn_all_kept(error: Exception) -> None:
    """Log that no file was skipped. Reading too much is slow; failing or reading too little would be worse."""
    _log.warning("no file was skipped: %s", first_line(error))


def first_line(error: Exception) -> str:
    """Return the type of an error and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def choose(keep: Keep, paths: Sequence[str], find_filter: Callable[[], Filter]) -> Kept:
    """Return the paths that `keep` returns, or all of them if it fails, or if the filter cannot be found."""
    try:
        return keep(paths, find_filter())
    except Exception as error:
        warn_all_kept(error)
        return Kept(frozenset(paths))


def _sequence(items: Any) -> Iterator[Any]:
    for position in range(items.size()):
        yield items.apply(position)


# How Hadoop prints the status of a file of any class. One call transfers a whole list.
_PRINTED = re.compile(r"\{path=(.*?); isDirectory=(?:false; length=(\d+);)?")


def files_of(files: Any) -> list[tuple[str, int | None]]:
    """Return the path and the size of each file of a Scala list."""
    count = files.size()
    printed = [_PRINTED.search(line) for line in str(files.mkString("\n")).split("\n")] if count else []
    if len(printed) == count and all(printed):
        return [(plain_path(match[1]), int(match[2]) if match[2] else None) for match in printed if match]
    # A name contains a line break, or the filesystem prints files in another way.
    listed = [files.apply(position) for position in range(count)]
    return [(plain_path(str(file.getPath().toString())), int(file.getLen())) for file in listed]


def plain_path(path: str) -> str:
    """Return a path of Hadoop, without the scheme if it is local."""
    return re.sub(r"^file:(//(?=/))?", "", path)


def ranges_of(paths: Sequence[str], kept: Set[str]) -> Iterator[tuple[int, int]]:
    """Yield the positions of the kept paths as ranges, so that Java is called once for each range."""
    start = None
    for position, path in enumerate(paths):
        if path in kept:
            start = position if start is None else start
        elif start is not None:
            yield start, position
            start = None
    if start is not None:
        yield start, len(paths)

"""Spark's own list of a table's files, with those left out that a query does not need.

The list that Spark made is asked as before, so partitions, deletes and log files stay its affair; what it answers is
thinned out while each query is planned. Nothing of this runs on executors, and no jar is needed.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self
from weakref import WeakValueDictionary

from parsieve._core import UnsupportedError
from parsieve.spark.pushdown.catalyst import Filter, filter_of
from parsieve.spark.scan.last_scan import Scan, scan_of
from parsieve.spark.scan.watched import watched

# Paths as the engine writes them and what the query asks for -> those of the paths that must be read. One with a method
# `stale` is asked which of those may have been replaced since Spark listed them; these are looked at again.
Keep = Callable[[Sequence[str], Filter], "set[str]"]

# Those that Java still holds, by their names.
_living: WeakValueDictionary[str, PrunedIndex] = WeakValueDictionary()
_numbers = itertools.count()

_log = logging.getLogger("parsieve.spark")


class ListedPath(str):
    """A path as a file index lists it, with the names of the logs that Spark merges into that file of Hudi's."""

    __slots__ = ("logs",)
    # None where that is not known.
    logs: frozenset[str] | None

    def __new__(cls, path: str, logs: frozenset[str] | None) -> Self:
        """A text that knows more."""
        made = super().__new__(cls, path)
        made.logs = logs
        return made


def prune(frame: Any, keep: Keep, table: str = "") -> Any:
    """The same DataFrame, whose scan asks `keep` at every query which files it needs.

    `frame` is what `spark.read...load(...)` gives for plain Parquet or Hudi: one relation over files. `keep` gets paths
    as they are listed (local ones without `file:`, those of Hudi as `ListedPath`s) and the query's filter, and answers
    with those that must be read; where it fails, all are. Two such frames are equal to Spark, for its cache, where
    table and `keep` are equal. `table` is what logs call it.
    """
    spark = frame.sparkSession
    relation = _relation(frame)
    location = relation.location()
    _listen(spark)
    thinned = relation.copy(
        PrunedIndex(spark, location, keep, table),
        relation.partitionSchema(),
        relation.dataSchema(),
        relation.bucketSpec(),
        watched(spark, relation.fileFormat()),
        relation.options(),
        relation.sparkSession(),
    )
    from pyspark.sql import DataFrame

    found = DataFrame(spark._jsparkSession.baseRelationToDataFrame(thinned), spark)
    names = ["`{}`".format(name.replace("`", "``")) for name in frame.columns]
    return found if found.columns == frame.columns else found.select(*names)


def listed(frame: Any) -> list[str]:
    """All files that a frame of `prune` or for it would read, as `keep` gets them."""
    jvm, location = frame.sparkSession._jvm, _relation(frame).location()
    nothing = jvm.scala.collection.mutable.ArrayBuffer().toList()
    folders = location.listFiles(nothing, nothing)
    return [path for within, _ in _paths(location, folders) for path in within]


def relist(frame: Any) -> None:
    """Let Spark forget what it remembers of the files of a frame for `prune`."""
    with contextlib.suppress(UnsupportedError):
        _relation(frame).location().refresh()


def _relation(frame: Any) -> Any:
    """The relation over files that a frame is, and nothing else."""
    plan = frame._jdf.queryExecution().analyzed()
    while plan.getClass().getSimpleName() == "SubqueryAlias" or (
        # Hudi puts one above its relation, which brings the columns into the table's order and changes nothing else.
        plan.getClass().getSimpleName() == "Project"
        and plan.output().size() == plan.child().output().size()
        and plan.outputSet().equals(plan.child().outputSet())
    ):
        plan = plan.child()
    relation = plan.relation() if plan.getClass().getSimpleName() == "LogicalRelation" else None
    if relation is not None and ".delta." in relation.getClass().getName():
        raise UnsupportedError("a Delta table would lose its deletion vectors in this way; use delta.read")
    if relation is None or relation.getClass().getSimpleName() != "HadoopFsRelation":
        raise UnsupportedError(
            "files can be left out of a DataFrame that spark.read gives for a folder of Parquet files or a Hudi table, "
            f"and of nothing that was made of it; this is {plan.getClass().getSimpleName()}"
        )
    return relation


def _listen(spark: Any) -> None:
    """Let Java call Python, as PySpark does for streams."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)


class PrunedIndex:
    """A `FileIndex` of Spark: another one, and what `keep` leaves of its files."""

    def __init__(self, spark: Any, inner: Any, keep: Keep, table: str = "") -> None:
        """Wrap `inner`, a `FileIndex` of py4j."""
        self._spark = spark
        self._jvm = spark._jvm
        self._table = table
        # The last scan that was planned.
        self._scan: Scan | None = None
        self._inner = inner
        self._keep = keep
        self._hash = int(inner.hashCode())
        self._name = f"parsieve.PrunedIndex-{next(_numbers)}"
        _living[self._name] = self

    def __getattr__(self, name: str) -> Any:
        """Whatever else Spark asks of a `FileIndex`, the wrapped one answers."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def listFiles(self, partition_filters: Any, data_filters: Any) -> Any:  # noqa: N802
        """The folders and files to read: called by Spark once for each plan of a query."""
        listed = self._inner.listFiles(partition_filters, data_filters)
        try:
            return self._thinned(listed, [*_sequence(partition_filters), *_sequence(data_filters)])
        except Exception as error:
            kept_all(error)
            self._scan = self._seen_whole(listed, error)
            return listed

    def _seen_whole(self, listed: Any, error: Exception) -> Scan | None:
        try:
            sizes = _sizes(_paths(self._inner, listed))
        except Exception:
            return None
        return scan_of(self._table, sizes, set(sizes), None, f"no file was skipped: {first_line(error)}")

    def equals(self, other: Any) -> bool:
        """Whether Spark may take one for the other, as it does for cached answers."""
        # Java hands over its own side of the other, which only its name leads back to the Python side.
        if not self._jvm.java.lang.reflect.Proxy.isProxyClass(other.getClass()):
            return False
        found = _living.get(str(other.toString()))
        return found is self or bool(
            found is not None and self._keep == found._keep and self._inner.equals(found._inner)
        )

    def hashCode(self) -> int:  # noqa: N802
        """Equal ones have equal ones."""
        return self._hash

    def toString(self) -> str:  # noqa: N802
        """Its name, which no other has."""
        return self._name

    def _thinned(self, listed: Any, conditions: list[Any]) -> Any:
        folders = [(folder, folder.files()) for folder in _sequence(listed)]
        paths = _paths(self._inner, listed)
        sizes = _sizes(paths)
        kept = self._keep(list(sizes), filter_of(conditions))
        self._scan = scan_of(self._table, sizes, kept, getattr(self._keep, "plan", None))
        ask = getattr(self._keep, "stale", None)
        stale = set() if ask is None else set(ask(kept))
        if not stale and len(kept) >= len(sizes) and kept.issuperset(sizes):
            return listed
        renew = Renewal(self._spark) if stale else None
        answer = self._jvm.scala.collection.mutable.ArrayBuffer()
        for (folder, files), (within, _) in zip(folders, paths, strict=True):
            left = self._jvm.scala.collection.mutable.ArrayBuffer()
            for start, end in runs(within, kept - stale):
                left.appendAll(files.slice(start, end))
            if renew is not None:
                for at, path in enumerate(within):
                    if path in kept and path in stale:
                        getattr(left, "$plus$eq")(renew(files.apply(at)))
            if not left.isEmpty():
                getattr(answer, "$plus$eq")(folder.copy(folder.values(), left.toList()))
        return answer.toList()

    class Java:
        """What py4j presents to Java."""

        implements = ("org.apache.spark.sql.execution.datasources.FileIndex",)


class Renewal:
    """Replaces what Spark listed of a file by what is true of it now."""

    def __init__(self, spark: Any) -> None:
        """Use the session's settings."""
        self._settings = spark._jsparkSession.sessionState().newHadoopConf()

    def __call__(self, listed: Any) -> Any:
        """Return the file with its size and time of now; as it was listed where it is gone."""
        from py4j.protocol import Py4JJavaError

        path = listed.getPath()
        try:
            now = path.getFileSystem(self._settings).getFileStatus(path)
        except Py4JJavaError:
            # To say what is wrong with it is for the task that reads it.
            return listed
        return listed.copy(now, listed.metadata())


def scan_by_name(name: str) -> Scan | None:
    """Return the last scan of the file index with a name."""
    found = _living.get(name)
    return None if found is None else found._scan


# The paths of a folder and the sizes of its files, where they are known.
Folder = tuple[Sequence[str], Sequence[int | None]]


def _paths(location: Any, folders: Any) -> list[Folder]:
    """The paths of each folder that a file index lists, and the sizes of the files."""
    has_logs = "Hoodie" in str(location.getClass().getSimpleName())
    found: list[Folder] = []
    for folder in _sequence(folders):
        files = files_of(folder.files())
        paths: Sequence[str] = [path for path, _ in files]
        found.append((_with_logs(folder.values(), paths) if has_logs else paths, [size for _, size in files]))
    return found


def _sizes(folders: Sequence[Folder]) -> dict[str, int | None]:
    return {path: size for paths, sizes in folders for path, size in zip(paths, sizes, strict=True)}


def _with_logs(values: Any, paths: Sequence[str]) -> list[ListedPath]:
    """The files of one folder of a Hudi table with their logs, which hang on the partition's values there."""
    logs: dict[str, frozenset[str]] | None = {}
    if "FileSliceMapping" in str(values.getClass().getSimpleName()):
        logs = _logs_by_group(values)
    return [
        # A group without a base file is listed by one of its logs, whose name begins with a dot.
        ListedPath(path, None if logs is None else logs.get(_NAME.split(path)[1].partition("_")[0], frozenset()))
        for path in paths
    ]


_NAME = re.compile(r"/\.?(?=[^/]*$)")
# How releases of Hudi print a log file, and the file slice around it after its group's name.
_GROUP = re.compile(r"(\S+) -> FileSlice")
_LOG = re.compile(r"HoodieLogFile[({]pathStr='?(.*?)'?, file(?:Size|Len)=-?\d+[)}]")


def _logs_by_group(values: Any) -> dict[str, frozenset[str]] | None:
    """The logs of each file group that has some; None where this Hudi does not show them."""
    try:
        held = values.getClass().getDeclaredField("slices")
        held.setAccessible(True)
        slices = held.get(values)
        # One call for all of them.
        lines = str(slices.mkString("\n")).split("\n")
        count = int(slices.size())
    except Exception as error:
        kept_all(error)
        return None
    found = {}
    for line in lines:
        group = _GROUP.match(line)
        names = frozenset(path.rpartition("/")[2] for path in _LOG.findall(line))
        if group is None or len(names) != line.count("HoodieLogFile") or not names:
            return None
        found[group[1]] = names
    return found if len(found) == count else None


def kept_all(error: Exception) -> None:
    """Say that nothing was left out: to read too much is slow, to fail or to read too little is worse."""
    _log.warning("no file was skipped: %s", first_line(error))


def first_line(error: Exception) -> str:
    """Return the kind of an error and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def chosen(keep: Keep, paths: Sequence[str], where: Filter) -> set[str]:
    """What `keep` leaves of the paths; all of them where it fails."""
    try:
        return keep(paths, where)
    except Exception as error:
        kept_all(error)
        return set(paths)


def _sequence(items: Any) -> Iterator[Any]:
    for at in range(items.size()):
        yield items.apply(at)


# How Hadoop prints the state of a file, of whichever class; one call brings a whole list.
_PRINTED = re.compile(r"\{path=(.*?); isDirectory=(?:false; length=(\d+);)?")


def files_of(files: Any) -> list[tuple[str, int | None]]:
    """The path of each file of a list, and its size."""
    count = files.size()
    printed = [_PRINTED.search(line) for line in str(files.mkString("\n")).split("\n")] if count else []
    if len(printed) == count and all(printed):
        return [(plain_path(found[1]), int(found[2]) if found[2] else None) for found in printed if found]
    # A name with a line's end in it, or a filesystem that prints something else.
    listed = [files.apply(at) for at in range(count)]
    return [(plain_path(str(file.getPath().toString())), int(file.getLen())) for file in listed]


def plain_path(path: str) -> str:
    """A path of Hadoop, without the scheme where it is local."""
    return re.sub(r"^file:(//(?=/))?", "", path)


def runs(paths: Sequence[str], kept: set[str]) -> Iterator[tuple[int, int]]:
    """Where the kept ones stand, as ranges: Java is called once for each, not once for each file."""
    start = None
    for at, path in enumerate(paths):
        if path in kept:
            start = at if start is None else start
        elif start is not None:
            yield start, at
            start = None
    if start is not None:
        yield start, len(paths)

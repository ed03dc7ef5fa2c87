"""`last_scan`: which files the last scan of a DataFrame skipped, and why."""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from parsieve.plan.plan import Plan

_log = logging.getLogger("parsieve.spark")

# Scans of DataFrames whose files are chosen when they are made; the oldest are forgotten.
MOST_KEPT = 100


@dataclass(frozen=True)
class Scan:
    """How much of a table one scan read, and why the rest was skipped.

    `table` is a path or URI. Spark got `files_kept` of its `files_total` files, with `bytes_kept` of `bytes_total`
    bytes; both are None if sizes are unknown. `evidence` shows why files were skipped, and `notes` why others were not.

    >>> from parsieve.spark.scans import Scan
    >>> print(Scan("lake/orders", 51, 200, 78_000_000, 305_000_000))
    orders: 51 of 200 files, 78 of 305 MB
    """

    table: str
    files_kept: int
    files_total: int
    bytes_kept: int | None = None
    bytes_total: int | None = None
    _failure: str = field(default="", repr=False)
    _plan: Plan | None = field(default=None, repr=False, compare=False)

    @cached_property
    def evidence(self) -> dict[str, int]:
        """How many files each kind of evidence skipped, such as `{"sieve index": 149}`."""
        if self._plan is None:
            return {}
        return dict(Counter(skip.evidence for skip in self._plan.skipped).most_common())

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """The reasons why files were kept in doubt, each with the number of files."""
        failures = (self._failure,) if self._failure else ()
        if self._plan is None:
            return failures
        counts = Counter(doubt for keep in self._plan.kept for doubt in keep.doubt)
        doubts = (f"{doubt} ({count} files)" for doubt, count in counts.most_common())
        return (*failures, *self._plan.record.notes, *doubts)

    def __str__(self) -> str:
        name = self.table.rstrip("/").rpartition("/")[2] or self.table
        text = f"{name}: {self.files_kept} of {self.files_total} files"
        if self.bytes_kept is None or self.bytes_total is None:
            return text
        return f"{text}, {_of(self.bytes_kept, self.bytes_total)}"


def _of(part: int, whole: int) -> str:
    unit, size = next((one for one in _UNITS if whole >= 10 * one[1]), _UNITS[-1])
    return f"{round(part / size)} of {round(whole / size)} {unit}"


_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("bytes", 1))


def scan_of(table: str, sizes: Mapping[str, int | None], kept: set[str], plan: Plan | None, failure: str = "") -> Scan:
    """Return what is known of a scan, and log it: `sizes` are all its files."""
    all_sizes = list(sizes.values())
    left = [sizes[path] for path in sizes if path in kept]
    scan = Scan(table, len(left), len(all_sizes), _sum(left), _sum(all_sizes), failure, plan)
    _log.info("%s", scan)
    return scan


def _sum(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


# By what identifies the relation of a DataFrame, which every DataFrame made of it holds too.
_scans: OrderedDict[str, Callable[[], Scan | None]] = OrderedDict()
_lock = threading.Lock()


def remember(frame: DataFrame, scan: Scan) -> None:
    """Keep the scan of a DataFrame whose files were chosen when it was made."""
    with _lock:
        for key in _keys(frame):
            _scans[key] = lambda: scan
            _scans.move_to_end(key)
        while len(_scans) > MOST_KEPT:
            _scans.popitem(last=False)


def _keys(frame: Any) -> Iterator[str]:
    """What identifies each relation that a DataFrame reads."""
    spark = frame.sparkSession

    def identity(of: Any) -> str:
        return f"{spark.sparkContext.applicationId}/{spark._jvm.java.lang.System.identityHashCode(of)}"

    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        match str(leaf.getClass().getSimpleName()):
            case "LogicalRelation" if str(leaf.relation().getClass().getSimpleName()) == "HadoopFsRelation":
                location = leaf.relation().location()
                name = str(location.toString())
                yield name if name.startswith("parsieve.") else identity(location)
            case "DataSourceV2Relation":
                yield identity(leaf.table())


def _plan_scans(frame: Any) -> None:
    """Let Spark ask for the files of each scan, as it does before a query runs."""
    leaves = frame._jdf.queryExecution().sparkPlan().collectLeaves()
    for at in range(leaves.size()):
        if str(leaves.apply(at).getClass().getSimpleName()) == "FileSourceScanExec":
            leaves.apply(at).selectedPartitions()


def last_scan(frame: DataFrame) -> Scan | None:
    """Return what the last scan of a DataFrame read and skipped.

    Works for DataFrames from `read` or `Plan.to_spark`, and those derived from them; returns None for any other.

    For plain folders and Hudi tables, Spark plans a scan when a query runs. The result describes the last query of this
    DataFrame, or of one derived from it. If there was no query yet, this call plans one, but reads nothing. Delta and
    Iceberg scans are planned when the DataFrame is created. If a DataFrame reads several such tables, the result
    describes the first.

    Every scan is also logged at level INFO to `parsieve.spark`.

    >>> import tempfile, parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> folder = tempfile.mkdtemp() + "/orders"
    >>> spark.range(0, 1000, 1, 10).write.parquet(folder)
    >>> frame = pss.read(spark, folder, "id = 7")
    >>> frame.count()
    1
    >>> scan = pss.last_scan(frame)
    >>> scan.files_kept, scan.files_total
    (1, 10)
    """
    from parsieve.spark.scan.file_index import scan_by_name

    for key in _keys(frame):
        with _lock:
            chosen = _scans.get(key)
        if chosen is not None:
            return chosen()
        if key.startswith("parsieve."):
            found = scan_by_name(key)
            if found is None:
                _plan_scans(frame)
                found = scan_by_name(key)
            return found
    return None

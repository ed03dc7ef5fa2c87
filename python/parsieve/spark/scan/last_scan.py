"""`last_scan`: find the record of the last scan of a DataFrame."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from parsieve.spark.runtime.gateway import jvm_of, query_of
from parsieve.spark.scan.file_index import scan_by_name
from parsieve.spark.scan.record import Scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# How many scans of Delta and Iceberg tables are remembered; the oldest are forgotten.
MOST_KEPT = 100

# Scans of DataFrames whose files were chosen when they were created, by the identity of the DataFrame's relation.
# DataFrames that are derived from such a DataFrame have the same relation.
_scans: OrderedDict[str, Scan] = OrderedDict()
_lock = threading.Lock()


def remember(frame: DataFrame, scan: Scan) -> None:
    """Store the scan of a DataFrame whose files were chosen when it was created."""
    with _lock:
        for key in _relation_keys(frame):
            _scans[key] = scan
            _scans.move_to_end(key)
        while len(_scans) > MOST_KEPT:
            _scans.popitem(last=False)


def _relation_keys(frame: Any) -> Iterator[str]:
    """Yield a key for each relation that a DataFrame reads: the name of our file index, or an identity in the JVM."""
    spark = frame.sparkSession

    def identity(java_object: Any) -> str:
        return f"{spark.sparkContext.applicationId}/{jvm_of(spark).java.lang.System.identityHashCode(java_object)}"

    leaves = query_of(frame).analyzed().collectLeaves()
    for position in range(leaves.size()):
        leaf = leaves.apply(position)
        match str(leaf.getClass().getSimpleName()):
            case "LogicalRelation" if str(leaf.relation().getClass().getSimpleName()) == "HadoopFsRelation":
                location = leaf.relation().location()
                name = str(location.toString())
                yield name if name.startswith("parsieve.") else identity(location)
            case "DataSourceV2Relation":
                yield identity(leaf.table())


def _plan_scans(frame: Any) -> None:
    """Make Spark list the files of each scan, as it does before a query runs."""
    leaves = query_of(frame).sparkPlan().collectLeaves()
    for position in range(leaves.size()):
        if str(leaves.apply(position).getClass().getSimpleName()) == "FileSourceScanExec":
            leaves.apply(position).selectedPartitions()


def last_scan(frame: DataFrame) -> Scan | None:
    """Return what the last scan of a DataFrame read and skipped.

    This works for DataFrames from `read` or `Plan.to_spark`, and for DataFrames that are derived from them. For any
    other DataFrame, it returns None.

    For plain folders and Hudi tables, Spark plans a scan when a query runs. The result describes the last query of this
    DataFrame, or of one derived from it. If there was no query yet, this call plans a scan, but reads no rows. For
    Delta and Iceberg, the scan is planned when the DataFrame is created. If a DataFrame reads several such tables, the
    result describes the first.

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
    for key in _relation_keys(frame):
        with _lock:
            scan = _scans.get(key)
        if scan is not None:
            return scan
        if key.startswith("parsieve."):
            scan = scan_by_name(key)
            if scan is None:
                _plan_scans(frame)
                scan = scan_by_name(key)
            return scan
    return None

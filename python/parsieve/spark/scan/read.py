"""`read` and `read_plan`: a table, or the rows of a plan, as a DataFrame that opens only the files it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.lake.base import AsOf, Lake
from parsieve.plan.open_table import OpenTable
from parsieve.plan.record import PlanRecord
from parsieve.predicate.parse import parse
from parsieve.spark.runtime.gateway import has_jvm
from parsieve.spark.scan.delta import DeltaScan
from parsieve.spark.scan.folder import FolderScan
from parsieve.spark.scan.format_scan import FormatScan, changed_since
from parsieve.spark.scan.hudi import HudiScan
from parsieve.spark.scan.iceberg import IcebergScan
from parsieve.spark.tables import is_name, lake_of, refuse_second_place
from parsieve.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCANS: dict[str, type[FormatScan]] = {
    "parquet": FolderScan,
    "delta": DeltaScan,
    "iceberg": IcebergScan,
    "hudi": HudiScan,
}


def scan_of(spark: Any, lake: Lake, name: str | None = None, as_of: AsOf = None) -> FormatScan:
    """Return how Spark reads a table at a state. `name` is the table's name in Spark's catalog, if it has one."""
    scan = SCANS.get(lake.format)
    if scan is None:
        raise UnsupportedError(f"tables of format {lake.format!r} are not supported on Spark: {lake.uri}")
    return scan(spark, lake, name, as_of)


def read(
    spark: SparkSession,
    table: Any,
    where: Any = None,
    as_of: AsOf = None,
    *,
    index_location: Any = None,
    storage_options: Mapping[str, str] | None = None,
    timezone: str | None = None,
) -> DataFrame:
    """Return a table as an ordinary Spark DataFrame that opens only the files that can hold a match.

    The DataFrame has the same rows as without parsieve. Indexes, filters and statistics only decide which files it
    opens. In plain folders and Hudi tables, each query skips files by every condition that reaches the scan: `where`,
    a later `.where(...)`, or SQL over a temporary view. In Delta and Iceberg tables, only `where` skips files; the
    files and the version of the table are fixed by this call.

    If a file of a plain folder is replaced while a query runs, the query fails with "ConflictError: ... changed since
    the plan" inside Spark's own error; run it again. `last_scan` shows what a query skipped.

    Args:
        spark: A session with a JVM (not Spark Connect).
        table: A path or URI, a name in Spark's catalog, a table from `open_table`, or an argument of `open_table`.
        where: SQL text or a `Column`, with Spark's meaning, or another form that `Table.plan` takes.
        as_of: A state of the table: a Delta version, an Iceberg snapshot id, a Hudi instant, or a `datetime`.
        index_location: Where the index is stored, if not in the default place.
        storage_options: Options to access the table and the index; Spark uses its own settings.
        timezone: The time zone to assume for timestamps without one in a `where` that is neither SQL text nor a
            `Column`. None is the time zone of the Spark session.

    >>> import tempfile, parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> folder = tempfile.mkdtemp() + "/t"
    >>> spark.range(0, 1000, 1, 10).write.parquet(folder)
    >>> view = pss.build_index(spark, folder, "id")
    >>> pss.read(spark, folder, "id IN (7, 700)").count()
    2
    """
    scan, opened = open_scan(spark, table, as_of, index_location, storage_options)
    frame: DataFrame = read_opened(scan, opened, where, timezone)
    return frame


def open_scan(
    spark: Any,
    table: Any,
    as_of: AsOf = None,
    index_location: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[FormatScan, OpenTable]:
    """Open the table that `read` gets, and return it with the way in which Spark reads it."""
    if not has_jvm(spark):
        raise UnsupportedError(
            "pss.read does not work with Spark Connect, which shows clients no file lists; from PySpark 4.1 on, call "
            'pss.register(spark) and use spark.read.format("parsieve")'
        )
    if isinstance(table, Table):
        refuse_second_place(index_location, storage_options)
        return scan_of(spark, table.opened.lake, None, as_of), table.opened
    lake = lake_of(spark, table, storage_options)
    name = table if is_name(table) else None
    return scan_of(spark, lake, name, as_of), OpenTable.of(lake, index_location)


def read_opened(
    scan: FormatScan,
    table: OpenTable,
    where: Any = None,
    timezone: str | None = None,
    also: Sequence[pc.Expression] = (),
) -> Any:
    """Return the DataFrame of `read`.

    Files are skipped by the conditions in `also`, too. The caller must apply these conditions to the rows.
    """
    condition = where
    if where is not None and not isinstance(where, str) and not hasattr(where, "_jc"):
        zone = timezone or scan.spark.conf.get("spark.sql.session.timeZone")
        predicate = parse(where, table.snapshot(scan.as_of).schema, zone)
        condition = scan.types().text(predicate)
    if scan.chooses_files_once and condition is None and not also:
        return scan.whole()
    return scan.pruned(scan.keeper(table, also), condition)


def read_plan(plan: PlanRecord, spark: SparkSession, name: str | None = None) -> DataFrame:
    """Return the rows of a plan, as `Plan.to_spark` does."""
    if not has_jvm(spark):
        raise UnsupportedError("Spark Connect shows no file lists to its clients; plan.files works with any engine")
    frame: DataFrame = scan_of(spark, plan.lake, name, plan.snapshot.id).from_plan(plan)
    columns = plan.snapshot.schema.names
    for column in columns:
        if column not in frame.columns:
            raise changed_since(plan, f"Spark finds no column {column!r} in it")
    return frame.select(*("`" + column.replace("`", "``") + "`" for column in columns))

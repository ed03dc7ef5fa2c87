"""`read` and `read_plan`: a table, or the rows of a plan, as a DataFrame that opens only the files it needs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.errors import ColumnNotFoundError
from parsieve.lake.base import AsOf, Lake, Snapshot
from parsieve.plan.make import DEFAULTS
from parsieve.plan.open_table import OpenTable
from parsieve.plan.order.ordered_plan import Order, OrderedPlan
from parsieve.plan.order.ordering import Ordering
from parsieve.plan.plan import Plan
from parsieve.plan.record import PlanRecord
from parsieve.plan.results.engines import Rows
from parsieve.predicate.bind import BoundPredicate
from parsieve.predicate.expr import Always, Expr, unknowns, value_columns
from parsieve.predicate.parse import parse
from parsieve.spark.pushdown.catalyst import resolved_exactly
from parsieve.spark.pushdown.int96 import reads_timestamps
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

_log = logging.getLogger("parsieve.spark")

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
    order_by: str | Sequence[str] | None = None,
    descending: bool = False,
    nulls: Literal["first", "last"] = "last",
    limit: int | None = None,
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
        order_by: The column to sort the rows by, as for `Table.plan`. With `limit`, this call finds the value of the
            last row to return. The DataFrame then opens only the files with rows up to that value. It stays at the
            table's current state, and fails with "ConflictError" if a file of a plain folder is replaced.
        descending: Whether the greatest values come first. NaN is greater than all numbers.
        nulls: Whether nulls come "first" or "last", in both directions.
        limit: The number of rows to return.

    >>> import tempfile, parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> folder = tempfile.mkdtemp() + "/t"
    >>> spark.range(0, 1000, 1, 10).write.parquet(folder)
    >>> view = pss.build_index(spark, folder, "id")
    >>> pss.read(spark, folder, "id IN (7, 700)").count()
    2
    """
    order = Order(order_by, limit, descending=descending, nulls=nulls)
    scan, opened = open_scan(spark, table, as_of, index_location, storage_options)
    frame: DataFrame
    if order.is_given:
        frame = _read_first(scan, opened, where, timezone, order)
    else:
        frame = read_opened(scan, opened, where, timezone)
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
    if where is not None and not _is_of_spark(where):
        predicate = _parsed(scan, where, table.snapshot(scan.state), timezone)
        # Only conditions that `keeper` understands choose the files.
        condition = scan.types().text(predicate, of_files=False)
    if scan.chooses_files_once and condition is None and not also:
        return scan.whole()
    return scan.pruned(scan.keeper(table, also), condition)


def _is_of_spark(where: Any) -> bool:
    """Return whether a condition has Spark's meaning."""
    return isinstance(where, str) or hasattr(where, "_jc")


def _parsed(scan: FormatScan, where: Any, snapshot: Snapshot, timezone: str | None) -> Expr:
    return parse(where, snapshot.schema, timezone or scan.spark.conf.get("spark.sql.session.timeZone"))


def _read_first(scan: FormatScan, table: OpenTable, where: Any, timezone: str | None, order: Order) -> Any:
    """Return the first rows of a table in an order, or any of its rows."""
    ordering = frame = None
    try:
        snapshot = table.snapshot(scan.state)
        ordering = order.resolved(snapshot.schema)
        if ordering is not None and order.limit is not None:
            frame = _rows_until_planned_last(scan, table, snapshot, where, timezone, order, ordering)
    except (UnsupportedError, ColumnNotFoundError) as error:
        _log.info("Spark sorts all candidates: %s", error)
        if ordering is None:
            return _first_by_name(read_opened(scan, table, where, timezone), order, error)
    if frame is None:
        frame = read_opened(scan, table, where, timezone)
    return _first(frame, ordering, order.limit)


def _rows_until_planned_last(
    scan: FormatScan,
    table: OpenTable,
    snapshot: Snapshot,
    where: Any,
    timezone: str | None,
    order: Order,
    ordering: Ordering,
) -> Any | None:
    """Return the rows up to the last of the first ones, or None if Spark must sort all candidates."""
    predicate = _exact_predicate(scan, where, snapshot, timezone)
    if predicate is None:
        _log.info("the condition has no exact translation, so Spark sorts all candidates")
        return None
    if not scan.agrees(snapshot, {column.path[0] for column in [*value_columns(predicate), ordering.column]}):
        _log.info("Spark may read other rows or values, so it sorts all candidates")
        return None
    plan = OrderedPlan.of(table, snapshot, BoundPredicate(predicate), DEFAULTS, order)
    return _rows_until_last(plan, scan_of(scan.spark, table.lake, scan.name, snapshot.id))


def _exact_predicate(scan: FormatScan, where: Any, snapshot: Snapshot, timezone: str | None) -> Expr | None:
    """Return a predicate that is true of exactly the rows that Spark selects; None if there is none."""
    if where is None:
        return Always(True)
    if _is_of_spark(where):
        from pyspark.errors import AnalysisException

        try:
            condition = resolved_exactly(scan.spark, scan.schema, where)
        except AnalysisException:
            # Columns of metadata, such as the file of a row, are not in the schema.
            return None
        if condition is None:
            return None
        return scan.types().exact_predicate(condition, snapshot.schema, reads_timestamps(scan.spark))
    predicate = _parsed(scan, where, snapshot, timezone)
    return None if unknowns(predicate) else predicate


def _rows_until_last(plan: OrderedPlan, scan: FormatScan) -> Any | None:
    """Return the rows of a plan up to the last of its first rows, or None if Spark must sort all candidates."""
    from py4j.protocol import Py4JJavaError

    value = plan.last_value()
    # Reading a file that was replaced since the plan gives a value that other files know nothing of.
    if value is None or plan.ordering is None or not _is_unchanged(plan.record):
        return None
    try:
        types = scan.types()
    except Py4JJavaError:
        # `from_plan` explains why Spark cannot read the table in this state.
        return None
    until = types.until(plan.ordering, value, reads_timestamps(scan.spark))
    if until is None:
        _log.info("Spark may order %s in another way, so it sorts all candidates", plan.ordering.column)
        return None
    condition, text = until
    return scan.from_plan(plan.narrowed(condition)).where(text)


def _is_unchanged(plan: PlanRecord) -> bool:
    """Return whether the kept files have certainly not changed since the plan."""
    if not plan.lake.files_may_be_replaced:
        return True
    current = {piece.path: piece for piece in plan.lake.snapshot().slices}
    pieces = plan.slices()
    return all(piece.token and piece.path in current and current[piece.path].same_rows(piece) for piece in pieces)


def _first(frame: DataFrame, ordering: Ordering | None, limit: int | None) -> DataFrame:
    """Sort rows, and return the first of them."""
    from pyspark.sql import functions

    if ordering is not None:
        column = functions.col(".".join(map(_quoted, ordering.column.path)))
        direction = "desc" if ordering.descending else "asc"
        frame = frame.orderBy(getattr(column, f"{direction}_nulls_{ordering.nulls}")())
    return frame if limit is None else frame.limit(limit)


def _first_by_name(frame: Any, order: Order, problem: Exception) -> Any:
    """Sort rows by a column that only Spark may know, or raise `problem` if Spark does not know it either."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions

    if order.order_by is None:
        return _first(frame, None, order.limit)
    name = order.order_by if isinstance(order.order_by, str) else ".".join(map(_quoted, order.order_by))
    direction = "desc" if order.descending else "asc"
    try:
        frame = frame.orderBy(getattr(functions.col(name), f"{direction}_nulls_{order.nulls}")())
    except AnalysisException:
        raise problem from None
    return _first(frame, None, order.limit)


def read_plan(plan: Plan, spark: SparkSession, name: str | None = None) -> DataFrame:
    """Return the rows of a plan, as `Plan.to_spark` does."""
    if not has_jvm(spark):
        raise UnsupportedError("Spark Connect shows no file lists to its clients; plan.files works with any engine")
    record = plan.record
    # Spark knows that no value of the table's type satisfies some conditions, so it would not open some files.
    Rows.of(record).refuse_other_types()
    scan = scan_of(spark, record.lake, name, record.snapshot.id)
    frame = _rows_until_last(plan, scan) if isinstance(plan, OrderedPlan) else None
    if frame is None:
        frame = scan.from_plan(record)
    columns = record.snapshot.schema.names
    for column in columns:
        if column not in frame.columns:
            raise changed_since(record, f"Spark finds no column {column!r} in the table")
    frame = frame.select(*map(_quoted, columns))
    return _first(frame, plan.ordering, plan.limit) if isinstance(plan, OrderedPlan) else frame


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

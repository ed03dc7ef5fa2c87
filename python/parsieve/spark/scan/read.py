"""`read`: a table as a DataFrame whose scans open the files that the planner keeps."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from parsieve._core import ParsieveError, UnsupportedError
from parsieve.errors import ConflictError
from parsieve.lake.base import AsOf, Lake, Location, Snapshot
from parsieve.lake.open import open_lake
from parsieve.lake.storage.storage import Storage
from parsieve.predicate.parse import parse
from parsieve.spark.pushdown.conditions import Types, ids_of
from parsieve.spark.scan import delta, file_index, hudi, iceberg
from parsieve.spark.scan.kept_files import Keeper
from parsieve.spark.tables import is_name, lake_of, refuse_second_place
from parsieve.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("parsieve.spark")

# Of a folder whose files are replaced while Spark looks at it.
ATTEMPTS = 10


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
    return read_also(spark, table, where, as_of, index_location, storage_options, timezone)


def read_also(
    spark: Any,
    table: Any,
    where: Any,
    as_of: AsOf,
    index_location: Any,
    storage_options: Mapping[str, str] | None,
    timezone: str | None,
    also: Sequence[pc.Expression] = (),
) -> Any:
    """What `read` gives, of fewer files: `also` are conditions that the caller will put to every row by other means."""
    if not hasattr(spark, "_jvm"):
        raise UnsupportedError(
            "pss.read does not work with Spark Connect, which shows clients no file lists; from PySpark 4.1 on, call "
            'pss.register(spark) and use spark.read.format("parsieve")'
        )
    found, name = _table(spark, table, index_location, storage_options)
    if found.format == "hudi" and isinstance(as_of, dt.datetime):
        as_of = _snapshot_id(found, as_of)
    condition = where
    if where is not None and not isinstance(where, str) and not hasattr(where, "_jc"):
        zone = timezone or spark.conf.get("spark.sql.session.timeZone")
        expr = parse(where, found.opened.snapshot(as_of).schema, zone)
        whole = _whole(spark, found, name, as_of)
        condition = Types(whole.schema, _ids(found, whole)).text(expr)
    if found.format == "delta":
        return _delta(spark, found, condition, as_of, also)
    if found.format == "iceberg":
        return _iceberg(spark, found, name, condition, as_of, also)
    before = _folder_now(found)
    whole = _whole(spark, found, name, as_of)
    keep = Keeper(spark, found, Types(whole.schema), as_of, also)
    if before is not None:
        keep.listed_after(before)
    try:
        frame = file_index.prune(whole, keep, found.uri)
    except UnsupportedError as error:
        # Another reader of Hudi's, by the session's settings.
        _log.warning("no file will be skipped: %s", error)
        frame = whole
    return frame if condition is None else frame.where(condition)


def _folder_now(table: Table) -> Snapshot | None:
    """The files of a plain folder; None for other tables, and where only Spark can list it."""
    if table.format != "parquet":
        return None
    try:
        return table.opened.snapshot(None)
    except (ParsieveError, OSError) as error:
        _log.warning("replaced files will be noticed only when they are read: %s", error)
        return None


def _table(spark: Any, table: Any, location: Any, options: Mapping[str, str] | None) -> tuple[Table, str | None]:
    """The table, and its name in Spark's catalog if it was named so."""
    if isinstance(table, Table):
        refuse_second_place(location, options)
        return table, None
    lake = lake_of(spark, table, options)
    return Table(lake, location), table if is_name(table) else None


def address(lake: Lake) -> str:
    """The table's folder as Spark opens it, whose own filesystem of plain paths may be another."""
    uri = lake.uri
    if "://" in uri:
        return uri
    if getattr(getattr(lake, "_storage", None), "filesystem", None) is not None:
        raise UnsupportedError(f"Spark cannot use the filesystem that {uri} was opened with; give it the table's URI")
    return f"file:{uri}"


def plain(spark: Any, lake: Lake) -> Any:
    """A folder of Parquet files as Spark reads it. Its name is no pattern to us, whatever signs are in it.

    Spark lists the files and then reads a footer for the columns, which fails where that file was replaced in between.
    """
    reader = spark.read.option("__globPaths__", "false")
    folder = address(lake)
    for attempt in range(ATTEMPTS):
        before = _tokens(lake)
        try:
            return reader.parquet(folder)
        except Exception as error:
            is_last, after = attempt == ATTEMPTS - 1, _tokens(lake)
            # A file without a token may have changed unseen, so the first attempts prove nothing of it.
            if before is None or (before == after and (is_last or all(before.values()))):
                raise
            if is_last:
                why = "files changed since the plan while Spark read their columns"
                raise ConflictError(f"{lake.uri}: {why}, {ATTEMPTS} times in a row; try again") from error
    raise AssertionError("unreachable")


def _tokens(lake: Lake) -> dict[Location, str] | None:
    try:
        return lake.snapshot().tokens
    except (ParsieveError, OSError):
        return None


def _whole(spark: Any, table: Table, name: str | None, as_of: AsOf) -> Any:
    """The whole table as Spark reads it."""
    lake = table.opened.lake
    match table.format:
        case "parquet":
            if as_of is not None:
                # It has no states, and says so.
                lake.snapshot(as_of)
            # Spark's catalog knows of partitions that lie elsewhere.
            return _of_catalog(spark, name) if name is not None else plain(spark, lake)
        case "hudi":
            return hudi.load(spark, address(lake), storage_of(lake), None if as_of is None else str(as_of))
        case "delta":
            return delta.read(spark, address(lake), _everything, None, _version(table, as_of))
        case _:
            return iceberg.load(spark, name or address(lake), _version(table, as_of))


def _of_catalog(spark: Any, name: str) -> Any:
    frame = spark.table(name)
    # The catalog keeps the sizes of files from the last time that anybody listed them.
    file_index.relist(frame)
    return frame


def storage_of(lake: Lake) -> Storage:
    """Return the folder of a Hudi table."""
    from parsieve.lake.hudi.table import Hudi

    assert isinstance(lake, Hudi)
    return lake.storage


def _everything(paths: Any, where: Any) -> set[str]:
    return set(paths)


def _snapshot_id(table: Table, as_of: AsOf) -> Any:
    return table.opened.snapshot(as_of).id


def _version(table: Table, as_of: AsOf) -> int | None:
    """A version of Delta's or a snapshot of Iceberg's, by its number."""
    if as_of is None or isinstance(as_of, int):
        return as_of
    return int(as_of) if isinstance(as_of, str) and as_of.isdigit() else int(_snapshot_id(table, as_of))


def _delta(spark: Any, table: Table, where: Any, as_of: AsOf, also: Sequence[pc.Expression]) -> Any:
    # Whatever is written from here on, Spark and the planner look at this version.
    state = delta.State(spark, address(table.opened.lake), _version(table, as_of))
    if where is None and not also:
        return state.read(_everything)
    keep = Keeper(spark, table, Types(state.schema), state.version, also)
    return state.read(keep, "true" if where is None else where)


def _ids(table: Table, whole: Any) -> dict[tuple[str, ...], int] | None:
    """The field ids of columns, where they decide which one is meant."""
    if table.format != "iceberg":
        return None
    jvm = whole.sparkSession._jvm
    return ids_of(str(jvm.org.apache.iceberg.SchemaParser.toJson(iceberg.table_of(whole).schema())))


def _iceberg(spark: Any, table: Table, name: str | None, where: Any, as_of: AsOf, also: Sequence[pc.Expression]) -> Any:
    source = name or address(table.opened.lake)
    number = _version(table, as_of)
    whole = iceberg.load(spark, source, number)
    if where is None and not also:
        return whole
    where = "true" if where is None else where
    native = iceberg.table_of(whole)
    latest = native.currentSnapshot()
    if latest is None:
        return whole.where(where)
    keep = Keeper(
        spark,
        _as_spark_has_it(table, native),
        Types(whole.schema, _ids(table, whole)),
        number if number is not None else int(latest.snapshotId()),
        also,
    )
    return iceberg.pruned(spark, source, whole, keep, where, number, latest)


def _as_spark_has_it(table: Table, native: Any) -> Table:
    """The same table by the metadata file that Spark goes by, which a folder alone does not tell; or as it is."""
    try:
        file = str(native.operations().current().metadataFileLocation())
        lake = open_lake(file, "iceberg", table.opened.lake.storage_options or None)
    except (ParsieveError, OSError, ValueError) as error:
        _log.warning("Iceberg's metadata file cannot be read here: %s", error)
        return table
    same = Table(lake, table.opened.index)
    same.opened.footers = table.opened.footers
    return same

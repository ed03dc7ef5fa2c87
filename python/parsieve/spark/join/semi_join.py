"""`semi_join`: select the rows of a table that have a match in a DataFrame, with few files read and few rows shuffled.

```text
right ── count, min, max ── few keys ──── values ── skip files by the index, and rows by Spark's IN
                         └─ more keys ─┬─ values or interval ── skip files by the index
                                       └─ Bloom filter ── skip rows
                                                              └── Spark's join of the remaining rows
```

Spark's join decides which rows are returned, so an inaccuracy here only costs time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.filters.options import checked_fpp
from parsieve.lake.base import AsOf
from parsieve.spark.join.key_filter import MARGIN, Kind, filter_of, keep_matching, kind_of
from parsieve.spark.pushdown.conditions import padded_type
from parsieve.spark.scan.read import open_scan, read_opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("parsieve.spark")

# Up to this number, the keys become a condition that Spark's scans understand. Each key is a call of Java.
FEW = 500
# Up to this number, the driver compares the keys with an index; they take some megabytes there.
MOST_KEYS = 100_000


def semi_join(
    left: Any,
    right: DataFrame,
    on: str | Sequence[str],
    *,
    where: Any = None,
    as_of: AsOf = None,
    fpp: float = 0.01,
    most_keys: int = MOST_KEYS,
    index_location: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the rows of a table that have a match in a DataFrame, like `left.join(right, on, "left_semi")` but faster.

    The keys skip files of the table through its index and statistics: as values if there are at most `most_keys`, and
    otherwise as an interval. If there are more than a few keys, the executors also build a Bloom filter that drops rows
    without a match before the join shuffles them. Spark does the join itself, so the rows are the same as without
    parsieve: nulls match nothing, and duplicates on the right do not matter.

    `right` is computed up to four times, so cache it if that is expensive. It must contain the same rows each time.
    Keys whose types differ in more than their width, such as text and numbers, skip nothing.

    Args:
        left: A table as `read` takes it, or a DataFrame. The keys skip only rows of a DataFrame, with one exception: if
            it is the result of `read` for a plain folder or a Hudi table, and there are few keys, they also skip files.
        right: The DataFrame with the keys.
        on: The name of the key on both sides, or several names.
        where: A further condition on the table, as for `read`.
        as_of: The state of the table, as for `read`.
        fpp: The rate of false positives of the filters.
        most_keys: How many keys may be sent to the driver to skip files.
        index_location: Where the table's index is stored, if not in the default place.
        storage_options: Options to access the table and the index; Spark uses its own settings.

    >>> import tempfile, parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> folder = tempfile.mkdtemp() + "/t"
    >>> spark.range(0, 1000, 1, 10).write.parquet(folder)
    >>> view = pss.build_index(spark, folder, "id")
    >>> wanted = spark.createDataFrame([(7,), (7,), (None,), (700,)], "id long")
    >>> sorted(row.id for row in pss.semi_join(folder, wanted, "id").collect())
    [7, 700]
    """
    names = [on] if isinstance(on, str) else list(on)
    if not names:
        raise ValueError("pass at least one column to join on")
    fpp = checked_fpp(fpp)
    if most_keys < 0:
        raise ValueError(f"most_keys must not be negative, got {most_keys}")
    is_frame = hasattr(left, "_jdf")
    if is_frame and (where is not None or as_of is not None or index_location is not None):
        raise ValueError("where, as_of and index_location do not apply to a DataFrame; pass the table itself")

    frame = left
    if not is_frame:
        scan, table = open_scan(right.sparkSession, left, as_of, index_location, storage_options)
        frame = read_opened(scan, table, where)
    all_keys = [keys for name in names if (keys := _keys_of(frame, right, name, most_keys)) is not None]
    also = [condition for keys in all_keys if (condition := keys.condition()) is not None]
    if also and not is_frame:
        frame = read_opened(scan, table, where, also=also)
    for keys in all_keys:
        frame = keys.without_unmatched(frame, right, fpp)
    return frame.join(right, names, "left_semi")


class Keys(NamedTuple):
    """The keys of a column without nulls, or their minimum and maximum."""

    name: str
    kind: Kind
    # The approximate number of distinct keys.
    num_keys: int
    # None if there are too many keys, or if some could not be transferred exactly.
    values: pa.Array | None
    min_max: pa.Array | None

    def condition(self) -> pc.Expression | None:
        """Return a condition that is true of every row with such a key; None if there is none."""
        field = pc.field(self.name)
        if self.values is not None:
            # `isin` converts the values to the type of the column, which may be too narrow for some of them.
            is_number = pa.types.is_primitive(self.kind.arrow) and not pa.types.is_temporal(self.kind.arrow)
            return (field.cast(self.kind.arrow) if is_number else field).isin(self.values)
        return None if self.min_max is None else (field >= self.min_max[0]) & (field <= self.min_max[1])

    def without_unmatched(self, frame: Any, right: Any, fpp: float) -> Any:
        """Return the rows that may have such a key."""
        from pyspark.sql import functions

        if self.num_keys == 0:
            return frame.where(functions.lit(False))
        # Spark's sets distinguish 0.0 and -0.0, but its joins do not.
        if self.values is not None and len(self.values) <= FEW and self.kind.cast != "double":
            return frame.where(functions.col(_quoted(self.name)).isin(self._literals()))
        if self.kind.cast == "timestamp_ntz":
            # pandas cannot represent all of them.
            return frame
        name = _quoted(self.name)
        return keep_matching(frame, name, filter_of(right, name, fpp, ndv=self.num_keys))

    def _literals(self) -> list[Any]:
        from pyspark.sql import functions

        assert self.values is not None
        # Spark makes the literal from the stored number, so no time zone of the session or the process matters.
        sql = {"timestamp": "timestamp_micros({})", "date": "date_from_unix_date({})"}.get(self.kind.cast)
        if self.kind.cast == "timestamp_ntz":
            sql = "CAST('{}' AS TIMESTAMP_NTZ)"
            return [functions.expr(sql.format(value.as_py())) for value in self.values]
        if sql is not None:
            numbers = self.values.view(pa.int32() if self.kind.cast == "date" else pa.int64())
            return [functions.expr(sql.format(number)) for number in numbers.to_pylist()]
        return [functions.lit(value) for value in self.values.to_pylist()]


def _keys_of(frame: Any, right: Any, name: str, most: int) -> Keys | None:
    """Return the keys of a column; None if the two sides do not compare their values as stored."""
    from pyspark.sql import functions

    try:
        if padded_type(right.schema[name].metadata) or padded_type(frame.schema[name].metadata):
            raise UnsupportedError("Spark adds spaces to the shorter values of CHAR columns")
        kind = kind_of(right.schema[name].dataType)
        if kind != kind_of(frame.schema[name].dataType):
            raise UnsupportedError(f"types differ: {frame.schema[name].dataType} and {right.schema[name].dataType}")
    except (UnsupportedError, KeyError) as error:
        _log.info("keys of %s skip nothing: %s", name, error)
        return None
    key = functions.col("key")
    keys = right.select(functions.col(_quoted(name)).cast(kind.cast).alias("key")).where(key.isNotNull())
    ends = (_as_transferred(end, kind) for end in (functions.min(key), functions.max(key)))
    summary = keys.agg(functions.approx_count_distinct(key, 0.02).alias("count"), *ends).first()
    count = int(summary["count"] * MARGIN)
    values = None
    if summary["count"] <= most:
        rows = keys.select(_as_transferred(key, kind)).distinct().limit(most + 1).collect()
        values = _arrow_values([row[0] for row in rows], kind) if len(rows) <= most else None
    min_max = _arrow_values([summary[1], summary[2]], kind) if count else None
    return Keys(name, kind, count, values, min_max)


def _quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))


def _as_transferred(key: Any, kind: Kind) -> Any:
    """Return a value in a form that reaches Python unchanged: moments as numbers, and text as bytes."""
    from pyspark.sql import functions

    match kind.cast:
        case "timestamp":
            return functions.unix_micros(key)
        case "timestamp_ntz":
            return key.cast("string")
        case "date":
            return functions.datediff(key, functions.lit("1970-01-01").cast("date"))
        case "string":
            return key.cast("binary")
        case _:
            return key


def _arrow_values(transferred: list[Any], kind: Kind) -> pa.Array | None:
    """Return the values as an Arrow array; None if one is not UTF-8, NaN, which has no order, or not readable."""
    if kind.cast == "string":
        try:
            return pa.array([bytes(value).decode() for value in transferred], pa.string())
        except UnicodeDecodeError:
            return None
    if kind.cast == "binary":
        return pa.array([bytes(value) for value in transferred], pa.binary())
    if kind.cast == "double" and any(value != value for value in transferred):
        return None
    if kind.cast == "timestamp_ntz":
        try:
            return pa.array(transferred, pa.string()).cast(kind.arrow)
        except pa.ArrowInvalid:
            # Arrow cannot parse years after 9999.
            return None
    if kind.cast in ("date", "timestamp"):
        width = pa.int32() if kind.cast == "date" else pa.int64()
        return pa.array(transferred, width).view(kind.arrow)
    return pa.array(transferred, kind.arrow)

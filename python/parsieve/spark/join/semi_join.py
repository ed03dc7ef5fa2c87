"""`semi_join`: the rows of a table whose key is among those of a DataFrame, from few files, few of them shuffled.

```text
right ── count, least, greatest ── few keys ──── values ── files by the index, rows by Spark's own IN
                                └─ more keys ─┬─ values or interval ── files by the index
                                              └─ Bloom filter ── rows
                                                                     └── Spark's own join on what is left
```

The join on top decides which rows are right, so whatever is not certain here costs time alone.
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
from parsieve.spark.scan.read import read_also

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("parsieve.spark")

# So many values are a condition of Spark's own, which its scans understand; each is a call of Java.
FEW = 500
# So many are compared with an index by the driver, where some megabytes of them are held.
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
    """The rows of a table whose keys are among those of a DataFrame: `left.join(right, on, "left_semi")` in less time.

    The keys choose the table's files through its index and statistics: as values while they are at most `most_keys`,
    else as an interval. Of more than a few keys the executors make a Bloom filter, by which rows without a partner go
    before the join shuffles them. The join itself is Spark's, so the rows are exactly its own: nulls match nothing, and
    duplicates on the right change nothing.

    `right` is computed up to four times, so cache it where that costs much; it must give the same rows each time. Keys
    whose types differ in more than their width (text beside numbers) prune nothing and are joined as Spark does.

    Args:
        left: a table as `read` takes it, or a DataFrame, of which only rows are pruned and, where it is one of `read`
            for a plain folder or Hudi and the keys are few, files.
        right: the DataFrame whose keys are wanted.
        on: the name of the key on both sides, or several.
        where: a further condition on the table, as `read` takes it.
        as_of: the table's state, as `read` takes it.
        fpp: the rate of false positives of the filters.
        most_keys: how many keys may come to the driver to choose files.
        index_location: where the table's index lies, if not beside it.
        storage_options: of the table's and the index's object store.

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
        raise ValueError("name at least one column to join on")
    fpp = checked_fpp(fpp)
    if most_keys < 0:
        raise ValueError(f"most_keys is a number of keys, not {most_keys}")
    is_frame = hasattr(left, "_jdf")
    if is_frame and (where is not None or as_of is not None or index_location is not None):
        raise ValueError("a DataFrame has its condition, its state and its files already; give the table itself")

    def frame_of(also: Sequence[pc.Expression]) -> Any:
        if is_frame:
            return left
        return read_also(right.sparkSession, left, where, as_of, index_location, storage_options, None, also)

    frame = frame_of(())
    found = [_keys_of(frame, right, name, most_keys) for name in names]
    also = [condition for keys in found if keys is not None and (condition := keys.condition()) is not None]
    if also and not is_frame:
        frame = frame_of(also)
    for keys in filter(None, found):
        frame = keys.thin(frame, right, fpp)
    return frame.join(right, names, "left_semi")


class Keys(NamedTuple):
    """What is known of the keys of a column: all that are no nulls, or where they lie."""

    name: str
    kind: Kind
    # About how many there are.
    number: int
    # None where there are too many, or where not all came here as they are.
    values: pa.Array | None
    ends: pa.Array | None

    def condition(self) -> pc.Expression | None:
        """What every row with such a key meets; None where nothing is certain that an index could use."""
        field = pc.field(self.name)
        if self.values is not None:
            return field.isin(self.values)
        return None if self.ends is None else (field >= self.ends[0]) & (field <= self.ends[1])

    def thin(self, frame: Any, right: Any, fpp: float) -> Any:
        """The rows that may have such a key."""
        from pyspark.sql import functions

        if self.number == 0:
            return frame.where(functions.lit(False))
        # To Spark's sets the two zeros are not the same, to its joins they are.
        if self.values is not None and len(self.values) <= FEW and self.kind.cast != "double":
            return frame.where(functions.col(_quoted(self.name)).isin(self._literals()))
        if self.kind.cast == "timestamp_ntz":
            # What lies between Spark and Python does not hold all of them.
            return frame
        return keep_matching(frame, self.name, filter_of(right, self.name, fpp, ndv=self.number))

    def _literals(self) -> list[Any]:
        from pyspark.sql import functions

        assert self.values is not None
        # As the number that is stored, and made a literal by Spark, whatever the zones of session and process.
        carrier = {"timestamp": "timestamp_micros({})", "date": "date_from_unix_date({})"}.get(self.kind.cast)
        if self.kind.cast == "timestamp_ntz":
            carrier = "CAST('{}' AS TIMESTAMP_NTZ)"
            return [functions.expr(carrier.format(value.as_py())) for value in self.values]
        if carrier is not None:
            stored = self.values.view(pa.int32() if self.kind.cast == "date" else pa.int64())
            return [functions.expr(carrier.format(value)) for value in stored.to_pylist()]
        return [functions.lit(value) for value in self.values.to_pylist()]


def _keys_of(frame: Any, right: Any, name: str, most: int) -> Keys | None:
    """The keys of a column; None where the two sides' values are not compared as they are stored."""
    from pyspark.sql import functions

    try:
        kind = kind_of(right.schema[name].dataType)
        if kind != kind_of(frame.schema[name].dataType):
            raise UnsupportedError(f"{frame.schema[name].dataType} beside {right.schema[name].dataType}")
    except (UnsupportedError, KeyError) as error:
        _log.info("keys of %s prune nothing: %s", name, error)
        return None
    key = functions.col("key")
    keys = right.select(functions.col(_quoted(name)).cast(kind.cast).alias("key")).where(key.isNotNull())
    least, greatest = (_carried(end, kind) for end in (functions.min(key), functions.max(key)))
    counted = keys.agg(functions.approx_count_distinct(key, 0.02).alias("count"), least, greatest).first()
    count = int(counted["count"] * MARGIN)
    values = None
    if counted["count"] <= most:
        rows = keys.select(_carried(key, kind)).distinct().limit(most + 1).collect()
        values = _stored([row[0] for row in rows], kind) if len(rows) <= most else None
    ends = _stored([counted[1], counted[2]], kind) if count else None
    return Keys(name, kind, count, values, ends)


def _quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))


def _carried(key: Any, kind: Kind) -> Any:
    """A value as it comes to Python unchanged: no moment by a zone, and no text that is not UTF-8."""
    from pyspark.sql import functions

    match kind.cast:
        case "timestamp":
            return functions.unix_micros(key)
        case "timestamp_ntz":
            return functions.unix_micros(functions.convert_timezone(None, functions.lit("UTC"), key))
        case "date":
            return functions.datediff(key, functions.lit("1970-01-01").cast("date"))
        case "string":
            return key.cast("binary")
        case _:
            return key


def _stored(carried: list[Any], kind: Kind) -> pa.Array | None:
    """The values in Arrow's form; None where one of them has none, or no place among the others."""
    if kind.cast == "string":
        try:
            return pa.array([bytes(value).decode() for value in carried], pa.string())
        except UnicodeDecodeError:
            return None
    if kind.cast == "binary":
        return pa.array([bytes(value) for value in carried], pa.binary())
    if kind.cast == "double" and any(value != value for value in carried):
        return None
    if kind.cast in ("date", "timestamp", "timestamp_ntz"):
        width = pa.int32() if kind.cast == "date" else pa.int64()
        return pa.array(carried, width).view(kind.arrow)
    return pa.array(carried, kind.arrow)

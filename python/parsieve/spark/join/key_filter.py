"""A Bloom filter of one DataFrame's keys, made by the executors, and the rows of another that may have one of them.

```text
frame ── insert: one filter a partition ── pieces of bits by number ── or ── driver: one filter ── UDF ── other frame
         no key leaves the executor        shuffled                   each piece in one task
```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from parsieve import _core
from parsieve._core import UnsupportedError
from parsieve.filters.options import checked_fpp
from parsieve.spark.runtime import workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Of a filter's bits, in one row of the shuffle: as many rows as Spark puts into a batch are still few bytes.
PIECE = 16 << 10
PIECES_AT_ONCE = 64
# What Spark's own filters of joins may take is 8 MB; each task holds one.
MAX_BYTES = 32 << 20
# Spark's estimate of distinct values is wrong by so much now and then.
MARGIN = 1.1


class Kind(NamedTuple):
    """How the values of a type of Spark go into filters: equal ones alike, whatever their width."""

    arrow: pa.DataType
    # The type of Spark that holds every value of it exactly.
    cast: str


def kind_of(data_type: Any) -> Kind:
    """The kind of a type of Spark; an error for those whose equality is not that of their bytes."""
    name = data_type.simpleString()
    if name in _KINDS:
        return _KINDS[name]
    if decimal := re.fullmatch(r"decimal\(\d+,(-?\d+)\)", name):
        return Kind(pa.decimal128(38, int(decimal[1])), f"decimal(38,{decimal[1]})")
    raise UnsupportedError(f"values of type {name} have no Bloom filter")


_KINDS = {
    **dict.fromkeys(["tinyint", "smallint", "int", "bigint"], Kind(pa.int64(), "bigint")),
    **dict.fromkeys(["float", "double"], Kind(pa.float64(), "double")),
    "string": Kind(pa.string(), "string"),
    "binary": Kind(pa.binary(), "binary"),
    "date": Kind(pa.date32(), "date"),
    "timestamp": Kind(pa.timestamp("us", "UTC"), "timestamp"),
    "timestamp_ntz": Kind(pa.timestamp("us"), "timestamp_ntz"),
}


def filter_of(
    frame: DataFrame, column: str, fpp: float = 0.01, *, ndv: int | None = None, max_bytes: int = MAX_BYTES
) -> _core.BloomFilter:
    """A Bloom filter of all values of a column, made by Spark's executors; nulls are left out, for they join nothing.

    Whole numbers are filtered as 64-bit ones and real numbers as doubles, so that columns of another width find theirs.
    The filter pickles: it can be asked in UDFs and in `mapInArrow`, and `keep_matching` asks it of another DataFrame.

    Args:
        frame: a DataFrame; it is computed twice unless `ndv` is given.
        column: the name of a column, with dots below structs.
        fpp: the rate of false positives that the filter keeps.
        ndv: about how many distinct values there are; None: Spark estimates it first.
        max_bytes: the largest filter, which then has a higher rate.

    >>> import parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> keys = pss.filter_of(spark.range(0, 5000, 5), "id")
    >>> keys.might_contain(45)
    True
    >>> rows = pss.keep_matching(spark.range(5000), "id", keys)
    >>> 1000 <= rows.count() < 1100
    True
    """
    from pyspark.sql import functions

    fpp = checked_fpp(fpp)
    if ndv is not None and ndv < 0:
        raise ValueError(f"ndv is a number of values, not {ndv}")
    kind = kind_of(frame.select(column).schema[0].dataType)
    keys = frame.select(functions.col(column).cast(kind.cast).alias("key")).where("key IS NOT NULL")
    if ndv is None:
        ndv = int(keys.select(functions.approx_count_distinct("key", 0.02)).first()[0] * MARGIN)
    most = max(32, max_bytes // 32 * 32)
    sized = min(_core.BloomFilter(max(1, ndv), fpp, type=kind.arrow).num_bytes, most)
    empty = _core.BloomFilter(num_bytes=sized, type=kind.arrow)
    pieces = "number long, bits binary"
    with workers.ready(frame.sparkSession):
        filled = keys.mapInArrow(_filling(sized, kind.arrow), pieces)
        rows = filled.repartition("number").mapInArrow(_joined, pieces).collect()
    bits = bytearray(sized)
    for row in rows:
        bits[row.number * PIECE : row.number * PIECE + len(row.bits)] = row.bits
    data = empty.to_bytes()
    made = _core.BloomFilter._restore(data[: len(data) - sized] + bytes(bits), empty.column_type)
    made.fold(fpp)
    return made


def _filling(num_bytes: int, data_type: pa.DataType) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """On an executor: the keys of one partition into a filter, and its pieces that are not empty."""

    def fill(batches: Iterator[Any]) -> Iterator[Any]:
        filter = _core.BloomFilter(num_bytes=num_bytes, type=data_type)
        for batch in batches:
            filter.insert(batch.column(0))
        bits = bytes(memoryview(filter).cast("B"))
        empty = bytes(PIECE)
        numbers = [
            number
            for number in range(-(-num_bytes // PIECE))
            if not empty.startswith(bits[number * PIECE : (number + 1) * PIECE])
        ]
        for start in range(0, len(numbers), PIECES_AT_ONCE):
            some = numbers[start : start + PIECES_AT_ONCE]
            yield _batch(some, [bits[number * PIECE : (number + 1) * PIECE] for number in some])

    return fill


def _joined(batches: Iterator[Any]) -> Iterator[Any]:
    """On an executor: all pieces of a number as one."""
    joined: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for number, piece in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            bits = int.from_bytes(piece, "little") | joined.get(number, (0, 0))[0]
            joined[number] = bits, len(piece)
    numbers = sorted(joined)
    for start in range(0, len(numbers), PIECES_AT_ONCE):
        some = numbers[start : start + PIECES_AT_ONCE]
        yield _batch(some, [joined[number][0].to_bytes(joined[number][1], "little") for number in some])


def _batch(numbers: list[int], pieces: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int64()), pa.array(pieces, pa.binary())], ["number", "bits"]
    )


def keep_matching(frame: DataFrame, column: str, filter: _core.BloomFilter) -> DataFrame:
    """The rows whose value in a column may be among those of a Bloom filter: every row that is, and few others.

    Put it before a join on that column, so that rows without a partner are not shuffled. Rows without a value go, as in
    a join. Values are compared exactly; a column whose type cannot be among the filter's values is an error.

    >>> import parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> filter = pss.filter_of(spark.sql("SELECT explode(array('a', 'b')) AS name"), "name")
    >>> names = spark.sql("SELECT explode(array('b', 'c', NULL)) AS name")
    >>> [row.name for row in pss.keep_matching(names, "name", filter).collect()]
    ['b']
    """
    from pyspark.sql import functions

    kind = kind_of(frame.select(column).schema[0].dataType)
    if filter.column_type is None:
        raise ValueError("the filter does not know the type of its values; make it with type=, or by filter_of")
    try:
        filter.check(pa.array([], kind.arrow))
    except TypeError as error:
        raise UnsupportedError(
            f"column {column} is of type {kind.cast}, and the filter's values are {filter.column_type}: {error}"
        ) from error
    with workers.ready(frame.sparkSession):
        may_match = _udf(filter, kind)(_carried(functions.col(column), kind))
    return frame.where(may_match & functions.col(column).isNotNull())


def _carried(column: Any, kind: Kind) -> Any:
    """The column as pandas can hold it exactly: it has no whole numbers beside nulls, far instants or broken texts."""
    from pyspark.sql import functions

    if kind.cast in ("bigint", "double"):
        return functions.coalesce(column.cast(kind.cast), functions.lit(0).cast(kind.cast))
    if kind.cast == "date":
        days = functions.datediff(column, functions.lit("1970-01-01").cast("date"))
        return functions.coalesce(days, functions.lit(0))
    if kind.cast == "timestamp":
        return functions.coalesce(functions.unix_micros(column), functions.lit(0).cast("bigint"))
    if kind.cast == "string":
        # Spark's texts need not be UTF-8, and Python's must.
        return column.cast("binary")
    if kind.cast == "timestamp_ntz":
        raise UnsupportedError(
            "pandas, which comes between Spark and Python here, does not hold every timestamp without a zone: ask the "
            "filter in mapInArrow, or cast both columns to another type"
        )
    return column.cast(kind.cast)


def _udf(filter: _core.BloomFilter, kind: Kind) -> Any:
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    data_type = kind.arrow
    # A kind that comes as numbers.
    carried = {pa.date32(): pa.int32(), pa.timestamp("us", "UTC"): pa.int64()}.get(data_type)

    def may_match(values):  # type: ignore[no-untyped-def]
        if pa.types.is_floating(data_type):
            # NaN is a value here, and no null.
            keys = pa.array(values.to_numpy(), data_type, from_pandas=False)
        elif carried is not None:
            keys = pa.array(values.to_numpy(), carried).view(data_type)
        elif pa.types.is_string(data_type):
            keys = pa.array(values, pa.binary()).view(data_type)
        else:
            keys = pa.array(values, data_type)
        try:
            found = filter.check(keys).fill_null(False)
        except ValueError:
            # Some value has no exact form among the filter's: nobody says which, so all are kept.
            return pd.Series([True] * len(values))
        return found.to_pandas()

    # Spark reads the kind of function from annotations, which must not be texts.
    may_match.__annotations__ = {"values": pd.Series, "return": pd.Series}
    return pandas_udf(may_match, "boolean")

"""Build a Bloom filter of a DataFrame's keys on the executors, and use it to filter the rows of another DataFrame.

```text
frame ── one filter for each partition ── chunks of bits by number ── OR ── driver: one filter ── UDF ── other frame
         no key leaves the executor       shuffled                   one task for each chunk
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

# The bytes of a filter in one row of the shuffle, and the rows in a batch.
CHUNK = 16 << 10
CHUNKS_AT_ONCE = 64
# The largest filter by default; each task holds one. Spark limits its own join filters to 8 MB.
MAX_BYTES = 32 << 20
# Spark's estimate of distinct values may be too low by this factor.
MARGIN = 1.1


class Kind(NamedTuple):
    """The type that values have in filters. It is the same for types of different widths, such as int and bigint."""

    arrow: pa.DataType
    # The Spark type that can represent all values exactly.
    cast: str


def kind_of(data_type: Any) -> Kind:
    """Return the kind of a Spark type, or raise `UnsupportedError` if equal values can have different bytes."""
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
    """Build a Bloom filter of all values of a column on Spark's executors. Nulls are ignored, since they join nothing.

    Integers are inserted as 64-bit integers, and floating-point numbers as doubles, so columns of another width match.
    You can pickle the filter and use it in UDFs and in `mapInArrow`. `keep_matching` applies it to another DataFrame.

    Args:
        frame: A DataFrame. It is computed twice, unless you pass `ndv`.
        column: The name of a column, with dots for fields of structs.
        fpp: The rate of false positives of the filter.
        ndv: The approximate number of distinct values. With None, Spark estimates it first.
        max_bytes: The size limit of the filter. If the filter would be larger, its rate of false positives is higher.

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
        raise ValueError(f"ndv must not be negative, got {ndv}")
    kind = kind_of(frame.select(column).schema[0].dataType)
    keys = frame.select(functions.col(column).cast(kind.cast).alias("key")).where("key IS NOT NULL")
    if ndv is None:
        ndv = int(keys.select(functions.approx_count_distinct("key", 0.02)).first()[0] * MARGIN)
    most = max(32, max_bytes // 32 * 32)
    num_bytes = min(_core.BloomFilter(max(1, ndv), fpp, type=kind.arrow).num_bytes, most)
    chunks = "number long, bits binary"
    with workers.ready(frame.sparkSession):
        partial_filters = keys.mapInArrow(_insert_into(num_bytes, kind.arrow), chunks)
        rows = partial_filters.repartition("number").mapInArrow(_merge, chunks).collect()
    bits = bytearray(num_bytes)
    for row in rows:
        bits[row.number * CHUNK : row.number * CHUNK + len(row.bits)] = row.bits
    filter = _with_bits(_core.BloomFilter(num_bytes=num_bytes, type=kind.arrow), bytes(bits))
    filter.fold(fpp)
    return filter


def _with_bits(empty: _core.BloomFilter, bits: bytes) -> _core.BloomFilter:
    """Return a filter of the same type and size with these bits."""
    # Unlike `from_bytes`, the pickled form restores the type of decimals, too.
    restore, (data, column_type) = empty.__reduce__()
    filter: _core.BloomFilter = restore(data[: len(data) - len(bits)] + bits, column_type)
    return filter


def _insert_into(num_bytes: int, data_type: pa.DataType) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that runs on executors: it inserts the keys of a partition, and yields chunks of the filter.

    Empty chunks are skipped.
    """

    def insert(batches: Iterator[Any]) -> Iterator[Any]:
        filter = _core.BloomFilter(num_bytes=num_bytes, type=data_type)
        for batch in batches:
            filter.insert(batch.column(0))
        bits = bytes(memoryview(filter).cast("B"))
        empty = bytes(CHUNK)
        numbers = [
            number
            for number in range(-(-num_bytes // CHUNK))
            if not empty.startswith(bits[number * CHUNK : (number + 1) * CHUNK])
        ]
        for start in range(0, len(numbers), CHUNKS_AT_ONCE):
            batch_numbers = numbers[start : start + CHUNKS_AT_ONCE]
            yield _batch(batch_numbers, [bits[number * CHUNK : (number + 1) * CHUNK] for number in batch_numbers])

    return insert


def _merge(batches: Iterator[Any]) -> Iterator[Any]:
    """Combine all chunks with the same number. Runs on executors."""
    # The bits of each chunk as an integer, and its length.
    merged: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for number, chunk in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            bits = int.from_bytes(chunk, "little") | merged.get(number, (0, 0))[0]
            merged[number] = bits, len(chunk)
    numbers = sorted(merged)
    for start in range(0, len(numbers), CHUNKS_AT_ONCE):
        batch_numbers = numbers[start : start + CHUNKS_AT_ONCE]
        yield _batch(batch_numbers, [_bytes(*merged[number]) for number in batch_numbers])


def _bytes(bits: int, length: int) -> bytes:
    return bits.to_bytes(length, "little")


def _batch(numbers: list[int], chunks: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int64()), pa.array(chunks, pa.binary())], ["number", "bits"]
    )


def keep_matching(frame: DataFrame, column: str, filter: _core.BloomFilter) -> DataFrame:
    """Return the rows whose value in a column is in a Bloom filter: all rows that match, and a few false positives.

    Use it before a join on that column, so that rows without a match are not shuffled. Rows with a null are dropped, as
    in a join. Raises `UnsupportedError` if the filter cannot contain values of the column's type.

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
        raise ValueError("the filter does not know the type of its values; build it with type=, or with filter_of")
    try:
        filter.check(pa.array([], kind.arrow))
    except TypeError as error:
        raise UnsupportedError(
            f"column {column} has type {kind.cast}, but the filter's values have type {filter.column_type}: {error}"
        ) from error
    with workers.ready(frame.sparkSession):
        may_match = _udf(filter, kind)(_as_transferred(functions.col(column), kind))
    return frame.where(may_match & functions.col(column).isNotNull())


def _as_transferred(column: Any, kind: Kind) -> Any:
    """Return a column in a form that pandas can represent exactly.

    pandas converts integers with nulls to floats, and cannot represent all timestamps or text that is not UTF-8.
    """
    from pyspark.sql import functions

    if kind.cast in ("bigint", "double"):
        return functions.coalesce(column.cast(kind.cast), functions.lit(0).cast(kind.cast))
    if kind.cast == "date":
        days = functions.datediff(column, functions.lit("1970-01-01").cast("date"))
        return functions.coalesce(days, functions.lit(0))
    if kind.cast == "timestamp":
        return functions.coalesce(functions.unix_micros(column), functions.lit(0).cast("bigint"))
    if kind.cast == "string":
        # Text in Spark may be invalid UTF-8.
        return column.cast("binary")
    if kind.cast == "timestamp_ntz":
        raise UnsupportedError(
            "pandas cannot represent every timestamp without a time zone; use the filter in mapInArrow, or cast both "
            "columns to another type"
        )
    return column.cast(kind.cast)


def _udf(filter: _core.BloomFilter, kind: Kind) -> Any:
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    data_type = kind.arrow
    # Dates and timestamps are transferred as integers.
    integers = {pa.date32(): pa.int32(), pa.timestamp("us", "UTC"): pa.int64()}.get(data_type)

    def may_match(values):  # type: ignore[no-untyped-def]
        if pa.types.is_floating(data_type):
            # Here, NaN is a value and not a null.
            keys = pa.array(values.to_numpy(), data_type, from_pandas=False)
        elif integers is not None:
            keys = pa.array(values.to_numpy(), integers).view(data_type)
        elif pa.types.is_string(data_type):
            keys = pa.array(values, pa.binary()).view(data_type)
        else:
            keys = pa.array(values, data_type)
        try:
            matches = filter.check(keys).fill_null(False)
        except ValueError:
            # The filter's type cannot represent some value, but the error does not say which one. Keep all rows.
            return pd.Series([True] * len(values))
        return matches.to_pandas()

    # Spark derives the kind of UDF from the annotations, which must be types and not strings.
    may_match.__annotations__ = {"values": pd.Series, "return": pd.Series}
    return pandas_udf(may_match, "boolean")

"""Map the types of a table's columns to types that Spark has, and cast batches to them without changing values.

This module does not need PySpark.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parsieve._core import UnsupportedError

_SAME = (pt.is_boolean, pt.is_signed_integer, pt.is_float32, pt.is_float64, pt.is_date32, pt.is_null)
_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
_BYTES = (pt.is_binary, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary)
_TEXTS = (pt.is_string, pt.is_large_string, pt.is_string_view)
_LISTS = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list, pt.is_list_view, pt.is_large_list_view)


def spark_schema(schema: pa.Schema, int96: Collection[str] = ()) -> pa.Schema:
    """Return the columns as Spark reads them from Parquet. Columns in `int96` get a time zone in Spark.

    >>> import pyarrow as pa
    >>> from parsieve.spark.source.types import spark_schema
    >>> spark_schema(pa.schema({"n": pa.uint32(), "at": pa.timestamp("ns")}), ["at"]).types
    [DataType(int64), TimestampType(timestamp[us, tz=UTC])]
    """
    return pa.schema(
        [
            (field.name, pa.timestamp("us", "UTC") if field.name in int96 else _type(field.name, field.type))
            for field in schema
        ]
    )


def _type(name: str, kind: pa.DataType) -> pa.DataType:
    if any(test(kind) for test in _SAME):
        return kind
    if kind in _UNSIGNED:
        return _UNSIGNED[kind]
    if pt.is_float16(kind):
        return pa.float32()
    if pt.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if any(test(kind) for test in _TEXTS):
        return pa.string()
    if any(test(kind) for test in _BYTES):
        return pa.binary()
    if pt.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pt.is_date64(kind):
        return pa.date32()
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return _type(name, kind.value_type)
    if pt.is_map(kind):
        return pa.map_(_type(name, kind.key_type), _type(name, kind.item_type))
    if any(test(kind) for test in _LISTS):
        return pa.list_(_type(name, kind.value_type))
    if pt.is_struct(kind):
        return pa.struct([(child.name, _type(f"{name}.{child.name}", child.type)) for child in kind])
    raise UnsupportedError(
        f'Spark has no type for column {name} of {kind}; name the columns to load by schema("id BIGINT, ...")'
    )


def cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to a schema of Spark. Raises an error if a value has no equal in its new type."""
    columns = [_cast(batch.column(name), kind) for name, kind in zip(schema.names, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema.names)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pt.is_timestamp(column.type) and pt.is_timestamp(kind):
        if column.type.unit == "ns":
            # Spark truncates nanoseconds wherever it reads them.
            column = pc.floor_temporal(column, unit="microsecond")
        # INT96 timestamps have no time zone in Arrow, but are in UTC.
        return column.cast(pa.timestamp("us", column.type.tz)).view(kind)
    if pt.is_dictionary(column.type) or pt.is_run_end_encoded(column.type):
        column = column.dictionary_decode() if pt.is_dictionary(column.type) else pc.run_end_decode(column)
    return column.cast(kind)

"""Read the bounds and counts of one column from the metrics in Iceberg's manifests."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parsieve.lake import bounds
from parsieve.lake.base import ColumnPath, Statistics
from parsieve.lake.iceberg.manifests import DataFiles
from parsieve.lake.rows.columns import is_repeated, leaf_field
from parsieve.predicate.elements import FIELD_ID


def statistics_of(files: DataFiles, schema: pa.Schema, path: ColumnPath) -> Statistics:
    """Return the certain bounds and counts of a column in each file."""
    field = leaf_field(schema, path)
    number, kind = pa.scalar(int((field.metadata or {})[FIELD_ID]), pa.int32()), field.type
    low, high, nulls, rows = (
        pc.map_lookup(files[name], number, "last") for name in ("lower", "upper", "null_count", "value_count")
    )
    nulls, rows = _count(nulls), _count(rows)
    if is_repeated(schema, path):
        # Writers count nulls of lists differently, and bounds are enough to skip files.
        nulls = rows = pa.nulls(len(nulls), pa.int64())
    consistent = pc.fill_null(pc.less_equal(nulls, rows), True)
    unknown = pa.scalar(None, pa.int64())
    return Statistics(
        lower=_decoded_array(low, kind, is_upper=False),
        upper=_decoded_array(high, kind, is_upper=True),
        null_count=pc.if_else(consistent, nulls, unknown),
        value_count=pc.if_else(consistent, rows, unknown),
    )


def _count(counts: pa.Int64Array) -> pa.Int64Array:
    return pc.if_else(pc.greater_equal(counts, 0), counts, pa.scalar(None, pa.int64()))


def _decoded_array(data: pa.BinaryArray, kind: pa.DataType, is_upper: bool) -> pa.Array:
    """Decode bounds. Bounds that are not certain are null.

    Numbers with the width of the column's type are decoded together, and other values once for each distinct value.
    """
    if (pt.is_int64(kind) or pt.is_int32(kind) or pt.is_timestamp(kind)) and kind.bit_width in (32, 64):
        width = kind.bit_width // 8
        if pc.all(pc.equal(pc.binary_length(data), width)).as_py() is not False:
            numbers = data.cast(pa.binary(width)).view(pa.int32() if width == 4 else pa.int64())
            if pt.is_timestamp(kind):
                # In nanoseconds, 64 bits begin later.
                first = max(_FIRST_DAY * _DAY[kind.unit], -(1 << 63))
                certain = pc.greater_equal(numbers, first)
                numbers = pc.if_else(certain, numbers, pa.scalar(None, numbers.type))
            return numbers.view(kind)
    coded = data.dictionary_encode()
    return _array([_decoded(value, kind, is_upper) for value in coded.dictionary.to_pylist()], kind).take(coded.indices)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pt.is_timestamp(kind) or pt.is_time(kind) or pt.is_date(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, width).view(kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.nulls(len(values), kind.storage_type))
    return pa.array(values, kind)


def _decoded(data: bytes | None, kind: pa.DataType, is_upper: bool) -> Any:
    """Decode one bound. Return None if it is malformed or not certain. Times are returned as integers."""
    if data is None:
        return None
    try:
        return _decode(bytes(data), kind, is_upper)
    except (struct.error, ValueError, OverflowError):
        return None


def _decode(data: bytes, kind: pa.DataType, is_upper: bool) -> Any:
    if pt.is_boolean(kind):
        return data != b"\0" if len(data) == 1 else None
    if pt.is_integer(kind):
        # The bounds have four bytes if the column was an int when the file was written.
        value = _integer(data)
        return (
            value if value is not None and -(1 << (kind.bit_width - 1)) <= value < 1 << (kind.bit_width - 1) else None
        )
    if pt.is_floating(kind):
        return _real(data, is_upper)
    if pt.is_date(kind):
        value = _integer(data) if len(data) == 4 else None
        return value if value is not None and value >= _FIRST_DAY else None
    if pt.is_timestamp(kind):
        return _moment(data, kind)
    if pt.is_time(kind):
        return _integer(data) if len(data) == 8 else None
    if pt.is_decimal(kind):
        unscaled = int.from_bytes(data, "big", signed=True)
        fits = data and abs(unscaled) < 10**kind.precision
        return Decimal(unscaled).scaleb(-kind.scale, bounds.EXACT) if fits else None
    if pt.is_string(kind):
        text = data.decode()
        return bounds.text_upper(text) if is_upper else bounds.text_lower(text)
    if pt.is_binary(kind) or pt.is_fixed_size_binary(kind):
        return _bytes(data, kind, is_upper)
    # The bounds of UUIDs are unusable, because Java compared them as signed numbers.
    return None


_FIRST_DAY = (bounds.GREGORIAN - bounds.EPOCH).days
_DAY = {"us": 86_400_000_000, "ns": 86_400_000_000_000}


def _integer(data: bytes) -> int | None:
    return int.from_bytes(data, "little", signed=True) if len(data) in (4, 8) else None


def _real(data: bytes, is_upper: bool) -> float | None:
    value: float = struct.unpack({4: "<f", 8: "<d"}.get(len(data), "<d"), data)[0]
    if math.isnan(value):
        return None
    # 0.0 and -0.0 are equal, so the bounds must include both.
    return math.copysign(0.0, 1 if is_upper else -1) if value == 0 else value


def _moment(data: bytes, kind: pa.DataType) -> int | None:
    value = _integer(data)
    if value is None:
        return None
    day = _DAY[kind.unit]
    # The value has four bytes if the column was a date when the file was written.
    value = value * day if len(data) == 4 else value
    return value if _FIRST_DAY * day <= value < 1 << 63 else None


def _bytes(data: bytes, kind: pa.DataType, is_upper: bool) -> bytes | None:
    if pt.is_fixed_size_binary(kind):
        # A truncated bound is not a value of the type.
        return data if len(data) == kind.byte_width and not is_upper else None
    return bounds.bytes_upper(data) if is_upper else data


def partition_reader(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return a function that converts a partition value of a manifest to a Python value of a type.

    It returns an Arrow scalar if Python has no such value, such as a date after the year 9999, or the time 24:00:00.
    """

    def read(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, int) and (pt.is_timestamp(kind) or pt.is_time(kind) or pt.is_date(kind)):
            scalar = _array([value], kind)[0]
            try:
                known = scalar.as_py()
            except (ValueError, OverflowError):
                return scalar
            # pyarrow returns 24:00:00 as 00:00:00.
            return known if pa.scalar(known, kind) == scalar else scalar
        if isinstance(kind, pa.BaseExtensionType):
            raw = value.bytes if hasattr(value, "bytes") else value
            return pa.ExtensionArray.from_storage(kind, pa.array([raw], kind.storage_type))[0].as_py()
        if isinstance(value, Decimal):
            # The schema of the manifest may have another scale.
            value = bounds.decimal_of(value, kind.precision, kind.scale)
        return pa.scalar(value, kind).as_py()

    return read

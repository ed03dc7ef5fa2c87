"""Delta's schema as Arrow's, with physical names, and partition values and statistics read from their texts."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from parsieve._core import FormatError, UnsupportedError
from parsieve.lake import bounds
from parsieve.lake.base import ColumnPath, Statistics
from parsieve.lake.delta.log import DataFile
from parsieve.lake.rows.columns import (
    BY_NAME,
    FIELD_ID,
    PHYSICAL_NAME,
    Find,
    Matching,
    by_name,
    leaf_field,
    places_by_id,
)
from parsieve.lake.rows.fields import fields_at

_WIDENED = b"delta.typeChanges"
_TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+), *(-?\d+)\)")
_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")


def schema_of(metadata: Mapping[str, Any]) -> pa.Schema:
    """The table's columns; physical names and widened types stand in the fields' metadata."""
    try:
        fields = json.loads(metadata["schemaString"])["fields"]
        return pa.schema([_field(one) for one in fields])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UnsupportedError):
            raise
        raise FormatError(f"the schema in Delta's log is not what the protocol says: {error!r}") from error


def _field(said: Mapping[str, Any]) -> pa.Field:
    about, kept = said.get("metadata") or {}, {}
    if "delta.columnMapping.physicalName" in about:
        kept[PHYSICAL_NAME] = str(about["delta.columnMapping.physicalName"])
    if "delta.columnMapping.id" in about:
        kept[FIELD_ID] = str(about["delta.columnMapping.id"])
    if "delta.typeChanges" in about:
        kept[_WIDENED] = "yes"
    return pa.field(said["name"], _type(said["type"]), metadata=kept or None)


def _type(said: Any) -> pa.DataType:
    if isinstance(said, str):
        if said in _TYPES:
            return _TYPES[said]
        if match := _DECIMAL.fullmatch(said):
            return pa.decimal128(int(match[1]), int(match[2]))
    elif said["type"] == "struct":
        return pa.struct([_field(one) for one in said["fields"]])
    elif said["type"] == "array":
        return pa.list_(pa.field("element", _type(said["elementType"])))
    elif said["type"] == "map":
        return pa.map_(_type(said["keyType"]), _type(said["valueType"]))
    raise UnsupportedError(
        f"columns of Delta's type {said if isinstance(said, str) else said['type']} are not supported"
    )


def physical(field: pa.Field) -> str:
    """The name of a column in data files, statistics and partition values."""
    found: str = (field.metadata or {}).get(PHYSICAL_NAME, field.name.encode()).decode()
    return found


def matching_of(mode: str) -> Matching:
    """How files' columns are found under a mode of column mapping."""
    if mode == "none":
        return BY_NAME
    if mode == "name":
        return Matching(_by_physical_name)
    if mode == "id":
        return Matching(_by_id)
    raise UnsupportedError(f"Delta's column mapping {mode!r} is not supported")


def _by_physical_name(among: Sequence[pa.Field]) -> Find:
    find = by_name(among)
    return lambda field: find(pa.field(physical(field), field.type))


def _by_id(among: Sequence[pa.Field]) -> Find:
    places = places_by_id(among)

    def find(field: pa.Field) -> int | None:
        wanted = (field.metadata or {}).get(FIELD_ID)
        if wanted is None or None in places:
            raise UnsupportedError(
                f"column {field.name!r} is mapped by id, but the table or one of its files has no ids"
            )
        return places.get(wanted)

    return find


class DoubtfulValueError(Exception):
    """A partition value that engines read in different ways."""


def partition_value(text: str | None, kind: pa.DataType) -> tuple[object, bool]:
    """The value of a column in a partition, and whether all engines read it so."""
    if text is None:
        return None, True
    if text == "":
        # A null by the protocol and to Spark; to delta-rs, which writes it, a string.
        if pt.is_string(kind):
            raise DoubtfulValueError("an empty string, which is a null to Spark and a string to delta-rs")
        return None, True
    if pt.is_binary(kind):
        raise DoubtfulValueError("binary, which libraries escape and do not unescape")
    try:
        if pt.is_timestamp(kind):
            moment = dt.datetime.fromisoformat(text)
            if kind.tz is None:
                return moment.replace(tzinfo=None), moment.tzinfo is None
            zoned = moment.tzinfo is not None
            # Without a zone it is in that of Spark's session, unless another library wrote it.
            return (moment if zoned else moment.replace(tzinfo=dt.UTC)), zoned
        value: object = _PARSERS[_family(kind)](text)
        return pa.scalar(value, kind).as_py(), True
    except (KeyError, ValueError, InvalidOperation, OverflowError, pa.ArrowException) as error:
        raise FormatError(f"the partition value {text!r} of Delta's log is not a valid {kind}: {error!r}") from error


def _family(kind: pa.DataType) -> str:
    if pt.is_integer(kind):
        return "integer"
    if pt.is_floating(kind):
        return "float"
    if pt.is_decimal(kind):
        return "decimal"
    return str(kind)


_PARSERS: dict[str, Callable[[str], object]] = {
    "integer": int,
    "float": float,
    "decimal": Decimal,
    "string": str,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "date32[day]": dt.date.fromisoformat,
}


def parsed_stats(file: DataFile) -> Mapping[str, Any]:
    """The statistics of a file with numbers as they were written; nothing where they cannot be read."""
    if not file.stats:
        return {}
    try:
        # NaN and the infinities are no JSON, but some writers know no better.
        found = json.loads(file.stats, parse_float=Decimal, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def statistics_of(
    stats: Sequence[Mapping[str, Any]], schema: pa.Schema, path: ColumnPath, deleted: Sequence[bool]
) -> Statistics:
    """What is certain of a column by the statistics of all files."""
    field = leaf_field(schema, path)
    fields = fields_at(schema, path)
    names = [physical(one) for one in fields]
    widened = any(_WIDENED in (one.metadata or {}) for one in fields)
    kind = field.type
    lower: list[object] = []
    upper: list[object] = []
    nulls: list[int | None] = []
    counts: list[int | None] = []
    for one, vector in zip(stats, deleted, strict=True):
        # A widened number was printed with the digits of the narrower type.
        known = not widened or pt.is_integer(kind)
        low = _certain(_at(one.get("minValues"), names), kind)[0] if known else None
        high = _certain(_at(one.get("maxValues"), names), kind)[1] if known else None
        lower.append(low)
        upper.append(high)
        rows, null = _count(one.get("numRecords")), _count(_at(one.get("nullCount"), names))
        if one.get("tightBounds") is False and vector and null not in (0, rows):
            null = None
        nulls.append(null if rows is None or null is None or null <= rows else None)
        counts.append(rows)
    return Statistics(
        pa.array(lower, kind), pa.array(upper, kind), pa.array(nulls, pa.int64()), pa.array(counts, pa.int64())
    )


def _at(values: Any, names: Sequence[str]) -> Any:
    for name in names:
        values = values.get(name) if isinstance(values, dict) else None
    return values


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**63 else None


def _certain(value: Any, kind: pa.DataType) -> tuple[Any, Any]:
    """The bounds that a written minimum or maximum gives below and above; None where it gives none."""
    if value is None or isinstance(value, (dict, list)):
        return None, None
    try:
        found = _around(value, kind)
    except (ValueError, OverflowError, InvalidOperation):
        return None, None
    return found if found is not None else (None, None)


def _around(value: Any, kind: pa.DataType) -> tuple[Any, Any] | None:
    if pt.is_boolean(kind):
        return (value, value) if type(value) is bool else None
    if pt.is_integer(kind):
        limit = 1 << (kind.bit_width - 1)
        return (value, value) if type(value) is int and -limit <= value < limit else None
    if pt.is_floating(kind):
        if isinstance(value, bool):
            return None
        number = float(value)
        return bounds.double_around(number) if pt.is_float64(kind) else bounds.float_around(number)
    if pt.is_decimal(kind):
        if type(value) is not int and not isinstance(value, Decimal):
            return None
        return bounds.decimal_around(Decimal(value), kind.precision, kind.scale)
    if not isinstance(value, str):
        return None
    if pt.is_string(kind):
        return bounds.text_lower(value), bounds.text_upper(value)
    if pt.is_date(kind):
        day = dt.date.fromisoformat(value)
        return (day, day) if day >= bounds.GREGORIAN else None
    if pt.is_timestamp(kind):
        return _moments(value, kind)
    return None


def _moments(text: str, kind: pa.DataType) -> tuple[Any, Any] | None:
    """Milliseconds are what writers leave of microseconds, and some round towards zero."""
    moment = dt.datetime.fromisoformat(text)
    if kind.tz is None:
        moment = moment.replace(tzinfo=None)
        if _ZONE.search(text) and not text.endswith("Z"):
            return None
    elif moment.tzinfo is None:
        return None
    else:
        moment = moment.astimezone(dt.UTC)
    if moment.date() < bounds.GREGORIAN:
        return None
    doubt = dt.timedelta(milliseconds=1)
    return moment - doubt, moment + doubt


def vector_path(vector: Mapping[str, Any]) -> str | None:
    """Where a deletion vector lies: below the table, or a whole address; None where it is inline."""
    storage, said = vector["storageType"], vector["pathOrInlineDv"]
    if storage == "i":
        return None
    if storage == "p":
        return str(said)
    if storage != "u" or len(said) < 20:
        raise UnsupportedError(f"deletion vectors of the storage type {storage!r} are not supported")
    number = unpack(said[-20:])
    hexed = number.hex()
    name = f"deletion_vector_{hexed[:8]}-{hexed[8:12]}-{hexed[12:16]}-{hexed[16:20]}-{hexed[20:32]}.bin"
    return f"{said[:-20]}/{name}" if said[:-20] else name


_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = bytes.maketrans(_Z85, _B85)


def unpack(text: str) -> bytes:
    """Bytes that were written in Z85."""
    try:
        plain = text.encode("ascii")
        if set(plain) - set(_Z85) or len(plain) % 5:
            raise ValueError("characters that Z85 does not have")
        return base64.b85decode(plain.translate(_TO_B85))
    except ValueError as error:
        raise FormatError(f"the address of a deletion vector is not valid Z85: {error}") from error

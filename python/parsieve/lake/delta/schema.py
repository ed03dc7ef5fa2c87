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
from parsieve.lake.rows.columns import (
    BY_NAME,
    FIELD_ID,
    PHYSICAL_NAME,
    Find,
    Matching,
    by_name,
    places_by_id,
)

WIDENED = b"delta.typeChanges"
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


def schema_of(metadata: Mapping[str, Any]) -> pa.Schema:
    """Return the table's columns, with physical names and widened types in the fields' metadata."""
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
        kept[WIDENED] = "yes"
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


def vector_path(vector: Mapping[str, Any]) -> str | None:
    """Return the path of a deletion vector below the table, or its address; None if it is inline."""
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

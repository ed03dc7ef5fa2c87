"""Convert Delta's schema to Arrow, find columns in data files, and parse partition values."""

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
from parsieve.lake.rows.columns import (
    BY_NAME,
    FOUND_BY_ID,
    PHYSICAL_NAME,
    Find,
    Matching,
    by_name,
    places_by_id,
)
from parsieve.predicate.elements import FIELD_ID

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
# The beginning of a date or timestamp before the year 1 or after the year 9999.
_FAR_YEAR = re.compile(r"-|0000-|[+]?\d{5,}-")
_DECIMAL = re.compile(r"decimal\((\d+), *(-?\d+)\)")


def schema_of(metadata: Mapping[str, Any]) -> pa.Schema:
    """Return the table's columns, with physical names and widened types in the fields' metadata."""
    try:
        fields = json.loads(metadata["schemaString"])["fields"]
        return pa.schema([_field(field, mapping_mode(metadata)) for field in fields])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, UnsupportedError):
            raise
        raise FormatError(f"the schema in Delta's log violates the protocol: {error!r}") from error


def mapping_mode(metadata: Mapping[str, Any]) -> str:
    """Return the table's mode of column mapping."""
    return str(dict(metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none"))


def _field(definition: Mapping[str, Any], mode: str) -> pa.Field:
    metadata, field_metadata = definition.get("metadata") or {}, {}
    # A schema may still have the names and ids of a mapping that is switched off.
    mapping = {} if mode == "none" else metadata
    if "delta.columnMapping.physicalName" in mapping:
        field_metadata[PHYSICAL_NAME] = str(mapping["delta.columnMapping.physicalName"])
    if "delta.columnMapping.id" in mapping:
        field_metadata[FIELD_ID] = str(mapping["delta.columnMapping.id"])
    if "delta.typeChanges" in metadata:
        field_metadata[WIDENED] = "yes"
    if mode == "id":
        field_metadata[FOUND_BY_ID] = "yes"
    return pa.field(definition["name"], _type(definition["type"], mode), metadata=field_metadata or None)


def _type(definition: Any, mode: str) -> pa.DataType:
    if isinstance(definition, str):
        if definition in _TYPES:
            return _TYPES[definition]
        if match := _DECIMAL.fullmatch(definition):
            precision, scale = int(match[1]), int(match[2])
            # pyarrow crashes for types with a large scale.
            if not 1 <= precision <= 38 or not -38 <= scale <= precision:
                raise ValueError(f"{definition} is not a valid type")
            return pa.decimal128(precision, scale)
    elif definition["type"] == "struct":
        return pa.struct([_field(field, mode) for field in definition["fields"]])
    elif definition["type"] == "array":
        return pa.list_(pa.field("element", _type(definition["elementType"], mode)))
    elif definition["type"] == "map":
        return pa.map_(_type(definition["keyType"], mode), _type(definition["valueType"], mode))
    name = definition if isinstance(definition, str) else definition["type"]
    raise UnsupportedError(f"columns of Delta's type {name} are not supported")


def physical(field: pa.Field) -> str:
    """Return the name of a column in data files, statistics and partition values."""
    name: str = (field.metadata or {}).get(PHYSICAL_NAME, field.name.encode()).decode()
    return name


def matching_of(mode: str) -> Matching:
    """Return how to find the columns of data files under a mode of column mapping."""
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
        number = (field.metadata or {}).get(FIELD_ID)
        if number is None or None in places:
            raise UnsupportedError(
                f"column {field.name!r} is mapped by id, but the table or one of its files has no ids"
            )
        return places.get(number)

    return find


class DoubtfulValueError(Exception):
    """A partition value that engines read in different ways."""


def partition_value(text: str | None, kind: pa.DataType) -> tuple[object, bool]:
    """Return the value of a column in a partition, and whether all engines agree on it."""
    if text is None:
        return None, True
    if text == "":
        # The protocol and Spark read an empty string as null. delta-rs writes and reads it as a string.
        if pt.is_string(kind):
            raise DoubtfulValueError("an empty string, which Spark reads as null and delta-rs as a string")
        return None, True
    if pt.is_binary(kind):
        raise DoubtfulValueError("a binary value, which some libraries escape but do not unescape")
    if (pt.is_date(kind) or pt.is_timestamp(kind)) and _FAR_YEAR.match(text):
        raise DoubtfulValueError("outside of the years 1 to 9999, the only ones that Python supports")
    try:
        if pt.is_timestamp(kind):
            moment = dt.datetime.fromisoformat(text)
            if kind.tz is None:
                return moment.replace(tzinfo=None), moment.tzinfo is None
            has_zone = moment.tzinfo is not None
            # Assume UTC if there is no zone. This is not certain, because Spark uses the zone of its session.
            return (moment if has_zone else moment.replace(tzinfo=dt.UTC)), has_zone
        value: object = _PARSERS[_family(kind)](text)
        if isinstance(value, Decimal):
            value = bounds.decimal_of(value, kind.precision, kind.scale)
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
    """Return the path of a deletion vector below the table, or its address, or None if it is inline."""
    storage_type, text = vector["storageType"], vector["pathOrInlineDv"]
    if storage_type == "i":
        return None
    if storage_type == "p":
        return str(text)
    if storage_type != "u" or len(text) < 20:
        raise UnsupportedError(f"deletion vectors of the storage type {storage_type!r} are not supported")
    uuid = unpack(text[-20:]).hex()
    name = f"deletion_vector_{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:32]}.bin"
    return f"{text[:-20]}/{name}" if text[:-20] else name


_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = bytes.maketrans(_Z85, _B85)


def unpack(text: str) -> bytes:
    """Decode Z85."""
    try:
        encoded = text.encode("ascii")
        if set(encoded) - set(_Z85) or len(encoded) % 5:
            raise ValueError("wrong characters or length")
        return base64.b85decode(encoded.translate(_TO_B85))
    except ValueError as error:
        raise FormatError(f"the address of a deletion vector is not valid Z85: {error}") from error

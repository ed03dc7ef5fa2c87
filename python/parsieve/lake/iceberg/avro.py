"""Read the entries of manifests as columns. pyiceberg opens the file, and the compiled reader decodes its rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from parsieve._core import AvroColumns, FormatError, UnsupportedError
from parsieve.lake.rows.avro_codes import BYTES, COLUMN, FIXED, LIST, LONG, MAP, OPTION, RECORD

if TYPE_CHECKING:
    from pyiceberg.avro.file import AvroFile

# The key of the schema in the header of an Avro file.
_SCHEMA = "avro.schema"


@cache
def manifest_class() -> Any:
    """Return a class of Avro files whose schema may define a fixed type once and then refer to it by name.

    Java writes such schemas if partitions have several decimals of one type. pyiceberg cannot read them.
    """
    from pyiceberg.avro.file import META_SCHEMA, AvroFile, AvroFileHeader
    from pyiceberg.avro.resolver import construct_reader
    from pyiceberg.utils.schema_conversion import AvroSchemaConversion

    class Header(AvroFileHeader):
        def get_schema(self) -> Any:
            if _SCHEMA not in self.meta:
                return super().get_schema()
            return AvroSchemaConversion().avro_to_iceberg(_without_names(json.loads(self.meta[_SCHEMA]), {}))

    class Manifest(AvroFile[Any]):
        def _read_header(self) -> Any:
            return construct_reader(META_SCHEMA, {-1: Header}).read(self.decoder)

    return Manifest


def _without_names(schema: Any, defined: dict[str, Any]) -> Any:
    """Return an Avro schema in which the names of fixed types are replaced by their definitions.

    All names share one definition, because it may be large in a damaged file.
    """
    match schema:
        case {"type": "fixed", "name": str(name)}:
            defined[name] = schema
        case dict():
            places = ("type", "fields", "items", "values")
            return schema | {place: _without_names(schema[place], defined) for place in places if place in schema}
        case list():
            return [_without_names(part, defined) for part in schema]
        case str():
            return defined.get(schema, schema)
    return schema


def read_columns(file: AvroFile[Any], kinds: Mapping[int, Any]) -> dict[int, pa.Array]:
    """Return the fields with these IDs as columns of these types, without fields that the file does not have."""
    names: list[int] = []
    layout = [RECORD, len(file.schema.fields)]
    for field in file.schema.fields:
        layout += _field(field, kinds, names)
    reader = AvroColumns(layout)
    for block, count in _blocks(file):
        reader.push(block, count)
    return dict(zip(names, reader.finish(), strict=True))


def read_records(file: AvroFile[Any]) -> Iterator[Any]:
    """Yield the rows of a file as the record types that it was opened with."""
    make = decoder_of(file.schema)
    for block, count in _blocks(file):
        decoder = make(block)
        for _ in range(count):
            yield file.reader.read(decoder)


def decoder_of(schema: Any) -> Callable[[bytes], Any]:
    """Return the decoder of pyiceberg that reads the values of a schema exactly.

    Its fast decoder rounds doubles to the precision of floats.
    """
    from pyiceberg.avro.decoder import StreamingBinaryDecoder, new_decoder

    make: Callable[[bytes], Any] = StreamingBinaryDecoder if _has_double(schema.as_struct()) else new_decoder
    return make


def _has_double(kind: Any) -> bool:
    """Return whether a type is or contains a double."""
    from pyiceberg.types import DoubleType, ListType, MapType, StructType

    match kind:
        case StructType():
            return any(_has_double(field.field_type) for field in kind.fields)
        case ListType():
            return _has_double(kind.element_type)
        case MapType():
            return _has_double(kind.key_type) or _has_double(kind.value_type)
    return isinstance(kind, DoubleType)


def _blocks(file: AvroFile[Any]) -> Iterator[tuple[bytes, int]]:
    """Yield the uncompressed blocks of a file with their numbers of rows."""
    codec, decoder = file.header.compression_codec(), file.decoder
    while True:
        try:
            count = decoder.read_int()
        except EOFError:
            return
        data = decoder.read_bytes()
        yield (data if codec is None else codec.decompress(data)), count
        if decoder.read(len(file.header.sync)) != file.header.sync:
            raise FormatError("a block of the manifest does not end with the marker of its file")


def _field(field: Any, kinds: Mapping[int, Any], names: list[int]) -> list[int]:
    codes = [] if field.required else [OPTION]
    if field.field_id in kinds:
        names.append(field.field_id)
        return [COLUMN[kinds[field.field_id]], *codes, *_type(field.field_type, {}, [])]
    return codes + _type(field.field_type, kinds if field.required else {}, names)


def _type(kind: Any, kinds: Mapping[int, Any], names: list[int]) -> list[int]:
    from pyiceberg import types
    from pyiceberg.utils.decimal import decimal_required_bytes

    match kind:
        case types.StructType():
            return [RECORD, len(kind.fields), *(code for field in kind.fields for code in _field(field, kinds, names))]
        case types.ListType():
            return [LIST, *_optional(kind.element_required), *_type(kind.element_type, {}, [])]
        case types.MapType():
            key, value = _type(kind.key_type, {}, []), _type(kind.value_type, {}, [])
            return [MAP, *key, *_optional(kind.value_required), *value]
        case types.BooleanType():
            return [FIXED, 1]
        case types.FloatType():
            return [FIXED, 4]
        case types.DoubleType():
            return [FIXED, 8]
        case types.UUIDType():
            return [FIXED, 16]
        case types.FixedType():
            return [FIXED, len(kind)]
        case types.DecimalType():
            return [FIXED, decimal_required_bytes(kind.precision)]
        case types.StringType() | types.BinaryType():
            return [BYTES]
        case (
            types.IntegerType() | types.LongType() | types.DateType() | types.TimeType()
            | types.TimestampType() | types.TimestamptzType() | types.TimestampNanoType() | types.TimestamptzNanoType()
        ):  # fmt: skip
            return [LONG]
    raise UnsupportedError(f"a manifest has a field of type {kind}, which is not supported")


def _optional(is_required: bool) -> list[int]:
    return [] if is_required else [OPTION]

"""Edit the footer of a Parquet file, to test footers of other writers. The footer is a dictionary of Thrift fields."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Field numbers in parquet.thrift: of FileMetaData; of RowGroup, ColumnChunk and ColumnMetaData; of Statistics.
SCHEMA, ROW_GROUPS, KEY_VALUES, CREATED_BY, COLUMN_ORDERS = 2, 4, 5, 6, 7
COLUMNS, META_DATA, STATISTICS = 1, 3, 12
OLD_MAX, OLD_MIN, NULL_COUNT, MAX_VALUE, MIN_VALUE, MAX_EXACT, MIN_EXACT = 1, 2, 3, 5, 6, 7, 8
I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12

# A structure maps field numbers to types and values. A list is a pair: the type of its elements, and its elements.
Struct = dict[int, tuple[int, Any]]


def edit(path: Path | str, change: Callable[[Struct], None]) -> None:
    """Change the metadata of a file in place."""
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<I", data[-8:-4])
    start = len(data) - 8 - length
    metadata, _ = _read(memoryview(data), start, STRUCT)
    change(metadata)
    written = bytearray()
    _write(written, STRUCT, metadata)
    Path(path).write_bytes(data[:start] + bytes(written) + struct.pack("<I", len(written)) + data[-4:])


def read(data: bytes, start: int) -> tuple[Struct, int]:
    """Decode the structure at an offset. Also return the offset after it."""
    fields, end = _read(memoryview(data), start, STRUCT)
    return fields, end


def encode(fields: Struct) -> bytes:
    """Encode a structure."""
    out = bytearray()
    _write(out, STRUCT, fields)
    return bytes(out)


def footer(data: bytes) -> Struct:
    """Decode the metadata of a file."""
    (length,) = struct.unpack("<I", data[-8:-4])
    return read(data, len(data) - 8 - length)[0]


def statistics(metadata: Struct, column: int = 0) -> list[Struct]:
    """Return the statistics of a column in each row group. Changes to them are written."""
    return [
        group[COLUMNS][1][1][column][META_DATA][1].setdefault(STATISTICS, (STRUCT, {}))[1]
        for group in metadata[ROW_GROUPS][1][1]
    ]


def set_bounds(path: str, lower: bytes | None, upper: bytes | None, **fields: tuple[int, Any] | None) -> None:
    """Replace the statistics of the column. `fields` are further fields by the names in this module."""

    def change(metadata: Struct) -> None:
        for column_statistics in statistics(metadata):
            for number, value in ((MIN_VALUE, lower), (MAX_VALUE, upper)):
                column_statistics.pop(number, None)
                if value is not None:
                    column_statistics[number] = (BINARY, value)
            for name, field in fields.items():
                column_statistics.pop(globals()[name], None)
                if field is not None:
                    column_statistics[globals()[name]] = field

    edit(path, change)


def set_writer(path: str, writer: str) -> None:
    """Replace the name of the program that wrote the file."""

    def change(metadata: Struct) -> None:
        metadata[CREATED_BY] = (BINARY, writer.encode())

    edit(path, change)


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def _read(data: memoryview, at: int, kind: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        value, at = _read_varint(data, at)
        return (value >> 1) ^ -(value & 1), at
    if kind == 7:
        return bytes(data[at : at + 8]), at + 8
    if kind == BINARY:
        length, at = _read_varint(data, at)
        return bytes(data[at : at + length]), at + length
    if kind == LIST:
        head, at = data[at], at + 1
        size = head >> 4
        if size == 15:
            size, at = _read_varint(data, at)
        values = []
        for _ in range(size):
            value, at = _read(data, at, head & 0x0F)
            values.append(value)
        return (head & 0x0F, values), at
    assert kind == STRUCT, kind
    fields: Struct = {}
    last = 0
    while True:
        head, at = data[at], at + 1
        if head == 0:
            return fields, at
        if head >> 4:
            last += head >> 4
        else:
            value, at = _read_varint(data, at)
            last = (value >> 1) ^ -(value & 1)
        value, at = _read(data, at, head & 0x0F)
        fields[last] = (head & 0x0F, value)


def _write_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write(out: bytearray, kind: int, value: Any) -> None:
    if kind == 3:
        out.append(value)
    elif kind in (4, 5, 6):
        _write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
    elif kind == 7:
        out += value
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == LIST:
        element, values = value
        out.append(0xF0 | element)
        _write_varint(out, len(values))
        for item in values:
            if element in (1, 2):
                out.append(1 if item else 2)
            else:
                _write(out, element, item)
    elif kind == STRUCT:
        last = 0
        for number, (inner, item) in sorted(value.items()):
            if inner in (1, 2):
                inner = 1 if item else 2
            if 0 < number - last < 16:
                out.append((number - last) << 4 | inner)
            else:
                out.append(inner)
                _write_varint(out, number << 1)
            last = number
            _write(out, inner, item)
        out.append(0)

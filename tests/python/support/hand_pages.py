"""Pages built by hand, in place of a column chunk of a file: as other writers write them, or damaged."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from parsieve._core import RowSet
from support import footer_edit
from support.footer_edit import COLUMNS, I32, I64, LIST, META_DATA, ROW_GROUPS, STRUCT, Struct
from support.rows.core_reads import open_rows, read_rows

PLAIN, RLE, BIT_PACKED, DELTA_LENGTH, DELTA_TEXT, DICTIONARY = 0, 3, 4, 6, 7, 8
# Field numbers in parquet.thrift: of ColumnChunk and of ColumnMetaData.
INDEX_OFFSET, INDEX_LENGTH = 4, 5
NUM_VALUES, UNCOMPRESSED_SIZE, COMPRESSED_SIZE, DATA_OFFSET, DICTIONARY_OFFSET = 5, 6, 7, 9, 11

PLAIN_FILE: dict[str, Any] = {"use_dictionary": False, "compression": "none", "write_statistics": False}


class HandPage(NamedTuple):
    """A page, and the row at which the offset index says that it begins."""

    data: bytes
    first_row: int


def varint(value: int) -> bytes:
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def packed_levels(levels: Sequence[int]) -> bytes:
    """Return levels of one bit in the hybrid of runs and packed bits."""
    groups = -(-len(levels) // 8)
    packed = bytearray(groups)
    for number, level in enumerate(levels):
        packed[number // 8] |= level << number % 8
    return varint(groups << 1 | 1) + packed


def run_of(level: int, count: int) -> bytes:
    """Return a run of equal levels."""
    return varint(count << 1) + bytes([level])


def byte_arrays(values: Sequence[bytes]) -> bytes:
    """Return values in plain encoding."""
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


def data_page(
    reps: bytes | None,
    defs: bytes | None,
    values: bytes,
    count: int,
    *,
    encoding: int = PLAIN,
    rep_encoding: int = RLE,
    num_rows: int | None = None,
) -> bytes:
    """Return a data page of version 1, or of version 2 if its number of rows is given. Its values are not null."""
    if num_rows is not None:
        reps, defs = reps or b"", defs or b""
        body = reps + defs + values
        header: Struct = {1: (I32, 3), 2: (I32, len(body)), 3: (I32, len(body))}
        lengths = {5: (I32, len(defs)), 6: (I32, len(reps)), 7: (1, False)}
        header[8] = (STRUCT, {1: (I32, count), 2: (I32, 0), 3: (I32, num_rows), 4: (I32, encoding), **lengths})
        return footer_edit.encode(header) + body
    body = b""
    for levels, level_encoding in ((reps, rep_encoding), (defs, RLE)):
        if levels is not None:
            body += struct.pack("<I", len(levels)) + levels if level_encoding == RLE else levels
    body += values
    header = {1: (I32, 0), 2: (I32, len(body)), 3: (I32, len(body))}
    header[5] = (STRUCT, {1: (I32, count), 2: (I32, encoding), 3: (I32, RLE), 4: (I32, rep_encoding)})
    return footer_edit.encode(header) + body


def dictionary_page(values: bytes, count: int) -> bytes:
    header: Struct = {1: (I32, 2), 2: (I32, len(values)), 3: (I32, len(values))}
    header[7] = (STRUCT, {1: (I32, count), 2: (I32, PLAIN)})
    return footer_edit.encode(header) + values


def pages_of_lists(lists: Sequence[Sequence[int]], per_page: int, *, version: int = 1) -> list[HandPage]:
    """Return pages of a fixed number of integers, so that a list may continue on the next page."""
    reps = [int(number > 0) for values in lists for number in range(len(values))]
    values = [value for values in lists for value in values]
    pages = []
    for start in range(0, len(reps), per_page):
        own, rows = reps[start : start + per_page], reps[:start].count(0)
        data = data_page(
            packed_levels(own),
            run_of(3, len(own)),
            struct.pack(f"<{len(own)}i", *values[start : start + per_page]),
            len(own),
            num_rows=own.count(0) if version == 2 else None,
        )
        pages.append(HandPage(data, rows))
    return pages


def replace_chunk(
    path: Path,
    column: int,
    pages: Sequence[HandPage],
    *,
    row_group: int = 0,
    dictionary: bytes = b"",
    offset_index: bool = False,
) -> None:
    """Replace a chunk of a file without compression by pages at the end of the file's data."""
    data = path.read_bytes()
    metadata = footer_edit.footer(data)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    chunk = metadata[ROW_GROUPS][1][1][row_group][COLUMNS][1][1][column]
    fields = chunk[META_DATA][1]
    body = dictionary
    locations: list[Struct] = []
    for page in pages:
        locations.append({1: (I64, start + len(body)), 2: (I32, len(page.data)), 3: (I64, page.first_row)})
        body += page.data
    fields[DATA_OFFSET] = (I64, start + len(dictionary))
    fields[COMPRESSED_SIZE] = fields[UNCOMPRESSED_SIZE] = (I64, len(body))
    fields.pop(DICTIONARY_OFFSET, None)
    if dictionary:
        fields[DICTIONARY_OFFSET] = (I64, start)
    if offset_index:
        index = footer_edit.encode({1: (LIST, (STRUCT, locations))})
        chunk[INDEX_OFFSET], chunk[INDEX_LENGTH] = (I64, start + len(body)), (I32, len(index))
        body += index
    written = footer_edit.encode(metadata)
    path.write_bytes(data[:start] + body + written + struct.pack("<I", len(written)) + data[-4:])


def write_lists(path: Path, lists: list[list[int]], **options: Any) -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("list", pa.list_(pa.int32()))])
    table = pa.table({"id": range(len(lists)), "list": lists}, schema=schema)
    pq.write_table(table, path, **PLAIN_FILE, **options)
    return table


def rows_of(data: bytes, column: int, ranges: list[tuple[int, int]], batch_rows: int = 1_000) -> list[Any]:
    """Return the values of some rows, read by the core only."""
    table, _ = read_rows(data, open_rows(data), [column], RowSet.of(ranges), batch_rows)
    return list(table.column(0).to_pylist())

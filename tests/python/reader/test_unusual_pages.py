"""Pages that other writers write differently, or that are damaged, are read correctly or refused."""

from __future__ import annotations

import itertools
import random
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import footer_edit
from support import hand_pages as hand
from support.hand_pages import PLAIN_FILE, HandPage, rows_of, write_lists
from support.rows.core_reads import open_rows, read_rows

import parsieve as ps
from parsieve._core import FormatError, RowSet

ROWS = 600


def test_a_length_beyond_the_page_in_a_skipped_value(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    texts = [f"v{row:05d}" for row in range(ROWS)]
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string(), nullable=False)])
    pq.write_table(pa.table({"id": range(ROWS), "text": texts}, schema=schema), path, **PLAIN_FILE)
    data = bytearray(path.read_bytes())
    at = data.index(hand.byte_arrays([b"v00049"]))
    assert rows_of(bytes(data), 1, [(50, 1)]) == ["v00050"]
    for length in (0x00FF_FFFF, 0xFFFF_FFFF, 6 * ROWS * 2):
        data[at : at + 4] = struct.pack("<I", length)
        with pytest.raises(FormatError):
            rows_of(bytes(data), 1, [(50, 1)])


@pytest.mark.parametrize("encoding", ["plain", "dictionary", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
@pytest.mark.parametrize("length", [0, 17])
def test_decimals_whose_length_pyarrow_refuses(tmp_path: Path, encoding: str, length: int) -> None:
    path = tmp_path / "0.parquet"
    options: dict[str, Any] = {"store_schema": False, "use_dictionary": encoding == "dictionary"}
    if encoding.startswith("DELTA"):
        options["column_encoding"] = {"value": encoding}
    pq.write_table(pa.table({"value": [b"\x01", b"\x00" * length, b"\x02"]}), path, **options)

    def annotate(metadata: footer_edit.Struct) -> None:
        element = metadata[footer_edit.SCHEMA][1][1][1]
        element[6], element[7], element[8] = (footer_edit.I32, 5), (footer_edit.I32, 2), (footer_edit.I32, 9)
        footer_edit.statistics(metadata)[0].clear()

    footer_edit.edit(path, annotate)
    with pytest.raises(pa.ArrowInvalid):
        pq.read_table(path)
    with pytest.raises(FormatError, match="decimal"):
        rows_of(path.read_bytes(), 0, [(0, 3)])


def test_short_decimals(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"value": [b"\x01", b"\xff" * 16, b"\x02\x00"]}), path, store_schema=False)

    def annotate(metadata: footer_edit.Struct) -> None:
        element = metadata[footer_edit.SCHEMA][1][1][1]
        element[6], element[7], element[8] = (footer_edit.I32, 5), (footer_edit.I32, 2), (footer_edit.I32, 9)
        footer_edit.statistics(metadata)[0].clear()

    footer_edit.edit(path, annotate)
    assert rows_of(path.read_bytes(), 0, [(0, 3)]) == [Decimal("0.01"), Decimal("-0.01"), Decimal("5.12")]


@pytest.mark.parametrize("offset_index", [False, True])
def test_levels_that_begin_with_the_highest_bit(tmp_path: Path, offset_index: bool) -> None:
    """pyarrow and the decoder of the core expect the lowest bit first, so compare with the written rows."""
    path = tmp_path / "0.parquet"
    lists = [[row] * (1 + row % 3) for row in range(ROWS)]
    write_lists(path, lists)
    reps = [int(item > 0) for values in lists for item in range(len(values))]
    values = [value for values in lists for value in values]
    bits = "".join(map(str, reps)).ljust(-(-len(reps) // 8) * 8, "0")
    packed = bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits), 8))
    count = len(values)
    page = hand.data_page(
        packed, hand.run_of(3, count), struct.pack(f"<{count}i", *values), count, rep_encoding=hand.BIT_PACKED
    )
    hand.replace_chunk(path, 1, [HandPage(page, 0)], offset_index=offset_index)
    assert rows_of(path.read_bytes(), 1, [(4, 3), (500, 1)]) == [*lists[4:7], lists[500]]


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_times_with_only_a_converted_type(tmp_path: Path, unit: str) -> None:
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"time": pa.array([0, -1, None, 2**40])}), path, store_schema=False)

    def annotate(metadata: footer_edit.Struct) -> None:
        metadata[footer_edit.SCHEMA][1][1][1][6] = (footer_edit.I32, {"ms": 9, "us": 10}[unit])

    footer_edit.edit(path, annotate)
    data = path.read_bytes()
    file = open_rows(data)
    assert file.unreadable(0) is None
    assert file.schema.field(0).type == pa.timestamp(unit, "UTC")
    expected = pq.read_table(path)
    # Older versions of pyarrow give these times no time zone, and then read the file themselves.
    if expected.schema.field(0).type == pa.timestamp(unit, "UTC"):
        assert read_rows(data, file, [0], RowSet.all(4), 10)[0].equals(expected)
    assert ps.open_table(tmp_path).plan("time IS NOT NULL").to_arrow().equals(expected.drop_null())


@pytest.mark.parametrize("kind", [pa.int32(), pa.string()])
@pytest.mark.parametrize("encoding", [hand.DICTIONARY, hand.DELTA_LENGTH])
def test_pages_of_nulls_without_values(tmp_path: Path, kind: pa.DataType, encoding: int) -> None:
    if encoding == hand.DELTA_LENGTH and kind != pa.string():
        pytest.skip("an encoding of byte strings")
    path = tmp_path / "0.parquet"
    lists = [[None]] * 8
    table = pa.table({"flat": pa.array([None] * 8, kind), "list": pa.array(lists, pa.list_(kind))})
    pq.write_table(table, path, **PLAIN_FILE)
    entry = hand.byte_arrays([b"z"]) if kind == pa.string() else struct.pack("<i", 7)
    dictionary = hand.dictionary_page(entry, 1) if encoding == hand.DICTIONARY else b""
    flat = hand.data_page(None, hand.run_of(0, 8), b"", 8, encoding=encoding)
    nested = hand.data_page(hand.run_of(0, 8), hand.run_of(2, 8), b"", 8, encoding=encoding)
    for column, page in enumerate((flat, nested)):
        hand.replace_chunk(path, column, [HandPage(page, 0)], dictionary=dictionary)
    data = path.read_bytes()
    assert rows_of(data, 0, [(2, 3)]) == [None] * 3
    assert rows_of(data, 1, [(2, 3)]) == [[None]] * 3


def test_compressed_pages_whose_headers_deny_it(tmp_path: Path) -> None:
    # As Arrow C++ before version 3 wrote version 2 pages. A page may be as long as its values are, so only the name of
    # the writer tells.
    codec = pa.Codec("snappy")
    for seed in itertools.count():
        numbers = random.Random(seed).choices(random.Random(seed).sample(range(1 << 62), 200), k=200)
        plain = struct.pack("<200q", *numbers)
        body = codec.compress(plain, asbytes=True)
        if len(body) == len(plain):
            break
    path = tmp_path / "0.parquet"
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    pq.write_table(pa.table({"id": numbers}, schema=schema), path, data_page_version="2.0", **PLAIN_FILE)
    data = path.read_bytes()
    header, start = footer_edit.read(data, 4)
    header[8][1][7] = (2, False)
    # pyarrow's header has statistics, which leave room for the flag.
    encoded = footer_edit.encode(header)
    assert len(encoded) == start - 4
    path.write_bytes(data[:4] + encoded + body + data[start + len(body) :])

    def change(metadata: footer_edit.Struct) -> None:
        metadata[footer_edit.CREATED_BY] = (footer_edit.BINARY, b"parquet-cpp version 1.5.1-SNAPSHOT")
        metadata[footer_edit.ROW_GROUPS][1][1][0][footer_edit.COLUMNS][1][1][0][footer_edit.META_DATA][1][4] = (
            footer_edit.I32,
            1,
        )

    footer_edit.edit(path, change)
    assert pq.read_table(path)["id"].to_pylist() == numbers
    assert rows_of(path.read_bytes(), 0, [(0, 200)]) == numbers
    ps.add_filters(path, columns=["id"])
    assert ps.open_filters(path).might_contain({"id": [numbers[7]]}) == [True]

"""The map of a file has the chunks and pages that other readers find, and can replace its footer."""

import datetime as dt
import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import footer_edit
from support.encrypted_files import encrypted

from parsieve._core import Fetched, FileMap, FileReader, UnsupportedError

ROWS = 30_000
# Field numbers in parquet.thrift: of ColumnChunk and of OffsetIndex, PageLocation and PageHeader.
INDEX_OFFSET, INDEX_LENGTH = 4, 5
LOCATIONS, OFFSET, SIZE, FIRST_ROW = 1, 1, 2, 3
PAGE_TYPE, COMPRESSED_SIZE = 1, 3
DATA_PAGES, DICTIONARY_PAGE = (0, 3), 2


def flat() -> pa.Table:
    numbers = [(number * 2654435761) % 2**32 for number in range(ROWS)]
    return pa.table(
        {
            "sequence": pa.array(range(ROWS)),
            "scattered": pa.array(numbers, pa.uint32()),
            "few": pa.array([None if number % 9 == 0 else f"value {number % 50}" for number in range(ROWS)]),
            "text": pa.array([f"{number:x}" for number in numbers]),
            "flag": pa.array([number % 3 == 0 for number in numbers]),
            "real": pa.array([number / 7 for number in numbers]),
            "at": pa.array([dt.datetime(2026, 1, 1) + dt.timedelta(seconds=n) for n in range(ROWS)]),
        }
    )


def nested() -> pa.Table:
    lists = [[f"{number}-{item}" for item in range(number % 4)] for number in range(ROWS)]
    structs = [{"x": number, "y": {"z": number % 7 or None}} for number in range(ROWS)]
    return flat().append_column("lists", pa.array(lists)).append_column("structs", pa.array(structs))


def by_pyarrow(path: Path, table: Callable[[], pa.Table] = flat, **options: Any) -> None:
    pq.write_table(table(), path, row_group_size=12_000, **options)


def by_duckdb(path: Path) -> None:
    table = flat()
    with duckdb.connect() as connection:
        connection.register("t", table)
        connection.execute(f"COPY t TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 10000, COMPRESSION zstd)")


def by_polars(path: Path) -> None:
    frame = pl.from_arrow(flat())
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(path, row_group_size=10_000, data_page_size=20_000)


def by_clickhouse(path: Path) -> None:
    chdb = pytest.importorskip("chdb", reason="ClickHouse's embedded engine is made for Linux and macOS only")
    chdb.query(
        f"SELECT number AS n, toString(cityHash64(number)) AS text, number % 50 AS few FROM numbers({ROWS}) "
        f"INTO OUTFILE '{path}' FORMAT Parquet SETTINGS output_format_parquet_row_group_size = 12000, "
        "output_format_parquet_data_page_size = 20000, output_format_parquet_write_page_index = 1"
    )


def by_fastparquet(path: Path) -> None:
    fastparquet = pytest.importorskip("fastparquet", reason="no wheel for this Python")
    frame = pd.DataFrame({"n": range(ROWS), "text": [f"{number}" for number in range(ROWS)]})
    fastparquet.write(str(path), frame, row_group_offsets=12_000)


SMALL_PAGES: dict[str, Any] = {"data_page_size": 4000, "write_page_index": True}
WRITERS: dict[str, Callable[[Path], None]] = {
    "pyarrow": lambda path: by_pyarrow(path, **SMALL_PAGES),
    "pyarrow-plain": lambda path: by_pyarrow(path, use_dictionary=False, compression="none", **SMALL_PAGES),
    "pyarrow-zstd-v2": lambda path: by_pyarrow(path, compression="zstd", data_page_version="2.0", **SMALL_PAGES),
    "pyarrow-large-pages": lambda path: by_pyarrow(path, write_page_index=True),
    "pyarrow-no-index": lambda path: by_pyarrow(path, data_page_size=4000, write_page_index=False),
    "pyarrow-nested": lambda path: by_pyarrow(path, nested, **SMALL_PAGES),
    "duckdb": by_duckdb,
    "polars": by_polars,
    "clickhouse": by_clickhouse,
    "fastparquet": by_fastparquet,
}
WITH_PAGES = {"pyarrow", "pyarrow-plain", "pyarrow-zstd-v2", "pyarrow-large-pages", "pyarrow-nested"}


@pytest.fixture(params=WRITERS)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, bytes]:
    """Return the name of a writer and a file that it wrote."""
    path = tmp_path / "file.parquet"
    WRITERS[request.param](path)
    return request.param, path.read_bytes()


def map_of(data: bytes) -> FileMap:
    """Return the map of a file. Fetches only the ranges that the core needs."""
    fetched, reads = Fetched(), 0
    file: FileReader | None = None
    while file is None:
        needed, file = FileReader.open(len(data), fetched)
        for start, end in needed:
            fetched.insert(start, data[start:end])
    while True:
        needed, file_map = FileMap.of(file, fetched)
        if file_map is not None:
            assert reads <= 1, "offset indexes are next to each other"
            return file_map
        reads += 1
        for start, end in needed:
            fetched.insert(start, data[start:end])


def locations_of(data: bytes, row_group: int, column: int) -> list[tuple[int, int, int]]:
    """Return the offset, size and first row of each page in a chunk's offset index, by another decoder."""
    _, groups = footer_edit.footer(data)[footer_edit.ROW_GROUPS][1]
    chunk = groups[row_group][footer_edit.COLUMNS][1][1][column]
    if INDEX_OFFSET not in chunk:
        return []
    offset, length = chunk[INDEX_OFFSET][1], chunk[INDEX_LENGTH][1]
    index, end = footer_edit.read(data, offset)
    assert end == offset + length
    _, pages = index[LOCATIONS][1]
    return [(page[OFFSET][1], page[SIZE][1], page[FIRST_ROW][1]) for page in pages]


def test_chunks_are_those_that_pyarrow_finds(written: tuple[str, bytes]) -> None:
    _, data = written
    file_map, theirs = map_of(data), pq.read_metadata(io.BytesIO(data))
    assert (file_map.file_size, file_map.num_row_groups) == (len(data), theirs.num_row_groups)
    assert file_map.created_by == theirs.created_by
    columns = [theirs.schema.column(number) for number in range(len(theirs.schema))]
    for (path, physical, length, *levels), column in zip(file_map.leaves, columns, strict=True):
        assert (".".join(path), physical) == (column.path, column.physical_type)
        assert physical != "FIXED_LEN_BYTE_ARRAY" or length == column.length
        assert levels == [column.max_definition_level, column.max_repetition_level]
    first_row = 0
    for number, group_first_row, rows in file_map.row_groups:
        group = theirs.row_group(number)
        assert (group_first_row, rows) == (first_row, group.num_rows)
        first_row += rows
        for column in range(group.num_columns):
            chunk = group.column(column)
            start, length, dictionary, codec, encodings, values = file_map.chunk(number, column)
            data_start = start + (dictionary or 0)
            assert (data_start, length) == (chunk.data_page_offset, chunk.total_compressed_size)
            assert values == chunk.num_values
            assert dictionary is None or start == chunk.dictionary_page_offset
            assert (dictionary is not None) == bool(chunk.has_dictionary_page)
            names = ["PLAIN", "GROUP_VAR_INT", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED"]
            names += ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"]
            assert {names[code] for code in encodings} == set(chunk.encodings)
            codecs = ["UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4"]
            assert codecs[codec] == chunk.compression


def test_pages_are_those_of_the_offset_indexes_and_have_headers_there(written: tuple[str, bytes]) -> None:
    name, data = written
    file_map, num_pages = map_of(data), 0
    for number, _, _ in file_map.row_groups:
        for column in range(len(file_map.leaves)):
            start, length, dictionary, *_ = file_map.chunk(number, column)
            pages = file_map.pages(number, column)
            assert (pages or []) == locations_of(data, number, column)
            for offset, size, _ in pages or []:
                header, end = footer_edit.read(data, offset)
                assert header[PAGE_TYPE][1] in DATA_PAGES
                assert end - offset + header[COMPRESSED_SIZE][1] == size
                assert start <= offset
                assert offset + size <= start + length
            if dictionary:
                header, end = footer_edit.read(data, start)
                assert header[PAGE_TYPE][1] == DICTIONARY_PAGE
                assert end - start + header[COMPRESSED_SIZE][1] == dictionary
            num_pages += len(pages or [])
    assert num_pages > 0 or name not in WITH_PAGES


def test_the_footer_of_a_map_replaces_that_of_the_file(written: tuple[str, bytes]) -> None:
    _, data = written
    footer = map_of(data).footer()
    replaced = data[: len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]] + footer
    replaced += struct.pack("<I", len(footer)) + b"PAR1"
    table = pq.read_table(io.BytesIO(replaced))
    expected = pq.read_table(io.BytesIO(data))
    assert table.num_rows == ROWS
    # Without the Arrow schema of the writer, some types are the nearest ones of Parquet.
    assert table.cast(expected.schema).equals(expected)


def test_a_map_is_small_and_its_bytes_read_back(written: tuple[str, bytes]) -> None:
    _, data = written
    file_map = map_of(data)
    stored = file_map.to_bytes()
    assert FileMap.from_bytes(stored) == file_map
    num_chunks = len(file_map.row_groups) * len(file_map.leaves)
    num_pages = sum(
        len(file_map.pages(number, column) or [])
        for number, _, _ in file_map.row_groups
        for column in range(len(file_map.leaves))
    )
    assert len(stored) - _schema_size(data) <= 24 * num_chunks + 4 * num_pages + 64


def _schema_size(data: bytes) -> int:
    """Return the size of the schema and the writer's name, as encoded in any footer."""
    footer = footer_edit.footer(data)
    kept = {field: footer[field] for field in (1, footer_edit.SCHEMA, footer_edit.CREATED_BY) if field in footer}
    return len(footer_edit.encode(kept)) + 8


@pytest.mark.parametrize("plaintext_footer", [True, False])
def test_encrypted_files_have_no_map(tmp_path: Path, plaintext_footer: bool) -> None:
    path = tmp_path / "file.parquet"
    encrypted(path, plaintext_footer=plaintext_footer)
    if plaintext_footer:
        with pytest.raises(UnsupportedError, match="cannot have a map of its pages: it is encrypted or signed"):
            map_of(path.read_bytes())
    else:
        with pytest.raises(Exception, match="key"):
            map_of(path.read_bytes())


@pytest.mark.parametrize("damage", ["rows", "offset", "size", "bytes"])
def test_a_wrong_offset_index_leaves_the_pages_unknown(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "file.parquet"
    by_pyarrow(path, **SMALL_PAGES)
    data = path.read_bytes()
    _, groups = footer_edit.footer(data)[footer_edit.ROW_GROUPS][1]
    chunk = groups[0][footer_edit.COLUMNS][1][1][1]
    offset, length = chunk[INDEX_OFFSET][1], chunk[INDEX_LENGTH][1]
    index, _ = footer_edit.read(data, offset)
    second = index[LOCATIONS][1][1][1]
    if damage == "rows":
        second[FIRST_ROW] = (footer_edit.I64, 0)
    elif damage == "offset":
        second[OFFSET] = (footer_edit.I64, 4)
    elif damage == "size":
        second[SIZE] = (footer_edit.I32, second[SIZE][1] + 2**20)
    changed = footer_edit.encode(index) if damage != "bytes" else b"\xff" * length

    # Put the changed index before the footer, so that it may be longer.
    start = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    path.write_bytes(data[:start] + changed + data[start:])

    def point(metadata: footer_edit.Struct) -> None:
        moved = metadata[footer_edit.ROW_GROUPS][1][1][0][footer_edit.COLUMNS][1][1][1]
        moved[INDEX_OFFSET] = (footer_edit.I64, start)
        moved[INDEX_LENGTH] = (footer_edit.I32, len(changed))

    footer_edit.edit(path, point)
    file_map = map_of(path.read_bytes())
    assert file_map.pages(0, 1) is None
    whole = file_map.chunk(0, 1)
    assert file_map.ranges_of(0, 1, [(0, 1)]) == [(whole[0], whole[0] + whole[1])]
    assert file_map.pages(0, 0), "other chunks keep their pages"
    assert file_map.pages(1, 1)

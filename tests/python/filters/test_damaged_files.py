"""Damaged files: `filter` raises a specific error, `might_contain` returns "maybe", and no answer is a wrong "no"."""

import io
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

KEYS = list(range(1000, 2000))


def make() -> tuple[bytes, int, int]:
    """Return the bytes of a file with one filter, and the filter's offset and length."""
    file = io.BytesIO()
    table = pa.table({"id": pa.array(KEYS, pa.int64()), "flag": [key % 2 == 0 for key in KEYS]})
    pq.write_table(table, file, bloom_filter_options={"id": {"ndv": 1000, "fpp": 0.001}})
    chunk = pq.read_metadata(file).row_group(0).column(0)
    return file.getvalue(), chunk.bloom_filter_offset, chunk.bloom_filter_length


FILE, OFFSET, LENGTH = make()
FOOTER = len(FILE) - 8 - struct.unpack("<I", FILE[-8:-4])[0]
HEADER = len(FILE[OFFSET : OFFSET + LENGTH]) % 32


def varint(value: int, length: int = 0) -> bytes:
    """Encode a zigzag varint in at least `length` bytes."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    digits = [rest % 128]
    while rest := rest // 128:
        digits.append(rest % 128)
    digits += [0] * (length - len(digits))
    return bytes([digit | 128 for digit in digits[:-1]] + digits[-1:])


def with_field(old: int, new: int) -> bytes:
    """Return the file with one number in the footer replaced; the footer keeps its length."""
    place = varint(old)
    assert FILE.count(place, FOOTER) == 1, "the footer has the number exactly once"
    at = FILE.index(place, FOOTER)
    replaced = varint(new, len(place))
    assert len(replaced) == len(place)
    return FILE[:at] + replaced + FILE[at + len(place) :]


def check(file: bytes, error: Any = ps.FormatError) -> None:
    """Check that reading the filter raises an error, and that `might_contain` excludes nothing."""
    with ps.open_filters(file) as filters:
        with pytest.raises(error):
            filters.filter(0, "id")
        assert filters.might_contain({"id": 1500}) == [True]
        assert filters.might_contain({"id": 5}) == [True]
        assert filters.might_contain({"id": 5, "flag": True}) == [True]


def test_the_undamaged_file_is_valid() -> None:
    with ps.open_filters(FILE) as filters:
        assert filters.ranges() == [(0, "id", OFFSET, LENGTH)]
        assert filters.might_contain({"id": 5}) == [False]
        assert filters.might_contain({"id": KEYS}) == [True]


@pytest.mark.parametrize(
    "offset", [0, 1, -1, 4, OFFSET - 1, OFFSET + 1, OFFSET + HEADER, FOOTER, FOOTER - 1, len(FILE)]
)
def test_wrong_offsets_are_errors(offset: int) -> None:
    check(with_field(OFFSET, offset), ps.ParsieveError)


@pytest.mark.parametrize("change", [-1, 1, -32, 32, -64, 64, -HEADER, 32 - LENGTH, -LENGTH, -2 * LENGTH, 1000])
def test_lengths_that_contradict_the_header_are_errors(change: int) -> None:
    """In a shorter bitset each value has another block, so a reader that accepts it gives a wrong "no"."""
    check(with_field(LENGTH, LENGTH + change))


def test_a_change_of_any_header_byte_excludes_no_value() -> None:
    for at in range(OFFSET, OFFSET + HEADER):
        for byte in range(256):
            if byte == FILE[at]:
                continue
            file = FILE[:at] + bytes([byte]) + FILE[at + 1 :]
            with ps.open_filters(file) as filters:
                try:
                    filter = filters.filter(0, "id")
                except ps.ParsieveError:
                    assert filters.might_contain({"id": 5}) == [True]
                else:
                    assert filter is not None
                    assert filter.check(pa.array(KEYS)).false_count == 0
                assert filters.might_contain({"id": 1234}) == [True]


def test_filters_of_odd_size_or_unknown_kind_are_refused() -> None:
    sound = FILE[OFFSET : OFFSET + LENGTH]
    for header in (
        sound[:HEADER].replace(
            varint(LENGTH - HEADER), varint(LENGTH - HEADER - 1)
        ),  # not a multiple of the block size
        sound[: HEADER - 4] + b"\x2c\x00\x00\x00",  # compressed
        sound[: HEADER - 8] + b"\x2c\x00\x00" + sound[HEADER - 5 : HEADER],  # another hash
        bytes(HEADER),
        b"\xff" * HEADER,
    ):
        assert len(header) == HEADER
        check(FILE[:OFFSET] + header + FILE[OFFSET + HEADER :], ps.ParsieveError)


def test_truncated_files_and_other_files_are_errors() -> None:
    for end in [*range(40), *range(40, len(FILE), 61)]:
        with pytest.raises(ps.ParsieveError):
            ps.open_filters(FILE[:end])
    for data in (b"", b"PAR1", bytes(100), b"PAR1" + bytes(8) + b"PAR1", FILE[:-8] + b"\xff\xff\xff\xffPAR1"):
        with pytest.raises(ps.ParsieveError):
            ps.open_filters(data)


def test_the_error_for_a_damaged_page_names_its_place(tmp_path: Path) -> None:
    path = tmp_path / "orders.parquet"
    pq.write_table(pa.table({"id": [f"key {key}" for key in KEYS]}), path, compression="zstd", row_group_size=500)
    chunk = pq.read_metadata(path).row_group(1).column(0)
    data = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset
    data[start + 30 : start + 90] = b"\xff" * 60
    path.write_bytes(data)
    with pytest.raises(ps.FormatError, match=rf"^{path}, column id, row group 1: a compressed page is damaged"):
        ps.add_filters(path, columns="id")


def test_a_change_of_any_footer_byte_gives_an_answer_or_an_error() -> None:
    for at in range(FOOTER, len(FILE)):
        for flip in (0x01, 0x10, 0x80, 0xFF):
            file = bytearray(FILE)
            file[at] ^= flip
            try:
                filters = ps.open_filters(file)
                for place in filters.ranges():
                    filters.filter(place.row_group, place.column)
                for column in filters.columns:
                    answer = filters.might_contain({column: 1500})
                    assert len(answer) == filters.num_row_groups
            except ps.ParsieveError:
                continue


def test_filters_of_booleans_are_never_used() -> None:
    """Some writers create them, but no specification defines their bits. The test sets that type in the footer."""
    at = FILE.index(b"\x15\x04\x25\x02\x18\x02id", FOOTER)
    file = bytearray(FILE)
    file[at + 1] = 0  # the leaf
    chunk = FILE.index(b"\x15\x04\x19", at + 8)
    file[chunk + 1] = 0  # and its chunk
    filters = ps.open_filters(file)
    assert filters.column_type("id") is None
    with pytest.raises(ps.UnsupportedError, match="cannot have a Bloom filter"):
        filters.filter(0, "id")
    assert filters.might_contain({"id": [True, 5]}) == [True]

"""Files whose values take far more memory than their pages are read in parts."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve._core import RowSet
from parsieve.lake.rows import checked_files
from parsieve.reader import file, table

ROWS = 30_000
LIMIT = 1 << 18
TEXTS = pa.array([letter * 200 for letter in "abcdefghij"])


def rows_of(number: int) -> pa.Table:
    """Return rows whose texts compress to nearly nothing."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    numbers = pa.array([row % 10 for row in ids])
    return pa.table(
        {
            "id": ids,
            "text": TEXTS.take(numbers),
            "list": pa.array([[row] * (row % 3) if row % 7 else None for row in ids], pa.list_(pa.int64())),
        }
    )


# How files are written. In those without a page index, only flat columns can be divided below row groups.
LAYOUTS: dict[str, dict[str, Any]] = {
    "page index": {"write_page_index": True, "use_dictionary": False},
    "dictionary": {"write_page_index": True},
    "no page index": {"use_dictionary": False},
    "version 2 pages": {"use_dictionary": False, "data_page_version": "2.0"},
    "row groups": {"use_dictionary": False, "row_group_size": 2_000},
}


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the bytes of the rows that are returned together, with a small limit."""
    monkeypatch.setattr(file, "PART_MEMORY", LIMIT)
    read_file, found = file.read_file, []

    def measured(*arguments: Any) -> Any:
        result = read_file(*arguments)
        if isinstance(result, list):
            found.append(sum(batch.nbytes for batch in result))
        return result

    monkeypatch.setattr(table, "read_file", measured)
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("columns", [["id", "text"], ["text"], ["id", "text", "list"]])
def test_parts_take_little_memory(tmp_path: Path, sizes: list[int], layout: str, columns: list[str]) -> None:
    for number in range(2):
        options = {"data_page_size": 16_384, "write_batch_size": 64, "compression": "zstd"} | LAYOUTS[layout]
        pq.write_table(rows_of(number), tmp_path / f"{number}.parquet", **options)
        assert (tmp_path / f"{number}.parquet").stat().st_size < 500_000
    plan = opened(tmp_path).plan("id >= 100 AND id <> 45000")
    expected = pa.concat_tables(map(rows_of, range(2))).select(columns).slice(100)
    expected = pa.concat_tables([expected.slice(0, 44_900), expected.slice(44_901)])
    for threads in (1, 3):
        sizes.clear()
        assert pa.Table.from_batches(plan.to_batches(columns, threads=threads)).equals(expected)
        if "list" not in columns or layout in ("page index", "row groups"):
            # Row groups of less than two parts are not divided.
            assert max(sizes) < 2.1 * LIMIT
    assert plan.to_arrow(columns).equals(expected)


def test_a_wrong_size_only_makes_more_parts(tmp_path: Path, sizes: list[int]) -> None:
    """The footer states that the pages have two mebibytes before compression."""
    chance = random.Random(1)
    texts = pa.array([chance.randbytes(8).hex() for _ in range(2_000)])
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"text": texts}), path, use_dictionary=False, compression="none", write_statistics=False)
    size = zigzag(pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size)
    stated = zigzag((1 << 20) - 1)
    assert len(size) == len(stated)
    # The fields for the sizes before and after compression follow each other, and both are 64-bit integers.
    before, after = path.read_bytes().rsplit(b"\x16" + size + b"\x16" + size, 1)
    path.write_bytes(before + b"\x16" + stated + b"\x16" + size + after)
    assert pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size == (1 << 20) - 1
    assert pa.Table.from_batches(opened(tmp_path).plan("text >= ''").to_batches())["text"].combine_chunks() == texts


def opened(folder: Path) -> ps.Table:
    """Open a table whose files are old enough to have tokens, which prove that they did not change."""
    table = ps.open_table(folder)
    lake = table.opened.lake
    assert not lake.settled(lake.snapshot()).unsettled
    return table


def zigzag(number: int) -> bytes:
    """Return a number as Thrift's compact protocol writes it."""
    number, encoded = number * 2, b""
    while number > 127:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])


def test_pieces_hold_each_row_once() -> None:
    rows = RowSet.of([(0, 10), (20, 1), (30, 100)])
    for number in (1, 2, 3, 7, 111):
        pieces = list(file._divided(rows, number))
        assert len(pieces) <= number
        assert [pair for piece in pieces for pair in positions(piece.ranges)] == positions(rows.ranges)
        assert max(piece.num_rows for piece in pieces) <= -(-111 // number)


def positions(ranges: list[tuple[int, int]]) -> list[int]:
    """Return the rows of ranges."""
    return [row for first, count in ranges for row in range(first, first + count)]


def test_rows_of_a_small_file_are_held_back_only_while_they_take_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyarrow reads the rows of a plan without a condition."""
    path = tmp_path / "0.parquet"
    pq.write_table(rows_of(0), path, row_group_size=1_000, compression="zstd")
    for limit, is_held in ((1 << 30, True), (LIMIT, False)):
        monkeypatch.setattr(checked_files, "HELD_MEMORY", limit)
        batches = opened(tmp_path).plan("1 = 1").to_batches()
        rows = next(batches).num_rows
        with path.open("r+b") as changed:
            changed.seek(1_000)
            changed.write(changed.read(1))
            os.utime(path, ns=(1, path.stat().st_mtime_ns + 1_000_000_000))
        if is_held:
            assert rows + sum(batch.num_rows for batch in batches) == ROWS
        else:
            with pytest.raises(ps.ConflictError, match="was changed since the plan"):
                list(batches)

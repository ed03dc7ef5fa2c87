"""Pages of lists whose records continue on the next page, or are fewer than in the footer."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support import hand_pages as hand
from support.hand_pages import HandPage, rows_of, write_lists
from support.rows.core_reads import open_rows, read_rows

import parsieve as ps
from parsieve._core import FormatError, RowSet

ROWS = 600


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("per_page", [8, 100])
def test_records_that_continue_on_the_next_page(tmp_path: Path, version: int, per_page: int) -> None:
    path = tmp_path / "0.parquet"
    table = write_lists(path, [[row * 10 + item for item in range(7)] for row in range(ROWS)])
    pages = hand.pages_of_lists(table["list"].to_pylist(), per_page, version=version)
    hand.replace_chunk(path, 1, pages, offset_index=True)
    assert pq.read_table(path).equals(table)
    data, lists = path.read_bytes(), table["list"].to_pylist()
    for row in range(ROWS):
        assert rows_of(data, 1, [(row, 1)]) == [lists[row]]
    for first in range(0, ROWS - 40, 13):
        assert rows_of(data, 1, [(first, 2), (first + 29, 1)]) == [*lists[first : first + 2], lists[first + 29]]
    for row in range(0, ROWS, 37):
        assert ps.open_table(tmp_path).lookup("id", [row]).table["list"].to_pylist() == [lists[row]]


def test_a_last_record_that_ends_with_its_page_costs_one_more_page(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    table = write_lists(path, [[row] * 10 for row in range(ROWS)])
    pages = hand.pages_of_lists(table["list"].to_pylist(), 1_000)
    hand.replace_chunk(path, 1, pages, offset_index=True)
    data = path.read_bytes()
    for row, count in [(150, 1), (199, 2), (200, 1), (599, 1)]:
        values, fetched = read_rows(data, open_rows(data), [1], RowSet.of([(row, 1)]), 10)
        assert values.column(0).to_pylist() == [[row] * 10]
        assert fetched == sum(len(page.data) for page in pages[row // 100 : row // 100 + count])


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("merged", [100, ROWS - 2])
def test_a_chunk_with_fewer_rows_than_its_row_group(tmp_path: Path, version: int, merged: int) -> None:
    path = tmp_path / "0.parquet"
    lists = [[row, row] for row in range(2 * ROWS)]
    write_lists(path, lists, row_group_size=ROWS)
    # The same number of values in one row less.
    fewer = [*lists[:merged], lists[merged] + lists[merged + 1], *lists[merged + 2 : ROWS]]
    hand.replace_chunk(path, 1, hand.pages_of_lists(fewer, 500, version=version))
    data = path.read_bytes()
    for ranges in [[(0, 1)], [(ROWS - 1, 1)], [(10, 1), (ROWS + 10, 1)], [(0, 2 * ROWS)]]:
        with pytest.raises(FormatError, match="number of rows"):
            rows_of(data, 1, ranges)
    # The other row group is intact.
    assert rows_of(data, 1, [(ROWS + 10, 2)]) == lists[ROWS + 10 : ROWS + 12]


def test_a_chunk_that_begins_within_a_record(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    lists = [[row, row] for row in range(ROWS)]
    write_lists(path, lists)
    reps = [1, *[0, 1] * (ROWS - 1), 0]
    values = struct.pack(f"<{2 * ROWS}i", *range(2 * ROWS))
    page = hand.data_page(hand.packed_levels(reps), hand.run_of(3, 2 * ROWS), values, 2 * ROWS)
    hand.replace_chunk(path, 1, [HandPage(page, 0)])
    with pytest.raises(FormatError, match="begin a record"):
        rows_of(path.read_bytes(), 1, [(5, 1)])

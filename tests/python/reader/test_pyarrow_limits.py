"""pyarrow reads files that the reader of pages refuses, also where pyarrow itself needs help."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support import footer_edit
from support import hand_pages as hand
from support.aging import wait_until_old
from support.hand_pages import HandPage

import parsieve as ps


def test_timestamps_of_12_bytes_next_to_a_dictionary(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": range(100),
            "at": pa.array(range(100), pa.timestamp("us")),
            "name": pa.array([f"name {n % 7}" for n in range(100)]).dictionary_encode(),
        }
    )
    path = tmp_path / "0.parquet"
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True, row_group_size=30)
    found = ps.open_table(tmp_path).plan("id >= 25 AND id < 65").to_arrow()
    assert found["id"].to_pylist() == list(range(25, 65))
    assert found["name"].to_pylist() == [f"name {n % 7}" for n in range(25, 65)]


def test_a_dataset_for_bytes_that_are_not_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"b": [b"\x8d1", b"a"], "n": [1, 2]}), tmp_path / "0.parquet")
    plan = ps.open_table(tmp_path).plan(pc.starts_with(pc.field("b"), b"\x8d"))
    assert plan.to_dataset().to_table(columns=["n"])["n"].to_pylist() == [1]
    assert plan.to_arrow()["n"].to_pylist() == [1]


def test_a_row_group_that_begins_with_a_page_without_values(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False)])
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"id": range(100)}, schema=schema), path, row_group_size=50, **hand.PLAIN_FILE)
    empty = hand.data_page(None, None, b"", 0)
    values = hand.data_page(None, None, struct.pack("<50i", *range(50, 100)), 50)
    hand.replace_chunk(path, 0, [HandPage(empty, 0), HandPage(values, 0)], row_group=1)
    assert pq.read_table(path).num_rows == 50, "pyarrow loses the rows of the second row group without an error"
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    assert table.plan("id = 70").to_arrow().to_pylist() == [{"id": 70}]
    # pyarrow reads these rows.
    for condition, columns in ((None, ["id"]), ("id = 70", [])):
        with pytest.raises(ps.UnsupportedError, match="reads only 50 of 100 rows"):
            table.plan(condition).to_arrow(columns)
    for kind, unit in itertools.product(("sieve", "bloom"), ("file", "row_group")):
        with pytest.raises(ps.UnsupportedError, match="reads only 50 of 100 rows"):
            table.build_index(["id"], kind=kind, unit=unit, progress=False)
    assert table.plan("id = 70").to_arrow().to_pylist() == [{"id": 70}]


def write_packed_definitions(path: Path) -> list[int | None]:
    """Write a column whose definition levels begin with the highest bit. Return its values."""
    rows = [row if row % 4 == 1 else None for row in range(100)]
    pq.write_table(pa.table({"x": pa.array(rows, pa.int32())}), path, **hand.PLAIN_FILE)
    values = [row for row in rows if row is not None]
    levels = hand.highest_bits([int(row is not None) for row in rows])
    data = struct.pack(f"<{len(values)}i", *values)
    page = hand.data_page(None, levels, data, len(rows), def_encoding=hand.BIT_PACKED)
    hand.replace_chunk(path, 0, [HandPage(page, 0)])
    list_encodings(path, 0, [hand.PLAIN, hand.BIT_PACKED])
    return rows


def write_packed_repetitions(path: Path) -> list[list[int]]:
    """Write lists whose repetition levels begin with the highest bit. Return the lists."""
    lists = [[row] * (1 + row % 3) for row in range(100)]
    hand.write_lists(path, lists)
    values = [value for row in lists for value in row]
    levels = hand.highest_bits([int(item > 0) for row in lists for item in range(len(row))])
    data = struct.pack(f"<{len(values)}i", *values)
    count = len(values)
    page = hand.data_page(levels, hand.run_of(3, count), data, count, rep_encoding=hand.BIT_PACKED)
    hand.replace_chunk(path, 1, [HandPage(page, 0)])
    list_encodings(path, 1, [hand.PLAIN, hand.RLE, hand.BIT_PACKED])
    return lists


def list_encodings(path: Path, column: int, encodings: list[int]) -> None:
    def edit(metadata: footer_edit.Struct) -> None:
        [group] = metadata[footer_edit.ROW_GROUPS][1][1]
        chunk = group[footer_edit.COLUMNS][1][1][column][footer_edit.META_DATA][1]
        chunk[hand.ENCODINGS] = (footer_edit.LIST, (footer_edit.I32, encodings))

    footer_edit.edit(path, edit)


@pytest.mark.parametrize(
    ("write", "column", "key"),
    [(write_packed_definitions, "x", "x"), (write_packed_repetitions, "list", "list.element")],
)
def test_levels_that_begin_with_the_highest_bit(
    tmp_path: Path, write: Callable[[Path], list[Any]], column: str, key: str
) -> None:
    rows = write(tmp_path / "0.parquet")
    assert pq.read_table(tmp_path)[column].to_pylist() != rows, "pyarrow expects the lowest bit first"
    pq.write_table(pa.table({"x": [7], "list": [[7]]}), tmp_path / "1.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path / "0.parquet")
    assert table.plan(f"{column} IS NOT NULL").to_arrow()[column].to_pylist() == [
        row for row in rows if row is not None
    ]
    both = ps.open_table(tmp_path)
    for kind in ("sieve", "bloom"):
        report = both.build_index(key, kind=kind, progress=False)
        [left_out] = report.left_out
        assert left_out.path.endswith("0.parquet")
        assert f"column {column}" in left_out.reason
        assert "levels in the deprecated encoding BIT_PACKED" in left_out.reason
    with pytest.raises(ps.UnsupportedError, match=f"column {column}.*: pyarrow cannot read levels"):
        table.plan().to_arrow()

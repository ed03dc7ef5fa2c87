"""pyarrow reads files that the reader of pages refuses, also where pyarrow itself needs help."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
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

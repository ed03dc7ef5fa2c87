"""pyarrow reads files that the reader of pages refuses, also where pyarrow itself needs help."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

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

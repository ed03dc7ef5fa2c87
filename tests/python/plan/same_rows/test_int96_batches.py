"""INT96 timestamps are read in two units. Both reads must have the same batches."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import parsieve as ps


def test_int96_next_to_a_dictionary_is_read_in_several_row_groups(tmp_path: Path) -> None:
    """pyarrow ends batches with row groups only if it also reads a column with dictionaries."""
    table = pa.table(
        {
            "id": range(5),
            "at": pa.array([0, 1, None, 3, 4], pa.timestamp("ns")),
            "name": pa.array(["a", "b", None, "a", "b"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "0.parquet", use_deprecated_int96_timestamps=True, row_group_size=2)
    rows = ps.open_table(str(tmp_path)).plan("id > 0").to_arrow()
    assert rows["at"].cast(pa.int64()).to_pylist() == [1, None, 3, 4]
    assert rows["id"].to_pylist() == [1, 2, 3, 4]

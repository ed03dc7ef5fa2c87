"""Files in which several columns have the same name: the other columns can be read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps


def test_columns_with_the_same_name_are_rejected_when_they_are_read(tmp_path: Path) -> None:
    columns = [pa.array([1, 2]), pa.array([3, 4]), pa.array([5, 6])]
    pq.write_table(pa.table(columns, names=["a", "a", "z"]), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    for where in (None, "z = 5", "a = 1", "a = 3"):
        plan = table.plan(where)
        assert len(plan.files) == 1
        for read in (plan.to_arrow, plan.to_polars, plan.to_duckdb, lambda plan=plan: plan.to_arrow(["a"])):
            with pytest.raises(ps.UnsupportedError, match=r"2 columns named 'a'|'a': the file has 'a', 'a', 'z'"):
                read()
    with pytest.raises(ps.UnsupportedError, match="2 columns named 'a'"):
        ps.scan_polars(table)
    with pytest.raises(ps.UnsupportedError, match="2 columns named 'a'"):
        table.lookup("z", [5])
    with pytest.raises(ps.UnsupportedError, match="2 columns named 'a'"):
        table.plan("z > 0", order_by="z", limit=1).to_arrow()
    assert table.plan("z = 5").to_arrow(["z"])["z"].to_pylist() == [5]
    assert table.lookup("z", [5], columns=["z"]).table["z"].to_pylist() == [5]

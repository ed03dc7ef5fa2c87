"""Rows of Delta tables that are read by pages: values that come from the log, and tables that are made again."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import parsieve as ps


def test_a_partition_value_that_engines_disagree_about(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1, 2, 3], "kind": ["", "a", "b"]}), partition_by=["kind"])
    table = ps.open_table(tmp_path)
    # A null in place of the value would lose the row of `kind = ''`, and find one for `kind IS NULL`.
    for where in ("kind = ''", "kind IS NULL", "id = 1", "id = 1 AND kind <> 'a'", "kind <> 'a' OR id = 1"):
        plan = table.plan(where)
        assert any("kind=/" in path for path in plan.files), where
        for threads in (1, 2):
            with pytest.raises(ps.UnsupportedError, match="kind is an empty string, which Spark reads as null"):
                plan.to_arrow(threads=threads)
        with pytest.raises(ps.UnsupportedError, match="kind is an empty string"):
            list(plan.to_batches())
        with pytest.raises(ps.UnsupportedError, match="kind is an empty string"):
            table.opened.lake.read(plan.record.snapshot, plan.record.slices()).read_all()
    assert table.plan("id < 3").to_arrow(columns=["id"]).sort_by("id")["id"].to_pylist() == [1, 2]
    assert table.plan("id = 2").to_arrow().to_pylist() == [{"id": 2, "kind": "a"}]


def replace_by(path: Path, rows: pa.Table) -> None:
    """Replace a file by one of the same size, with a row group for each row."""
    size, buffer = path.stat().st_size, io.BytesIO()
    pq.write_table(rows, buffer, row_group_size=1)
    written = buffer.getvalue()
    footer = int.from_bytes(written[-8:-4], "little") + 8
    # Nothing refers to the bytes before the footer.
    other = path.with_name("other")
    other.write_bytes(written[:-footer] + bytes(size - len(written)) + written[-footer:])
    other.replace(path)
    assert path.stat().st_size == size


def test_a_table_that_is_made_again_in_its_folder(tmp_path: Path) -> None:
    """A file may even have the name and the size of an earlier one, and the same first row group."""
    write_deltalake(tmp_path, pa.table({"id": range(5_000), "text": ["x" * (n % 50) for n in range(5_000)]}))
    [path] = tmp_path.glob("*.parquet")
    table = ps.open_table(tmp_path)
    rows = pa.table({"id": [4_321, 4_321, 4_321], "text": ["a", "b", "c"]})
    for number in (1, 3, 2):
        replace_by(path, rows.slice(0, number))
        plan = table.plan("id = 4321", row_groups=False)
        assert plan.to_arrow()["text"].to_pylist() == ["a", "b", "c"][:number]

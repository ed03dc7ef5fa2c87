"""Files that are replaced during planning: a plan never combines evidence of two versions of a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import obstore.store
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.io.ranges import open_footer
from parsieve.lake.storage.storage import Storage
from parsieve.plan.evidence import footers
from parsieve.plan.evidence.footers import REPLACED
from parsieve.plan.make import PlanOptions
from parsieve.predicate.bind import bind

SCHEMA = pa.schema({"x": pa.int64(), "y": pa.int64()})


def write(path: Path, *groups: dict[str, list[int]]) -> None:
    """Replace a file by rename. The new file has a Bloom filter of x."""
    part = path.with_name(f".{path.name}.part")
    with pq.ParquetWriter(part, SCHEMA) as writer:
        for group in groups:
            writer.write_table(pa.table(group, schema=SCHEMA))
    ps.add_filters(part, columns="x")
    part.replace(path)


def wait_for_token(path: Path) -> None:
    """Wait until the file has a token."""
    while not Storage(str(path.parent)).stat(str(path)):
        time.sleep(0.01)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "t"
    folder.mkdir()
    return folder / "a.parquet"


def test_footers_and_filters_of_different_versions_are_not_combined(file: Path) -> None:
    write(file, {"x": [1, 3], "y": [0, 0]}, {"x": [5, 7, 9], "y": [0, 0, 0]})
    wait_for_token(file)
    table = ps.open_table(file.parent)
    assert table.plan("x = 7").files == [str(file)]
    listed = table.opened.snapshot()
    # The old footer excludes the first row group, and the new filters exclude the second.
    write(file, {"x": [5, 7, 9], "y": [0, 0, 0]}, {"x": [1, 3, 8, 20], "y": [0, 0, 0, 0]})
    plan = table.opened.plan(bind("x = 7", listed.schema), listed)
    assert plan.files == [str(file)]
    assert plan.to_arrow()["x"].to_pylist() == [7]


def test_the_index_and_footers_of_different_versions_are_not_combined(file: Path) -> None:
    write(file, {"x": [7, 9], "y": [0, 9]})
    wait_for_token(file)
    table = ps.open_table(file.parent)
    table.build_index(["x", "y"], "sieve")
    listed = table.opened.snapshot()
    # The old version matches by x, and the new one by y.
    write(file, {"x": [8, 9], "y": [5, 9]})
    plan = table.opened.plan(bind("x = 7 OR y = 5", listed.schema), listed, PlanOptions(True))
    assert plan.files == [str(file)]
    assert plan.kept[0].doubt == (REPLACED,)
    assert plan.to_arrow()["y"].to_pylist() == [5]
    assert table.plan("x = 7 OR y = 5", row_groups=True).kept[0].doubt != (REPLACED,)


def test_a_file_that_is_overwritten_before_its_footer_is_read_is_kept(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, {"x": [8, 9], "y": [5, 9]})
    new = file.read_bytes()
    write(file, {"x": [7, 9], "y": [0, 9]})
    # Otherwise the reader, which knows the old size, would not find the new footer.
    assert len(new) == file.stat().st_size
    wait_for_token(file)
    table = ps.open_table(file.parent)
    table.build_index(["x", "y"], "bloom")
    original = open_footer

    def overwrite_and_open(*arguments: Any) -> Any:
        file.write_bytes(new)
        return original(*arguments)

    monkeypatch.setattr(footers, "open_footer", overwrite_and_open)
    # The old version matches by x, and the new one by y.
    plan = table.plan("x = 7 OR y = 5", row_groups=True)
    assert plan.files == [str(file)]
    assert plan.kept[0].doubt == (REPLACED,)
    assert plan.to_arrow()["y"].to_pylist() == [5]


def test_a_replacement_between_footer_and_filters_is_noticed_without_a_token(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, {"x": [1, 3], "y": [0, 0]}, {"x": [5, 7, 9], "y": [0, 0, 0]})
    table = ps.open_table(file.parent)
    original = type(table.opened.lake).open_base
    opened = 0

    def open_base(self: Any, data_slice: Any) -> Any:
        nonlocal opened
        opened += 1
        if opened == 2:
            write(file, {"x": [5, 7, 9], "y": [0, 0, 0]}, {"x": [1, 3, 8, 20], "y": [0, 0, 0, 0]})
        return original(self, data_slice)

    monkeypatch.setattr(type(table.opened.lake), "open_base", open_base)
    plan = table.plan("x = 7")
    assert opened == 2
    assert plan.files == [str(file)]
    assert plan.to_arrow()["x"].to_pylist() == [7]


def test_replaced_objects_of_stores_are_noticed(file: Path) -> None:
    write(file, {"x": [1, 3], "y": [0, 0]}, {"x": [5, 9], "y": [0, 0]})
    store = obstore.store.MemoryStore()
    store.put("t/a.parquet", file.read_bytes())
    table = ps.open_table((store, "t"))
    assert table.opened.snapshot().slices[0].token
    for _ in range(2):
        plan = table.plan("x = 7")
        assert plan.files == []
        assert "Bloom filters" in plan.skipped[0].evidence
    listed = table.opened.snapshot()
    store.put("t/a.parquet", file.read_bytes() + b"")
    assert table.opened.plan(bind("x = 8 OR y = 3", listed.schema), listed, PlanOptions(True)).kept[0].doubt == (
        REPLACED,
    )

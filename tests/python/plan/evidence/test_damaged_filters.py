"""Bloom filters inside files that cannot be used: the plan keeps their row groups and says why."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

PRESENT, ABSENT = 1_001, 1_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return two files with filters. Their min/max statistics exclude nothing, and all values are odd."""
    path = tmp_path / "sales"
    path.mkdir()
    for part in range(2):
        ids = random.Random(part).sample(range(1, 100_001, 2), 4_000)
        ids[0], ids[2_000] = 1, 1
        ids[1], ids[2_001] = 99_999, 99_999
        ids[2] = PRESENT
        pq.write_table(pa.table({"id": ids, "code": ids}), path / f"{part}.parquet", row_group_size=2_000)
    ps.add_filters(path / "0.parquet", columns=["id", "code"], fpp=1e-6)
    ps.add_filters(path / "1.parquet", columns=["id", "code"], fpp=1e-6)
    return path


def damage(file: Path, column: str, row_group: int) -> None:
    """Overwrite the header of one filter."""
    [offset] = [
        filter.offset
        for filter in ps.open_filters(file).ranges()
        if (filter.column, filter.row_group) == (column, row_group)
    ]
    with file.open("r+b") as stream:
        stream.seek(offset)
        stream.write(b"\xff" * 8)


def test_a_damaged_filter_is_a_doubt(folder: Path) -> None:
    damage(folder / "0.parquet", "id", 0)
    plan = ps.open_table(str(folder)).plan(f"id = {ABSENT}")
    [keep] = plan.kept
    assert Path(keep.path).name == "0.parquet"
    [doubt] = keep.doubt
    assert doubt.startswith("its Bloom filter of id cannot be used: ")
    assert doubt in plan.explain()
    assert list(plan.row_groups.values()) == [[0]]
    assert plan.to_arrow().num_rows == 0


def test_a_damaged_filter_of_a_skipped_row_group_is_no_doubt(folder: Path) -> None:
    damage(folder / "0.parquet", "id", 1)
    plan = ps.open_table(str(folder)).plan(f"id = {ABSENT} AND code = {ABSENT}")
    assert not plan.files
    plan = ps.open_table(str(folder)).plan(f"code = {PRESENT}")
    assert not any(keep.doubt for keep in plan.kept)


def test_a_damaged_filter_of_one_column_leaves_the_other_ones(folder: Path) -> None:
    for row_group in range(2):
        damage(folder / "0.parquet", "id", row_group)
    table = ps.open_table(str(folder))
    assert not table.plan(f"id = {PRESENT} AND code = {ABSENT}").files
    plan = table.plan(f"id = {PRESENT}")
    assert plan.to_arrow().num_rows == 2
    assert {Path(keep.path).name: len(keep.doubt) for keep in plan.kept} == {"0.parquet": 1, "1.parquet": 0}


def test_a_damaged_filter_is_no_doubt_if_another_condition_keeps_the_file(folder: Path) -> None:
    for row_group in range(2):
        damage(folder / "0.parquet", "id", row_group)
    table = ps.open_table(str(folder))
    # Min/max exclude the first condition, and the filter of the other column answers the second one.
    plan = table.plan(f"id = 200000 OR code = {PRESENT}")
    assert len(plan.files) == 2
    assert {keep.doubt for keep in plan.kept} == {()}
    damage(folder / "0.parquet", "code", 0)
    plan = table.plan(f"id = {ABSENT} OR code = {ABSENT}")
    assert [sum("cannot be used" in doubt for doubt in keep.doubt) for keep in plan.kept] == [2]


def test_explain_lists_few_of_many_reasons(tmp_path: Path) -> None:
    """The reasons contain positions, so they differ from file to file."""
    for part in range(8):
        ids = [*range(1, 200 * (part + 1), 2), 99_999]
        pq.write_table(pa.table({"id": ids}), tmp_path / f"{part}.parquet")
        ps.add_filters(tmp_path / f"{part}.parquet", columns=["id"])
        damage(tmp_path / f"{part}.parquet", "id", 0)
    plan = ps.open_table(str(tmp_path)).plan("id = 50")
    assert len({keep.doubt for keep in plan.kept}) == 8
    lines = plan.explain().splitlines()
    assert "in doubt, so kept: 8 files" in lines
    assert sum("cannot be used" in line for line in lines) == 5
    assert "  … and 3 more reasons" in lines
    assert "… and 3 more" in plan._repr_html_()  # type: ignore[operator]

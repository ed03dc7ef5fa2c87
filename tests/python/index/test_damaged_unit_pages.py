"""Unit pages in a separate file: damage keeps the slices of the page, is reported, and never loses a slice."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old
from support.models.model_lake import ModelLake, place
from support.places import index_of

import parsieve as ps
from parsieve.index import TableIndex
from parsieve.index.sieve import query
from parsieve.lake.base import Snapshot

SCHEMA = pa.schema([("s", pa.string()), ("t", pa.string())])
# The unit pages of this many files do not fit into the root.
FILES = 4_000


def key(number: int) -> str:
    return random.Random(number).randbytes(20).hex()


@pytest.fixture(scope="module")
def table() -> tuple[ModelLake, Snapshot]:
    lake = ModelLake(SCHEMA)
    tables = {
        place(f"f{number:04}"): pa.table(
            {"s": [key(number)], "t": [key(number) if number % 5 else None]}, schema=SCHEMA
        )
        for number in range(FILES)
    }
    return lake, lake.change(tables)


def kept(folder: Path, snapshot: Snapshot, column: str, lookup: query.Query) -> set[int]:
    view = TableIndex(folder).newest()
    assert view is not None
    mask = view.may_match(column, lookup, snapshot.slices).to_pylist()
    return {number for number, keep in enumerate(mask) if keep}


def pages_of(folder: Path, column: str) -> Path:
    view = TableIndex(folder).newest()
    assert view is not None
    [part] = [part for part in view.columns[column,].base.files if part.name.endswith(".pages")]
    return folder / part.name


def test_damaged_unit_pages_keep_slices_and_are_reported(table: tuple[ModelLake, Snapshot], tmp_path: Path) -> None:
    lake, snapshot = table
    TableIndex(tmp_path).build(lake, snapshot, ["s", "t"], progress=False)
    point, null = query.equals(pa.scalar(key(1234))), query.is_null()
    with_null = {number for number in range(FILES) if number % 5 == 0}
    assert kept(tmp_path, snapshot, "s", point) == {1234}
    assert kept(tmp_path, snapshot, "s", null) == set()
    assert kept(tmp_path, snapshot, "t", null) == with_null
    pages, others = pages_of(tmp_path, "t"), pages_of(tmp_path, "s")
    intact = pages.read_bytes()
    r = random.Random(3)
    reported = 0
    for position in sorted(r.sample(range(len(intact)), 25)):
        pages.write_bytes(intact[:position] + bytes([intact[position] ^ 1 << r.randrange(8)]) + intact[position + 1 :])
        assert kept(tmp_path, snapshot, "t", null) >= with_null
        problems = TableIndex(tmp_path).verify()
        reported += bool(problems)
        assert all(pages.name in problem.part and not problem.loses_rows for problem in problems)
    assert reported == 25
    for wrong in (b"", intact[:-1], intact[: len(intact) // 2], others.read_bytes()):
        pages.write_bytes(wrong)
        assert kept(tmp_path, snapshot, "t", null) >= with_null
        assert TableIndex(tmp_path).verify() != []
    pages.unlink()
    assert kept(tmp_path, snapshot, "t", null) >= with_null
    [problem] = {problem.part for problem in TableIndex(tmp_path).verify()}
    assert pages.name in problem
    # The other column does not need this file.
    assert kept(tmp_path, snapshot, "s", point) == {1234}


def test_an_update_of_an_index_with_damaged_unit_pages_loses_nothing(
    table: tuple[ModelLake, Snapshot], tmp_path: Path
) -> None:
    lake, snapshot = table
    index = TableIndex(tmp_path)
    index.build(lake, snapshot, ["s"], progress=False)
    pages_of(tmp_path, "s").unlink()
    odd = pa.table({"s": [None], "t": [None]}, schema=SCHEMA)
    after = lake.change({place("f0007"): odd})
    index.update(lake, after, progress=False)
    lake.states.pop()
    lake.schemas.pop()
    groups = {piece.group for piece in after.slices}
    assert len(groups) == FILES
    mask = TableIndex(tmp_path).newest().may_match("s", query.is_null(), after.slices).to_pylist()  # type: ignore[union-attr]
    assert "f0007" in {piece.group for piece, keep in zip(after.slices, mask, strict=True) if keep}


def test_plans_that_find_damage_while_they_look_for_rows_report_it(tmp_path: Path) -> None:
    for part in range(20):
        ids = [random.Random(part * 1000 + number).randrange(1_000_000) for number in range(2000)]
        pq.write_table(pa.table({"id": ids}), tmp_path / f"{part}.parquet", row_group_size=4)
    wait_until_old(tmp_path)
    ps.open_table(str(tmp_path)).build_index("id", kind="sieve", unit="row_group", progress=False)
    pages = pages_of(index_of(tmp_path), "id")
    intact = pages.read_bytes()
    pages.write_bytes(bytes([intact[0] ^ 1]) + intact[1:])
    # Only the search for ranges of rows needs the units of all files.
    plan = ps.open_table(str(tmp_path)).plan("id >= 0", row_groups=False)
    assert len(plan.files) == 20
    [note] = plan.record.notes
    assert pages.name in note
    assert note in plan.explain()
    with pytest.raises(ps.StaleIndexError, match="is damaged"):
        ps.open_table(str(tmp_path)).plan("id >= 0", row_groups=False, stale="error")
    # The order of the files comes from the units of all files, too.
    plan = ps.open_table(str(tmp_path)).plan(order_by="id", limit=2, row_groups=False)
    [note] = plan.record.notes
    assert pages.name in note
    assert note in plan.explain()
    with pytest.raises(ps.StaleIndexError, match="is damaged"):
        ps.open_table(str(tmp_path)).plan(order_by="id", limit=2, row_groups=False, stale="error")


def test_damage_that_another_thread_finds_meanwhile_is_no_error(tmp_path: Path) -> None:
    class Growing(dict[str, str]):
        def items(self) -> Iterator[tuple[str, str]]:  # type: ignore[override]
            for pair in super().items():
                self["segment"] = "damaged"
                yield pair

    pq.write_table(pa.table({"id": [1]}), tmp_path / "0.parquet")
    wait_until_old(tmp_path)
    ps.open_table(str(tmp_path)).build_index("id", kind="sieve", progress=False)
    view = TableIndex(index_of(tmp_path)).newest()
    assert view is not None
    view.reader("id").doubts = Growing(root="damaged")
    assert view.doubts == {"root": "damaged"}

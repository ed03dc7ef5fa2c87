"""A damaged, missing or wrong map of pages: readers use the footers, and `verify_index` finds it.

Writers that compete or are killed leave a map that is right.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old
from support.killed_store import kills

import parsieve as ps
from parsieve.index import TableIndex, View
from parsieve.index.log import bindings
from parsieve.index.log.commit import Commit, MapState
from parsieve.index.log.log import Log
from parsieve.index.log.publish import Transaction
from parsieve.index.pages.build import read_map
from parsieve.io import document
from parsieve.io.store.base import Data
from parsieve.io.store.local import LocalStore
from parsieve.lake.base import Lake, Slice, Snapshot
from parsieve.lake.open import open_lake
from parsieve.lake.slices import Slices


def write(path: Path, first: int, rows: int = 1000) -> None:
    path.parent.mkdir(exist_ok=True)
    columns = {"id": range(first, first + rows), "text": [f"{number:x}" * 3 for number in range(rows)]}
    pq.write_table(pa.table(columns), path, row_group_size=300, data_page_size=400, write_page_index=True)


def make(folder: Path, files: int = 4) -> tuple[TableIndex, Lake]:
    """Write a table, and build an index with a map next to it."""
    for number in range(files):
        write(folder / f"{number}.parquet", number * 1000, 1000 + 100 * number)
    wait_until_old(folder)
    lake, index = open_lake(str(folder)), TableIndex(folder.parent / "index")
    index.build(lake, lake.snapshot(), ["id"], progress=False)
    index.map_pages(lake, lake.snapshot(), progress=False)
    return index, lake


def view_of(index: TableIndex) -> View:
    view = index.refresh()
    assert view is not None
    return view


def map_of(index: TableIndex) -> MapState:
    state = view_of(index).commit.pages
    assert state is not None
    return state


def mapped(index: TableIndex, lake: Lake, snapshot: Snapshot | None = None) -> dict[str, bool]:
    """Return which files of the table have a map, and assert that their maps are right."""
    view, slices = view_of(index), list((snapshot or lake.settled(lake.snapshot())).slices)
    assert view.pages is not None
    found = view.pages.read(slices)
    for file_slice, entry in zip(slices, found, strict=True):
        assert entry is None or entry.pages == read_map(lake, file_slice)
    return {file_slice.group: entry is not None for file_slice, entry in zip(slices, found, strict=True)}


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "flipped": lambda data: data[:-9] + bytes([data[-9] ^ 4]) + data[-8:],
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "gone": lambda data: None,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("which", ["map", "bindings"])
def test_a_damaged_map_is_not_used_and_the_next_build_repairs_it(tmp_path: Path, which: str, damage: str) -> None:
    index, lake = make(tmp_path / "t")
    [part] = [part for part in map_of(index).parts() if part.name.endswith(f".{which}")]
    path = tmp_path / "index" / part.name
    damaged = DAMAGES[damage](path.read_bytes())
    path.unlink()
    if damaged is not None:
        path.write_bytes(damaged)
    fresh = TableIndex(tmp_path / "index")
    assert not any(mapped(fresh, lake).values())
    [(name, reason)] = view_of(fresh).doubts.items()
    assert name == part.name
    assert reason == ("it is missing" if damage == "gone" else "its bytes have changed since it was written")
    problems = fresh.verify(lake, lake.snapshot())
    assert [(problem.part, problem.loses_rows) for problem in problems] == [(name, False)]
    table = ps.open_table(tmp_path / "t", index_location=tmp_path / "index")
    assert table.plan("id = 2050").to_arrow().num_rows == 2
    write(tmp_path / "t" / "new.parquet", 0)
    wait_until_old(tmp_path / "t")
    fresh.update(lake, lake.snapshot(), progress=False)
    # An update notices that bindings are damaged. The map itself is only read by readers and compactions.
    assert mapped(fresh, lake) == dict.fromkeys(mapped(fresh, lake), which == "bindings") | {"new.parquet": True}
    fresh.map_pages(lake, lake.snapshot(), progress=False)
    assert all(mapped(fresh, lake).values())
    assert fresh.verify(lake, lake.snapshot()) == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_compaction_leaves_damaged_maps_to_the_next_update(tmp_path: Path, damage: str) -> None:
    index, lake = make(tmp_path / "t")
    write(tmp_path / "t" / "new.parquet", 0)
    wait_until_old(tmp_path / "t")
    index.update(lake, lake.snapshot(), progress=False)
    path = tmp_path / "index" / map_of(index).files[0].directory.name
    damaged = DAMAGES[damage](path.read_bytes())
    path.unlink()
    if damaged is not None:
        path.write_bytes(damaged)
    index.compact(lake, lake.snapshot(), progress=False)
    assert mapped(index, lake) == dict.fromkeys(mapped(index, lake), False) | {"new.parquet": True}
    assert index.verify(lake, lake.snapshot()) == []
    index.update(lake, lake.snapshot(), progress=False)
    assert all(mapped(index, lake).values())


def test_versions_with_a_malformed_map_are_refused(tmp_path: Path) -> None:
    index, _ = make(tmp_path / "t", 2)
    commit = view_of(index).commit
    assert commit.pages is not None
    content = json.loads(zlib.decompress(commit.to_bytes().partition(b"\n")[2]))
    assert Commit.from_bytes(document.write("commit", content, version=2), "a version") == commit
    [row] = content["pages"]["files"]
    wrong: list[Any] = [[], "x", {}, {**content["pages"], "bindings": None}]
    wrong += [{**content["pages"], "files": rows} for rows in ([row[:-1]], [[-1, *row[1:]]], [[2**32, *row[1:]]], [7])]
    for pages in wrong:
        with pytest.raises(ps.FormatError):
            Commit.from_bytes(document.write("commit", {**content, "pages": pages}, version=2), "a version")
    without = Commit.from_bytes(document.write("commit", {**content, "pages": None}, version=2), "a version")
    assert without == replace(commit, pages=None)
    # The content of version 1 has no map, whatever a field of this name means.
    columns = [{name: value for name, value in column.items() if name != "format"} for column in content["columns"]]
    old = {**content, "columns": columns, "pages": "x"}
    assert Commit.from_bytes(document.write("commit", old), "a version").pages is None


def test_verify_finds_blocks_that_no_plan_has_read(tmp_path: Path) -> None:
    # The blocks of many files with many pages are in a separate file.
    index, lake = make(tmp_path / "t", 1)
    numbers = [number * 2654435761 % 2**31 for number in range(12_000)]
    columns = {"id": numbers, "text": [f"{number:x}" for number in numbers]}
    first = tmp_path / "t" / "many-0.parquet"
    pq.write_table(
        pa.table(columns), first, data_page_size=500, write_batch_size=64, use_dictionary=False, write_page_index=True
    )
    for number in range(1, 300):
        shutil.copy(first, first.with_name(f"many-{number}.parquet"))
    wait_until_old(tmp_path / "t")
    index.map_pages(lake, lake.snapshot(), progress=False)
    [part] = map_of(index).files
    assert part.blocks is not None
    assert index.verify() == []
    path = tmp_path / "index" / part.blocks.name
    intact = path.read_bytes()
    for at in range(0, len(intact), len(intact) // 12):
        path.write_bytes(intact[:at] + bytes([intact[at] ^ 16]) + intact[at + 1 :])
        [problem] = index.verify()
        assert (problem.part, problem.column, problem.loses_rows) == (part.blocks.name, (), False)
    path.write_bytes(intact[:-1])
    [problem] = index.verify()
    assert problem.part == part.blocks.name
    path.unlink()
    [problem] = index.verify()
    assert (problem.part, problem.problem) == (part.blocks.name, "it is missing")


def test_verify_finds_maps_of_other_files(tmp_path: Path) -> None:
    index, lake = make(tmp_path / "t")
    state, store = map_of(index), view_of(index).store
    bound = bindings.read(store, state.bindings)
    assert bound.ids is not None
    one, two, *_ = sorted(bound.ids)
    swapped = replace(bound, ids={**bound.ids, one: bound.ids[two], two: bound.ids[one]})
    chain = bindings.write(store, (), bindings.NOTHING, swapped)
    transaction = Transaction(Log(store), "swap")
    newest = transaction.begin()
    assert newest is not None
    assert transaction.commit(newest.table, pages=replace(state, bindings=chain)) is not None
    index.refresh()
    problems = index.verify(lake, lake.snapshot())
    assert [(problem.part, problem.loses_rows) for problem in problems] == [(one.group, True), (two.group, True)]
    assert {problem.problem for problem in problems} == {"the map of its pages differs from its footer"}


class Watched:
    """A table that records which files are opened. Opening the first one calls `meanwhile`."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._lock = threading.Lock()
        self.opened: list[str] = []
        self.meanwhile: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake, name)

    def open_listed(self, file_slice: Slice) -> Any:
        with self._lock:
            action, self.meanwhile = self.meanwhile, None
        if action is not None:
            action()
        self.opened.append(file_slice.group)
        return self._lake.open_listed(file_slice)


def test_a_writer_that_was_too_late_gives_other_ids_to_the_maps_that_it_has_read(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    index, lake = make(folder)
    write(folder / "mine.parquet", 5000)
    write(folder / "theirs.parquet", 6000)
    wait_until_old(folder)
    snapshot = lake.settled(lake.snapshot())

    def without(group: str) -> Snapshot:
        slices = [file_slice for file_slice in snapshot.slices if file_slice.group != group]
        return replace(snapshot, slices=Slices.of(slices))

    mine, theirs = TableIndex(tmp_path / "index"), TableIndex(tmp_path / "index")
    watched = Watched(lake)
    watched.meanwhile = lambda: theirs.update(lake, without("mine.parquet"), progress=False)
    mine.update(watched, without("theirs.parquet"), progress=False)  # type: ignore[arg-type]
    assert watched.opened.count("mine.parquet") == 1
    state = map_of(index)
    assert [(part.first_id, part.num_slices) for part in state.files] == [(0, 4), (4, 1), (5, 1)]
    assert mapped(index, lake) == dict.fromkeys(mapped(index, lake), True) | {"theirs.parquet": False}
    index.update(lake, snapshot, progress=False)
    assert all(mapped(index, lake).values())
    assert index.verify(lake, snapshot) == []


def test_two_writers_do_not_read_the_same_footers_twice_or_lose_columns(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    index, lake = make(folder)
    write(folder / "new.parquet", 5000)
    wait_until_old(folder)
    mine, theirs = TableIndex(tmp_path / "index"), TableIndex(tmp_path / "index")
    watched = Watched(lake)
    watched.meanwhile = lambda: theirs.build(lake, lake.snapshot(), ["text"], progress=False)
    mine.map_pages(watched, lake.snapshot(), progress=False)  # type: ignore[arg-type]
    assert sorted(watched.opened) == sorted(mapped(index, lake))
    assert set(view_of(index).columns) == {("id",), ("text",)}
    assert all(mapped(index, lake).values())
    # A build of the map while another writer drops the index.
    watched.meanwhile = theirs.drop
    with pytest.raises(ps.IndexNotFoundError, match="no index"):
        mine.map_pages(watched, lake.snapshot(), progress=False)  # type: ignore[arg-type]
    assert view_of(index).commit.pages is None


class Pausing(LocalStore):
    """A store that calls a function before and after it commits."""

    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None

    def put(self, name: str, data: Data) -> None:
        super().put(name, data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        self._call("before")
        written = super().put_if_absent(name, data)
        self._call("after")
        return written

    def _call(self, moment: str) -> None:
        action = getattr(self, moment)
        setattr(self, moment, None)
        if action is not None:
            action()


def test_a_map_whose_files_were_collected_is_withdrawn(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    index, lake = make(folder)
    index.map_pages(lake, lake.snapshot(), False, progress=False)
    store = Pausing(tmp_path / "index")
    # Remove the files of the new map just before the commit, and put another version on top of it.
    store.before = lambda: TableIndex(tmp_path / "index").expire(dt.timedelta(days=1), dt.timedelta(seconds=-5))
    store.after = lambda: TableIndex(tmp_path / "index").build(lake, lake.snapshot(), ["text"], progress=False)
    with pytest.raises(ps.ConflictError, match="another process expired files"):
        TableIndex(store).map_pages(lake, lake.snapshot(), progress=False)
    newest = view_of(index).commit
    assert newest.pages is None
    assert set(newest.columns) == {("id",), ("text",)}
    index.map_pages(lake, lake.snapshot(), progress=False)
    assert all(mapped(index, lake).values())


OPERATIONS: dict[str, Callable[[TableIndex, Lake], object]] = {
    "build": lambda index, lake: index.map_pages(lake, lake.snapshot(), progress=False),
    "update": lambda index, lake: index.update(lake, lake.snapshot(), progress=False, threads=1),
    "compact": lambda index, lake: index.compact(lake, lake.snapshot(), progress=False, threads=1),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_kill_at_any_write_leaves_a_map_that_is_right(tmp_path: Path, operation: str) -> None:
    folder = tmp_path / "t"
    index, lake = make(folder, 8)
    write(folder / "new.parquet", 5000)
    (folder / "3.parquet").unlink()
    wait_until_old(folder)
    if operation == "compact":
        index.update(lake, lake.snapshot(), progress=False, compaction=False)
    count = 0

    def copy() -> Path:
        nonlocal count
        count += 1
        shutil.copytree(tmp_path / "index", tmp_path / f"{count}")
        return tmp_path / f"{count}"

    moments = []
    for moment, killed in kills(copy, lambda index: OPERATIONS[operation](index, lake)):
        again = TableIndex(killed)
        mapped(again, lake)
        assert again.verify(lake, lake.snapshot()) == [], moment
        OPERATIONS[operation](again, lake)
        again.update(lake, lake.snapshot(), progress=False)
        assert all(mapped(again, lake).values())
        again.expire(0, garbage_age=dt.timedelta(seconds=-5))
        stored = {file.name for file in LocalStore(killed).list("pages")}
        assert stored == {part.name for files in map_of(again).files for part in files.parts()}, moment
        moments.append(moment)
        shutil.rmtree(killed)
    assert len(moments) >= 9

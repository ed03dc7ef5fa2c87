"""Indexes with a map of pages: versions refer to it, and builds, updates and compactions keep it in step."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from obstore.store import MemoryStore
from support.aging import wait_until_old
from support.encrypted_files import encrypted

import parsieve as ps
from parsieve.index import TableIndex, View
from parsieve.index.log import bindings
from parsieve.index.log.commit import Commit, MapState
from parsieve.index.log.folders import LOG, name_of
from parsieve.index.pages.build import read_map
from parsieve.index.pages.compact import MAX_PARTS
from parsieve.io.store.base import Store
from parsieve.lake.base import Slice, Snapshot
from parsieve.lake.folder.table import ParquetDir

Source = Any
Reads = list[str]


@pytest.fixture
def footers(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Return a list that records the files whose footers are read for a map."""
    groups: Reads = []
    original = ParquetDir.open_base

    def open_base(self: ParquetDir, file_slice: Slice) -> Source:
        groups.append(file_slice.group)
        return original(self, file_slice)

    monkeypatch.setattr(ParquetDir, "open_base", open_base)
    return groups


def write(path: Path, first: int, rows: int = 1000) -> None:
    path.parent.mkdir(exist_ok=True)
    columns = {"id": range(first, first + rows), "text": [f"{number:x}" * 3 for number in range(rows)]}
    pq.write_table(pa.table(columns), path, row_group_size=300, data_page_size=400, write_page_index=True)


def make(folder: Path, files: int = 4) -> ps.Table:
    for number in range(files):
        write(folder / f"{number}.parquet", number * 1000)
    wait_until_old(folder)
    return ps.open_table(folder, index_location=folder.parent / "index")


def view_of(table: ps.Table) -> View:
    view = table.opened.index.refresh()
    assert view is not None
    return view


def snapshot_of(table: ps.Table) -> Snapshot:
    return table.opened.lake.settled(table.opened.lake.snapshot())


def map_of(table: ps.Table) -> MapState:
    state = view_of(table).commit.pages
    assert state is not None
    return state


def mapped(table: ps.Table) -> dict[str, bool]:
    """Return which files of the table have a map, and assert that their maps are right."""
    view, slices = view_of(table), list(snapshot_of(table).slices)
    assert view.pages is not None
    found = view.pages.read(slices)
    for file_slice, entry in zip(slices, found, strict=True):
        assert entry is None or entry.pages == read_map(table.opened.lake, file_slice)
    return {file_slice.group: entry is not None for file_slice, entry in zip(slices, found, strict=True)}


def stored_map(table: ps.Table) -> list[bytes]:
    store = view_of(table).store
    return [store.get(part.name) for part in map_of(table).parts()]


def map_files(table: ps.Table) -> set[str]:
    return {file.name for file in view_of(table).store.list("pages")}


def test_an_index_keeps_its_map_until_a_build_drops_it(tmp_path: Path, footers: Reads) -> None:
    folder = tmp_path / "t"
    table = make(folder)
    assert table.build_index("id", kind="sieve").pages_bytes == 0
    assert view_of(table).pages is None
    report = table.build_index("id", kind="sieve", pages=True)
    assert all(mapped(table).values())
    assert report.pages_bytes == sum(len(data) for data in stored_map(table)) > 0
    assert f"{report.pages_bytes} bytes in the map of pages" in str(report)
    assert table.index_stats()["id"].pages_bytes == report.pages_bytes
    assert table.index_stats()["id"].stored_bytes == report.bytes_stored
    footers.clear()
    table.build_index("text", kind="bloom")
    assert footers == []
    assert all(mapped(table).values())
    footers.clear()
    write(folder / "1.parquet", 7000)
    write(folder / "new.parquet", 8000)
    (folder / "2.parquet").unlink()
    assert set(mapped(table)) == {"0.parquet", "1.parquet", "3.parquet", "new.parquet"}
    assert mapped(table) == {"0.parquet": True, "1.parquet": False, "3.parquet": True, "new.parquet": False}
    footers.clear()
    table.update_index()
    assert {"1.parquet", "new.parquet"} == set(footers), "only new and changed files are read"
    assert all(mapped(table).values())
    assert table.verify_index() == []
    state = map_of(table)
    table.update_index()
    assert map_of(table) == state, "nothing has changed"
    table.build_index("id", kind="sieve", pages=False)
    assert view_of(table).commit.pages is None
    table.update_index()
    assert view_of(table).commit.pages is None
    table.expire_index(older_than=0)
    assert map_files(table) == set()


def test_a_compacted_map_has_the_bytes_of_a_new_one(tmp_path: Path, footers: Reads) -> None:
    folder = tmp_path / "t"
    table = make(folder, 9)
    table.build_index("id", kind="sieve", pages=True)
    write(folder / "3.parquet", 99_000)
    write(folder / "a.parquet", 70_000)
    (folder / "5.parquet").unlink()
    wait_until_old(folder)
    table.update_index(compact=False)
    assert len(map_of(table).files) == 2
    footers.clear()
    report = table.compact_index()
    assert "the map of pages was stored again, as by a new build" in report.notes
    assert report.pages_bytes == sum(part.size for part in map_of(table).parts())
    assert "5.parquet" not in footers
    assert all(mapped(table).values())
    assert table.verify_index() == []
    other = ps.open_table(folder, index_location=tmp_path / "other")
    other.build_index("id", kind="sieve", pages=True)
    assert stored_map(table) == stored_map(other)
    state = map_of(table)
    table.compact_index()
    assert map_of(table) == state, "there is nothing to compact"
    table.compact_index(purge=True)
    assert stored_map(table) == stored_map(other)
    table.expire_index(older_than=0)
    assert len(map_files(table)) == 1


def test_many_updates_leave_few_parts(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    table = make(folder, 2)
    table.build_index("id", kind="sieve", pages=True)
    parts = set()
    for number in range(MAX_PARTS + 3):
        write(folder / f"new-{number:02}.parquet", number, 10)
        table.update_index()
        parts.add(len(map_of(table).files))
    assert max(parts) == MAX_PARTS
    assert all(mapped(table).values())
    # Ids of files that are gone are given up once they are too many.
    for number in range(4):
        write(folder / "0.parquet", number, 20)
        table.update_index()
        bound = bindings.read(view_of(table).store, map_of(table).bindings)
        assert bound.next_id * 0.75 <= len(bound.tokens)
        assert all(mapped(table).values())
    assert table.verify_index() == []


def test_versions_with_a_map_are_documents_of_version_2(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.build_index("id", kind="bloom")
    store = view_of(table).store
    assert store.get(name_of(view_of(table).version)).startswith(b"parsieve-index commit 1 ")
    table.build_index("id", kind="bloom", pages=True)
    commit = view_of(table).commit
    data = store.get(name_of(commit.version, LOG))
    assert data.startswith(b"parsieve-index commit 2 ")
    assert Commit.from_bytes(data, "a version") == commit
    assert {part.name for part in map_of(table).parts()} <= {part.name for part in commit.parts()}
    assert all(mapped(table).values())
    table.build_index("id", kind="bloom", pages=False)
    assert store.get(name_of(view_of(table).version, LOG)).startswith(b"parsieve-index commit 1 ")


def test_dropping_the_index_drops_the_map(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.build_index(["id", "text"], kind="sieve", pages=True)
    files = map_files(table)
    table.drop_index("id")
    assert all(mapped(table).values())
    table.drop_index("text")
    assert view_of(table).commit.pages is None
    assert files
    assert map_files(table) == set()
    table.build_index("id", kind="sieve", pages=True)
    table.drop_index()
    assert map_files(table) == set()


def in_memory(parts: int) -> tuple[MemoryStore, Callable[[str, int], None]]:
    memory = MemoryStore()

    def put(name: str, first: int) -> None:
        file = io.BytesIO()
        pq.write_table(pa.table({"id": range(first, first + 500)}), file, row_group_size=100, write_page_index=True)
        memory.put(f"t/{name}.parquet", file.getvalue())

    for number in range(parts):
        put(str(number), 500 * number)
    return memory, put


def test_indexes_of_tables_in_object_stores_have_a_map_by_default() -> None:
    memory, put = in_memory(3)
    table = ps.open_table((memory, "t"), index_location=(memory, "index"))
    table.build_index("id", kind="bloom")
    assert view_of(table).commit.pages is None, "parsieve 0.1 can read this index"
    table.build_index("id", kind="sieve")
    assert mapped(table) == {"0.parquet": True, "1.parquet": True, "2.parquet": True}
    put("1", 7)
    put("3", 9)
    table.update_index()
    assert all(mapped(table).values())
    assert table.verify_index() == []
    table.compact_index()
    assert len(map_of(table).files) == 1
    assert all(mapped(table).values())
    table.build_index("id", kind="sieve", pages=False)
    assert view_of(table).commit.pages is None
    table.update_index()
    assert view_of(table).commit.pages is None
    table.drop_index()
    assert not [file for batch in memory.list("index/pages") for file in batch]


def test_earlier_versions_of_the_table_are_mapped(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": range(100)}))
    table = ps.open_table(folder, index_location=tmp_path / "index")
    table.build_index("id", kind="sieve", pages=True)
    write_deltalake(folder, pa.table({"id": range(50)}), mode="overwrite")
    DeltaTable(folder).delete("id = 7")
    write_deltalake(folder, pa.table({"id": range(60, 90)}), mode="append")
    table = ps.open_table(folder, index_location=tmp_path / "index")
    table.update_index()
    table.compact_index()
    for version in (0, 3):
        snapshot = table.opened.lake.snapshot(version)
        view = table.opened.index.at(snapshot)
        assert view is not None
        assert view.pages is not None
        found = view.pages.read(list(snapshot.slices))
        assert found
        for file_slice, entry in zip(snapshot.slices, found, strict=True):
            assert entry is not None
            assert entry.pages == read_map(table.opened.lake, file_slice)


def test_files_with_new_filters_are_mapped_again(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    table = make(folder)
    table.build_index("id", kind="sieve", pages=True)
    ps.add_filters(folder / "2.parquet", columns=["id"])
    assert not mapped(table)["2.parquet"]
    wait_until_old(folder)
    assert table.update_index().files_read <= 1
    assert all(mapped(table).values())


def test_encrypted_files_have_no_map_and_the_report_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    table = make(folder, 2)
    encrypted(folder / "encrypted.parquet", plaintext_footer=True)
    wait_until_old(folder)
    report = table.build_index("id", kind="sieve", pages=True)
    assert mapped(table) == {"0.parquet": True, "1.parquet": True, "encrypted.parquet": False}
    [note] = [note for note in report.notes if "map of pages" in note]
    assert note.startswith("1 file has no map of pages, so readers use the footers: encrypted.parquet: ")
    assert note in str(report)
    state = map_of(table)
    table.update_index()
    assert map_of(table) == state, "it is not read again"
    assert not view_of(table).doubts


def test_a_file_that_could_not_be_read_is_mapped_by_the_next_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path / "t")
    original = ParquetDir.open_base

    def broken(self: ParquetDir, file_slice: Slice) -> Source:
        if file_slice.group == "2.parquet":
            raise OSError("the network is down")
        return original(self, file_slice)

    with monkeypatch.context() as patched:
        patched.setattr(ParquetDir, "open_base", broken)
        index, lake = table.opened.index, table.opened.lake
        index.build(lake, lake.snapshot(), ["id"], progress=False)
        index.map_pages(lake, lake.snapshot(), progress=False)
    assert mapped(table) == {"0.parquet": True, "1.parquet": True, "2.parquet": False, "3.parquet": True}
    table.update_index()
    assert all(mapped(table).values())


def test_an_index_that_does_not_exist_gets_no_map(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 1)
    index, lake = table.opened.index, table.opened.lake
    with pytest.raises(ps.IndexNotFoundError):
        index.map_pages(lake, lake.snapshot(), progress=False)
    for pages in (None, False):
        with pytest.raises(ps.IndexNotFoundError):
            index.map_pages(lake, lake.snapshot(), pages, progress=False)
    assert TableIndex.open(tmp_path / "index") is None


@pytest.mark.parametrize("seed", range(2))
def test_the_map_stays_in_step_through_random_histories(tmp_path: Path, seed: int) -> None:
    r = random.Random(seed)
    folder = tmp_path / "t"
    table = make(folder, 6)
    table.build_index("id", kind="sieve", pages=True)
    compactions = 0
    for step in range(25):
        for _ in range(r.randrange(1, 4)):
            files = sorted(folder.glob("*.parquet"))
            action = r.random()
            if action < 0.5 or len(files) < 3:
                write(folder / f"new-{step}-{r.randrange(99)}.parquet", r.randrange(9999), r.randrange(1, 900))
            elif action < 0.8:
                write(r.choice(files), r.randrange(9999), r.randrange(1, 900))
            else:
                r.choice(files).unlink()
        # Maps of an outdated index are right or missing.
        mapped(table)
        table.update_index(compact=False)
        assert all(mapped(table).values())
        bound = bindings.read(store_of(table), map_of(table).bindings)
        assert len(bound.tokens) == len(mapped(table))
        assert len(map_of(table).files) <= MAX_PARTS + 1
        if r.random() < 0.15:
            compactions += 1
            table.compact_index(purge=r.random() < 0.5)
            assert len(map_of(table).files) == 1
            assert all(mapped(table).values())
        if r.random() < 0.2:
            table.expire_index(older_than=0)
            assert map_files(table) == {part.name for files in map_of(table).files for part in files.parts()}
    assert compactions
    assert table.verify_index() == []


def store_of(table: ps.Table) -> Store:
    return view_of(table).store

"""Folders on filesystems that are handed over: named in several ways, and behind what remembers files or lists."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from obstore.store import MemoryStore
from pyarrow import fs

import parsieve as ps
from parsieve.lake.storage.storage import Storage

LONG_AGO = 1_700_000_000
NAMES = {"t/_hidden/x.parquet": 9, "t/p=1/a.parquet": 1, "t/p=2/b.parquet": 2, "t2/p=1/c.parquet": 3}


def written(*ids: int) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": list(ids)}), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def rows(table: ps.Table, where: str | None = None) -> list[int]:
    found: list[int] = table.plan(where).to_arrow()["id"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("root", ["t", "/t", "t/", "/t/", "//t", "t//"])
def test_a_folder_of_a_store_is_the_same_however_it_is_named(root: str) -> None:
    store, memory = MemoryStore(), MemoryFileSystem(skip_instance_cache=True)
    for name, number in NAMES.items():
        store.put(name, written(number))
        memory.pipe_file(f"/named/{name}", written(number))
    behind = fs.SubTreeFileSystem("named", fs.PyFileSystem(fs.FSSpecHandler(memory)))
    try:
        for filesystem in (store, behind, fsspec.filesystem("dir", path="/named", fs=memory)):
            table = ps.open_table((filesystem, root))
            assert rows(table) == [1, 2]
            assert rows(table, "p = 2") == [2]
            assert [piece.group for piece in table.opened.lake.snapshot().slices] == ["p=1/a.parquet", "p=2/b.parquet"]
    finally:
        memory.rm("/named", recursive=True)


class _Remembering(fsspec.AbstractFileSystem):  # type: ignore[misc] # it has no types
    """A folder of the disk, whose lists are remembered as those of object stores are."""

    protocol = "remembering"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._local = fsspec.filesystem("file")
        self._seen: dict[str, Any] = {}

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        found = self._seen.setdefault(path, self._local.ls(path, detail=True))
        return found if detail else [one["name"] for one in found]

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return self._local.open(path, mode)

    def invalidate_cache(self, path: str | None = None) -> None:
        self._seen.clear()


def test_a_list_that_is_remembered_hides_no_new_file(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(written(1))
    for number, filesystem in enumerate((_Remembering(), fs.PyFileSystem(fs.FSSpecHandler(_Remembering())))):
        table = ps.open_table((filesystem, str(tmp_path)))
        before = rows(table)
        (tmp_path / f"b{number}.parquet").write_bytes(written(10 + number))
        assert rows(table) == [*before, 10 + number]


@pytest.mark.parametrize("kind", ["filecache", "simplecache", "blockcache"])
def test_an_index_is_not_built_of_rows_that_a_cache_remembers(tmp_path: Path, kind: str) -> None:
    folder, index = tmp_path / "t", tmp_path / "index"
    folder.mkdir()

    def put(*ids: int, age: int) -> None:
        for name, data in (("a", written(*ids)), ("b", written(500, 501))):
            (folder / f"{name}.parquet").write_bytes(data)
            os.utime(folder / f"{name}.parquet", (LONG_AGO - age, LONG_AGO - age))

    def opened(place: str) -> ps.Table:
        cached = fsspec.filesystem(kind, target_protocol="file", cache_storage=str(tmp_path / place))
        return ps.open_table((cached, str(folder)), index_location=index)

    put(1, 2, age=20)
    table = opened("one")
    table.build_index("id", "sieve", progress=False)
    put(7, 8, age=10)
    table.update_index(progress=False)
    for again in (table, opened("one"), opened("other")):
        assert rows(again, "id = 7") == [7]
        assert rows(again, "id = 1") == []
    uri = f"{kind}::file://{folder}"
    assert rows(ps.open_table(uri, index_location=index), "id = 7") == [7]


def test_an_index_knows_one_memory_from_another(tmp_path: Path) -> None:
    def store(*ids: int) -> MemoryStore:
        made = MemoryStore()
        made.put("t/a.parquet", written(*ids))
        made.put("t/b.parquet", written(100, 101))
        return made

    table = ps.open_table((store(1, 2), "t"), index_location=tmp_path)
    table.build_index("id", "sieve", progress=False)
    assert len(table.plan("id = 1").files) == 1
    assert rows(ps.open_table((store(7, 8), "t"), index_location=tmp_path), "id = 7") == [7]


class _Zoneless(_Remembering):
    """Tells times of a clock, and not where it stands."""

    when: dt.datetime

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        found = [one | {"last_modified": self.when, "mtime": None} for one in super().ls(path)]
        return found if detail else [one["name"] for one in found]


def test_a_time_without_a_zone_may_be_that_of_this_moment(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(written(1))
    filesystem = _Zoneless()
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    for hours, certain in ((2, False), (11, False), (60, True)):
        filesystem.when = now - dt.timedelta(hours=hours)
        [file] = Storage((filesystem, str(tmp_path))).list()
        assert bool(file.token) is certain

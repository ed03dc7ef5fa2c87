"""Folders on filesystem objects: several spellings of a path, and filesystems that cache files or listings."""

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
    ids: list[int] = table.plan(where).to_arrow()["id"].to_pylist()
    return sorted(ids)


@pytest.mark.parametrize("root", ["t", "/t", "t/", "/t/", "//t", "t//"])
def test_slashes_around_a_path_do_not_matter(root: str) -> None:
    store, memory = MemoryStore(), MemoryFileSystem(skip_instance_cache=True)
    for name, number in NAMES.items():
        store.put(name, written(number))
        memory.pipe_file(f"/named/{name}", written(number))
    subtree = fs.SubTreeFileSystem("named", fs.PyFileSystem(fs.FSSpecHandler(memory)))
    try:
        for filesystem in (store, subtree, fsspec.filesystem("dir", path="/named", fs=memory)):
            table = ps.open_table((filesystem, root))
            assert rows(table) == [1, 2]
            assert rows(table, "p = 2") == [2]
            assert [data_slice.group for data_slice in table.opened.lake.snapshot().slices] == [
                "p=1/a.parquet",
                "p=2/b.parquet",
            ]
    finally:
        memory.rm("/named", recursive=True)


class _CachedListings(fsspec.AbstractFileSystem):  # type: ignore[misc] # it has no types
    """A local folder with cached listings, as in filesystems of object stores."""

    protocol = "remembering"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._local = fsspec.filesystem("file")
        self._listings: dict[str, Any] = {}

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        entries = self._listings.setdefault(path, self._local.ls(path, detail=True))
        return entries if detail else [entry["name"] for entry in entries]

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return self._local.open(path, mode)

    def invalidate_cache(self, path: str | None = None) -> None:
        self._listings.clear()


def test_cached_listings_do_not_hide_new_files(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(written(1))
    for number, filesystem in enumerate((_CachedListings(), fs.PyFileSystem(fs.FSSpecHandler(_CachedListings())))):
        table = ps.open_table((filesystem, str(tmp_path)))
        before = rows(table)
        (tmp_path / f"b{number}.parquet").write_bytes(written(10 + number))
        assert rows(table) == [*before, 10 + number]


@pytest.mark.parametrize("kind", ["filecache", "simplecache", "blockcache"])
def test_an_index_is_not_built_from_cached_rows(tmp_path: Path, kind: str) -> None:
    folder, index = tmp_path / "t", tmp_path / "index"
    folder.mkdir()

    def put(*ids: int, age: int) -> None:
        for name, data in (("a", written(*ids)), ("b", written(500, 501))):
            (folder / f"{name}.parquet").write_bytes(data)
            os.utime(folder / f"{name}.parquet", (LONG_AGO - age, LONG_AGO - age))

    def open_cached(cache_name: str) -> ps.Table:
        cached = fsspec.filesystem(kind, target_protocol="file", cache_storage=str(tmp_path / cache_name))
        return ps.open_table((cached, str(folder)), index_location=index)

    put(1, 2, age=20)
    table = open_cached("one")
    table.build_index("id", "sieve", progress=False)
    put(7, 8, age=10)
    table.update_index(progress=False)
    for reopened in (table, open_cached("one"), open_cached("other")):
        assert rows(reopened, "id = 7") == [7]
        assert rows(reopened, "id = 1") == []
    uri = f"{kind}::file://{folder}"
    assert rows(ps.open_table(uri, index_location=index), "id = 7") == [7]


def test_an_index_distinguishes_two_memory_stores(tmp_path: Path) -> None:
    def store(*ids: int) -> MemoryStore:
        memory_store = MemoryStore()
        memory_store.put("t/a.parquet", written(*ids))
        memory_store.put("t/b.parquet", written(100, 101))
        return memory_store

    table = ps.open_table((store(1, 2), "t"), index_location=tmp_path)
    table.build_index("id", "sieve", progress=False)
    assert len(table.plan("id = 1").files) == 1
    assert rows(ps.open_table((store(7, 8), "t"), index_location=tmp_path), "id = 7") == [7]


class _NaiveTimes(_CachedListings):
    """Returns times without a time zone."""

    when: dt.datetime

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        entries = [entry | {"last_modified": self.when, "mtime": None} for entry in super().ls(path)]
        return entries if detail else [entry["name"] for entry in entries]


def test_a_time_without_a_zone_is_trusted_after_a_day(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(written(1))
    filesystem = _NaiveTimes()
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    for hours, trusted in ((2, False), (11, False), (60, True)):
        filesystem.when = now - dt.timedelta(hours=hours)
        [file] = Storage((filesystem, str(tmp_path))).list()
        assert bool(file.token) is trusted

"""Folders on filesystem objects: several spellings of a path, and filesystems that cache files or listings."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from fsspec.implementations.memory import MemoryFileSystem
from obstore.fsspec import FsspecStore
from obstore.store import MemoryStore
from pyarrow import fs
from support.s3_server import s3_server

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


def test_a_file_whose_name_begins_the_names_of_other_files_is_indexed(tmp_path: Path) -> None:
    store = MemoryStore()
    for number, name in enumerate(("t/sub", "t/sub/x.parquet", "t/sub/y.parquet")):
        store.put(name, written(number))
    table = ps.open_table((store, "t"), index_location=tmp_path / "index")
    # The token of t/sub was that of t/sub/x.parquet.
    assert not table.build_index("id", "sieve", progress=False).left_out
    assert [rows(table, f"id = {number}") for number in range(3)] == [[0], [1], [2]]
    version = Storage((store, "t")).version("t/sub")
    store.put("t/sub", written(4))
    assert Storage((store, "t")).version("t/sub") != version


def _s3(options: dict[str, str]) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        access_key=options["aws_access_key_id"],
        secret_key=options["aws_secret_access_key"],
        region=options["aws_region"],
        endpoint_override=options["aws_endpoint"].removeprefix("http://"),
        scheme="http",
    )


def _fsspec(options: dict[str, str]) -> FsspecStore:
    settings: dict[str, Any] = {name.removeprefix("aws_"): value for name, value in options.items()}
    del settings["allow_http"]
    return FsspecStore("s3", **settings, client_options={"allow_http": True})


@pytest.mark.parametrize("open_store", [_s3, _fsspec])
@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_an_object_with_the_name_of_a_folder_does_not_hide_its_files(
    tmp_path: Path, kind: str, open_store: Callable[[dict[str, str]], Any]
) -> None:
    if kind == "delta":
        write_deltalake(str(tmp_path), pa.table({"id": [1, 2]}))
        write_deltalake(str(tmp_path), pa.table({"id": [3]}), mode="overwrite")
    else:
        pq.write_table(pa.table({"id": [3]}), tmp_path / "a.parquet")
    objects = {f"t/{file.relative_to(tmp_path)}": file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    # Some tools mark folders with such objects.
    markers = {"t": b"", "t/_delta_log": b""} if kind == "delta" else {"t": b""}
    with s3_server(objects | markers) as options:
        storage = Storage((open_store(options), "bucket/t"))
        assert storage.contained("_delta_log") == ({"_delta_log"} if kind == "delta" else set())
        assert {file.relative for file in storage.list()} == {
            name.removeprefix("t/") for name in objects if "_delta_log" not in name
        }
        assert "00000000000000000001.json" in storage.names("_delta_log") or kind == "parquet"
    with s3_server({**objects, "t": written(7)}) as options:
        storage = Storage((open_store(options), "bucket/t"))
        with pytest.raises(ps.UnsupportedError, match="bucket/t is the name of a file and of a folder with files"):
            storage.list()
    with s3_server({"t": written(7), "t2/a.parquet": written(8)}) as options:
        assert rows(ps.open_table((open_store(options), "bucket/t"), "parquet")) == [7]


@pytest.mark.parametrize("open_store", [_s3, _fsspec])
def test_a_table_may_be_a_single_object(open_store: Callable[[dict[str, str]], Any]) -> None:
    """Some stores do not list an object as a folder. Opening a table lists it to find the format."""
    with s3_server({"t/a.parquet": written(7)}) as options:
        assert rows(ps.open_table((open_store(options), "bucket/t/a.parquet"))) == [7]


def test_a_failed_request_of_pyarrow_is_an_os_error() -> None:
    """pyarrow raises an `OSError` without an errno, as it does for malformed data."""
    with s3_server({"t/a.parquet": written(7), "t/b.parquet": written(8)}, forbidden="t/b") as options:
        plan = ps.open_table((_s3(options), "bucket/t")).plan()
        with pytest.raises(OSError, match="AWS Error ACCESS_DENIED"):
            plan.to_arrow()


def test_a_listing_asks_once_about_a_single_object(tmp_path: Path) -> None:
    asked = []

    class Counting(MemoryFileSystem):  # type: ignore[misc]
        # In such a store, a folder may have the name of a file.
        protocol = ("s3", "s3a")
        store: ClassVar[dict[str, Any]] = {}
        pseudo_dirs: ClassVar[list[str]] = [""]

        def info(self, path: str, **options: Any) -> Any:
            asked.append(path)
            return super().info(path, **options)

        def isfile(self, path: str) -> bool:
            return fsspec.AbstractFileSystem.isfile(self, path)  # type: ignore[no-any-return]

    filesystem = Counting()
    filesystem.pipe_file("/bucket/t/a.parquet", written(7))
    storage = Storage((filesystem, "/bucket/t/a.parquet"))
    asked.clear()
    assert [file.relative for file in storage.list()] == ["a.parquet"]
    assert asked == ["/bucket/t/a.parquet"]


def test_versions_of_an_object_differ_within_a_second() -> None:
    """A listing of pyarrow has only the time in seconds and the size."""
    bucket = {"t/a.parquet": written(7)}
    with s3_server(bucket) as options:
        storage = Storage((_s3(options), "bucket/t"))
        first = storage.version("bucket/t/a.parquet")
        assert storage.version("bucket/t/a.parquet").proof == first.proof
        bucket["t/a.parquet"] = written(8)
        assert storage.version("bucket/t/a.parquet").proof != first.proof


def test_stores_have_the_time_of_an_object(tmp_path: Path) -> None:
    store, memory = MemoryStore(), MemoryFileSystem(skip_instance_cache=True)
    store.put("t/x", b"x")
    memory.pipe_file("/timed/t/x", b"x")
    (tmp_path / "x").write_bytes(b"x")
    try:
        for storage in (Storage((store, "t")), Storage((memory, "/timed/t")), Storage(str(tmp_path))):
            age = dt.datetime.now(dt.UTC) - storage.modified(storage.join("x"))
            assert dt.timedelta(minutes=-1) < age < dt.timedelta(hours=1)
    finally:
        memory.rm("/timed", recursive=True)


def test_a_uri_with_options_of_pyarrow() -> None:
    with s3_server({"t/a.parquet": written(7)}) as options:
        keys = f"{options['aws_access_key_id']}:{options['aws_secret_access_key']}"
        server = options["aws_endpoint"].removeprefix("http://")
        table = ps.open_table(f"s3://{keys}@bucket/t?endpoint_override={server}&scheme=http&region=eu-west-1")
        assert rows(table, "id = 7") == [7]
        assert table.plan("id = 7").files == ["s3://bucket/t/a.parquet"]

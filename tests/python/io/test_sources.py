"""Sources of every kind, and the number of requests and bytes that a lookup may cost."""

import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import obstore.store
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support.ids import short_repr

import parsieve as ps


def make(num_values: int = 1000, row_groups: int = 2, **options: Any) -> bytes:
    """Return a file with the columns `id` and `name`, by default with filters on both."""
    bloom = {"id": {"ndv": num_values, "fpp": 0.001}, "name": {"ndv": num_values, "fpp": 0.001}}
    table = pa.table({"id": range(num_values), "name": [f"name {number}" for number in range(num_values)]})
    file = io.BytesIO()
    settings = {"bloom_filter_options": bloom, "row_group_size": -(-num_values // row_groups), **options}
    pq.write_table(table, file, **settings)
    return file.getvalue()


SMALL = make()


class CountingStore:
    """A store with the methods of obstore, which records the ranges that are read."""

    def __init__(self, data: bytes, together: int = 1) -> None:
        self.data = data
        self.reads: list[tuple[int, int]] = []
        # Each request waits until this many are in progress.
        self.barrier = threading.Barrier(together) if together > 1 else None

    def head(self, path: str) -> dict[str, int]:
        return {"size": len(self.data)}

    def get_range(self, path: str, *, start: int, end: int) -> bytes:
        assert 0 <= start < end <= len(self.data)
        self.reads.append((start, end))
        if self.barrier and len(self.reads) > 1:
            self.barrier.wait(200)
        return self.data[start:end]


class ShortReads(io.BytesIO):
    """A file that returns at most 100 bytes per read."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 0, 100))


class Custom:
    """A file object with the minimum of methods."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def seek(self, offset: int, whence: int = 0) -> None:
        self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int) -> bytes:
        return self._file.read(size)


@pytest.mark.parametrize(
    "kind",
    [
        *["path", "text", "bytes", "bytearray", "memoryview", "pyarrow buffer", "file", "raw file", "BytesIO"],
        *["short reads", "custom", "pyarrow file", "file URI", "pyarrow URI", "fsspec URI"],
        *["pyarrow.fs", "fsspec", "obstore", "obstore memory"],
    ],
)
def test_every_kind_of_source_gives_the_same_answers(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a file.parquet"
    path.write_bytes(SMALL)
    memory = fsspec.filesystem("memory")
    memory.pipe("/parsieve-test/file.parquet", SMALL)
    store = obstore.store.MemoryStore()
    store.put("file.parquet", SMALL)
    sources: dict[str, Callable[[], Any]] = {
        "path": lambda: path,
        "text": lambda: str(path),
        "bytes": lambda: SMALL,
        "bytearray": lambda: bytearray(SMALL),
        "memoryview": lambda: memoryview(SMALL),
        "pyarrow buffer": lambda: pa.py_buffer(SMALL),
        "file": lambda: path.open("rb"),
        "raw file": lambda: path.open("rb", buffering=0),
        "BytesIO": lambda: io.BytesIO(SMALL),
        "short reads": lambda: ShortReads(SMALL),
        "custom": lambda: Custom(SMALL),
        "pyarrow file": lambda: pa.OSFile(str(path)),
        "file URI": lambda: path.as_uri(),
        "pyarrow URI": lambda: "mock:///file.parquet",
        "fsspec URI": lambda: "memory://parsieve-test/file.parquet",
        "pyarrow.fs": lambda: (pyarrow.fs.LocalFileSystem(), str(path)),
        "fsspec": lambda: (fsspec.filesystem("file"), path),
        "obstore": lambda: (obstore.store.LocalStore(str(tmp_path)), "a file.parquet"),
        "obstore memory": lambda: (store, "file.parquet"),
    }
    source = sources[kind]()
    if kind == "pyarrow URI":
        with pytest.raises(FileNotFoundError):  # the scheme is known, but its filesystem is empty
            ps.open_filters(source)
        return
    with ps.open_filters(source) as filters:
        assert filters.might_contain({"id": 3}) == [True, False]
        assert filters.might_contain({"name": "name 999"}) == [False, True]
        filter = filters.filter(1, "id")
        assert filter is not None
        assert 700 in filter
        assert filters.bytes_fetched <= len(SMALL)
    if hasattr(source, "closed"):
        assert not source.closed, "the caller's file stays open"
        source.close()


@pytest.mark.parametrize("source", [42, None, ("a", "b"), (1, 2, 3), object(), ["x"]], ids=short_repr)
def test_other_objects_are_refused_as_sources(source: Any) -> None:
    with pytest.raises(TypeError, match=r"source must be|not a filesystem"):
        ps.open_filters(source)
    with pytest.raises(TypeError, match="'rb'"):
        ps.open_filters(io.StringIO("text" * 10))


def test_missing_files_and_folders_raise_os_errors(tmp_path: Path) -> None:
    gone = tmp_path / "gone.parquet"
    for source in (gone, str(gone), gone.as_uri(), (pyarrow.fs.LocalFileSystem(), str(gone))):
        with pytest.raises(FileNotFoundError):
            ps.open_filters(source)
    for store in (fsspec.filesystem("file"), obstore.store.LocalStore(str(tmp_path))):
        with pytest.raises(FileNotFoundError):
            ps.open_filters((store, "gone.parquet"))
    with pytest.raises(IsADirectoryError):
        ps.open_filters(tmp_path)
    with pytest.raises(ValueError, match="no filesystem for nothing://"):
        ps.open_filters("nothing://bucket/file")
    with pytest.raises(ValueError, match=r"no filesystem for s3:// .*syntax error at character ' '"):
        ps.open_filters("s3://bucket/a file")


def test_reading_a_closed_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    path.write_bytes(make(300_000))
    with ps.open_filters(path) as filters:
        assert filters.might_contain({"id": 3})[0]
    with pytest.raises(ValueError, match="closed"):
        filters.might_contain({"id": 3})
    filters.close()


def test_a_file_without_filters_costs_one_request() -> None:
    store = CountingStore(make(300_000, bloom_filter_options=None))
    assert len(store.data) > 1 << 20
    with ps.open_filters((store, "x")) as filters:
        assert filters.ranges() == []
        assert filters.might_contain({"id": [1, 2], "name": "x"}) == [True, True]
        assert filters.filter(0, "id") is None
        assert (filters.requests, filters.bytes_fetched) == (1, 64 * 1024)
    assert len(store.reads) == 1


def test_a_small_file_is_read_once() -> None:
    store = CountingStore(SMALL)
    with ps.open_filters((store, "x")) as filters:
        for row_group in (0, 1):
            assert filters.filter(row_group, "name") is not None
        filters.might_contain({"id": list(range(0, 5000, 7))})
        assert (filters.requests, filters.bytes_fetched) == (1, len(SMALL))
    assert len(store.reads) == 1


def test_a_key_in_a_large_filter_costs_its_header_and_one_block() -> None:
    store = CountingStore(make(1_000_000, row_groups=1, write_page_index=True))
    with ps.open_filters((store, "x")) as filters:
        before, first = filters.bytes_fetched, filters.requests
        offsets = {place.column: place for place in filters.ranges()}
        size = offsets["id"].length
        assert size is not None
        assert size > 1 << 20
        for key in (10, 2_000_000, 77_777):
            filters.might_contain({"id": key})
        assert filters.requests - first <= 2 * 3
        # A header of 64 bytes and a block of 32 bytes, plus the gap between them if one request is cheaper than two.
        assert filters.bytes_fetched - before <= 3 * (64 + 32) + 3 * 64 * 1024
        apart = [end - start for start, end in store.reads[1:]]
        assert 32 in apart
        assert 64 in apart
        assert filters.might_contain({"id": list(range(5))}) == [True]


def test_a_header_is_read_once_for_all_lookups() -> None:
    store = CountingStore(make(1_000_000, row_groups=1))
    with ps.open_filters((store, "x")) as filters:
        for key in (10, 2_000_000, 77_777, 10):
            answer = filters.might_contain({"id": key})
            assert answer == [True] or key == 2_000_000
        header = next(place.offset for place in filters.ranges() if place.column == "id")
        assert sum(start == header for start, _ in store.reads) == 1
        assert [end - start for start, end in store.reads[-3:]] == [32, 32, 32]


def test_headers_and_blocks_of_all_row_groups_are_read_in_parallel() -> None:
    # The header and the block of each of four row groups: up to eight requests that must be in progress together.
    data = make(1_000_000, row_groups=4)
    with ps.open_filters(data) as filters:
        assert filters.num_row_groups == 4
    counted = CountingStore(data)
    with ps.open_filters((counted, "x")) as filters:
        filters.might_contain({"id": 10**7})
    expected = len(counted.reads) - 1
    assert expected >= 4
    together = CountingStore(data, together=expected)
    with ps.open_filters((together, "x")) as filters:
        assert filters.might_contain({"id": 10**7}) == [False] * 4
        assert filters.requests == 1 + expected


def test_many_keys_read_each_filter_once() -> None:
    store = CountingStore(make(400_000, row_groups=5))
    with ps.open_filters((store, "x")) as filters:
        size = sum(place.length or 0 for place in filters.ranges() if place.column == "id")
        before = filters.bytes_fetched
        assert size > 5 << 16
        assert filters.might_contain({"id": pa.array(range(399_000, 400_000))})[4]
        assert filters.bytes_fetched - before <= size + 5 * 64 * 1024
        assert filters.requests <= 1 + 5


def test_a_certain_no_ends_the_lookup() -> None:
    store = CountingStore(make(1_000_000, row_groups=1))
    with ps.open_filters((store, "x")) as filters:
        filters.might_contain({"id": []})
        assert len(store.reads) == 1
        assert filters.might_contain({"id": [], "name": "name 1"}) == [False]
        assert len(store.reads) == 1


def test_a_source_that_ends_too_early_is_an_error() -> None:
    class Ends(Custom):
        def read(self, size: int) -> bytes:
            return b""

    with pytest.raises(OSError, match="unexpected end of the source: no bytes at"):
        ps.open_filters(Ends(SMALL))


class Server(MemoryFileSystem):  # type: ignore[misc]
    """A filesystem of fsspec with the faults of an HTTP server."""

    cachable = False
    fault = ""

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        found: dict[str, Any] = super().info(path, **options)
        return {**found, "size": None} if self.fault == "no size" else found

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        if self.fault == "own error":
            # The errors of aiohttp, for example, are no OSError.
            raise LookupError("500, message='Internal Server Error'")
        data: bytes = super().cat_file(path, *((None, None) if self.fault == "no ranges" else (start, end)), **options)
        return data


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("no ranges", OSError, r"the server ignores range requests \(it sent \d+ bytes instead of \d+\)"),
        ("own error", OSError, "/served.parquet: LookupError: 500, message='Internal Server Error'"),
        ("no size", ps.UnsupportedError, "the server does not state the size of /served.parquet"),
    ],
)
def test_faults_of_servers_are_errors(fault: str, error: type[Exception], message: str) -> None:
    """A range that a server ignores would give the first bytes of the file, and a wrong "no"."""
    server, data = Server(), make(200_000, row_groups=1)
    server.pipe_file("/served.parquet", data)
    try:
        with ps.open_filters((server, "/served.parquet")) as filters:
            assert filters.might_contain({"id": 5}) == [True]
            if fault != "no size":
                server.fault = fault
                with pytest.raises(error, match=message):
                    filters.might_contain({"id": 77_777})
        server.fault = fault
        with pytest.raises(error, match=message):
            ps.open_filters((server, "/served.parquet"))
        if fault == "no size":
            with pytest.raises(error, match=message):
                ps.open_table((server, "/served.parquet")).plan("id = 5")
    finally:
        server.rm("/served.parquet")


def test_threads_share_the_filters_of_a_file() -> None:
    data = make(200_000, row_groups=4)
    with ps.open_filters(ShortReads(data)) as filters:
        wrong: list[int] = []

        def ask(start: int) -> None:
            for key in range(start, start + 20):
                if not filters.might_contain({"id": key, "name": f"name {key}"})[key // 50_000]:
                    wrong.append(key)

        threads = [threading.Thread(target=ask, args=(start,)) for start in (0, 60_000, 120_000, 180_000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_a_file_that_changes_while_it_is_open_is_a_conflict(tmp_path: Path) -> None:
    """The old footer and cached headers could give a wrong "no" for the new content."""
    path = tmp_path / "t.parquet"
    path.write_bytes(make())
    with ps.open_filters(path) as filters:
        assert filters.might_contain({"id": 7}) == [True, False]
        with path.open("r+b") as file:
            file.write(make())
        os.utime(path, ns=(1, 1))
        with pytest.raises(ps.ConflictError, match=r"t\.parquet was changed .* open it again"):
            filters.might_contain({"id": 7})
        with pytest.raises(ps.ConflictError):
            filters.filter(0, "id")
    with ps.open_filters(path) as again:
        assert again.might_contain({"id": 7}) == [True, False]

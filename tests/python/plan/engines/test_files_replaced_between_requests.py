"""A file on an fsspec filesystem is replaced or deleted between two requests of a plan, of a read or of a build."""

from __future__ import annotations

import contextlib
import io
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import obstore.store
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import parsieve as ps


def parquet(ids: list[int], version: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"id": ids, "version": [version] * len(ids)}),
        sink,
        compression="none",
        row_group_size=100,
        bloom_filter_options={"id": {"ndv": 100, "fpp": 0.001}},
    )
    return sink.getvalue()


# 5 is in the first row group of the old version, and in the second one of the new version.
OLD = parquet([*range(100), *range(200, 300)], "old")
NEW = parquet([*range(1000, 1100), *[5] * 100], "new")


class TaggedMemory(MemoryFileSystem):  # type: ignore[misc]
    """A filesystem with ETags, which changes a file before one of the requests."""

    store: dict[str, Any] = {}  # noqa: RUF012 - fsspec declares it as an attribute of the class
    pseudo_dirs = [""]  # noqa: RUF012 - as above
    requests = 0
    change_before: int | None = None
    # The changes before this request and the next ones.
    changes: tuple[Callable[[MemoryFileSystem], None], ...] = ()

    # Each request sees one state.
    lock = threading.RLock()

    def _request(self) -> None:
        TaggedMemory.requests += 1
        if TaggedMemory.change_before is not None:
            number = TaggedMemory.requests - TaggedMemory.change_before
            if 0 <= number < len(TaggedMemory.changes):
                TaggedMemory.changes[number](self)

    def _tag(self, path: str) -> str:
        return f'"{hash(bytes(self.store[path].getvalue()))}"'

    def info(self, path: str, **options: Any) -> Any:
        with self.lock:
            self._request()
            info = super().info(path, **options)
            return {**info, "ETag": self._tag(path)} if info["type"] == "file" else info

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        with self.lock:
            self._request()
            if (path := self._strip_protocol(path)) not in self.store:
                raise FileNotFoundError(path)
            return bytes(self.store[path].getvalue())[start:end]

    def _open(self, path: str, *arguments: Any, **options: Any) -> Any:
        with self.lock:
            self._request()
            return super()._open(path, *arguments, **options)

    def find(self, path: str, detail: bool = False, **options: Any) -> Any:
        with self.lock:
            self._request()
            found = super().find(path, detail=True, **options)
            tagged = {name: {**info, "ETag": self._tag(name)} for name, info in found.items()}
            return tagged if detail else list(tagged)


@pytest.fixture
def filesystem() -> Iterator[TaggedMemory]:
    yield TaggedMemory()
    TaggedMemory.store.clear()
    count_from_now(None)


def count_from_now(change_before: int | None) -> None:
    TaggedMemory.requests, TaggedMemory.change_before = 0, change_before


def replace(filesystem: MemoryFileSystem) -> None:
    filesystem.store["/t/0.parquet"].truncate(0)
    filesystem.pipe_file("/t/0.parquet", NEW)


def restore(filesystem: MemoryFileSystem) -> None:
    filesystem.store["/t/0.parquet"].truncate(0)
    filesystem.pipe_file("/t/0.parquet", OLD)


def delete(filesystem: MemoryFileSystem) -> None:
    filesystem.store.pop("/t/0.parquet")


def write(filesystem: MemoryFileSystem) -> None:
    filesystem.pipe_file("/t/0.parquet", NEW)


def plan_and_read(table: ps.Table, between: Callable[[], None]) -> list[str]:
    plan = table.plan("id = 5", row_groups=True)
    between()
    return [str(version) for version in plan.to_arrow()["version"].to_pylist()]


def look_up(table: ps.Table, between: Callable[[], None]) -> list[str]:
    between()
    return [str(version) for version in table.lookup("id", [5]).table["version"].to_pylist()]


@pytest.mark.parametrize("is_indexed", [True, False])
@pytest.mark.parametrize("read", [plan_and_read, look_up])
@pytest.mark.parametrize("is_planned_first", [True, False])
def test_the_rows_are_of_one_version(
    filesystem: TaggedMemory, is_indexed: bool, read: Callable[..., list[str]], is_planned_first: bool
) -> None:
    TaggedMemory.changes = (replace,)
    found = set()
    for request in range(1, 30):
        count_from_now(None)
        filesystem.pipe_file("/t/0.parquet", OLD)
        table = ps.open_table((filesystem, "/t"), index_location=(obstore.store.MemoryStore(), "i"))
        if is_indexed:
            table.build_index("id", kind="sieve", unit="row_group", progress=False)
        if not is_planned_first:
            count_from_now(request)
        try:
            answer = read(
                table, (lambda request=request: count_from_now(request)) if is_planned_first else lambda: None
            )
        except ps.ConflictError:
            answer = ["conflict"]
        assert answer in (["old"], ["new"] * 100, ["conflict"]), request
        found.add(answer[0])
        if TaggedMemory.requests < request:
            break
    assert {"old", "new"} <= found


@pytest.mark.parametrize("is_indexed", [True, False])
def test_the_rows_are_of_one_version_if_the_file_is_restored(filesystem: TaggedMemory, is_indexed: bool) -> None:
    """The restored file has the same ETag as before."""
    found = set()
    for first, last in itertools.combinations(range(1, 9), 2):
        count_from_now(None)
        filesystem.pipe_file("/t/0.parquet", OLD)
        table = ps.open_table((filesystem, "/t"), index_location=(obstore.store.MemoryStore(), "i"))
        if is_indexed:
            table.build_index("id", kind="sieve", unit="row_group", progress=False)
        TaggedMemory.changes = (replace, *[lambda _: None] * (last - first - 1), restore)
        try:
            answer = plan_and_read(table, lambda first=first: count_from_now(first))  # type: ignore[misc]
        except ps.ConflictError:
            answer = ["conflict"]
        assert answer in (["old"], ["new"] * 100, ["conflict"]), (first, last)
        found.add(answer[0])
    assert "old" in found


@pytest.mark.parametrize("read", [plan_and_read, look_up])
@pytest.mark.parametrize("changes", [(delete,), (delete, write)])
@pytest.mark.parametrize("is_planned_first", [True, False])
def test_a_file_is_deleted(
    filesystem: TaggedMemory,
    changes: tuple[Callable[[MemoryFileSystem], None], ...],
    read: Callable[..., list[str]],
    is_planned_first: bool,
) -> None:
    TaggedMemory.changes = changes
    found = set()
    for request in itertools.count(1):
        count_from_now(None)
        filesystem.pipe_file("/t/0.parquet", OLD)
        filesystem.pipe_file("/t/1.parquet", parquet([5], "other"))
        table = ps.open_table((filesystem, "/t"), index_location=(obstore.store.MemoryStore(), "i"))
        if not is_planned_first:
            count_from_now(request)
        try:
            rows = read(table, (lambda request=request: count_from_now(request)) if is_planned_first else lambda: None)
        except ps.ConflictError:
            rows = ["conflict"]
        assert rows in (["old", "other"], ["new"] * 100 + ["other"], ["other"], ["conflict"]), request
        found.add(rows[0])
        if TaggedMemory.requests < request:
            break
    # Without a change, and with a deletion before the first request.
    assert "old" in found
    assert changes != (delete,) or ("conflict" if is_planned_first and read is plan_and_read else "other") in found


@pytest.mark.parametrize(("kind", "unit"), [("sieve", "file"), ("sieve", "row_group"), ("bloom", "file")])
def test_an_index_has_no_rows_of_a_file_that_was_replaced_and_restored(
    filesystem: TaggedMemory, kind: str, unit: str
) -> None:
    """The restored file has the same ETag as before."""
    covered = set()
    for first in range(1, 12):
        for last in range(first + 1, 14):
            count_from_now(None)
            filesystem.pipe_file("/t/0.parquet", OLD)
            place = obstore.store.MemoryStore(), "i"
            table = ps.open_table((filesystem, "/t"), index_location=place)
            TaggedMemory.changes = (replace, *[lambda _: None] * (last - first - 1), restore)
            count_from_now(first)
            # The only file cannot be read.
            with contextlib.suppress(ps.ConflictError, ps.FormatError):
                table.build_index("id", kind=kind, unit=unit, progress=False)
            count_from_now(None)
            restore(filesystem)
            table = ps.open_table((filesystem, "/t"), index_location=place)
            covered.add(table.count_uncovered().get("id"))
            for key in (5, 250):
                assert table.plan(f"id = {key}").to_arrow().num_rows == 1, (first, last)
    assert covered >= {0, None}

"""A source of one version of a file never returns bytes of another version without noticing."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from obstore.store import MemoryStore
from pyarrow import fs

import parsieve as ps
from parsieve.io.sources import Source, open_version
from parsieve.lake.storage.storage import Storage

Place = tuple[Any, Callable[[bytes], object]]


class _Handler(fs.FSSpecHandler):  # type: ignore[misc] # it has no types
    """A filesystem that parsieve does not recognize as the local disk."""


def of_local_file(folder: Path) -> Place:
    path = folder / "file"

    def put(data: bytes) -> None:
        (folder / "new").write_bytes(data)
        (folder / "new").replace(path)

    return str(path), put


def of_obstore(folder: Path) -> Place:
    store = MemoryStore()
    return (store, "file"), lambda data: store.put("file", data)


def of_fsspec(folder: Path) -> Place:
    memory = fsspec.filesystem("memory", skip_instance_cache=True)
    path = f"/{folder.name}/file"
    return (memory, path), lambda data: memory.pipe_file(path, data)


def of_pyarrow(folder: Path) -> Place:
    path, put = of_local_file(folder)
    return (fs.PyFileSystem(_Handler(fsspec.filesystem("file"))), path), put


@pytest.fixture(params=[of_local_file, of_obstore, of_fsspec, of_pyarrow])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return a source, and a function that replaces its content."""
    chosen: Place = request.param(tmp_path)
    return chosen


def token_of(source: Any) -> str:
    """Return the token of a file in a listing, even if the file is young."""
    filesystem, path = source if isinstance(source, tuple) else (None, source)
    storage = Storage(path if filesystem is None else (filesystem, os.path.dirname(path)))  # noqa: PTH120
    return storage.version(path).token


def read(source: Source) -> bytes:
    data = b"".join(bytes(source.read(start, start + 4)) for start in (0, 4))
    if source.changed():
        raise ps.ConflictError("changed")
    return data


def test_the_version_is_read(place: Place) -> None:
    source, put = place
    put(b"version1")
    for token in (token_of(source), ""):
        assert read(open_version(source, 8, token)) == b"version1"


def test_another_version_is_a_conflict(place: Place) -> None:
    source, put = place
    put(b"version1")
    token = token_of(source)
    put(b"version2")
    # fsspec's filesystem in memory has neither ETags nor times of changes, so its files have no tokens.
    assert token or isinstance(source[0], fsspec.AbstractFileSystem)
    if token:
        with pytest.raises(ps.ConflictError):
            read(open_version(source, 8, token))
    put(b"longer version")
    with pytest.raises(ps.ConflictError):
        read(open_version(source, 8, ""))


def test_a_version_that_comes_between_two_reads_is_a_conflict(place: Place) -> None:
    source, put = place
    put(b"version1")
    token = token_of(source)
    opened = open_version(source, 8, token)
    first = bytes(opened.read(0, 4))
    put(b"other 2!")
    try:
        data = first + bytes(opened.read(4, 8))
    except ps.ConflictError:
        return
    assert data == b"version1" or opened.changed() or token_of(source) == token


def test_an_object_is_opened_without_a_request() -> None:
    store = MemoryStore()
    store.put("file", b"version1")
    token = token_of((store, "file"))

    class Counting:
        requests = 0

        def get_range(self, *args: Any, **options: Any) -> Any:
            raise AssertionError("this returns no version")

        def get(self, *args: Any, **options: Any) -> Any:
            Counting.requests += 1
            return store.get(*args, **options)

    opened = open_version((Counting(), "file"), 8, token)
    assert opened.size() == 8
    assert Counting.requests == 0
    assert bytes(opened.read(0, 8)) == b"version1"
    assert Counting.requests == 1

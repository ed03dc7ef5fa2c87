"""Tables on filesystems that are handed over: a path there is not that of a local file, and the index lies there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore
from pyarrow import fs

import parsieve as ps

LONG_AGO = 1_700_000_000


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)})


def written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@pytest.fixture
def memory() -> Any:
    """Files of a filesystem that is no disk."""
    filesystem = fsspec.filesystem("memory", skip_instance_cache=True)
    for number in range(3):
        filesystem.pipe_file(f"/handed/t/{number}.parquet", written(rows(number, number + 10)))
    yield filesystem
    filesystem.rm("/handed", recursive=True)


def test_engines_read_no_local_file_of_the_same_path(memory: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "handed" / "t").mkdir(parents=True)
    for number in range(3):
        pq.write_table(rows(number, 99), tmp_path / "handed" / "t" / f"{number}.parquet")
    for filesystem in (memory, fs.PyFileSystem(fs.FSSpecHandler(memory))):
        plan = ps.open_table((filesystem, "handed/t")).plan("id >= 1")
        wanted = [1, 2, 10, 11, 12]
        assert sorted(plan.to_arrow()["id"].to_pylist()) == wanted
        assert sorted(plan.to_polars().collect()["id"].to_list()) == wanted
        assert sorted(plan.to_duckdb().to_arrow_table()["id"].to_pylist()) == wanted


def test_an_index_lies_in_the_store_that_was_handed_over(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    store = MemoryStore()
    for number in range(3):
        store.put(f"lake/t/{number}.parquet", written(rows(number, number + 10)))
    ps.open_table((store, "lake/t")).build_index("id", "sieve", progress=False)
    assert list(tmp_path.iterdir()) == []
    names = [meta["path"] for page in store.list() for meta in page]
    assert [name for name in names if name.startswith("lake/.parsieve/t/commits/")]
    assert "id" in ps.open_table((store, "lake/t")).index_stats()


def mounted(folder: Path) -> list[Any]:
    """Filesystems whose root is a folder, and which do not look local."""
    return [fs.PyFileSystem(fs.FSSpecHandler(_Apart(str(folder)))), _Apart(str(folder))]


class _Apart(fsspec.AbstractFileSystem):  # type: ignore[misc] # it has no types
    """A folder of the disk as a filesystem of its own: real files behind a name that nobody knows."""

    protocol = "apart"
    cachable = False

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._local = fsspec.filesystem("file")
        self._folder = folder

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        found = self._local.ls(self._folder + "/" + path.strip("/"), detail=True)
        told = [one | {"name": one["name"].removeprefix(self._folder + "/")} for one in found]
        return told if detail else [one["name"] for one in told]

    def info(self, path: str, **_: Any) -> Any:
        return self._local.info(self._folder + "/" + path.strip("/")) | {"name": path}

    def modified(self, path: str) -> Any:
        return self._local.modified(self._folder + "/" + path.strip("/"))

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return self._local.open(self._folder + "/" + path.strip("/"), mode)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        found: bytes = self._local.cat_file(self._folder + "/" + path.strip("/"), start, end)
        return found


@pytest.mark.parametrize("number", [0, 1], ids=["pyarrow", "fsspec"])
def test_an_index_is_read_through_any_filesystem_and_written_through_none_that_cannot(
    tmp_path: Path, monkeypatch: Any, number: int
) -> None:
    folder, here = tmp_path / "disk", tmp_path / "here"
    (folder / "lake" / "t").mkdir(parents=True)
    here.mkdir()
    monkeypatch.chdir(here)
    for at in range(3):
        pq.write_table(rows(at, at + 10), folder / "lake" / "t" / f"{at}.parquet")
        os.utime(folder / "lake" / "t" / f"{at}.parquet", (LONG_AGO, LONG_AGO))
    filesystem = mounted(folder)[number]
    with pytest.raises(ps.UnsupportedError, match="only be read"):
        ps.open_table((filesystem, "lake/t")).build_index("id", "sieve", progress=False)
    assert list(here.iterdir()) == []
    built = ps.open_table((filesystem, "lake/t"), index_location=folder / "lake" / ".parsieve" / "t")
    built.build_index("id", "sieve", progress=False)
    table = ps.open_table((filesystem, "lake/t"))
    plan = table.plan("id = 10")
    assert [path.rpartition("/")[2] for path in plan.files] == ["0.parquet"]
    assert {skip.evidence for skip in plan.skipped} == {"index"}, "min/max says maybe of every file"
    with pytest.raises(ps.UnsupportedError, match="only be read"):
        table.update_index()

"""Tables on filesystem objects: their paths are not local paths, and their index is stored on the same filesystem."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
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
ROOT = Path(__file__).parents[3]


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)})


def written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@pytest.fixture
def memory() -> Any:
    """Write files to an in-memory filesystem."""
    filesystem = fsspec.filesystem("memory", skip_instance_cache=True)
    for number in range(3):
        filesystem.pipe_file(f"/handed/t/{number}.parquet", written(rows(number, number + 10)))
    yield filesystem
    filesystem.rm("/handed", recursive=True)


def test_engines_do_not_read_local_files_with_the_same_path(memory: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "handed" / "t").mkdir(parents=True)
    for number in range(3):
        pq.write_table(rows(number, 99), tmp_path / "handed" / "t" / f"{number}.parquet")
    for filesystem in (memory, fs.PyFileSystem(fs.FSSpecHandler(memory))):
        plan = ps.open_table((filesystem, "handed/t")).plan("id >= 1")
        expected = [1, 2, 10, 11, 12]
        assert sorted(plan.to_arrow()["id"].to_pylist()) == expected
        assert sorted(plan.to_polars().collect()["id"].to_list()) == expected
        assert sorted(plan.to_duckdb().to_arrow_table()["id"].to_pylist()) == expected


@pytest.mark.parametrize("kind", ["pyarrow", "fsspec", "obstore"])
def test_files_in_subfolders_are_listed(kind: str) -> None:
    store: Any
    if kind == "pyarrow":
        store = fs._MockFileSystem()
    else:
        store = MemoryStore() if kind == "obstore" else fsspec.filesystem("memory", skip_instance_cache=True)
    for number in range(4):
        folder, data = f"listed/t/day={number}/hour={number}", written(rows(number, number + 10))
        if kind == "pyarrow":
            store.create_dir(folder)
            with store.open_output_stream(f"{folder}/a.parquet") as stream:
                stream.write(data)
        else:
            (store.put if kind == "obstore" else store.pipe_file)(f"{folder}/a.parquet", data)
    try:
        plan = ps.open_table((store, "listed/t")).plan("id >= 2 AND day <= 2")
        assert sorted(plan.to_arrow()["id"].to_pylist()) == [2, 10, 11, 12]
    finally:
        if kind == "fsspec":
            store.rm("/listed", recursive=True)


def test_the_index_is_stored_in_the_store_of_the_table(tmp_path: Path, monkeypatch: Any) -> None:
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
    """Return filesystems with a folder as root that are not recognized as local."""
    return [fs.PyFileSystem(fs.FSSpecHandler(_UnknownProtocol(str(folder)))), _UnknownProtocol(str(folder))]


class _UnknownProtocol(fsspec.AbstractFileSystem):  # type: ignore[misc] # it has no types
    """A local folder as a filesystem with an unknown protocol."""

    protocol = "apart"
    cachable = False

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._local = fsspec.filesystem("file")
        self._folder = folder

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        entries = self._local.ls(self._folder + "/" + path.strip("/"), detail=True)
        renamed = [entry | {"name": entry["name"].removeprefix(self._folder + "/")} for entry in entries]
        return renamed if detail else [entry["name"] for entry in renamed]

    def info(self, path: str, **_: Any) -> Any:
        return self._local.info(self._folder + "/" + path.strip("/")) | {"name": path}

    def modified(self, path: str) -> Any:
        return self._local.modified(self._folder + "/" + path.strip("/"))

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return self._local.open(self._folder + "/" + path.strip("/"), mode)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        data: bytes = self._local.cat_file(self._folder + "/" + path.strip("/"), start, end)
        return data


@pytest.mark.parametrize("number", [0, 1], ids=["pyarrow", "fsspec"])
def test_an_index_is_read_through_any_filesystem_but_written_to_known_ones_only(
    tmp_path: Path, monkeypatch: Any, number: int
) -> None:
    folder, working_folder = tmp_path / "disk", tmp_path / "here"
    (folder / "lake" / "t").mkdir(parents=True)
    working_folder.mkdir()
    monkeypatch.chdir(working_folder)
    for part in range(3):
        pq.write_table(rows(part, part + 10), folder / "lake" / "t" / f"{part}.parquet")
        os.utime(folder / "lake" / "t" / f"{part}.parquet", (LONG_AGO, LONG_AGO))
    filesystem = mounted(folder)[number]
    with pytest.raises(ps.UnsupportedError, match="only be read"):
        ps.open_table((filesystem, "lake/t")).build_index("id", "sieve", progress=False)
    assert list(working_folder.iterdir()) == []
    local_index = ps.open_table((filesystem, "lake/t"), index_location=folder / "lake" / ".parsieve" / "t")
    local_index.build_index("id", "sieve", progress=False)
    table = ps.open_table((filesystem, "lake/t"))
    plan = table.plan("id = 10")
    assert [path.rpartition("/")[2] for path in plan.files] == ["0.parquet"]
    assert {skip.evidence for skip in plan.skipped} == {"index"}, "min/max statistics must not exclude a file"
    with pytest.raises(ps.UnsupportedError, match="only be read"):
        table.update_index()


def test_fragments_are_read_through_the_filesystem_of_the_table(memory: Any) -> None:
    for filesystem in (memory, fs.PyFileSystem(fs.FSSpecHandler(memory))):
        dataset = ps.open_table((filesystem, "handed/t")).plan().to_dataset()
        tagged = [batch.fragment for batch in dataset.scanner().scan_batches()]
        for fragments in (list(dataset.get_fragments()), tagged):
            assert [fragment.to_table()["id"].to_pylist() for fragment in fragments] == [[0, 10], [1, 11], [2, 12]]


def test_a_read_does_not_ask_a_store_for_sizes_that_are_known(tmp_path: Path) -> None:
    """pyarrow asks for the size of each file that it opens by name, unless it is given."""
    (tmp_path / "t").mkdir()
    for number in range(5):
        pq.write_table(rows(number), tmp_path / "t" / f"{number}.parquet")
    program = [sys.executable, str(ROOT / "benches" / "python" / "slow_store.py"), str(tmp_path), "--delay", "0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = f"127.0.0.1:{int(server.stdout.readline())}"

            def requests() -> int:
                with urllib.request.urlopen(f"http://{address}/!counts") as answer:
                    return int(json.load(answer)["requests"])

            keys = {"access_key": "key", "secret_key": "secret", "region": "here"}
            store = fs.S3FileSystem(endpoint_override=address, scheme="http", **keys)
            plan = ps.open_table((store, "b/t")).plan()
            requests()
            assert plan.to_arrow()["id"].to_pylist() == [0, 1, 2, 3, 4]
            assert requests() <= 5 * 8
        finally:
            server.kill()

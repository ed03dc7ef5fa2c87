"""The Bloom index of a table never skips a matching file: after builds, updates and damage."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from support.aging import wait_until_old
from support.models.lake_truth import commit

import parsieve as ps
from parsieve.index import TableIndex
from parsieve.index.log.parts import Shelf
from parsieve.lake import open_lake
from parsieve.lake.base import Lake


class Folder:
    """A folder of files that are old enough to have tokens, and the keys of each file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keys: dict[str, list[int | None]] = {}
        self._clock = 1_000

    def write(self, name: str, keys: list[int | None]) -> None:
        pq.write_table(pa.table({"k": pa.array(keys, pa.int64()), "s": [str(key) for key in keys]}), self.path / name)
        self._clock += 1
        os.utime(self.path / name, (self._clock, self._clock))
        self.keys[name] = keys

    def remove(self, name: str) -> None:
        (self.path / name).unlink()
        del self.keys[name]

    def holding(self, key: int) -> set[str]:
        return {name for name, keys in self.keys.items() if key in keys}

    @property
    def lake(self) -> Lake:
        return open_lake(str(self.path))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    # A new file has no token until a tick has passed. `write` sets back its mtime, but cannot set its ctime.
    monkeypatch.setattr("parsieve.lake.storage.listing.TICK_NS", 0)
    monkeypatch.setattr("parsieve.lake.storage.listing.COARSE_NS", 0)
    table_folder = Folder(tmp_path / "table")
    table_folder.path.mkdir()
    for part in range(20):
        table_folder.write(f"f{part}.parquet", list(range(part, 4000, 20)))
    return table_folder


def kept_files(index: TableIndex, folder: Folder, key: int, column: str = "k") -> set[str]:
    view = index.refresh()
    assert view is not None
    reader = view.bloom(column)
    assert reader is not None
    slices = folder.lake.snapshot().slices
    value = pa.array([key if column == "k" else str(key)])
    may = reader.may_match(value, slices).to_pylist()
    return {data_slice.group for data_slice, keep in zip(slices, may, strict=True) if keep}


def test_a_key_keeps_its_own_file_and_few_others(folder: Folder) -> None:
    index = TableIndex(folder.path / "_parsieve")
    index.build_bloom(folder.lake, folder.lake.snapshot(), ["k", "s"])
    num_kept = 0
    for key in range(0, 4000, 37):
        files = kept_files(index, folder, key)
        assert folder.holding(key) <= files
        num_kept += len(files)
        assert folder.holding(key) <= kept_files(index, folder, key, "s")
    # Each key is in one file, and about 1% of the other filters report a false positive.
    assert num_kept < 1.6 * len(range(0, 4000, 37))


def test_a_point_lookup_costs_one_request_after_the_index_is_open(folder: Folder) -> None:
    index = TableIndex(folder.path / "_parsieve")
    view = index.build_bloom(folder.lake, folder.lake.snapshot(), ["k"])
    kept_files(index, folder, 5)
    before = view.store.requests
    assert kept_files(index, folder, 7) >= {"f7.parquet"}
    # One request for the newest version, and one for a row that covers all files.
    assert view.store.requests - before <= 2


def test_changed_files_are_kept_until_an_update_covers_them(folder: Folder) -> None:
    index = TableIndex(folder.path / "_parsieve")
    index.build_bloom(folder.lake, folder.lake.snapshot(), ["k"])
    folder.write("f3.parquet", [-5, None])
    folder.write("new.parquet", [-6])
    folder.remove("f4.parquet")
    assert kept_files(index, folder, 10**9) >= {"f3.parquet", "new.parquet"}
    index.update(folder.lake, folder.lake.snapshot())
    assert "new.parquet" not in kept_files(index, folder, 10**9)
    assert kept_files(index, folder, -5) >= {"f3.parquet"}
    assert "f3.parquet" not in kept_files(index, folder, 3)


def test_many_updates_use_few_shelves_and_lose_no_file(folder: Folder) -> None:
    index = TableIndex(folder.path / "_parsieve")
    index.build_bloom(folder.lake, folder.lake.snapshot(), ["k"])
    chance = random.Random(7)
    for step in range(30):
        folder.write(f"f{chance.randrange(24)}.parquet", [chance.randrange(4000) for _ in range(100)])
        if step % 3 == 0 and len(folder.keys) > 4:
            folder.remove(chance.choice(sorted(folder.keys)))
        view = index.update(folder.lake, folder.lake.snapshot())
        assert len(view.commit.blooms[("k",)].shelves) <= 8
        for key in range(0, 4000, 411):
            assert folder.holding(key) <= kept_files(index, folder, key)


def test_updates_keep_full_shelves_until_most_of_their_filters_are_stale(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is lost while newer filters are on later shelves."""
    monkeypatch.setattr("parsieve.index.local_executor.SHELF_BYTES", 1 << 10)
    monkeypatch.setattr("parsieve.index.bloom.update.MAX_SHELVES", 2)
    index = TableIndex(tmp_path / "index")
    before = index.build_bloom(folder.lake, folder.lake.snapshot(), ["k"]).commit.blooms[("k",)].shelves
    assert len(before) > 4
    num_files = [len(set(folder.keys) & {path for _, path in _locations(index, shelf)}) for shelf in before]
    assert min(num_files) > 0
    chance = random.Random(7)
    reused = []
    for step in range(20):
        folder.write(f"f{chance.randrange(24)}.parquet", [chance.randrange(4000) for _ in range(100)])
        if step % 3 == 0 and len(folder.keys) > 4:
            folder.remove(chance.choice(sorted(folder.keys)))
        after = index.update(folder.lake, folder.lake.snapshot()).commit.blooms[("k",)].shelves
        reused.append(sum(shelf in before for shelf in after))
        for key in range(0, 4000, 411):
            assert folder.holding(key) <= kept_files(index, folder, key)
    assert reused == sorted(reused, reverse=True)
    assert reused[5] > 0, "the first shelves must be reused"
    assert reused[-1] < len(before), "shelves with mostly stale filters must be rewritten"


def test_an_update_without_changes_merges_no_full_shelves(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parsieve.index.bloom.update.MAX_SHELVES", 2)
    monkeypatch.setattr("parsieve.index.local_executor.SHELF_BYTES", 1 << 10)
    index = TableIndex(tmp_path / "index")
    built = index.build_bloom(folder.lake, folder.lake.snapshot(), ["k"]).commit.blooms[("k",)].shelves
    assert len(built) > 4
    assert index.update(folder.lake, folder.lake.snapshot()).commit.blooms[("k",)].shelves == built


def _locations(index: TableIndex, shelf: Shelf) -> list[tuple[str, str]]:
    return list(ps._core.Shelf.read(shelf.directory.get(index.store)).locations)


def test_damaged_and_missing_files_of_the_index_keep_all_files(folder: Folder) -> None:
    index = TableIndex(folder.path / "_parsieve")
    view = index.build_bloom(folder.lake, folder.lake.snapshot(), ["k"])
    stored = sorted((folder.path / "_parsieve").rglob("*.shelf")) + sorted((folder.path / "_parsieve").rglob("*.rows"))
    assert len(stored) == 2
    for file in stored:
        data = file.read_bytes()
        for damaged in (bytes(len(data)), data[:20], b"", None):
            if damaged is None:
                file.unlink()
            else:
                file.write_bytes(damaged)
            fresh = TableIndex(folder.path / "_parsieve")
            assert kept_files(fresh, folder, 7) == set(folder.keys)
            newest = fresh.newest()
            assert newest is not None
            assert newest.doubts
            file.write_bytes(data)
    assert kept_files(TableIndex(folder.path / "_parsieve"), folder, 7) < set(folder.keys)
    assert view.doubts == {}


def test_types_without_a_filter_are_rejected(tmp_path: Path) -> None:
    pq.write_table(pa.table({"b": [True]}), tmp_path / "f.parquet")
    index = TableIndex(tmp_path / "_parsieve")
    lake = open_lake(str(tmp_path))
    with pytest.raises(ps.UnsupportedError):
        index.build_bloom(lake, lake.snapshot(), ["b"])
    assert index.refresh() is None


def test_a_sieve_and_a_bloom_index_coexist_and_are_dropped_by_column(folder: Folder) -> None:
    index = TableIndex(folder.path / "_parsieve")
    index.build(folder.lake, folder.lake.snapshot(), ["k"])
    view = index.build_bloom(folder.lake, folder.lake.snapshot(), ["s"])
    assert view.find("k")
    assert view.bloom("s") is not None
    assert view.bloom("k") is None
    index.drop(["s"])
    view = index.newest() or view
    assert view.find("k")
    assert view.bloom("s") is None
    with pytest.raises(ps.ColumnNotFoundError):
        index.drop(["s"])


def test_expire_removes_unreferenced_shelves(folder: Folder) -> None:
    index = TableIndex(folder.path / "_parsieve")
    index.build_bloom(folder.lake, folder.lake.snapshot(), ["k"])
    index.build_bloom(folder.lake, folder.lake.snapshot(), ["k"])
    assert len(list((folder.path / "_parsieve" / "shelves").iterdir())) == 4
    # With a negative age, files that were written just now are garbage too.
    index.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5), garbage_age=dt.timedelta(seconds=-5))
    assert len(list((folder.path / "_parsieve" / "shelves").iterdir())) == 2
    assert kept_files(index, folder, 7) >= {"f7.parquet"}


def test_filters_are_rebuilt_if_the_type_of_a_partition_column_changes(tmp_path: Path) -> None:
    # The type of a partition column depends on all folder names.
    for number in range(8):
        (tmp_path / f"p={number}").mkdir()
        pq.write_table(pa.table({"row": [number]}), tmp_path / f"p={number}" / "a.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    assert table.build_index("p", kind="bloom").columns == {"p": "bloom"}
    (tmp_path / "p=text").mkdir()
    pq.write_table(pa.table({"row": [8]}), tmp_path / "p=text" / "a.parquet")
    wait_until_old(tmp_path)
    table.update_index(progress=False)
    assert table.verify_index() == []
    plan = table.plan("p = '3'")
    assert plan.to_arrow()["row"].to_pylist() == [3]
    assert not plan.record.notes


def test_a_filter_of_more_than_a_million_rows_meets_its_rate(tmp_path: Path) -> None:
    keys = np.random.default_rng(1).integers(0, 2**62, 3_000_000)
    pq.write_table(pa.table({"k": keys}), tmp_path / "a.parquet", use_dictionary=False)
    lake = open_lake(str(tmp_path))
    # A file has no token until it is older than a tick of the clock, and would not be indexed.
    while not all(data_slice.token for data_slice in lake.snapshot().slices):
        time.sleep(0.01)
    snapshot = lake.snapshot()
    view = TableIndex(tmp_path / "_parsieve").build_bloom(lake, snapshot, ["k"])
    (shelf,) = view.commit.blooms[("k",)].shelves
    ((_, _, (bloom_filter,), *_),) = ps._core.Shelf.read(shelf.directory.get(view.store)).unshelve(
        view.store.get(shelf.rows.name)
    )
    assert bloom_filter is not None
    assert pc.all(bloom_filter.check(pa.array(keys[:10_000]))).as_py()
    # Before a fix, the rate was above 1/3.
    assert bloom_filter.estimated_fpp < 0.01


@pytest.mark.parametrize("kind", ["bloom", "sieve"])
def test_verify_names_filters_for_an_earlier_type(tmp_path: Path, kind: str) -> None:
    write_deltalake(str(tmp_path), pa.table({"x": pa.array([1, 2, None], pa.int32())}))
    table = ps.open_table(tmp_path)
    table.build_index("x", kind=kind)
    # Delta can widen integers to doubles, and the filters hash the bytes of integers.
    change = {"delta.typeChanges": [{"fromType": "integer", "toType": "double"}]}
    field = {"name": "x", "type": "double", "nullable": True, "metadata": change}
    first = (tmp_path / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    [metadata] = [action["metaData"] for action in map(json.loads, first) if "metaData" in action]
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
    commit(
        tmp_path,
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"metaData": metadata | {"schemaString": json.dumps({"type": "struct", "fields": [field]})}},
    )
    assert table.plan("x = 2").to_arrow()["x"].to_pylist() == [2.0]
    problems = table.verify_index()
    assert [problem.loses_rows for problem in problems] == [False] * len(problems)
    if kind == "bloom":
        [problem] = problems
        assert problem.problem == "its filters are for an earlier type of the column; build the index again"
        table.build_index("x", kind=kind)
        assert table.verify_index() == []

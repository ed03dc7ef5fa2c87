"""The Bloom index of a table: built, updated, damaged, and never fewer than the truth."""

from __future__ import annotations

import datetime as dt
import os
import random
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.index import TableIndex
from parsieve.index.log.commit import Shelf
from parsieve.lake import open_lake
from parsieve.lake.base import Lake


class Folder:
    """A folder of files that are old enough to be trusted, and what each of them holds."""

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
    # Files of this very moment are unknown to an index; here their clock is set back, but not their change time.
    monkeypatch.setattr("parsieve.lake.storage.listing.TICK_NS", 0)
    monkeypatch.setattr("parsieve.lake.storage.listing.COARSE_NS", 0)
    made = Folder(tmp_path / "table")
    made.path.mkdir()
    for part in range(20):
        made.write(f"f{part}.parquet", list(range(part, 4000, 20)))
    return made


def asked(index: TableIndex, folder: Folder, key: int, column: str = "k") -> set[str]:
    view = index.refresh()
    assert view is not None
    reader = view.bloom(column)
    assert reader is not None
    slices = folder.lake.snapshot().slices
    value = pa.array([key if column == "k" else str(key)])
    may = reader.may_match(value, slices).to_pylist()
    return {piece.group for piece, kept in zip(slices, may, strict=True) if kept}


def test_a_key_keeps_few_files_and_always_its_own(folder: Folder) -> None:
    index = TableIndex(folder.path / "_parsieve")
    index.build_bloom(folder.lake, folder.lake.snapshot(), ["k", "s"])
    kept = 0
    for key in range(0, 4000, 37):
        found = asked(index, folder, key)
        assert folder.holding(key) <= found
        kept += len(found)
        assert folder.holding(key) <= asked(index, folder, key, "s")
    # A key lives in one file, and one filter in a hundred says "maybe" beside it.
    assert kept < 1.6 * len(range(0, 4000, 37))


def test_a_point_costs_one_request_once_the_index_is_open(folder: Folder) -> None:
    index = TableIndex(folder.path / "_parsieve")
    view = index.build_bloom(folder.lake, folder.lake.snapshot(), ["k"])
    asked(index, folder, 5)
    before = view.store.requests
    assert asked(index, folder, 7) >= {"f7.parquet"}
    # The newest version is looked for, and read; then one row for all files.
    assert view.store.requests - before <= 2


def test_what_changed_is_kept_until_an_update_and_found_after_it(folder: Folder) -> None:
    index = TableIndex(folder.path / "_parsieve")
    index.build_bloom(folder.lake, folder.lake.snapshot(), ["k"])
    folder.write("f3.parquet", [-5, None])
    folder.write("new.parquet", [-6])
    folder.remove("f4.parquet")
    assert asked(index, folder, 10**9) >= {"f3.parquet", "new.parquet"}
    index.update(folder.lake, folder.lake.snapshot())
    assert "new.parquet" not in asked(index, folder, 10**9)
    assert asked(index, folder, -5) >= {"f3.parquet"}
    assert "f3.parquet" not in asked(index, folder, 3)


def test_many_updates_end_on_few_shelves_and_lose_nothing(folder: Folder) -> None:
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
            assert folder.holding(key) <= asked(index, folder, key)


def test_full_shelves_are_not_written_anew_by_every_update(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only while most of their filters count; and nothing is lost where newer filters stand on later shelves."""
    monkeypatch.setattr("parsieve.index.bloom.build.SHELF_BYTES", 1 << 10)
    monkeypatch.setattr("parsieve.index.bloom.build.MOST_SHELVES", 2)
    index = TableIndex(tmp_path / "index")
    before = index.build_bloom(folder.lake, folder.lake.snapshot(), ["k"]).commit.blooms[("k",)].shelves
    assert len(before) > 4
    held = [len(set(folder.keys) & {path for _, path in _locations(index, shelf)}) for shelf in before]
    assert min(held) > 0
    chance = random.Random(7)
    left = []
    for step in range(20):
        folder.write(f"f{chance.randrange(24)}.parquet", [chance.randrange(4000) for _ in range(100)])
        if step % 3 == 0 and len(folder.keys) > 4:
            folder.remove(chance.choice(sorted(folder.keys)))
        after = index.update(folder.lake, folder.lake.snapshot()).commit.blooms[("k",)].shelves
        left.append(sum(one in before for one in after))
        for key in range(0, 4000, 411):
            assert folder.holding(key) <= asked(index, folder, key)
    assert left == sorted(left, reverse=True)
    assert left[5] > 0, "those at the front stand as they were"
    assert left[-1] < len(before), "until most of what is on them counts no more"


def _locations(index: TableIndex, shelf: Shelf) -> list[tuple[str, str]]:
    return list(ps._core.Shelf.read(shelf.directory.get(index.store)).locations)


def test_damage_and_loss_keep_everything_and_are_told(folder: Folder) -> None:
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
            assert asked(fresh, folder, 7) == set(folder.keys)
            newest = fresh.newest()
            assert newest is not None
            assert newest.doubts
            file.write_bytes(data)
    assert asked(TableIndex(folder.path / "_parsieve"), folder, 7) < set(folder.keys)
    assert view.doubts == {}


def test_types_without_a_filter_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"b": [True]}), tmp_path / "f.parquet")
    index = TableIndex(tmp_path / "_parsieve")
    lake = open_lake(str(tmp_path))
    with pytest.raises(ps.UnsupportedError):
        index.build_bloom(lake, lake.snapshot(), ["b"])
    assert index.refresh() is None


def test_a_sieve_and_filters_live_side_by_side_and_are_dropped_by_name(folder: Folder) -> None:
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


def test_shelves_that_no_version_names_are_removed(folder: Folder) -> None:
    index = TableIndex(folder.path / "_parsieve")
    index.build_bloom(folder.lake, folder.lake.snapshot(), ["k"])
    index.build_bloom(folder.lake, folder.lake.snapshot(), ["k"])
    assert len(list((folder.path / "_parsieve" / "shelves").iterdir())) == 4
    time.sleep(0.01)
    index.expire(dt.timedelta(0), garbage_age=dt.timedelta(0))
    assert len(list((folder.path / "_parsieve" / "shelves").iterdir())) == 2
    assert asked(index, folder, 7) >= {"f7.parquet"}


def test_filters_of_another_kind_of_values_are_made_anew(tmp_path: Path) -> None:
    # What the values of a folder's name are is a matter of all names.
    for number in range(8):
        (tmp_path / f"p={number}").mkdir()
        pq.write_table(pa.table({"row": [number]}), tmp_path / f"p={number}" / "a.parquet")
    time.sleep(0.1)
    table = ps.open_table(str(tmp_path))
    assert table.build_index("p", kind="bloom").columns == {"p": "bloom"}
    (tmp_path / "p=text").mkdir()
    pq.write_table(pa.table({"row": [8]}), tmp_path / "p=text" / "a.parquet")
    time.sleep(0.1)
    table.update_index(progress=False)
    assert table.verify_index() == []
    plan = table.plan("p = '3'")
    assert plan.to_arrow()["row"].to_pylist() == [3]
    assert not plan.record.notes


def test_a_file_of_more_than_a_million_rows_keeps_the_rate(tmp_path: Path) -> None:
    keys = np.random.default_rng(1).integers(0, 2**62, 3_000_000)
    pq.write_table(pa.table({"k": keys}), tmp_path / "a.parquet", use_dictionary=False)
    lake = open_lake(str(tmp_path))
    # A file as young as a tick of the clock has no token, and is not indexed.
    while not all(piece.token for piece in lake.snapshot().slices):
        time.sleep(0.01)
    snapshot = lake.snapshot()
    view = TableIndex(tmp_path / "_parsieve").build_bloom(lake, snapshot, ["k"])
    (shelf,) = view.commit.blooms[("k",)].shelves
    ((*_, held, _, _, _),) = ps._core.Shelf.read(shelf.directory.get(view.store)).unshelve(
        view.store.get(shelf.rows.name)
    )
    assert held is not None
    assert pc.all(held.check(pa.array(keys[:10_000]))).as_py()
    # It was more than a third.
    assert held.estimated_fpp < 0.01

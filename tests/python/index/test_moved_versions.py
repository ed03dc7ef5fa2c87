"""The first commit in format 2 moves all versions to `log/`, where parsieve 0.1 cannot change them."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from obstore.store import MemoryStore
from support.interrupted_store import InterruptedStore
from support.killed_store import kills

import parsieve as ps
from parsieve.index import LocalStore, ObjectStore, TableIndex
from parsieve.index.log.folders import GUARD, LOG, name_of
from parsieve.index.log.log import Log
from parsieve.io.store.base import Store
from parsieve.lake import open_lake
from parsieve.lake.base import Lake

# All versions are older than this on any clock.
END = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)
STORED = Path(__file__).parents[2] / "vectors" / "index_v1.zip"


class Converted:
    """A Delta table with an index in format 1, and copies of the index that are converted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with zipfile.ZipFile(STORED) as archive:
            archive.extractall(folder / "table")
        ps.open_table(folder / "table").expire_index(0)
        for key in (7000, 7001):
            rows = pa.table({"id": [key], "name": [f"new-{key}"], "score": [0.5]})
            write_deltalake(folder / "table", rows, mode="append")
            if key == 7000:
                ps.open_table(folder / "table").update_index(progress=False)
        self.lake: Lake = open_lake(str(folder / "table"))
        self.index = folder / "table" / "_parsieve"
        self.documents = {int(path.name[1:]): path.read_bytes() for path in (self.index / "commits").iterdir()}
        self._copies = 0
        # The number of rows with some keys in two versions of the table.
        ids = {
            version: DeltaTable(folder / "table", version=version).to_pyarrow_table()["id"].to_pylist()
            for version in (4, DeltaTable(folder / "table").version())
        }
        keys = (14, 7000, 7001)
        self._expected = {version: {key: found.count(key) for key in keys} for version, found in ids.items()}

    def copy(self) -> Path:
        self._copies += 1
        # Files of an index never change, so the copies can share them.
        return Path(shutil.copytree(self.index, self._folder / f"index-{self._copies}", copy_function=os.link))

    def table(self, index: TableIndex | Path) -> ps.Table:
        return ps.Table(self.lake, index if isinstance(index, TableIndex) else TableIndex(index))

    def check(self, index: Path) -> None:
        """Assert that plans of several versions of the table have all rows, and that they use the index."""
        table, skipped = self.table(index), 0
        for version, found in self._expected.items():
            for key, count in found.items():
                plan = table.plan(f"id = {key}", version, row_groups=False)
                assert plan.to_arrow().num_rows == count, (key, version)
                skipped += len(plan.skipped)
        assert skipped > 5

    def assert_moved(self, index: Path) -> None:
        """Assert that `commits/` has only the guard, and that `log/` has one history without gaps."""
        assert names(index / "commits") == [Path(GUARD).name]
        assert moved_to(index / GUARD) == {"moved_to": "log"}
        log = Log(LocalStore(index))
        commits = [log.read(*version) for version in log.stored()]
        assert [Path(stored.name).parent.name for _, stored in log.stored()] == [LOG] * len(commits)
        assert [commit.version for commit in commits] == list(range(commits[0].version, commits[-1].version + 1))
        assert all(later.parent == earlier.writer for earlier, later in pairwise(commits))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Converted:
    # No test here cuts the power, and a busy disk takes long.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Converted(tmp_path)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".tmp-"))


def moved_to(guard: Path) -> object:
    head, _, body = guard.read_bytes().partition(b"\n")
    assert head.startswith(b"parsieve-index commit 2 ")
    return json.loads(zlib.decompress(body))


def expire_as_0_1(index: Path) -> None:
    """Delete all versions but the last one by name, without reading one, as 0.1 does before it fails."""
    for name in names(index / "commits")[:-1]:
        (index / "commits" / name).unlink()


def test_all_versions_are_moved_unchanged(made: Converted) -> None:
    made.table(made.index).convert_index(progress=False)
    made.assert_moved(made.index)
    newest = max(made.documents) + 1
    assert names(made.index / "log") == [Path(name_of(version)).name for version in (*sorted(made.documents), newest)]
    for version, data in made.documents.items():
        assert (made.index / name_of(version, LOG)).read_bytes() == data
    made.check(made.index)
    before = {path: path.read_bytes() for path in made.index.rglob("*") if path.is_file()}
    expire_as_0_1(made.index)
    assert {path: path.read_bytes() for path in made.index.rglob("*") if path.is_file()} == before


def test_an_index_in_format_1_stays_where_0_1_finds_it(made: Converted) -> None:
    table = made.table(made.index)
    table.update_index(progress=False)
    table.compact_index()
    table.expire_index(0)
    assert not (made.index / "log").exists()
    assert Path(GUARD).name not in names(made.index / "commits")


@pytest.mark.parametrize("then", [lambda index: None, expire_as_0_1], ids=["alone", "and expiry of 0.1"])
def test_a_move_that_is_killed_at_any_step_is_finished_by_the_next_writer(
    made: Converted, then: Callable[[Path], None]
) -> None:
    steps = 0
    for moment, index in kills(made.copy, lambda index: made.table(index).convert_index(progress=False)):
        if not (index / GUARD).exists():
            # The expiry of 0.1 would keep the newest version.
            shutil.rmtree(index)
            continue
        steps += 1
        then(index)
        newest = TableIndex(index).log.newest()
        assert newest is not None, moment
        assert newest.version in (max(made.documents), max(made.documents) + 1), moment
        made.check(index)
        # Even a commit that changes only columns in format 1 finishes the move.
        again = made.table(index)
        again.update_index(progress=False)
        made.assert_moved(index)
        made.check(index)
        if then is not expire_as_0_1:
            assert min(version for version, _ in Log(LocalStore(index)).stored()) == min(made.documents), moment
        again.convert_index(progress=False)
        again.expire_index(0)
        made.assert_moved(index)
        made.check(index)
        shutil.rmtree(index)
    assert steps > 3 * len(made.documents)


@pytest.mark.parametrize("operation", ["expire", "drop"])
def test_expiry_and_a_drop_finish_a_killed_move(made: Converted, operation: str) -> None:
    for moment, index in kills(made.copy, lambda index: made.table(index).convert_index(progress=False)):
        if (index / GUARD).exists():
            table = made.table(index)
            if operation == "expire":
                table.expire_index(0)
                made.assert_moved(index)
                made.check(index)
            else:
                table.drop_index()
                assert len(names(index / "commits")) == 1, moment
                assert not (index / GUARD).exists(), moment
                assert names(index / "log") == [], moment
                table.build_index("id", kind="sieve", progress=False)
                made.assert_moved(index)
        shutil.rmtree(index)


OTHERS: dict[str, Callable[[ps.Table], object]] = {
    "convert": lambda table: table.convert_index(progress=False),
    "update": lambda table: table.update_index(progress=False),
    "expire": lambda table: table.expire_index(END),
    "drop": lambda table: table.drop_index(),
}


def interruptions(made: Converted, other: str, one: Callable[[ps.Table], object]) -> Iterator[Path]:
    """Run one writer, and all of another one before each of its listings and changes."""
    number = 0
    while True:
        number += 1
        index = made.copy()
        store = InterruptedStore(index, number, lambda index=index: OTHERS[other](made.table(index)))  # type: ignore[misc]
        try:
            one(made.table(TableIndex(store)))
        except (ps.ConflictError, ps.FormatError, ps.IndexNotFoundError):
            # Files that a concurrent drop removed, or that were built meanwhile.
            assert store.is_done
        if not store.is_done:
            assert number > 10
            return
        yield index
        shutil.rmtree(index)


@pytest.mark.parametrize("other", ["convert", "update", "expire"])
def test_writers_that_overtake_a_move_lose_nothing(made: Converted, other: str) -> None:
    for index in interruptions(made, other, OTHERS["convert"]):
        made.check(index)
        made.table(index).convert_index(progress=False)
        made.assert_moved(index)
        made.check(index)


@pytest.mark.parametrize("one", ["update", "expire"])
def test_a_move_overtakes_writers_that_change_only_format_1(made: Converted, one: str) -> None:
    for index in interruptions(made, "convert", OTHERS[one]):
        made.check(index)
        made.table(index).update_index(progress=False)
        made.assert_moved(index)
        made.check(index)


@pytest.mark.parametrize("one", ["convert", "update", "expire", "drop"])
def test_after_a_concurrent_drop_an_index_can_be_built_and_used(made: Converted, one: str) -> None:
    made.table(made.index).build_index("id", kind="sieve", unit="file", progress=False)
    for index in interruptions(made, "drop", OTHERS[one]):
        table = made.table(index)
        assert table.plan("id = 14").to_arrow().num_rows == 1
        table.build_index(["id", "score"], kind="sieve", progress=False)
        made.assert_moved(index)
        made.check(index)


def test_a_version_that_0_1_puts_late_is_never_read(made: Converted) -> None:
    """Version 0.1 withdraws such a version itself, unless it is killed before that."""
    late = made.index / name_of(max(made.documents) + 1)
    made.table(made.index).convert_index(progress=False)
    table = made.table(made.index)
    for operation in (
        lambda: table.build_index("id", kind="sieve", progress=False),
        lambda: table.expire_index(0),
        lambda: table.expire_index(0),
    ):
        late.write_bytes(made.documents[max(made.documents)])
        assert all(file.name.startswith("log/") for _, file in table.opened.index.log.stored())
        made.check(made.index)
        operation()
        made.assert_moved(made.index)


def test_a_guard_that_was_deleted_is_put_again(made: Converted) -> None:
    made.table(made.index).convert_index(progress=False)
    shutil.rmtree(made.index / "commits")
    made.check(made.index)
    made.table(made.index).build_index("id", kind="sieve", progress=False)
    made.assert_moved(made.index)
    made.check(made.index)


def test_a_damaged_guard_hides_no_version(made: Converted) -> None:
    index = next(
        index
        for _, index in kills(made.copy, lambda index: made.table(index).convert_index(progress=False))
        if (index / GUARD).exists()
    )
    (index / GUARD).write_bytes(b"damaged")
    made.check(index)
    made.table(index).update_index(progress=False)
    made.assert_moved(index)
    made.check(index)


def stores(folder: Path) -> Iterator[Store]:
    yield LocalStore(folder / "local")
    yield ObjectStore(MemoryStore(), "index")


def test_a_new_index_has_a_guard_until_it_is_dropped(made: Converted, tmp_path: Path) -> None:
    for store in stores(tmp_path):
        table = made.table(TableIndex(store))
        for _ in range(2):
            table.build_index("id", kind="sieve", progress=False)
            table.build_index("name", kind="bloom", progress=False)
            assert [file.name for file in store.list("commits")] == [GUARD]
            table.drop_index("id")
            # The last version has no column in format 2, but earlier ones do.
            assert [file.name for file in store.list("commits")] == [GUARD]
            assert store.get(store.list("log")[-1].name).startswith(b"parsieve-index commit 1 ")
            table.build_index("id", kind="sieve", progress=False)
            assert table.expire_index(0).versions_removed > 1
            TableIndex(store).expire(0, garbage_age=dt.timedelta(seconds=-5))
            assert [file.name for file in store.list("commits")] == [GUARD]
            assert len(store.list("log")) == 1
            assert table.verify_index() == []
            table.drop_index()
            assert store.list("log") == []
            [last] = store.list("commits")
            assert store.get(last.name).startswith(b"parsieve-index commit 1 ")
            assert ps.Table(made.lake, TableIndex(store)).plan("id = 14").to_arrow().num_rows == 1


def test_opening_an_index_lists_one_folder(made: Converted) -> None:
    store = ObjectStore(MemoryStore(), "index")
    made.table(TableIndex(store)).build_index("id", kind="sieve", progress=False)
    before = store.requests
    assert TableIndex(store).refresh() is not None
    # One listing, and one version.
    assert store.requests - before == 2


class UnsureStore(ObjectStore):
    """An object store that writes a file, and then loses the answer."""

    lost = 0

    def put_if_absent(self, name: str, data: bytes) -> bool:
        if super().put_if_absent(name, data):
            self.lost += 1
            raise OSError("the answer was lost")
        return False


def test_a_move_in_an_object_store_survives_lost_answers(made: Converted) -> None:
    store = UnsureStore(MemoryStore(), "index")
    for path in made.index.rglob("*"):
        if path.is_file():
            store.put(str(path.relative_to(made.index)), path.read_bytes())
    table = made.table(TableIndex(store))
    table.convert_index(progress=False)
    # The guard, each version that was moved, and the new version.
    assert store.lost == 1 + len(made.documents) + 1
    assert [file.name for file in store.list("commits")] == [GUARD]
    assert [file.name for file in store.list("log")] == [
        name_of(version, LOG) for version in (*sorted(made.documents), max(made.documents) + 1)
    ]
    assert table.plan("id = 7001").to_arrow().num_rows == 1
    assert table.verify_index() == []

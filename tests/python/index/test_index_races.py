"""Commits that race: those that do not touch go on top of each other, and one that comes too late does not hold."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from support.models.model_lake import ModelLake, place

from parsieve import ConflictError, _core
from parsieve.index import TableIndex
from parsieve.index.sieve import query
from parsieve.io import document
from parsieve.io.store.base import Data
from parsieve.io.store.local import LocalStore
from parsieve.lake.base import ColumnPath, Slice

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
OPTIONS = _core.SieveOptions(max_records=200, max_weight=150)


def rows(keys: list[int | None]) -> pa.Table:
    return pa.table({"k": keys, "v": keys}, schema=SCHEMA)


class Racing(ModelLake):
    """A table during whose next scan somebody else does something to the index."""

    meanwhile: Callable[[], object] | None = None

    def read_keys(self, piece: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        if self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            act()
        yield from super().read_keys(piece, columns)


def test_commits_that_do_not_touch_are_put_on_top_of_each_other(tmp_path: Path) -> None:
    lake = Racing(SCHEMA)
    first = lake.change({place("a"): rows([1]), place("b"): rows([2])})
    mine, theirs = TableIndex(tmp_path), TableIndex(tmp_path)
    # Two columns built at once.
    lake.meanwhile = lambda: theirs.build(lake, first, ["v"], progress=False)
    view = mine.build(lake, first, ["k"], progress=False)
    assert (view.version, set(view.columns)) == (2, {("k",), ("v",)})
    # The same column built at once: one of them has to look again.
    lake.meanwhile = lambda: theirs.build(lake, first, ["k"], progress=False)
    with pytest.raises(ConflictError, match="k was indexed by somebody else"):
        mine.build(lake, first, ["k", "v"], progress=False)
    # An update of which another one was faster, to a later snapshot: the later one stays.
    second = lake.change({place("a"): rows([3])})
    third = lake.change({place("a"): rows([4])})
    lake.meanwhile = lambda: theirs.update(lake, third, progress=False)
    assert mine.update(lake, second, progress=False).table.id == third.id
    # An update beside a compaction: both hold.
    fourth = lake.change({place("b"): rows([5])})
    lake.meanwhile = theirs.compact
    view = mine.update(lake, fourth, progress=False)
    assert [len(state.deltas) for state in view.columns.values()] == [1, 1]
    mask = view.may_match("k", query.equals(pa.scalar(5)), fourth.slices).to_pylist()
    assert [piece.group for piece, keep in zip(fourth.slices, mask, strict=True) if keep] == ["b"]
    assert mine.verify(lake, fourth) == []


def test_a_writer_who_slept_does_not_commit_below_the_newest_version(tmp_path: Path) -> None:
    lake = Racing(SCHEMA)
    mine, theirs = TableIndex(tmp_path), TableIndex(tmp_path)
    mine.build(lake, lake.change({place("a"): rows([1]), place("b"): rows([2])}), ["k"], progress=False)
    second = lake.change({place("a"): rows([3])})

    def others_commit_and_expire() -> None:
        for key in range(10, 13):
            theirs.update(lake, lake.change({place("b"): rows([key])}), progress=False)
        soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)
        assert theirs.expire(soon).versions_removed == 3

    # The number after the version that this writer saw is free again when he comes to put it.
    lake.meanwhile = others_commit_and_expire
    mine.update(lake, second, progress=False)
    assert [version for version, _ in mine.log.stored()] == [4]
    view = mine.update(lake, lake.snapshot(), progress=False)
    assert view.version == 4
    third = mine.update(lake, lake.change({place("c"): rows([5])}), progress=False)
    assert third.commit.parent == view.commit.writer
    assert mine.verify(lake, lake.snapshot()) == []


class Sleepy(LocalStore):
    """A store on which a writer falls asleep just before it puts a version, or just after."""

    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None

    def put_if_absent(self, name: str, data: bytes) -> bool:
        if self.before is not None:
            act, self.before = self.before, None
            act()
        done = super().put_if_absent(name, data)
        if self.after is not None:
            act, self.after = self.after, None
            act()
        return done


def sleepy(folder: Path) -> tuple[TableIndex, Sleepy]:
    store = Sleepy(folder)
    return TableIndex(store), store


def assert_whole(index: TableIndex, lake: ModelLake) -> None:
    """Every file that the newest version names is there, and the index is true."""
    newest = index.log.newest()
    assert newest is not None
    assert [part.name for part in newest.parts() if part.name and not (index.store.root / part.name).exists()] == []  # type: ignore[attr-defined]
    assert index.verify(lake, lake.snapshot()) == []


def collect(folder: Path) -> int:
    """What no version names is removed, whatever its age."""
    time.sleep(0.02)
    return TableIndex(folder).expire(dt.timedelta(days=1), dt.timedelta(0)).files_removed


@pytest.mark.parametrize("operation", ["build", "update", "compact"])
def test_a_writer_who_sleeps_longer_than_garbage_lives_gets_a_conflict(tmp_path: Path, operation: str) -> None:
    lake = ModelLake(SCHEMA)
    first = lake.change({place("a"): rows([1]), place("b"): rows([2])})
    TableIndex(tmp_path).build(lake, first, ["k"], progress=False)
    second = lake.change({place("a"): rows([3])})
    if operation == "compact":
        TableIndex(tmp_path).update(lake, second, progress=False)
    index, store = sleepy(tmp_path)
    acts: dict[str, Callable[[], object]] = {
        "build": lambda: index.build(lake, second, ["v"], progress=False),
        "update": lambda: index.update(lake, second, progress=False),
        "compact": index.compact,
    }
    before = [version for version, _ in index.log.stored()]
    store.before = lambda: collect(tmp_path)
    with pytest.raises(ConflictError, match="removed as garbage"):
        acts[operation]()
    assert [version for version, _ in index.log.stored()] == before
    assert_whole(index, lake)
    # Awake, it is done at once.
    acts[operation]()
    assert_whole(index, lake)


def test_what_was_put_on_top_of_a_version_that_is_withdrawn_holds_none_of_its_lost_files(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    first = lake.change({place("a"): rows([1]), place("b"): rows([2])})
    TableIndex(tmp_path).build(lake, first, ["k"], progress=False)
    index, store = sleepy(tmp_path)
    store.before = lambda: collect(tmp_path)
    # Before the sleeper looks at his files, somebody else goes on from his version.
    store.after = lambda: TableIndex(tmp_path).build(lake, first, ["k"], progress=False)
    with pytest.raises(ConflictError, match="removed as garbage"):
        index.build(lake, first, ["v"], progress=False)
    newest = index.newest()
    assert newest is not None
    assert set(newest.columns) == {("k",)}
    assert_whole(index, lake)


def test_a_collector_who_sleeps_spares_what_was_committed_meanwhile(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    snapshot = lake.change({place("a"): rows([1])})

    class Waiting(LocalStore):
        """A store whose collector gives notice, and then sleeps while a prepared version is put."""

        def put(self, name: str, data: Data) -> None:
            super().put(name, data)
            if name.startswith("garbage/"):
                release()

    mine, store = sleepy(tmp_path)
    TableIndex(tmp_path).build(lake, snapshot, ["v"], progress=False)
    outcomes: list[object] = []

    def release() -> None:
        # The version arrives between the notice and the collector's second look.
        outcomes.append(LocalStore(tmp_path).put_if_absent(*pending.pop()))

    pending: list[tuple[str, bytes]] = []
    real = store.put_if_absent

    def hold(name: str, data: bytes) -> bool:
        pending.append((name, data))
        TableIndex(Waiting(tmp_path)).expire(dt.timedelta(days=1), dt.timedelta(0))
        return bool(outcomes)

    store.put_if_absent = hold  # type: ignore[method-assign]
    time.sleep(0.02)
    view = mine.build(lake, snapshot, ["k"], progress=False)
    store.put_if_absent = real  # type: ignore[method-assign]
    assert outcomes == [True]
    assert set(view.columns) == {("k",), ("v",)}
    assert_whole(mine, lake)


def test_a_notice_that_nobody_removed_is_heeded_and_goes_with_age(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    snapshot = lake.change({place("a"): rows([1])})
    index, store = sleepy(tmp_path)

    def killed_collector() -> None:
        names = [one.name for folder in ("roots", "segments") for one in store.list(folder)]
        store.put("garbage/0-1.garbage", document.write("garbage", {"names": names}))

    store.before = killed_collector
    with pytest.raises(ConflictError, match="removed as garbage"):
        index.build(lake, snapshot, ["k"], progress=False)
    assert index.newest() is None
    index.build(lake, snapshot, ["k"], progress=False)
    notice = tmp_path / "garbage/0-1.garbage"
    index.expire(dt.timedelta(days=1))
    assert notice.exists()
    old = time.time() - 8 * 86_400
    os.utime(notice, (old, old))
    index.expire(dt.timedelta(days=1))
    assert not notice.exists()
    # One that cannot be read speaks of every file.
    store.before = lambda: store.put("garbage/0-2.garbage", b"\0")
    with pytest.raises(ConflictError, match="removed as garbage"):
        index.update(lake, lake.change({place("a"): rows([2])}), progress=False)
    (tmp_path / "garbage/0-2.garbage").unlink()
    index.update(lake, lake.snapshot(), progress=False)
    assert_whole(index, lake)

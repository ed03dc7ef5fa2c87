"""Concurrent commits: independent commits both succeed, and a commit that is too late fails with a conflict."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore
from support.aging import wait_until_old
from support.models.model_lake import ModelLake, place

import parsieve as ps
from parsieve import ConflictError
from parsieve.index import TableIndex
from parsieve.index.log.folders import put_new
from parsieve.index.log.log import Log
from parsieve.index.sieve import query
from parsieve.io import document
from parsieve.io.store.base import Data, Stored
from parsieve.io.store.local import LocalStore
from parsieve.io.store.objects import ObjectStore
from parsieve.lake.base import ColumnPath, Slice

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
OPTIONS = {"max_records": 200, "max_weight": 150}


def rows(keys: list[int | None]) -> pa.Table:
    return pa.table({"k": keys, "v": keys}, schema=SCHEMA)


class Racing(ModelLake):
    """A table whose next scan first calls `meanwhile`, which changes the index."""

    meanwhile: Callable[[], object] | None = None

    def read_keys(self, data_slice: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        if self.meanwhile is not None:
            action, self.meanwhile = self.meanwhile, None
            action()
        yield from super().read_keys(data_slice, columns)


def test_independent_commits_both_succeed(tmp_path: Path) -> None:
    lake = Racing(SCHEMA)
    first = lake.change({place("a"): rows([1]), place("b"): rows([2])})
    mine, theirs = TableIndex(tmp_path), TableIndex(tmp_path)
    # Concurrent builds of two columns.
    lake.meanwhile = lambda: theirs.build(lake, first, ["v"], progress=False)
    view = mine.build(lake, first, ["k"], progress=False)
    assert (view.version, set(view.columns)) == (2, {("k",), ("v",)})
    # Concurrent builds of the same column: one of them fails.
    lake.meanwhile = lambda: theirs.build(lake, first, ["k"], progress=False)
    with pytest.raises(ConflictError, match="k was indexed by another process"):
        mine.build(lake, first, ["k", "v"], progress=False)
    # A concurrent update to a later snapshot is faster: the later snapshot wins.
    second = lake.change({place("a"): rows([3])})
    third = lake.change({place("a"): rows([4])})
    lake.meanwhile = lambda: theirs.update(lake, third, progress=False)
    assert mine.update(lake, second, progress=False).table.id == third.id
    # Concurrent update and compaction: both succeed.
    fourth = lake.change({place("b"): rows([5])})
    lake.meanwhile = lambda: theirs.compact(lake, third)
    view = mine.update(lake, fourth, progress=False, compaction=False)
    assert [len(state.deltas) for state in view.columns.values()] == [1, 1]
    mask = view.may_match("k", query.equals(pa.scalar(5)), fourth.slices).to_pylist()
    assert [data_slice.group for data_slice, keep in zip(fourth.slices, mask, strict=True) if keep] == ["b"]
    assert mine.verify(lake, fourth) == []


def test_a_slow_writer_does_not_commit_below_the_newest_version(tmp_path: Path) -> None:
    lake = Racing(SCHEMA)
    mine, theirs = TableIndex(tmp_path), TableIndex(tmp_path)
    mine.build(lake, lake.change({place("a"): rows([1]), place("b"): rows([2])}), ["k"], progress=False)
    second = lake.change({place("a"): rows([3])})

    def others_commit_and_expire() -> None:
        for key in range(10, 13):
            theirs.update(lake, lake.change({place("b"): rows([key])}), progress=False, compaction=False)
        soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)
        assert theirs.expire(soon).versions_removed == 3

    # When this writer commits, expiry has freed the version number that it chose.
    lake.meanwhile = others_commit_and_expire
    mine.update(lake, second, progress=False, compaction=False)
    assert [version for version, _ in mine.log.stored()] == [4]
    view = mine.update(lake, lake.snapshot(), progress=False, compaction=False)
    assert view.version == 4
    third = mine.update(lake, lake.change({place("c"): rows([5])}), progress=False, compaction=False)
    assert third.commit.parent == view.commit.writer
    assert mine.verify(lake, lake.snapshot()) == []


class PausingStore(LocalStore):
    """A store that calls a function just before or just after a writer commits a version."""

    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None

    def put_if_absent(self, name: str, data: bytes) -> bool:
        if self.before is not None:
            action, self.before = self.before, None
            action()
        written = super().put_if_absent(name, data)
        if self.after is not None:
            action, self.after = self.after, None
            action()
        return written


def pausing_index(folder: Path) -> tuple[TableIndex, PausingStore]:
    store = PausingStore(folder)
    return TableIndex(store), store


def assert_complete_and_correct(index: TableIndex, lake: ModelLake) -> None:
    """Assert that all files of the newest version exist, and that the index is correct."""
    newest = index.log.newest()
    assert newest is not None
    assert [part.name for part in newest.parts() if part.name and not (index.store.root / part.name).exists()] == []  # type: ignore[attr-defined]
    assert index.verify(lake, lake.snapshot()) == []


def collect_garbage(folder: Path) -> int:
    """Remove unreferenced files of any age, and return their number."""
    # With a negative age, files that were written just now are garbage too.
    return TableIndex(folder).expire(dt.timedelta(days=1), dt.timedelta(seconds=-5)).files_removed


class Overtaken(LocalStore):
    """A store that misses the last version but one in one of its listings, as if two were put while it ran."""

    meanwhile: Callable[[], object] | None = None
    earlier_listings = 0

    def list(self, folder: str, after: str = "") -> list[Stored]:
        if folder != "log" or self.meanwhile is None:
            return super().list(folder, after)
        if self.earlier_listings:
            self.earlier_listings -= 1
            return super().list(folder, after)
        action, self.meanwhile = self.meanwhile, None
        action()
        files = super().list(folder, after)
        return [*files[:-2], files[-1]]


def test_a_listing_that_misses_a_version_has_no_gap(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    theirs = TableIndex(tmp_path)
    theirs.build(lake, lake.change({place("a"): rows([1])}), ["k"], progress=False)

    def commit_two() -> None:
        for key in (2, 3):
            theirs.update(lake, lake.change({place("a"): rows([key])}), progress=False, compaction=False)

    def versions() -> list[int]:
        return [version for version, _ in Log(LocalStore(tmp_path)).stored()]

    store = Overtaken(tmp_path)
    store.meanwhile, store.earlier_listings = commit_two, 1
    assert TableIndex(store).expire(dt.timedelta(days=1)).versions_removed == 0
    assert versions() == [1, 2, 3]

    class Late(Overtaken):
        """A store in which others put two versions after this writer's one."""

        def put_if_absent(self, name: str, data: bytes) -> bool:
            if len(versions()) == 3:
                self.meanwhile = commit_two
            return super().put_if_absent(name, data)

    fourth = lake.change({place("a"): rows([4])})
    TableIndex(Late(tmp_path)).update(lake, fourth, progress=False, compaction=False)
    assert versions() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("operation", ["build", "update", "compact"])
def test_a_writer_whose_files_were_collected_gets_a_conflict(tmp_path: Path, operation: str) -> None:
    lake = ModelLake(SCHEMA)
    first = lake.change({place("a"): rows([1]), place("b"): rows([2])})
    TableIndex(tmp_path).build(lake, first, ["k"], progress=False)
    second = lake.change({place("a"): rows([3])})
    if operation == "compact":
        TableIndex(tmp_path).update(lake, second, progress=False, compaction=False)
    index, store = pausing_index(tmp_path)
    actions: dict[str, Callable[[], object]] = {
        "build": lambda: index.build(lake, second, ["v"], progress=False),
        "update": lambda: index.update(lake, second, progress=False),
        "compact": lambda: index.compact(lake, second),
    }
    before = [version for version, _ in index.log.stored()]
    store.before = lambda: collect_garbage(tmp_path)
    with pytest.raises(ConflictError, match="another process expired files"):
        actions[operation]()
    assert [version for version, _ in index.log.stored()] == before
    assert_complete_and_correct(index, lake)
    # A second attempt succeeds.
    actions[operation]()
    assert_complete_and_correct(index, lake)


def test_a_commit_on_top_of_a_withdrawn_version_has_no_lost_files(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    first = lake.change({place("a"): rows([1]), place("b"): rows([2])})
    TableIndex(tmp_path).build(lake, first, ["k"], progress=False)
    index, store = pausing_index(tmp_path)
    store.before = lambda: collect_garbage(tmp_path)
    # Before the slow writer checks its files, another writer commits on top of its version.
    store.after = lambda: TableIndex(tmp_path).build(lake, first, ["k"], progress=False)
    with pytest.raises(ConflictError, match="another process expired files"):
        index.build(lake, first, ["v"], progress=False)
    newest = index.newest()
    assert newest is not None
    assert set(newest.columns) == {("k",)}
    assert_complete_and_correct(index, lake)


def test_garbage_collection_keeps_files_that_were_committed_meanwhile(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    snapshot = lake.change({place("a"): rows([1])})

    class CommitAfterNotice(LocalStore):
        """A store that commits a prepared version as soon as the garbage collector has written its notice."""

        def put(self, name: str, data: Data) -> None:
            super().put(name, data)
            if name.startswith("garbage/"):
                release()

    mine, store = pausing_index(tmp_path)
    TableIndex(tmp_path).build(lake, snapshot, ["v"], progress=False)
    outcomes: list[object] = []

    def release() -> None:
        # Commit the version between the notice and the collector's second check.
        outcomes.append(LocalStore(tmp_path).put_if_absent(*pending.pop()))

    pending: list[tuple[str, bytes]] = []
    real = store.put_if_absent

    def hold(name: str, data: bytes) -> bool:
        pending.append((name, data))
        TableIndex(CommitAfterNotice(tmp_path)).expire(dt.timedelta(days=1), dt.timedelta(seconds=-5))
        return bool(outcomes)

    store.put_if_absent = hold  # type: ignore[method-assign]
    view = mine.build(lake, snapshot, ["k"], progress=False)
    store.put_if_absent = real  # type: ignore[method-assign]
    assert outcomes == [True]
    assert set(view.columns) == {("k",), ("v",)}
    assert_complete_and_correct(mine, lake)


def test_a_notice_of_a_killed_collector_counts_until_it_is_old(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    snapshot = lake.change({place("a"): rows([1])})
    index, store = pausing_index(tmp_path)

    def killed_collector() -> None:
        names = [entry.name for folder in ("roots", "segments") for entry in store.list(folder)]
        store.put("garbage/0-1.garbage", document.write("garbage", {"names": names}))

    store.before = killed_collector
    with pytest.raises(ConflictError, match="another process expired files"):
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
    # An unreadable notice applies to all files.
    store.before = lambda: store.put("garbage/0-2.garbage", b"\0")
    with pytest.raises(ConflictError, match="another process expired files"):
        index.update(lake, lake.change({place("a"): rows([2])}), progress=False)
    (tmp_path / "garbage/0-2.garbage").unlink()
    index.update(lake, lake.snapshot(), progress=False)
    assert_complete_and_correct(index, lake)


def test_a_write_that_takes_longer_than_the_garbage_age_gets_a_conflict(tmp_path: Path) -> None:
    class Slow(LocalStore):
        """A store in which another process removes the first unfinished file."""

        is_removed = False

        def _write(self, name: str, chunks: Iterable[bytes]) -> Path:
            temporary = super()._write(name, chunks)
            if not self.is_removed:
                temporary.unlink()
                self.is_removed = True
            return temporary

    with pytest.raises(ConflictError, match=r"roots/\.tmp-.*run it again"):
        Slow(tmp_path).put("roots/1.root", b"x")
    # A commit is tried again.
    assert put_new(Slow(tmp_path), "log/v1", b"x")
    assert (tmp_path / "log" / "v1").read_bytes() == b"x"


def test_the_unfinished_notice_of_a_killed_collector_does_not_count(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    snapshot = lake.change({place("a"): rows([1])})
    index, store = pausing_index(tmp_path)
    # The collector was killed before it renamed the notice, so it has deleted nothing.
    store.before = lambda: store._write("garbage/0-1.garbage", [b""])
    index.build(lake, snapshot, ["k"], progress=False)
    assert list(tmp_path.glob("garbage/*"))
    assert_complete_and_correct(index, lake)


def test_a_version_whose_answer_was_lost_keeps_its_files_after_a_later_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of the store sends the request again, and the store answers that the name is taken."""
    folder = tmp_path / "t"
    folder.mkdir()
    for number in range(3):
        pq.write_table(pa.table({"k": range(number, 300, 3)}), folder / f"{number}.parquet")
    wait_until_old(folder)
    location = (MemoryStore(), "index")
    ps.open_table(folder, index_location=location).build_index("k", kind="both", progress=False)
    pq.write_table(pa.table({"k": [1000]}), folder / "new.parquet")
    wait_until_old(folder)
    put_if_absent, put = ObjectStore.put_if_absent, ObjectStore.put
    published: list[str] = []

    def put_twice(self: ObjectStore, name: str, data: bytes) -> bool:
        if not published:
            published.append(name)
            put_if_absent(self, name, data)
        return put_if_absent(self, name, data)

    def put_or_interrupt(self: ObjectStore, name: str, data: Data) -> None:
        # The version of the Sieve index exists now, and the one of the Bloom index does not.
        if published:
            raise KeyboardInterrupt
        put(self, name, data)

    monkeypatch.setattr(ObjectStore, "put_if_absent", put_twice)
    monkeypatch.setattr(ObjectStore, "put", put_or_interrupt)
    with pytest.raises(KeyboardInterrupt):
        ps.open_table(folder, index_location=location).update_index(progress=False)
    monkeypatch.undo()
    table = ps.open_table(folder, index_location=location)
    assert table.verify_index() == []
    table.update_index(progress=False)
    assert [Path(path).stem for path in table.plan("k = 1000", row_groups=False, stale="error").files] == ["new"]


@pytest.mark.parametrize("kind", ["sieve", "bloom", "text", "words"])
def test_files_that_change_during_a_verification_are_no_problems(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    changed = folder / "changed.parquet"
    pq.write_table(pa.table({"s": ["seen before", "as well"]}), changed)
    pq.write_table(pa.table({"s": ["one more"]}), folder / "same.parquet")
    table = ps.open_table(folder)
    table.build_index("s", kind, progress=False)
    snapshot = table.opened.lake.snapshot()
    # More batches than a check reads before it finds the first problem.
    pq.write_table(pa.table({"s": [f"never seen {number}" for number in range(200_000)] + [None]}), changed)
    assert table.opened.index.verify(table.opened.lake, snapshot) == []
    changed.unlink()
    assert table.opened.index.verify(table.opened.lake, snapshot) == []

"""One process moves the versions of an index to `log/`, and another one expires them. No expired version comes back."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import threading
import zipfile
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from pathlib import Path

import pytest
from support.interrupted_store import InterruptedStore
from support.killed_store import KilledError, KilledStore

from parsieve.index import LocalStore
from parsieve.index.log import retention
from parsieve.index.log.folders import GUARD, LOG, Folders, name_of
from parsieve.index.log.log import Log
from parsieve.index.log.parts import lost
from parsieve.index.log.publish import Transaction

STORED = Path(__file__).parents[2] / "vectors" / "index_v1.zip"
# All versions are older than this on any clock.
END = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)
OLDEST, NEWEST = 5, 7


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return folders with copies of an index with three versions, whose move was killed after it had put the guard.

    The last version has dropped the columns with Sieve indexes, so an expiry removes their files.
    """
    # No test here cuts the power.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    with zipfile.ZipFile(STORED) as archive:
        archive.extractall(tmp_path / "table")
    index = tmp_path / "table" / "_parsieve"
    log = Log(LocalStore(index))
    log.delete(range(1, OLDEST))
    transaction = Transaction(log, "drop")
    newest = transaction.begin()
    assert newest is not None
    assert newest.columns
    last = transaction.commit(newest.table, columns={})
    assert last is not None
    assert last.version == NEWEST
    with pytest.raises(KilledError):
        Folders(KilledStore(index, 1, "after"), lambda _: True).move()
    assert (index / GUARD).exists()
    assert not (index / LOG).exists()
    # Files of an index never change, so the copies can share them.
    return (Path(shutil.copytree(index, tmp_path / f"{number}", copy_function=os.link)) for number in count())


def expire(store: LocalStore) -> None:
    retention.expire(Log(store), END)


def check(index: Path, *, oldest: int | None = None) -> None:
    """Assert that all versions are in `log/`, without gaps, and that no version references a file that was deleted."""
    store = LocalStore(index)
    log = Log(store)
    assert [path.name for path in (index / "commits").iterdir()] == [Path(GUARD).name]
    stored = log.stored()
    versions = [version for version, _ in stored]
    assert [file.name for _, file in stored] == [name_of(version, LOG) for version in versions]
    assert versions == list(range(versions[0] if oldest is None else oldest, NEWEST + 1))
    commits = [log.read(*version) for version in stored]
    assert all(later.parent == earlier.writer for earlier, later in pairwise(commits))
    for commit in commits:
        assert lost(store, commit.parts()) == [], commit.version


def paused_moves(copies: Iterator[Path], then: Callable[[Path, Callable[[], None]], None]) -> Iterator[Path]:
    """Finish a move, and pause it before each of its listings and changes.

    `then` is called during the pause, with the index and a function that lets the move finish.
    """
    for number in count(1):
        index, paused, resumed = next(copies), threading.Event(), threading.Event()
        errors: list[BaseException] = []

        def pause(paused: threading.Event = paused, resumed: threading.Event = resumed) -> None:
            paused.set()
            assert resumed.wait(300)

        store = InterruptedStore(index, number, pause)

        def move(
            store: InterruptedStore = store,
            paused: threading.Event = paused,
            errors: list[BaseException] = errors,
        ) -> None:
            try:
                Log(store).finish_move()
            except BaseException as error:
                errors.append(error)
            finally:
                paused.set()

        mover = threading.Thread(target=move)

        def finish(mover: threading.Thread = mover, resumed: threading.Event = resumed) -> None:
            resumed.set()
            mover.join()

        mover.start()
        try:
            assert paused.wait(300)
            if not store.is_done:
                assert number > 10
                return
            then(index, finish)
        finally:
            finish()
        assert errors == []
        yield index
        shutil.rmtree(index)


def test_an_expiry_during_a_move(copies: Iterator[Path]) -> None:
    for index in paused_moves(copies, lambda index, finish: expire(LocalStore(index))):
        check(index, oldest=NEWEST)


def test_a_move_during_a_move_loses_no_version(copies: Iterator[Path]) -> None:
    for index in paused_moves(copies, lambda index, finish: Log(LocalStore(index)).finish_move()):
        check(index, oldest=OLDEST)


def test_a_move_that_goes_on_during_an_expiry(copies: Iterator[Path]) -> None:
    """Pause the move at each step, and let it finish at each step of an expiry that began later."""
    at, is_last = 0, False

    def expire_and_finish(index: Path, finish: Callable[[], None]) -> None:
        nonlocal is_last
        store = InterruptedStore(index, at, finish)
        expire(store)
        is_last = not store.is_done

    while not is_last:
        at += 1
        for index in paused_moves(copies, expire_and_finish):
            check(index)
    assert at > 10


def test_the_next_expiry_removes_versions_that_a_killed_move_restored(copies: Iterator[Path]) -> None:
    index = next(copies)
    Log(LocalStore(index)).finish_move()
    late = index / name_of(OLDEST, LOG)
    data, young = late.read_bytes(), dt.timedelta(days=1000)
    assert retention.expire(Log(LocalStore(index)), young).versions_removed == 0
    check(index, oldest=OLDEST)
    expire(LocalStore(index))
    check(index, oldest=NEWEST)
    late.write_bytes(data)
    assert retention.expire(Log(LocalStore(index)), young).versions_removed == 1
    check(index, oldest=NEWEST)

"""Many processes write the same index and are killed at random: no commit and no row is lost."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from support.models.model_lake import SavedLake, place
from support.programs import index_writer

from parsieve.index import TableIndex
from parsieve.index.log.commit import Commit
from parsieve.index.log.log import Log
from parsieve.index.sieve import query
from parsieve.io.store.base import Stored
from parsieve.io.store.open import open_store
from parsieve.lake.base import Location

if TYPE_CHECKING:
    # Windows has none.
    from multiprocessing.context import ForkServerProcess

STORES = pytest.mark.parametrize("in_object_store", [False, True], ids=["folder", "object store"])

# A writer may withdraw one of this many newest versions, but no earlier one. Twice as many do not expire.
KEPT = 200

State = dict[Location, tuple[str, list[int]]]


def grow(r: random.Random, state: State, version: int) -> State:
    after = dict(state)
    for location in r.sample(list(after), min(len(after), 2)):
        after[location] = (f"t{version}", [r.randrange(50) for _ in range(r.randrange(9))])
    after[place(f"f{version}", f"p={version % 3}")] = (f"t{version}", [r.randrange(50) for _ in range(5)])
    if len(after) > 12:
        del after[r.choice(list(after))]
    return after


def check_reader(r: random.Random, lake: SavedLake, store: Any) -> int:
    snapshot = lake.snapshot(r.randrange(1, lake.newest() + 1))
    index = TableIndex.open(store)
    view = index.at(snapshot) if index is not None else None
    if view is None or ("k",) not in view.columns:
        return 0
    skipped = 0
    for _ in range(5):
        low = r.randrange(50)
        for condition, high in [
            (query.equals(pa.scalar(low, pa.int64())), low),
            (query.between(pa.scalar(low), pa.scalar(low + 4)), low + 4),
        ]:
            mask = view.may_match("k", condition, snapshot.slices).to_pylist()
            for data_slice, keep in zip(snapshot.slices, mask, strict=True):
                holds = any(low <= key <= high for key in data_slice.native.column("k").to_pylist())
                assert keep or not holds, f"{data_slice.location} was lost at version {view.version}"
                skipped += not keep
    return skipped


def contend(
    tmp_path: Path,
    commits: int,
    kills: int,
    seconds: float,
    seed: int,
    *,
    number_of_writers: int = 8,
    pause: float = 0.02,
    in_object_store: bool = False,
) -> int:
    """Let writers compete until the numbers of commits and kills are reached, or the time is over.

    The last versions stay in the index, and the others expire. With `in_object_store`, the index is in an object store.
    After each check of the index, wait for `pause` seconds. Return the number of commits.
    """
    r = random.Random(seed)
    table, folder, notes = tmp_path / "table", tmp_path / "index", tmp_path / "notes"
    store = index_writer.index_location(folder, in_object_store)
    for empty in (table, notes):
        empty.mkdir()
    lake, version = SavedLake(table), 1
    state: State = grow(r, {}, version)
    lake.save(version, state)
    from multiprocessing import forkserver  # Windows has none.

    # Fork each writer from a server process that has imported all modules. Python 3.11 does not pass `sys.path` to it.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["support.programs.index_writer"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    started = 0

    def begin() -> tuple[ForkServerProcess, Path]:
        nonlocal started
        started += 1
        note = notes / str(started)
        process = server.Process(
            target=index_writer.main, args=(str(table), str(folder), str(note), str(started), in_object_store)
        )
        process.start()
        return process, note

    history: dict[int, Commit] = {}

    def note_commits(stored: Sequence[tuple[int, Stored]]) -> None:
        for number, file in stored:
            if number not in history:
                history[number] = log.read(number, file)

    writers = [begin() for _ in range(number_of_writers)]
    skipped = killed = collected = 0
    log = Log(open_store(store))
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            stored = log.stored()
            number_of_commits = max((number for number, _ in stored), default=0)
            if killed >= kills and number_of_commits >= commits and collected and skipped:
                break
            time.sleep(pause)
            if r.random() < 0.3:
                version += 1
                state = grow(r, state, version)
                lake.save(version, state)
            skipped += check_reader(r, lake, store)
            if r.random() < 0.1:
                limit: dt.timedelta | dt.datetime = dt.timedelta(days=1)
                if len(stored) > 2 * KEPT:
                    note_commits(stored[:-KEPT])
                    limit = dt.datetime.fromtimestamp(stored[-2 * KEPT][1].modified, dt.UTC)
                # The garbage age is shorter than a slow writer needs, so such writers get a conflict.
                collected += TableIndex(store).expire(limit, dt.timedelta(seconds=0.3)).files_removed
            for number, (process, note) in enumerate(writers):
                assert process.is_alive(), f"a writer ended by itself with {process.exitcode}; see its error above"
                # Distribute the kills over the commits. Only kill writers that have committed.
                is_due = killed * commits < kills * number_of_commits
                if is_due and note.exists() and note.stat().st_size and r.random() < 0.3:
                    process.kill()
                    process.join()
                    writers[number] = begin()
                    killed += 1
    finally:
        for process, _ in writers:
            process.kill()
            process.join()
    note_commits(log.stored())
    assert sorted(history) == list(range(1, len(history) + 1))
    assert all(history[number].parent == history[number - 1].writer for number in range(2, len(history) + 1))
    written = {number: commit.writer for number, commit in history.items()}
    assert len(set(written.values())) == len(written)
    acknowledged = [line.split() for note in notes.iterdir() for line in note.read_text().splitlines()]
    # A writer may be killed before it writes the last note, but all existing notes must be true. Each killed writer
    # had written at least one.
    assert len(acknowledged) >= max(killed, 1)
    assert all(written[int(number)] == writer for number, writer in acknowledged)
    assert len(history) > 5
    assert collected > 0
    index = TableIndex.open(store)
    assert index is not None
    files = folder / "index" if in_object_store else folder
    newest = history[len(history)]
    assert [part.name for part in newest.parts() if part.name and not (files / part.name).exists()] == []
    index.update(lake, lake.snapshot(), progress=False)
    assert index.verify(lake, lake.snapshot()) == []
    assert skipped > 0
    return len(history)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it has no fork")
@pytest.mark.timeout(1200)
@STORES
def test_eight_writers_lose_no_commit_and_readers_lose_no_row(tmp_path: Path, in_object_store: bool) -> None:
    contend(tmp_path, commits=60, kills=10, seconds=1000, seed=1, in_object_store=in_object_store)


@pytest.mark.slow
@pytest.mark.skipif("PARSIEVE_LONG" not in os.environ, reason="`make test-long` runs it")
@pytest.mark.timeout(8000)
@STORES
def test_sixteen_writers_lose_none_of_16_000_commits(tmp_path: Path, in_object_store: bool) -> None:
    wanted = 16_000
    commits = contend(
        tmp_path,
        wanted,
        kills=100,
        seconds=7000,
        seed=2,
        number_of_writers=16,
        pause=0.3,
        in_object_store=in_object_store,
    )
    assert commits >= wanted

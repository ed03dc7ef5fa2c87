"""Eight processes write one index at once, and are killed at random: no commit is lost or doubled, no row lost."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import os
import random
import sys
import time
from itertools import pairwise
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pyarrow as pa
import pytest
from support.models.model_lake import SavedLake, place
from support.programs import index_writer

from parsieve.index import TableIndex
from parsieve.index.log.commit import Log
from parsieve.index.sieve import query
from parsieve.io.store.local import LocalStore
from parsieve.lake.base import Location

WRITERS = 8

State = dict[Location, tuple[str, list[int]]]


def grow(r: random.Random, state: State, version: int) -> State:
    after = dict(state)
    for location in r.sample(list(after), min(len(after), 2)):
        after[location] = (f"t{version}", [r.randrange(50) for _ in range(r.randrange(9))])
    after[place(f"f{version}", f"p={version % 3}")] = (f"t{version}", [r.randrange(50) for _ in range(5)])
    if len(after) > 12:
        del after[r.choice(list(after))]
    return after


def check_reader(r: random.Random, lake: SavedLake, store: Path) -> int:
    snapshot = lake.snapshot(r.randrange(1, lake.newest() + 1))
    index = TableIndex.open(store)
    view = index.at(snapshot) if index is not None else None
    if view is None or ("k",) not in view.columns:
        return 0
    spared = 0
    for _ in range(5):
        low = r.randrange(50)
        for asked, high in [
            (query.equals(pa.scalar(low, pa.int64())), low),
            (query.between(pa.scalar(low), pa.scalar(low + 4)), low + 4),
        ]:
            mask = view.may_match("k", asked, snapshot.slices).to_pylist()
            for piece, keep in zip(snapshot.slices, mask, strict=True):
                holds = any(low <= key <= high for key in piece.native.column("k").to_pylist())
                assert keep or not holds, f"{piece.location} was lost at version {view.version}"
                spared += not keep
    return spared


def contend(tmp_path: Path, commits: int, kills: int, seconds: float, seed: int) -> int:
    """Let writers race until there were so many commits and kills, or seconds; how many slices readers were spared."""
    r = random.Random(seed)
    table, store, notes = tmp_path / "table", tmp_path / "index", tmp_path / "notes"
    for folder in (table, notes):
        folder.mkdir()
    lake, version = SavedLake(table), 1
    state: State = grow(r, {}, version)
    lake.save(version, state)
    # A server that has imported everything forks each writer.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["support.programs.index_writer"])
    started = 0

    def begin() -> tuple[ForkServerProcess, Path]:
        nonlocal started
        started += 1
        note = notes / str(started)
        process = server.Process(target=index_writer.main, args=(str(table), str(store), str(note), str(started)))
        process.start()
        return process, note

    writers = [begin() for _ in range(WRITERS)]
    spared = killed = collected = 0
    log = Log(LocalStore(store))
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end and (killed < kills or len(log.stored()) < commits or not collected or not spared):
            time.sleep(0.02)
            if r.random() < 0.3:
                version += 1
                state = grow(r, state, version)
                lake.save(version, state)
            spared += check_reader(r, lake, store)
            if r.random() < 0.1:
                # Far younger than a slow writer's files: such a writer gets a conflict.
                collected += TableIndex(store).expire(dt.timedelta(days=1), dt.timedelta(seconds=0.3)).files_removed
            for at, (process, note) in enumerate(writers):
                assert process.is_alive(), f"a writer ended by itself with {process.exitcode}; see its error above"
                # Who has not committed anything yet is not worth killing.
                if note.exists() and note.stat().st_size and r.random() < 0.03:
                    process.kill()
                    process.join()
                    writers[at] = begin()
                    killed += 1
    finally:
        for process, _ in writers:
            process.kill()
            process.join()
    made = [log.read(number) for number, _ in log.stored()]
    assert [commit.version for commit in made] == list(range(1, len(made) + 1))
    assert all(later.parent == earlier.writer for earlier, later in pairwise(made))
    assert len({commit.writer for commit in made}) == len(made)
    written = {commit.version: commit.writer for commit in made}
    acknowledged = [line.split() for note in notes.iterdir() for line in note.read_text().splitlines()]
    # A note whose writer was killed may be missing; one that is there is true. Who was killed had made one.
    assert len(acknowledged) >= max(killed, 1)
    assert all(written[int(number)] == writer for number, writer in acknowledged)
    assert len(made) > 5
    assert collected > 0
    index = TableIndex.open(store)
    assert index is not None
    assert [part.name for part in made[-1].parts() if part.name and not (store / part.name).exists()] == []
    index.update(lake, lake.snapshot(), progress=False)
    assert index.verify(lake, lake.snapshot()) == []
    return spared


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it has no fork")
@pytest.mark.timeout(1200)
def test_eight_writers_lose_no_commit_and_readers_lose_no_row(tmp_path: Path) -> None:
    assert contend(tmp_path, commits=60, kills=10, seconds=1000, seed=1) > 0


@pytest.mark.slow
@pytest.mark.skipif("PARSIEVE_LONG" not in os.environ, reason="takes ten minutes; PARSIEVE_LONG=1 runs it")
@pytest.mark.timeout(2400)
def test_eight_writers_for_a_long_time(tmp_path: Path) -> None:
    contend(tmp_path, commits=100_000, kills=100_000, seconds=600, seed=2)

"""Writers that are killed, or whose machine loses power, leave the old or the new version. Both answer correctly."""

from __future__ import annotations

import datetime as dt
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.killed_store import kills
from support.models.model_lake import ModelLake, place
from support.power_cut import Recording, files_below, write_files

from parsieve import FormatError
from parsieve.index import TableIndex
from parsieve.index.log.commit import Commit, Layout
from parsieve.index.sieve import query
from parsieve.lake.base import Snapshot

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])
# Several segments.
SMALL = {"max_records": 30, "max_weight": 20}


def rows(*keys: int | None) -> pa.Table:
    return pa.table({"k": keys, "s": [None if key is None else f"v{key:03}" for key in keys]}, schema=SCHEMA)


def history() -> tuple[ModelLake, list[Snapshot]]:
    """Return a table in three states."""
    lake = ModelLake(SCHEMA)
    first = lake.change({place(f"f{n}", f"p={n % 2}"): rows(*range(n * 10, n * 10 + 12), None) for n in range(8)})
    second = lake.change({place("f3", "p=1"): rows(30, 500), place("f5", "p=1"): None, place("new"): rows(501, None)})
    third = lake.change({place("f3", "p=1"): rows(31), place("newer"): rows(502)})
    return lake, [first, second, third]


def assert_correct(folder: Path, lake: ModelLake, snapshots: list[Snapshot]) -> int:
    """Assert that the index loses no row of any state. Return the number of slices that it skips."""
    index = TableIndex(folder)
    skipped = 0
    for snapshot in snapshots:
        view = index.at(snapshot)
        if view is None or view.commit.is_empty:
            continue
        for key in (0, 11, 30, 31, 55, 500, 501, 502, 600, None):
            lookup = query.is_null() if key is None else query.equals(pa.scalar(key, pa.int64()))
            if ("k",) not in view.columns:
                continue
            mask = view.may_match("k", lookup, snapshot.slices).to_pylist()
            for file_slice, keep in zip(snapshot.slices, mask, strict=True):
                assert keep or key not in file_slice.native["k"].to_pylist(), (key, file_slice.location)
                skipped += not keep
    view = index.newest()
    if view is not None and not view.commit.is_empty:
        assert index.verify(lake, snapshots[-1]) == []
    return skipped


OPERATIONS: dict[str, Callable[[TableIndex, ModelLake, list[Snapshot]], object]] = {
    "build": lambda index, lake, snapshots: index.build(lake, snapshots[2], ["k", "s"], progress=False, threads=1),
    "update": lambda index, lake, snapshots: index.update(lake, snapshots[2], progress=False, threads=1),
    "compact": lambda index, lake, snapshots: index.compact(lake, snapshots[2], progress=False, threads=1),
    "purge": lambda index, lake, snapshots: index.compact(lake, snapshots[2], purge=True, progress=False, threads=1),
    "convert": lambda index, lake, snapshots: index.build(
        lake, snapshots[2], ["k", "s"], progress=False, threads=1, operation="convert"
    ),
    "keep keys": lambda index, lake, snapshots: index.compact(progress=False, threads=1),
}


def prepare(index: TableIndex, lake: ModelLake, snapshots: list[Snapshot], operation: str) -> Commit:
    """Build the index before an operation, and return its newest version."""
    layout = Layout("rows", keep_keys=operation == "keep keys")
    # A conversion begins with an index in format 1.
    layouts: Any = dict.fromkeys([("k",), ("s",)], None if operation == "convert" else layout)
    index.build(lake, snapshots[0], ["k", "s"], progress=False, layouts=layouts, options=SMALL)
    index.update(lake, snapshots[1], progress=False)
    if operation != "update":
        index.update(lake, snapshots[2], progress=False)
    before = index.log.newest()
    assert before is not None
    assert {state.format for state in before.columns.values()} == {1 if operation == "convert" else 2}
    return before


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_kill_at_any_write_leaves_a_correct_index(tmp_path: Path, operation: str) -> None:
    lake, snapshots = history()
    template = tmp_path / "template"
    index = TableIndex(template)
    before = prepare(index, lake, snapshots, operation)
    count = 0

    def folder() -> Path:
        nonlocal count
        count += 1
        shutil.copytree(template, tmp_path / f"{count}")
        return tmp_path / f"{count}"

    survived: set[int] = set()
    for moment, killed in kills(folder, lambda index: OPERATIONS[operation](index, lake, snapshots)):
        assert assert_correct(killed, lake, snapshots) > 0, moment
        # The next writer succeeds, and removes the files of the killed one.
        again = TableIndex(killed)
        newest = again.log.newest()
        assert newest is not None
        survived.add(newest.version - before.version)
        OPERATIONS[operation](again, lake, snapshots)
        again.update(lake, snapshots[2], progress=False)
        again.expire(0, garbage_age=dt.timedelta(seconds=-5))
        newest = again.log.newest()
        assert newest is not None
        stored = {str(path.relative_to(killed)) for path in killed.rglob("*") if path.is_file()}
        temporary = {name for name in stored if Path(name).name.startswith(".tmp-")}
        assert {name for name in stored - temporary if not name.startswith(("commits/", "log/"))} == {
            part.name for part in newest.parts() if part.name
        }
        assert assert_correct(killed, lake, snapshots[2:]) > 0, moment
        shutil.rmtree(killed)
    # Only a kill after the last write leaves the new version.
    assert survived == {0, 1}


def forget(index: TableIndex) -> None:
    """Drop all versions but the newest, and the files that only they need."""
    index.expire(0, garbage_age=dt.timedelta(seconds=-5))


CHANGES = OPERATIONS | {
    "expire": lambda index, lake, snapshots: forget(index),
    "drop": lambda index, lake, snapshots: index.drop(["k"]),
}


def record(
    folder: Path, lake: ModelLake, snapshots: list[Snapshot], operation: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Commit, Recording]:
    """Record the changes of an operation. Also return the version before it."""
    before = prepare(TableIndex(folder), lake, snapshots, operation)
    with monkeypatch.context() as patched:
        recording = Recording(folder, patched)
        CHANGES[operation](TableIndex(folder), lake, snapshots)
    assert recording.last() == files_below(folder), "a change was not recorded"
    return before, recording


LONG = pytest.mark.skipif("PARSIEVE_LONG" not in os.environ, reason="`make test-long` runs it")


@pytest.mark.parametrize(
    "most",
    [
        pytest.param(8, id="few states"),
        pytest.param(2000, id="many states", marks=pytest.mark.slow),
        pytest.param(50_000, id="all states", marks=[pytest.mark.slow, pytest.mark.timeout(7200), LONG]),
    ],
)
@pytest.mark.parametrize("operation", CHANGES)
def test_a_power_cut_after_any_change_leaves_a_correct_index(
    tmp_path: Path, operation: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, snapshots = history()
    before, recording = record(tmp_path / "live", lake, snapshots, operation, monkeypatch)
    survived: set[int] = set()
    crashed = tmp_path / "crashed"
    for number, (length, files) in enumerate(recording.states(most, random.Random(1))):
        write_files(crashed, files)
        assert_correct(crashed, lake, snapshots)
        again = TableIndex(crashed)
        newest = again.log.newest()
        assert newest is not None
        survived.add(newest.version - before.version)
        if number % 10 == 0:
            again.update(lake, snapshots[2], progress=False)
            forget(again)
            assert assert_correct(crashed, lake, snapshots[2:]) > 0, f"after {length} changes"
        shutil.rmtree(crashed)
    assert survived == ({0} if operation == "expire" else {0, 1})


def test_the_simulated_disk_detects_a_missing_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, snapshots = history()
    _, recording = record(tmp_path / "live", lake, snapshots, "update", monkeypatch)
    recording.changes = [change for change in recording.changes if change.kind != "sync"]
    damaged = 0
    for number, (_, files) in enumerate(recording.states(8, random.Random(2))):
        write_files(tmp_path / f"{number}", files)
        try:
            assert_correct(tmp_path / f"{number}", lake, snapshots)
        except (AssertionError, FormatError):
            damaged += 1
    assert damaged > 0

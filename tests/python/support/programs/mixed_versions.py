"""Tests of version 0.1 and this version on one index. `make test-old` builds version 0.1 and runs them.

The environment variable PARSIEVE_0_1 has the folder into which the wheel of version 0.1 is unpacked.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import parsieve as ps
from parsieve.index.log.folders import GUARD, Folders
from parsieve.index.log.log import Log
from support.models.position_truth import Physical, check_random_plans
from support.models.unit_histories import DeltaUnitTable, FolderTable, HudiUnitTable, Row, Rows, UnitTable
from support.old_process import OldParsieve

pytestmark = [
    pytest.mark.skipif("PARSIEVE_0_1" not in os.environ, reason="needs version 0.1: make test-old"),
    pytest.mark.timeout(1200),
]

FORMATS: dict[str, Callable[[random.Random, Path], UnitTable]] = {
    "folder": FolderTable,
    "delta": DeltaUnitTable,
    "hudi": HudiUnitTable,
}
COLUMNS = ["key", "name", "at"]
# What version 0.1 can do to an index. The keys are names for messages.
OLD_CHANGES: dict[str, dict[str, Any]] = {
    "update": {"do": "update"},
    "compact": {"do": "compact"},
    "build a Sieve index": {"do": "build", "columns": COLUMNS},
    "build a Bloom index": {"do": "build", "columns": ["key"], "kind": "bloom"},
    "build any index": {"do": "build", "columns": COLUMNS, "kind": "auto"},
    "drop": {"do": "drop"},
    "collect garbage": {"do": "collect"},
    "expire nothing": {"do": "expire", "seconds": 1_000_000_000},
    "expire everything": {"do": "expire", "seconds": 0},
}


class Fleet:
    """A table that both versions use. Its index is stored where version 0.1 looks for it."""

    def __init__(self, kind: str, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.made: UnitTable = FORMATS[kind](self.random, folder)
        self.made.insert(120)
        self.made.settle()
        self.folder = folder / "t"
        self.index = self.folder / "_parsieve"
        self.old = OldParsieve(str(self.folder))
        self.states: dict[Any, Rows] = {self.made.state(): dict(self.made.rows)}

    def new(self) -> ps.Table:
        return ps.open_table(str(self.folder), index_location=str(self.index))

    def change(self) -> None:
        """Change rows of the table."""
        made = self.made
        operation = self.random.choice([made.insert, made.insert, made.update, made.delete, made.overwrite])
        if self.random.random() < 0.1:
            made.cluster()
        else:
            operation(self.random.randrange(1, 30))
        made.settle()
        self.states[made.state()] = dict(made.rows)

    def check(self, count: int = 3) -> str:
        """Compare plans of both versions with the rows, now and earlier. Return the last explanation of 0.1."""
        explanation = ""
        state = self.random.choice(list(self.states))
        for as_of in {None, state if self.made.state() is not None else None}:
            rows = self.made.rows if as_of is None else self.states[as_of]
            table = self.new()
            check_random_plans(table, Physical(table).rows(rows, as_of), self.random, count, as_of)
            for _ in range(count):
                where, expected = self._question(rows)
                told = self.old.run(do="plan", where=where, as_of=as_of)
                assert told["uids"] == expected, (where, as_of, told["explanation"])
                explanation = told["explanation"]
                assert sorted(table.plan(where, as_of).to_arrow()["uid"].to_pylist()) == expected, (where, as_of)
        return explanation

    def _question(self, rows: Rows) -> tuple[str, list[int]]:
        """Return a SQL condition, and the `uid` of each row that meets it."""
        key, name, _, at = self.random.choice(list(rows.values()))
        low = key - self.random.randrange(40)
        since = at - dt.timedelta(minutes=self.random.randrange(5))
        questions: list[tuple[str, Callable[[Row], bool]]] = [
            (f"key = {key}", lambda row: row[0] == key),
            (f"key BETWEEN {low} AND {key}", lambda row: low <= row[0] <= key),
            (f"key IN ({key}, {low})", lambda row: row[0] in (key, low)),
            (f"key = {key} AND at >= TIMESTAMP '{since.isoformat()}'", lambda row: row[0] == key and row[3] >= since),
            ("name IS NULL", lambda row: row[1] is None),
            (f"at = TIMESTAMP '{at.isoformat()}'", lambda row: row[3] == at),
        ]
        if name is not None:
            questions.append((f"name = '{name}' OR key = {low}", lambda row: row[1] == name or row[0] == low))
        where, holds = self.random.choice(questions)
        return where, sorted(uid for uid, row in rows.items() if holds(row))

    def bytes(self) -> dict[str, tuple[str, int]]:
        """Return the checksum and the time of each file of the index."""
        return {
            str(path.relative_to(self.index)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
            for path in self.index.rglob("*")
            if path.is_file()
        }

    def make_old(self) -> None:
        """Make all files of the index three days old."""
        old = time.time() - 3 * 86400
        for path in self.index.rglob("*"):
            if path.is_file():
                os.utime(path, (old, old))

    def versions(self) -> list[int]:
        return [version for version, _ in Log(self.new().opened.index.store).stored()]


@pytest.fixture(params=sorted(FORMATS))
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(request.param, tmp_path, 1)
    yield made
    made.old.close()


def document_version(path: Path) -> int:
    """Return the format version in the first line of a document."""
    return int(path.read_bytes().split(b" ", 3)[2])


def convert(fleet: Fleet) -> None:
    """Convert the index to version 2, which version 0.1 cannot read."""
    newest = max((fleet.index / "commits").iterdir())
    assert document_version(newest) == 1
    fleet.new().convert_index(unit="row_group", progress=False)
    assert document_version(max((fleet.index / "log").iterdir())) == 2
    assert list((fleet.index / "commits").iterdir()) == [fleet.index / GUARD]


def test_the_new_version_reads_and_updates_indexes_of_the_old_one(fleet: Fleet) -> None:
    fleet.old.run(do="build", columns=COLUMNS)
    fleet.old.run(do="build", columns=["key"], kind="bloom")
    assert "index" in fleet.check()
    assert fleet.new().verify_index() == []
    for _ in range(3):
        fleet.change()
        fleet.check()
        fleet.new().update_index(progress=False)
        fleet.check()
        assert fleet.new().verify_index() == []
        # Updates of an index of version 0.1 keep its format, so version 0.1 still uses it.
        assert fleet.old.run(do="verify") == []
        assert "index" in fleet.check()
    fleet.new().compact_index()
    assert fleet.old.run(do="verify") == []
    fleet.check()
    assert set(fleet.old.run(do="kinds").values()) == {"both", "sieve"}
    assert {document_version(path) for path in (fleet.index / "commits").iterdir()} == {1}


def test_the_old_version_loses_no_row_next_to_an_index_of_expressions(fleet: Fleet) -> None:
    fleet.old.run(do="build", columns=COLUMNS)
    fleet.new().build_index(["lower(name)", "name, key"], progress=False)
    fleet.check()
    for operation in ("update", "compact", "expire"):
        fleet.change()
        # An index of an expression has format 2.
        assert fleet.old.error(do=operation, seconds=0) == "UnsupportedError"
        fleet.check()
        fleet.new().update_index(progress=False)
        fleet.check()
        assert fleet.new().verify_index() == []
        assert {"lower(name)", "key(name, key)"} <= fleet.new().index_kinds().keys()


def test_both_versions_write_an_index_of_version_1_in_turns(fleet: Fleet) -> None:
    fleet.old.run(do="build", columns=COLUMNS)
    for step in range(12):
        fleet.change()
        table = fleet.new()
        operation = fleet.random.choice(["update", "update", "compact", "expire"])
        if fleet.random.random() < 0.5:
            fleet.old.run(do=operation, seconds=fleet.random.choice([0, 1000]))
        elif operation == "update":
            table.update_index(progress=False)
        elif operation == "compact":
            table.compact_index()
        else:
            table.expire_index(fleet.random.choice([dt.timedelta(0), dt.timedelta(days=1)]))
        fleet.check(2)
        if step % 4 == 3:
            fleet.make_old()
            fleet.old.run(do="collect")
            fleet.check(2)
            assert fleet.old.run(do="verify") == []
            assert fleet.new().verify_index() == []


def test_the_old_version_changes_nothing_in_a_converted_index(fleet: Fleet) -> None:
    """Version 0.1 returns all rows without the index, and each of its writers refuses the index."""
    fleet.old.run(do="build", columns=COLUMNS)
    fleet.change()
    fleet.new().update_index(progress=False)
    convert(fleet)
    fleet.change()
    fleet.new().update_index(progress=False)
    fleet.make_old()
    versions, before = fleet.versions(), fleet.bytes()
    for name, command in OLD_CHANGES.items():
        assert fleet.old.error(**command) == "UnsupportedError", name
        assert fleet.bytes() == before, name
        fleet.check(2)
    assert fleet.versions() == versions
    assert fleet.new().verify_index() == []


def test_expiry_of_the_old_version_that_the_conversion_overtakes_deletes_no_version(
    fleet: Fleet, tmp_path: Path
) -> None:
    """Version 0.1 has listed the versions, and stops before it deletes the first one."""
    fleet.old.run(do="build", columns=COLUMNS)
    for _ in range(3):
        fleet.change()
        fleet.new().update_index(progress=False)
    fleet.make_old()
    signal = tmp_path / "signal"
    pause = ["parsieve.index.store:LocalStore.delete", 1]
    fleet.old.send(do="expire", seconds=0, pause_before=pause, signal=str(signal))
    wait_for(signal)
    convert(fleet)
    versions, before = fleet.versions(), fleet.bytes()
    signal.unlink()
    assert fleet.old.answer()["error"] == "UnsupportedError"
    assert fleet.bytes() == before
    assert fleet.versions() == versions
    fleet.check()
    assert fleet.new().verify_index() == []


def test_the_newest_version_survives_a_killed_conversion_and_an_expiry_of_the_old_version(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversion is killed when it has put the guard, and has not copied a version."""

    def killed(*arguments: object) -> bytes:
        raise KeyboardInterrupt

    fleet.old.run(do="build", columns=COLUMNS)
    fleet.change()
    fleet.new().update_index(progress=False)
    fleet.make_old()
    newest = max(fleet.versions())
    copied = Folders._copied
    monkeypatch.setattr(Folders, "_copied", killed)
    with pytest.raises(KeyboardInterrupt):
        convert(fleet)
    monkeypatch.setattr(Folders, "_copied", copied)
    for name, command in OLD_CHANGES.items():
        assert fleet.old.error(**command) == "UnsupportedError", name
        assert max(fleet.versions()) == newest, name
        fleet.check(1)
        assert fleet.new().verify_index() == []
    fleet.change()
    fleet.new().update_index(progress=False)
    assert list((fleet.index / "commits").iterdir()) == [fleet.index / GUARD]
    fleet.check()
    assert fleet.new().verify_index() == []


def test_the_old_version_keeps_all_rows_while_a_converted_index_changes(fleet: Fleet) -> None:
    fleet.old.run(do="build", columns=COLUMNS)
    convert(fleet)
    for step in range(8):
        fleet.change()
        fleet.check(2)
        table = fleet.new()
        table.update_index(progress=False)
        if step % 3 == 2:
            table.compact_index()
            table.expire_index(dt.timedelta(0))
        assert "cannot be used" in fleet.check(2)
    assert fleet.new().verify_index() == []


def test_an_index_that_the_new_version_built_is_refused_by_the_old_one(fleet: Fleet) -> None:
    fleet.new().build_index(COLUMNS, kind="sieve", progress=False)
    fleet.make_old()
    before = fleet.bytes()
    for name, command in OLD_CHANGES.items():
        assert fleet.old.error(**command) == "UnsupportedError", name
        assert fleet.bytes() == before, name
    fleet.change()
    fleet.check()


@pytest.mark.parametrize("name", ["update", "compact", "build a Sieve index", "build a Bloom index", "drop"])
def test_an_old_writer_that_is_overtaken_by_the_conversion_commits_nothing(
    fleet: Fleet, tmp_path: Path, name: str
) -> None:
    """Version 0.1 stops just before it puts its commit, and the index is converted meanwhile."""
    fleet.old.run(do="build", columns=COLUMNS)
    fleet.change()
    fleet.new().update_index(progress=False, compact=False)
    fleet.change()
    signal = tmp_path / "signal"
    fleet.old.send(**OLD_CHANGES[name], pause_before=["parsieve.index.commit:Log.publish", 1], signal=str(signal))
    wait_for(signal)
    convert(fleet)
    before = fleet.bytes()
    signal.unlink()
    assert fleet.old.answer()["error"] == "UnsupportedError"
    after = fleet.bytes()
    assert {file: after.get(file) for file in before} == before
    assert not [file for file in after.keys() - before.keys() if file.startswith("commits/")]
    fleet.check()
    fleet.new().update_index(progress=False)
    assert fleet.new().verify_index() == []


@pytest.mark.parametrize("name", ["update", "compact", "build a Bloom index"])
def test_a_conversion_keeps_a_commit_that_the_old_version_has_not_checked_yet(
    fleet: Fleet, tmp_path: Path, name: str
) -> None:
    """Version 0.1 has put its commit. Then it finds the guard, and reports an error although the commit was moved."""
    fleet.old.run(do="build", columns=COLUMNS)
    fleet.change()
    fleet.new().update_index(progress=False, compact=False)
    fleet.change()
    signal = tmp_path / "signal"
    newest = max(fleet.versions())
    fleet.old.send(**OLD_CHANGES[name], pause_before=["parsieve.index.commit:Log._stands", 1], signal=str(signal))
    wait_for(signal)
    convert(fleet)
    assert max(fleet.versions()) == newest + 2
    before = fleet.bytes()
    signal.unlink()
    assert fleet.old.answer()["error"] == "UnsupportedError"
    after = fleet.bytes()
    assert {file: after.get(file) for file in before} == before
    fleet.check()
    fleet.new().update_index(progress=False)
    assert fleet.new().verify_index() == []


@pytest.mark.parametrize("name", ["update", "compact", "build a Sieve index", "build a Bloom index"])
def test_a_conversion_that_an_old_writer_overtakes_loses_nothing(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Version 0.1 commits just before the conversion does."""
    fleet.old.run(do="build", columns=COLUMNS)
    fleet.change()
    fleet.new().update_index(progress=False, compact=False)
    fleet.change()
    publish = Log.publish

    def overtaken(log: Log, commit: Any) -> bool:
        monkeypatch.setattr(Log, "publish", publish)
        fleet.old.run(**OLD_CHANGES[name])
        return publish(log, commit)

    monkeypatch.setattr(Log, "publish", overtaken)
    try:
        convert(fleet)
    except ps.ConflictError:
        assert "index" in fleet.check()
        assert fleet.old.run(do="verify") == []
        convert(fleet)
    fleet.check()
    fleet.new().update_index(progress=False)
    assert fleet.new().verify_index() == []
    fleet.check()


def test_an_index_with_columns_in_both_formats_is_refused_by_the_old_version(fleet: Fleet) -> None:
    fleet.old.run(do="build", columns=COLUMNS)
    fleet.old.run(do="build", columns=["key"], kind="bloom")
    fleet.new().build_index("at", kind="sieve", progress=False)
    for _ in range(2):
        fleet.change()
        fleet.new().update_index(progress=False)
        assert "cannot be used" in fleet.check(2)
        assert fleet.new().verify_index() == []
    before = fleet.bytes()
    for name, command in OLD_CHANGES.items():
        assert fleet.old.error(**command) == "UnsupportedError", name
        assert fleet.bytes() == before, name
    # Earlier versions still have a column in format 2, which the old version must not expire.
    fleet.new().drop_index("at")
    fleet.make_old()
    before = fleet.bytes()
    for name, command in OLD_CHANGES.items():
        assert fleet.old.error(**command) == "UnsupportedError", name
        assert fleet.bytes() == before, name
    fleet.change()
    fleet.new().update_index(progress=False)
    fleet.check(2)
    assert fleet.new().verify_index() == []


@pytest.mark.parametrize("call", [1, 2])
def test_an_old_collector_that_is_overtaken_by_the_conversion_deletes_nothing(
    fleet: Fleet, tmp_path: Path, call: int
) -> None:
    """Version 0.1 reads the versions twice: before and after it writes its notice."""
    fleet.old.run(do="build", columns=COLUMNS)
    fleet.old.run(do="build", columns=COLUMNS)
    (fleet.index / "segments" / "left-behind.segments").write_bytes(b"by a killed writer")
    fleet.make_old()
    signal = tmp_path / "signal"
    fleet.old.send(do="collect", pause_before=["parsieve.index.garbage:_named", call], signal=str(signal))
    wait_for(signal)
    convert(fleet)
    before = fleet.bytes()
    signal.unlink()
    assert fleet.old.answer()["error"] == "UnsupportedError"
    assert fleet.bytes() == before
    # The collector may have left its notice, which does not stop later writers.
    fleet.change()
    fleet.new().update_index(progress=False)
    assert fleet.new().verify_index() == []
    fleet.check()


def drop(fleet: Fleet) -> None:
    fleet.new().drop_index()


def delete_folder(fleet: Fleet) -> None:
    shutil.rmtree(fleet.index)


@pytest.mark.parametrize("remove", [drop, delete_folder])
def test_after_a_rollback_the_old_version_works_again(fleet: Fleet, remove: Callable[[Fleet], None]) -> None:
    fleet.old.run(do="build", columns=COLUMNS)
    fleet.change()
    convert(fleet)
    fleet.change()
    fleet.new().update_index(progress=False)
    remove(fleet)
    fleet.check()
    fleet.old.run(do="build", columns=COLUMNS)
    assert "index" in fleet.check()
    fleet.change()
    fleet.old.run(do="update")
    assert "index" in fleet.check()
    assert fleet.old.run(do="verify") == []
    assert fleet.new().verify_index() == []
    # The parts of the dropped index are garbage, and a later conversion starts again.
    fleet.make_old()
    fleet.old.run(do="expire", seconds=0)
    fleet.old.run(do="collect")
    assert fleet.new().verify_index() == []
    convert(fleet)
    fleet.change()
    fleet.new().update_index(progress=False)
    fleet.check()
    assert fleet.new().verify_index() == []


def wait_for(signal: Path) -> None:
    while not signal.exists():
        time.sleep(0.01)

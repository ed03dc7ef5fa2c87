"""Another process compacts the index and expires the version that a call uses. The call must not report damage."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import aging

import parsieve as ps
from parsieve.index import TableIndex
from parsieve.index.build.expired import ATTEMPTS, repeat_if_expired
from parsieve.index.view import View
from parsieve.io.store.base import Stored
from parsieve.io.store.local import LocalStore
from parsieve.plan.evidence.index.sieve import MANY_VALUES

CALLS: dict[str, Callable[[ps.Table], Any]] = {
    "update": lambda table: table.update_index(progress=False),
    "compact": lambda table: table.compact_index(progress=False),
    "verify": lambda table: table.verify_index(),
    "stats": lambda table: table.index_stats(),
    "count_uncovered": lambda table: table.count_uncovered(),
    "plan": lambda table: table.plan("id = 'k31'").to_arrow(),
}


# Before how many reads of a call another process acts.
ROUNDS = 4


class WatchedStore(LocalStore):
    """A store that calls a function before some of its reads."""

    before_read: Callable[[int], object] | None = None
    reads = 0

    def _before(self) -> None:
        if self.before_read is not None:
            self.reads += 1
            self.before_read(self.reads)

    def _get(self, name: str) -> bytes:
        self._before()
        return super()._get(name)

    def _get_range(self, name: str, start: int, end: int) -> bytes:
        self._before()
        return super()._get_range(name, start, end)


def write(folder: Path, number: int, rows: int) -> None:
    keys = [f"k{key}" for key in range(number * 10, number * 10 + rows)]
    pq.write_table(pa.table({"id": keys}), folder / f"{number}.parquet")


def table_with_updates(folder: Path) -> Path:
    """Write a table whose index has several updates, and files that it does not cover."""
    source = folder / "t"
    source.mkdir(parents=True)
    for number in range(4):
        write(source, number, 10)
    table = ps.open_table(source, index_location=folder / "index")
    table.build_index("id", kind="sieve", pages=True, progress=False)
    for number in (8, 9):
        write(source, number, 5)
        table.update_index(compact=False, progress=False)
    write(source, 3, 7)
    write(source, 5, 7)
    aging.wait_until_old(source)
    return source


# What another process does. A thread of this process would wait for locks that the interrupted read holds.
OTHER = """
import sys, parsieve as ps
table = ps.open_table(sys.argv[1], index_location=sys.argv[2])
table.update_index(progress=False)
table.compact_index(purge=True, progress=False)
table.expire_index(older_than=0)
"""


def update_compact_and_expire(source: Path) -> None:
    """Bring the index up to date in another process, compact it, and expire all earlier versions."""
    subprocess.run([sys.executable, "-c", OTHER, str(source), str(source.parent / "index")], check=True)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_uses_the_newest_version_if_its_own_was_expired(tmp_path: Path, call: str) -> None:
    # The other process acts before one of the reads of the index, in each round before another one.
    for round_ in range(1, ROUNDS + 1):
        source = table_with_updates(tmp_path / str(round_))
        store = WatchedStore(source.parent / "index")
        table = ps.open_table(source, index_location=store)

        def act(read: int, source: Path = source, last: int = round_) -> None:
            if read == last:
                update_compact_and_expire(source)

        store.before_read = act
        answer = CALLS[call](table)
        was_reached = store.reads >= round_
        store.before_read = None
        if call == "verify":
            assert answer == []
        elif call == "plan":
            assert answer.column("id").to_pylist() == ["k31"]
        elif call == "stats":
            assert answer["id"].locations == (7 if was_reached else 6)
        elif call == "count_uncovered" and was_reached:
            assert answer == {"id": 0}
        assert ps.open_table(source, index_location=store).verify_index() == []
        if not was_reached:
            break
    assert round_ > 2


@pytest.mark.parametrize("num_keys", [1, MANY_VALUES + 1])
@pytest.mark.parametrize("read", [2, 4, 6])
def test_a_plan_does_not_take_an_expired_version_for_damage(tmp_path: Path, num_keys: int, read: int) -> None:
    source = table_with_updates(tmp_path)
    store = WatchedStore(tmp_path / "index")
    table = ps.open_table(source, index_location=store)
    store.before_read = lambda number: update_compact_and_expire(source) if number == read else None
    keys = ["k31", *(f"missing {number}" for number in range(1, num_keys))]
    # The newest version covers all files. `stale` would report damage.
    plan = table.plan(keys={"id": pa.array(keys)}, row_groups=False, stale="error")
    assert [Path(path).name for path in plan.files] == ["3.parquet"]
    assert "in doubt" not in plan.explain()
    assert plan.to_arrow()["id"].to_pylist() == ["k31"]


def test_work_ends_with_a_conflict_if_each_version_is_expired(tmp_path: Path) -> None:
    source = table_with_updates(tmp_path)
    index = ps.open_table(source, index_location=tmp_path / "index").opened.index
    other = ps.open_table(source, index_location=tmp_path / "index")
    versions = []

    def fail(view: View | None) -> None:
        assert view is not None
        versions.append(view.version)
        other.build_index("id", progress=False)
        other.expire_index(older_than=0)
        raise ps.FormatError("a file is missing")

    with pytest.raises(ps.ConflictError, match=f"expired the version in use in all {ATTEMPTS} attempts"):
        repeat_if_expired(index, fail)
    assert len(set(versions)) == ATTEMPTS
    # A conflict of the work itself is raised at once.
    conflicts = []

    def conflict(_: View | None) -> None:
        conflicts.append("once")
        raise ps.ConflictError("too late")

    with pytest.raises(ps.ConflictError, match="too late"):
        repeat_if_expired(index, conflict)
    assert conflicts == ["once"]


def test_a_damaged_file_of_the_newest_version_is_still_damage(tmp_path: Path) -> None:
    source = table_with_updates(tmp_path)
    table = ps.open_table(source, index_location=tmp_path / "index")
    for root in (tmp_path / "index" / "roots").iterdir():
        root.unlink()
    assert next(problem.problem for problem in table.verify_index()) == "it is missing"
    with pytest.raises(ps.ParsieveError, match="build_index\\(\\) to build it again"):
        table.index_stats()


def test_an_open_index_lists_only_its_last_versions(tmp_path: Path) -> None:
    """It also notices that versions were expired, that the newest one was deleted, and that the index is a new one."""
    listed = []

    class Listing(LocalStore):
        def list(self, folder: str, after: str = "") -> list[Stored]:
            found = super().list(folder, after)
            listed.append(len(found))
            return found

    source = table_with_updates(tmp_path)
    index = TableIndex(Listing(tmp_path / "index"))

    def version() -> int:
        newest = index.refresh()
        return 0 if newest is None else newest.version

    def path(version: int) -> Path:
        return tmp_path / "index" / "log" / f"v{version:020d}"

    first = version()
    assert path(first).exists()
    listed.clear()
    assert version() == first
    assert listed == [1]
    update_compact_and_expire(source)
    second = version()
    assert second > first
    table = ps.open_table(source, index_location=tmp_path / "index")
    table.build_index("id", kind="sieve", progress=False)
    assert version() == second + 1
    path(second + 1).unlink()
    assert version() == second
    shutil.rmtree(tmp_path / "index")
    assert version() == 0
    table.build_index("id", kind="sieve", progress=False)
    assert version() == 1

"""A second snapshot of a Hudi table lists nothing while the timeline is unchanged, and notices every change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.aging import wait_until_old
from support.hudi_tables import HudiTable

import parsieve as ps
from parsieve.lake import open_lake
from parsieve.lake.hudi.table import has_logs
from parsieve.lake.storage.listing import TICK_NS

pytest.importorskip("hudi")
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def rows(first: int, last: int, version: int = 0) -> pa.Table:
    ids = range(first, last)
    return pa.table({"id": list(ids), "name": [f"n{number}-{version}" for number in ids]}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    hudi = HudiTable(tmp_path / "t", SCHEMA)
    hudi.commit({f"g{group}-0": rows(group * 10, group * 10 + 10) for group in range(3)})
    wait_until_old(tmp_path)
    return hudi


class Reopened:
    """Compares an open table with the same table opened again: both must always return the same."""

    def __init__(self, table: HudiTable) -> None:
        self.uri = str(table.folder)
        self.lake = open_lake(self.uri)
        self.last = self.lake.snapshot()

    def check(self, *, remembered: bool) -> None:
        """Compare snapshots and rows. `remembered`: whether the previous slices must be reused, or must not be."""
        current, fresh = self.lake.snapshot(), open_lake(self.uri).snapshot()
        assert current.id == fresh.id
        assert current.tokens == fresh.tokens
        assert (current.slices is self.last.slices) is remembered
        self.last = current
        names = self.lake.read(current, current.slices, ["name"]).read_all()["name"].to_pylist()
        assert sorted(names) == sorted(
            open_lake(self.uri).read(fresh, fresh.slices, ["name"]).read_all()["name"].to_pylist()
        )


def test_a_downgraded_table_has_its_rows(table: HudiTable) -> None:
    """A downgrade to version 6 leaves the folder of the timeline behind, with its archive."""
    (table.timeline / "timeline" / "history").mkdir(parents=True)
    lake = open_lake(str(table.folder))
    snapshot = lake.snapshot()
    assert lake.read(snapshot, snapshot.slices).read_all().num_rows == 30


def test_an_unchanged_timeline_is_listed_once(table: HudiTable) -> None:
    reopened = Reopened(table)
    reopened.check(remembered=True)
    # Uncommitted files do not count.
    (table.folder / "g9-0_0-1-0_20260101000099000.parquet").write_bytes(b"not yet")
    reopened.check(remembered=True)


def test_a_commit_a_rollback_and_a_restore_are_noticed(table: HudiTable) -> None:
    reopened = Reopened(table)
    second = table.commit({"g1-0": rows(10, 20, 1), "g5-0": rows(50, 60)})
    wait_until_old(table.folder)
    reopened.check(remembered=False)
    assert reopened.last.id == second
    reopened.check(remembered=True)
    # A rollback removes the instant and adds one of its own.
    begun = table.begin("rollback")
    reopened.check(remembered=False)
    (table.timeline / f"{second}.commit").unlink()
    reopened.check(remembered=False)
    assert reopened.last.id < second
    table.forget(second)
    (table.timeline / f"{begun}.rollback").write_bytes(b"x")
    wait_until_old(table.folder)
    reopened.check(remembered=False)
    reopened.check(remembered=True)
    third = table.commit({"g1-0": rows(10, 20, 3)})
    fourth = table.commit({"g2-0": rows(20, 30, 4)})
    wait_until_old(table.folder)
    reopened.check(remembered=False)
    begun = table.begin("restore")
    for instant in (fourth, third):
        table.forget(instant)
        reopened.check(remembered=False)
    (table.timeline / f"{begun}.restore").write_bytes(b"x")
    wait_until_old(table.folder)
    reopened.check(remembered=False)
    reopened.check(remembered=True)
    assert ps.open_table(reopened.uri).plan("id = 12").to_arrow()["name"].to_pylist() == ["n12-0"]


@pytest.mark.parametrize(
    "action", ["commit", "deltacommit", "replacecommit", "clean", "rollback", "restore", "indexing"]
)
def test_everything_is_listed_while_an_action_is_pending(table: HudiTable, action: str) -> None:
    reopened = Reopened(table)
    instant = table.begin(action)
    wait_until_old(table.folder)
    reopened.check(remembered=False)
    reopened.check(remembered=False)
    for path in table.timeline.glob(f"{instant}.*"):
        path.unlink()
    wait_until_old(table.folder)
    reopened.check(remembered=False)
    # A requested action has not begun yet.
    (table.timeline / f"{table.instant()}.compaction.requested").touch()
    wait_until_old(table.folder)
    reopened.check(remembered=False)
    reopened.check(remembered=True)


def test_a_clean_and_an_archived_instant_are_noticed(table: HudiTable) -> None:
    first = min(path.name for path in table.timeline.glob("*.commit")).partition(".")[0]
    reopened = Reopened(table)
    table.commit({"g1-0": rows(10, 20, 1)})
    wait_until_old(table.folder)
    reopened.check(remembered=False)
    assert reopened.lake.snapshot(first).id == first
    (table.timeline / f"{table.instant()}.clean").write_bytes(b"")
    wait_until_old(table.folder)
    # The clean changes which instants can still be read.
    with pytest.raises(ps.UnsupportedError, match="how far"):
        reopened.lake.snapshot(first)
    reopened.check(remembered=False)
    for path in table.timeline.glob(f"{first}.*"):
        shutil.move(path, table.timeline / "archived" / path.name)
    wait_until_old(table.folder)
    reopened.check(remembered=False)
    with pytest.raises(ValueError, match="begins at"):
        reopened.lake.snapshot(first)


def test_a_timeline_that_changed_just_now_may_change_again(table: HudiTable, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Reopened(table).lake
    newest = max(table.timeline.glob("*.commit"))
    newest.write_bytes(newest.read_bytes())
    changed = newest.stat().st_ctime_ns
    # With a fixed clock, both snapshots are within a tick of the change, and then both are not.
    for after, remembered in ((TICK_NS // 2, False), (2 * TICK_NS, True)):
        monkeypatch.setattr("parsieve.lake.storage.storage.time.time_ns", lambda now=changed + after: now)
        first = lake.snapshot()
        assert (lake.snapshot().slices is first.slices) is remembered


def test_another_table_at_the_same_place_is_noticed(table: HudiTable, tmp_path: Path) -> None:
    reopened = Reopened(table)
    shutil.rmtree(table.folder)
    other = HudiTable(table.folder, SCHEMA)
    other.commit({f"g{group}-0": rows(group * 10, group * 10 + 5, 7) for group in range(3)})
    wait_until_old(tmp_path)
    reopened.check(remembered=False)
    assert reopened.last.id == other.timeline.joinpath(max(other.timeline.glob("*.commit")).name).name.partition(".")[0]


def test_snapshots_of_two_instants_are_distinct(table: HudiTable) -> None:
    lake = open_lake(str(table.folder))
    first = lake.snapshot()
    second = table.commit({"g1-0": rows(10, 20, 1)})
    wait_until_old(table.folder)
    for _ in range(2):
        assert lake.snapshot().id == second
        assert lake.snapshot(first.id).tokens == first.tokens
        assert lake.snapshot(second).tokens == lake.snapshot().tokens


def test_an_index_follows_a_table_with_remembered_slices(table: HudiTable) -> None:
    opened = ps.open_table(str(table.folder))
    opened.build_index("id", kind="sieve")
    assert len(opened.plan("id = 12").files) == 1
    table.commit({"g2-0": rows(20, 30, 1), "g6-0": rows(12, 13, 9)})
    wait_until_old(table.folder)
    assert sorted(opened.plan("id = 12").to_arrow()["name"].to_pylist()) == ["n12-0", "n12-9"]
    opened.update_index()
    assert len(opened.plan("id = 12", row_groups=False).files) == 2
    assert opened.verify_index() == []


def test_statistics_of_a_base_file_with_a_log_are_not_used(table: HudiTable) -> None:
    properties = table.timeline / "hoodie.properties"
    properties.write_text(properties.read_text().replace("COPY_ON_WRITE", "MERGE_ON_READ"))
    before = open_lake(str(table.folder)).snapshot()
    assert all(has_logs(file_slice, frozenset()) for file_slice in before.slices)
    instant = table.begin("deltacommit")
    log = f".g1-0_{before.id}.log.1_0-1-0"
    # A plan does not read the log.
    (table.folder / log).write_bytes(b"records")
    stats: dict[str, object] = {"fileId": "g1-0", "path": log, "logFiles": [log], "prevCommit": before.id}
    table.finish(instant, [stats | {"partitionPath": "", "fileSizeInBytes": 7}], "deltacommit")
    after = open_lake(str(table.folder)).snapshot()
    assert [file_slice.clean for file_slice in after.slices] == [True, False, True]
    assert pc.equal(before.slices.token, after.slices.token).to_pylist() == [True, False, True]
    # In this version of tables, several commits may append to the same log.
    assert not has_logs(after.slices[1], frozenset({log}))
    plan = ps.open_table(str(table.folder)).plan("id = 99")
    assert [Path(path).name.partition("_")[0] for path in plan.files] == ["g1-0"]

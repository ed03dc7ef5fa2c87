"""Builds and updates wait once for files that were written just now, and report the files that they leave out."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from support.aging import wait_until_old
from support.programs import fresh_files

import parsieve as ps
from parsieve.index import TableIndex
from parsieve.index.build.settle import settle, unsettled
from parsieve.lake import open_lake
from parsieve.lake.storage.listing import COARSE_NS, TICK_NS
from parsieve.lake.storage.remote_listing import REMOTE_NS
from parsieve.lake.storage.storage import LONGEST_WAIT_NS, Storage


class Clock:
    """A clock that advances only by `sleep`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now: int) -> None:
        self.now = now
        self.slept: list[float] = []
        monkeypatch.setattr("parsieve.lake.storage.listing.time.time_ns", lambda: self.now)
        monkeypatch.setattr("parsieve.lake.storage.storage.time.sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += int(seconds * 1e9)


def write(path: Path, *keys: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"k": list(keys)}), path)
    return path


def changed_ns(path: Path) -> int:
    stat = path.stat()
    return max(stat.st_mtime_ns, stat.st_ctime_ns)


def num_locations(table: ps.Table) -> int:
    return table.index_stats()["k"].locations


# `python tests/python/support/programs/fresh_files.py --times 200` builds more of them.
@pytest.mark.parametrize("kind", fresh_files.KINDS)
def test_an_index_built_right_after_the_files_covers_all_of_them(kind: str) -> None:
    assert fresh_files.run(5, [kind]) == []


def test_an_update_after_each_file_covers_that_file(tmp_path: Path) -> None:
    write(tmp_path / "t" / "0.parquet", 0)
    table = ps.open_table(tmp_path / "t")
    table.build_index("k")
    for part in range(1, 13):
        write(tmp_path / "t" / f"{part}.parquet", part)
        table.update_index()
        assert num_locations(table) == part + 1
    assert len(table.plan("k = 12").files) == 1


def test_a_build_waits_until_one_tick_has_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t" / "0.parquet", 1)
    clock = Clock(monkeypatch, changed_ns(path) + TICK_NS // 5)
    lake = open_lake(tmp_path / "t")
    snapshot = lake.snapshot()
    assert not snapshot.slices[0].token
    settled = settle(lake, snapshot)
    assert settled.slices[0].token
    assert not unsettled(settled)
    [slept] = clock.slept
    assert TICK_NS * 0.79 < slept * 1e9 < TICK_NS
    # A snapshot that has waited already, or has old files only, causes no wait.
    assert settle(lake, settled) is settled
    settle(lake, lake.snapshot())
    assert len(clock.slept) == 1


@pytest.mark.parametrize("root", ["t", "t/0.parquet"])
def test_the_wait_for_timestamps_in_whole_seconds_is_two_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    whole_second = write(tmp_path / "t" / "0.parquet", 1).stat().st_ctime_ns // 10**9 * 10**9 + 10**9
    os.utime(tmp_path / "t" / "0.parquet", ns=(whole_second, whole_second))
    clock = Clock(monkeypatch, whole_second + 10)
    lake = open_lake(tmp_path / root)
    settled = settle(lake, lake.snapshot())
    assert settled.slices[0].token
    assert COARSE_NS * 0.9 < sum(clock.slept) * 1e9 < LONGEST_WAIT_NS


def test_a_file_that_is_written_all_the_time_is_left_out_after_one_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "t" / "0.parquet", 1)
    hot = write(tmp_path / "t" / "1.parquet", 0, 9)
    clock = Clock(monkeypatch, changed_ns(hot) + 10)

    def sleep_while_written(seconds: float) -> None:
        clock.sleep(seconds)
        os.utime(hot, ns=(clock.now, clock.now))

    monkeypatch.setattr("parsieve.lake.storage.storage.time.sleep", sleep_while_written)
    with caplog.at_level(logging.WARNING, "parsieve.index"):
        table = ps.open_table(tmp_path / "t")
        report = table.build_index("k")
    assert len(clock.slept) == 1
    assert [(Path(left_out.path).name, left_out.reason) for left_out in report.left_out] == [
        ("1.parquet", "it changed while the index was being prepared")
    ]
    assert report.files == 1
    assert "leaves out 1 file" in caplog.text
    assert "1.parquet" in caplog.text
    plan = table.plan("k = 1")
    assert [Path(path).name for path in plan.files] == ["0.parquet", "1.parquet"]
    assert "update_index()" in plan.explain()


def test_a_file_with_a_future_timestamp_is_left_out_without_a_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "t" / "0.parquet", 1)
    ahead = write(tmp_path / "t" / "1.parquet", 2)
    now = changed_ns(ahead) + 10 * TICK_NS
    os.utime(ahead, ns=(now + 3600 * 10**9,) * 2)
    now = max(now, ahead.stat().st_ctime_ns + 10 * TICK_NS)
    clock = Clock(monkeypatch, now)
    report = ps.open_table(tmp_path / "t").build_index("k")
    assert clock.slept == []
    [left_out] = report.left_out
    assert left_out.path.endswith("1.parquet")
    assert "in the future" in left_out.reason


def test_files_without_etags_are_left_out_without_a_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t" / "0.parquet", 1)
    # A pyarrow filesystem that does not look like a local one.
    remote = fs.PyFileSystem(_Remote(fs.LocalFileSystem()))
    clock = Clock(monkeypatch, changed_ns(path) + 10**9)
    table = ps.open_table((remote, str(tmp_path / "t")), index_location=str(tmp_path / "index"))
    report = table.build_index("k")
    assert clock.slept == []
    [left_out] = report.left_out
    assert "no ETag" in left_out.reason
    assert "59 s from now" in left_out.reason
    clock.now += REMOTE_NS
    assert table.update_index().left_out == ()
    assert num_locations(table) == 1


def test_a_file_that_is_replaced_while_it_is_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for part in range(3):
        write(tmp_path / "t" / f"{part}.parquet", part)
    lake = open_lake(tmp_path / "t")
    snapshot = settle(lake, lake.snapshot())
    write(tmp_path / "t" / "1.parquet", 7)
    with caplog.at_level(logging.WARNING, "parsieve.index"):
        view = TableIndex(tmp_path / "index").build(lake, snapshot, ["k"])
    assert "1.parquet: it was changed while it was read" in caplog.text
    assert not view.token(snapshot.slices[1].location)


class _Remote(fs.FileSystemHandler):  # type: ignore[misc] # it has no types
    """A handler that wraps a filesystem and hides that it is local."""

    def __init__(self, inner: fs.FileSystem) -> None:
        self._inner = inner

    def get_type_name(self) -> str:
        return "remote"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return list(self._inner.get_file_info(paths))

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        return list(self._inner.get_file_info(selector))

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self._inner.open_input_file(path)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self._inner.open_input_stream(path)

    def _refuse(self, *_: object) -> None:
        raise NotImplementedError

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = move = copy_file = _refuse
    open_output_stream = open_append_stream = _refuse


@pytest.mark.parametrize("kind", ["sieve", "bloom", "text"])
@pytest.mark.parametrize("change", ["empty", "half", "removed", "replaced"])
def test_a_file_that_changes_while_it_is_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, change: str
) -> None:
    for number in range(4):
        pq.write_table(pa.table({"k": [f"name-{number}", f"title-{number}"]}), tmp_path / f"{number}.parquet")
    wait_until_old(tmp_path)
    open_file = Storage.open
    changed = tmp_path / "2.parquet"
    data = changed.read_bytes()

    def change_and_open(self: Storage, path: str) -> Any:
        if path == str(changed) and changed.exists() and changed.read_bytes() == data:
            if change == "removed":
                changed.unlink()
            elif change == "replaced":
                pq.write_table(pa.table({"k": ["q"]}), changed)
            else:
                changed.write_bytes(b"" if change == "empty" else data[: len(data) // 2])
        return open_file(self, path)

    table = ps.open_table(tmp_path)
    monkeypatch.setattr(Storage, "open", change_and_open)
    report = table.build_index("k", kind=kind, progress=False)
    monkeypatch.undo()
    [left_out] = report.left_out
    assert left_out.reason.startswith(f"it was {'removed' if change == 'removed' else 'changed'} while it was read")
    # A file without bytes has no rows.
    is_listed = change in ("half", "replaced")
    condition = "k LIKE '%name-1%'" if kind == "text" else "k = 'name-1'"
    assert len(table.plan(condition, row_groups=False).files) == 1 + is_listed

"""Files changed in place: filters, hard links, and journals of interrupted changes."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.disk import SECTOR, crash, patch_os

import parsieve as ps
from parsieve.io import fd, in_place, sources
from parsieve.io.in_place.journal import MAGIC, frame


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": range(3000), "other": range(3000)}), path, row_group_size=1000)
    return path


def interrupted(path: Path, call: str, number: int = 1) -> tuple[bytes, bytes]:
    """Crash right before a system call, and return the old content and the half-changed content."""
    old = path.read_bytes()
    crash(lambda: ps.add_filters(path, columns="id", in_place=True), call, number)
    return old, path.read_bytes()


def test_a_change_in_place_keeps_the_old_bytes_and_the_inode(path: Path) -> None:
    old, number = path.read_bytes(), path.stat().st_ino
    other = path.with_name("other.parquet")
    other.hardlink_to(path)
    rows = pq.read_table(path)
    report = ps.add_filters(path, columns="id", in_place=True)
    new = path.read_bytes()
    assert new.startswith(old)
    assert (path.stat().st_ino, report.bytes_before, report.bytes_after) == (number, len(old), len(new))
    assert other.read_bytes() == new
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["other.parquet", "t.parquet"]
    assert pq.read_table(path).equals(rows)
    assert pl.read_parquet(path).to_arrow().equals(rows)
    assert duckdb.read_parquet(str(path)).fetchall() == [tuple(row.values()) for row in rows.to_pylist()]
    assert ps.open_filters(path).might_contain({"id": 1500}) == [False, True, False]
    assert ps.check_filters(path) == []
    assert len(ps.drop_filters(path, in_place=True).dropped) == 3
    assert path.read_bytes().startswith(new)
    assert ps.open_filters(path).ranges() == []
    assert pq.read_table(path).equals(rows)


def test_a_rewrite_without_changes_writes_nothing(path: Path) -> None:
    old = path.read_bytes()
    assert not ps.drop_filters(path, in_place=True).written
    assert not ps.add_filters(path, columns="id", in_place=True, dry_run=True).written
    assert path.read_bytes() == old
    with pytest.raises(ValueError, match="no dest"):
        ps.add_filters(path, path.with_name("dest"), in_place=True)


@pytest.mark.parametrize("opener", ["open", "add", "drop", "check", "in place", "plan"])
def test_every_function_that_opens_a_file_undoes_an_interrupted_change(path: Path, opener: str) -> None:
    # Writes: the journal, and the filters and the footer in pieces.
    old, half = interrupted(path, "write", 4)
    assert half.startswith(old)
    assert len(half) > len(old)
    assert in_place.journal_path(path).exists()
    if opener == "open":
        assert ps.open_filters(path).ranges() == []
    elif opener == "check":
        assert ps.check_filters(path) == []
    elif opener == "plan":
        assert ps.open_table(path.parent).plan("id = 5").to_arrow().num_rows == 1
    elif opener == "drop":
        assert not ps.drop_filters(path).written
    else:
        ps.add_filters(path, columns="id", in_place=opener == "in place")
        assert len(ps.open_filters(path).ranges()) == 3
    if opener in ("open", "check", "drop", "plan"):
        assert path.read_bytes() == old
    assert not in_place.journal_path(path).exists()


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_user_who_cannot_write_is_told_of_the_interrupted_change(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """The filesystem may be mounted read-only."""
    interrupted(path, "write", 4)

    class ReadOnly:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def open(self, target: Any, flags: int) -> int:
            if flags & os.O_RDWR:
                raise OSError(code, os.strerror(code), str(target))
            return os.open(target, flags)

    patch_os(monkeypatch, ReadOnly())
    for read in (ps.open_filters, lambda place: ps.open_table(place).plan()):
        with pytest.raises(ps.ConflictError, match=rf"was interrupted .*cannot write .*\({os.strerror(code)}\)"):
            read(path)


def test_a_complete_change_is_not_undone(path: Path) -> None:
    # The first unlink removes an unfinished journal from before.
    interrupted(path, "unlink", 2)
    assert in_place.journal_path(path).exists()
    assert len(ps.open_filters(path).ranges()) == 3
    assert not in_place.journal_path(path).exists()


def test_a_torn_block_at_the_old_end_is_restored(path: Path) -> None:
    old, half = interrupted(path, "write", 4)
    torn = len(old) - len(old) % SECTOR
    with path.open("r+b") as file:
        file.seek(torn)
        file.write(bytes(SECTOR))
    assert path.read_bytes() != half
    assert ps.open_filters(path).ranges() == []
    assert path.read_bytes() == old


@pytest.mark.parametrize("damage", [b"", b"parsieve journal 1\n", b"parsieve journal 2\n0000", b"parsieve journal 3\n"])
def test_a_damaged_journal_is_refused(path: Path, damage: bytes) -> None:
    in_place.journal_path(path).write_bytes(damage)
    old = path.read_bytes()
    for call in (ps.open_filters, ps.add_filters, ps.drop_filters, ps.check_filters):
        with pytest.raises(ps.FormatError, match="damaged"):
            call(path)
    assert path.read_bytes() == old


@pytest.mark.parametrize(
    "changed",
    [
        {"wipe": [1]},
        {"wipe": [[4, 1 << 40, ""]]},
        {"ending": "not hexadecimal"},
        {"old_length": "12"},
        {"old_length": -1},
        {"old_length": 50, "new_length": 40},
        {"checksum": None},
    ],
)
def test_a_journal_of_no_possible_change_is_refused(path: Path, changed: dict[str, Any]) -> None:
    values = {"old_length": 12, "ending": "", "new_length": 99, "checksum": 0, "appended": "", "wipe": [], **changed}
    in_place.journal_path(path).write_bytes(frame(MAGIC, json.dumps(values).encode()))
    old = path.read_bytes()
    with pytest.raises(ps.FormatError, match="damaged, or was written by a newer version"):
        ps.open_filters(path)
    assert path.read_bytes() == old


def test_a_change_in_progress_is_not_undone(path: Path) -> None:
    _, half = interrupted(path, "write", 4)
    locked = os.open(path, os.O_RDWR)
    fd.lock(path, locked)
    try:
        for call in (ps.open_filters, ps.add_filters):
            with pytest.raises(ps.ConflictError, match="being changed"):
                call(path)
        assert path.read_bytes() == half
    finally:
        os.close(locked)
    assert ps.open_filters(path).ranges() == []


@pytest.mark.parametrize("is_over", [False, True])
def test_a_change_that_starts_while_the_file_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    """The change starts after `recover`: a half-changed file does not end with a footer."""
    looked, opened = in_place.recover, sources.LocalFile
    begun: list[bytes] = []

    def begin(source: Any) -> None:
        looked(source)
        if not begun:
            begun.append(b"")
            begun[0] = interrupted(path, "write", 4)[1]

    def open_and_wait(source: Any) -> sources.LocalFile:
        file = opened(source)
        if is_over and begun[0] and file.size() == len(begun[0]):
            looked(source)
        return file

    monkeypatch.setattr(in_place, "recover", begin)
    monkeypatch.setattr(sources, "LocalFile", open_and_wait)
    assert ps.open_filters(path).ranges() == []
    assert begun[0]


# The second fsync is that of the folder, whose errors are ignored.
@pytest.mark.parametrize(
    ("call", "number"), [("write", 1), ("write", 2), ("write", 5), ("fsync", 1), ("fsync", 3), ("fsync", 4)]
)
def test_a_change_is_undone_after_a_system_error(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    old = path.read_bytes()
    monkeypatch.setattr(fd, "CHUNK", 2 * SECTOR)

    class Failing:
        def __init__(self) -> None:
            self.left = number

        def __getattr__(self, name: str) -> Any:
            if name == call:
                self.left -= 1
                if self.left == 0:
                    raise OSError(28, "No space left on device")
            return getattr(os, name)

    failing = Failing()
    with monkeypatch.context() as patched:
        patch_os(patched, failing)
        with pytest.raises(OSError, match="No space left"):
            ps.add_filters(path, columns="id", in_place=True)
    assert ps.open_filters(path).ranges() == []
    assert path.read_bytes() == old

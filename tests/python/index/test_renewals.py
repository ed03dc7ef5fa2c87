"""Filters that are added to files of a table change their tokens and no row: the index is bound to them, unread."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.places import index_of

import parsieve as ps
from parsieve.cli import main
from parsieve.filters.target import RewriteTarget
from parsieve.io.fd import TICKS_NS
from parsieve.lake.base import Slice
from parsieve.lake.folder.table import ParquetDir

FILES = 6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(FILES):
        path = tmp_path / f"day={number % 2}" / f"part-{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": range(number, 600, FILES), "n": [str(n) for n in range(100)]}), path)
    time.sleep(0.1)
    return tmp_path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose keys were read."""
    seen: list[str] = []
    whole = ParquetDir.read_keys

    def read_keys(self: ParquetDir, piece: Slice, columns: Sequence[tuple[str, ...]]) -> Iterator[pa.RecordBatch]:
        seen.append(piece.group)
        return whole(self, piece, columns)

    monkeypatch.setattr(ParquetDir, "read_keys", read_keys)
    return seen


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def right(table: ps.Table) -> None:
    for key in (0, 17, 599, 600, -1):
        assert table.plan(f"id = {key}").to_arrow()["id"].to_pylist() == [key] * (0 <= key < 600)


@pytest.mark.parametrize("kind", ["sieve", "bloom", "both"])
def test_files_with_other_filters_are_bound_and_not_read(folder: Path, read: list[str], kind: str) -> None:
    table = ps.open_table(str(folder))
    table.build_index(["id", "n"], kind=kind)
    assert len(table.plan("id = 17", row_groups=False).files) == 1
    for path in files(folder)[:4]:
        assert ps.add_filters(path, columns="id").written
    time.sleep(0.1)
    # Until then they are unknown, and kept.
    assert len(table.plan("id = 17", row_groups=False).files) >= 4
    right(table)
    read.clear()
    table.update_index()
    assert read == []
    assert len(table.plan("id = 17", row_groups=False).files) == 1
    right(table)
    read.clear()
    assert table.verify_index() == []
    assert sorted(set(read)) == [path.relative_to(folder).as_posix() for path in files(folder)]
    assert not list((index_of(folder) / "renewals").iterdir())


def test_several_changes_one_after_the_other(folder: Path, read: list[str]) -> None:
    table = ps.open_table(str(folder))
    table.build_index("id", kind="both")
    first = files(folder)[0]
    ps.add_filters(first, columns="id")
    time.sleep(0.1)
    ps.add_filters(first, columns="n")
    time.sleep(0.1)
    ps.drop_filters(first, columns="id")
    time.sleep(0.1)
    read.clear()
    table.update_index()
    assert read == []
    assert table.verify_index() == []
    right(table)


def test_a_file_with_other_rows_is_read(folder: Path, read: list[str]) -> None:
    """However it came about: rewritten before the filters were added, between two additions, or after them."""
    table = ps.open_table(str(folder))
    table.build_index("id", kind="both")
    before, between, after, touched = files(folder)[:4]
    pq.write_table(pa.table({"id": [1000], "n": ["x"]}), before)
    time.sleep(0.1)
    ps.add_filters(before, columns="id")
    ps.add_filters(between, columns="id")
    time.sleep(0.1)
    pq.write_table(pa.table({"id": [1001], "n": ["x"]}), between)
    time.sleep(0.1)
    ps.add_filters(between, columns="id")
    ps.add_filters(after, columns="id")
    # In place, of the same size, and at once.
    data = bytearray(after.read_bytes())
    with after.open("r+b") as file:
        file.write(data)
    ps.add_filters(touched, columns="id")
    time.sleep(0.1)
    os.utime(touched)
    time.sleep(0.1)
    read.clear()
    table.update_index()
    assert len(set(read)) == 4
    assert table.verify_index() == []
    for key in (1000, 1001):
        assert table.plan(f"id = {key}").to_arrow()["id"].to_pylist() == [key]
    assert table.plan("id = 0 OR id = 2").to_arrow().num_rows == 0


@pytest.mark.parametrize("bytes_", [b"", b"nonsense", b"parsieve-index renewals 1 00\n"])
def test_a_damaged_note_says_nothing(folder: Path, read: list[str], bytes_: bytes) -> None:
    table = ps.open_table(str(folder))
    table.build_index("id", kind="sieve")
    ps.add_filters(files(folder)[0], columns="id")
    [note] = (index_of(folder) / "renewals").iterdir()
    note.write_bytes(bytes_)
    time.sleep(0.1)
    read.clear()
    table.update_index()
    assert len(read) == 1
    assert table.verify_index() == []


def test_a_note_of_another_file_says_nothing(folder: Path, read: list[str]) -> None:
    table = ps.open_table(str(folder))
    table.build_index("id", kind="sieve")
    one, other = files(folder)[0], files(folder)[2]
    ps.add_filters(one, columns="id")
    time.sleep(0.1)
    # The new file takes another one's place: by its token it is known, but there.
    one.replace(other)
    time.sleep(0.1)
    read.clear()
    table.update_index()
    assert read == [other.relative_to(folder).as_posix()]
    assert table.verify_index() == []


def test_what_was_copied_of_a_file_that_was_still_young_is_not_vouched_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ps.open_table(str(folder)).build_index("id", kind="sieve")
    one = files(folder)[0]
    os.utime(one)
    with monkeypatch.context() as however_slow_we_are:
        at_once = one.stat().st_ctime_ns + TICKS_NS // 2
        however_slow_we_are.setattr("parsieve.filters.target.time.time_ns", lambda: at_once)
        places = RewriteTarget(one, None, "refuse", False, False)
    # Where the clock of files ticks slowly, whoever writes now leaves the same time, whatever was copied of it.
    with places:
        time.sleep(0.2)
        places.write(one.stat().st_size, [], lambda: iter(()), lambda _: None)
    assert not (index_of(folder) / "renewals").exists()
    time.sleep(0.1)
    with RewriteTarget(one, None, "refuse", False, False) as places:
        places.write(one.stat().st_size, [], lambda: iter(()), lambda _: None)
    assert len(list((index_of(folder) / "renewals").iterdir())) == 1


def test_without_an_index_nothing_is_noted(folder: Path) -> None:
    ps.add_filters(files(folder)[0], columns="id")
    assert not index_of(folder).exists()


def test_the_command_says_what_to_run(folder: Path, capsys: Any) -> None:
    one = str(files(folder)[0])
    assert main(["add", one, "-c", "id"]) == 0
    assert "index update" not in capsys.readouterr().err
    assert main(["index", "build", str(folder), "id"]) == 0
    capsys.readouterr()
    for arguments in (["add", one, "-c", "n"], ["add", str(folder), "-c", "n"], ["drop", one, "-c", "n"]):
        assert main(arguments) == 0
        said = capsys.readouterr().err
        assert f"parsieve index update {folder}" in said
        assert said.count("index update") == 1
    assert main(["add", one, "-c", "n", "--dry-run"]) == 0
    assert "index update" not in capsys.readouterr().err

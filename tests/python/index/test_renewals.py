"""Adding filters changes the token of a file but no rows, so an update of the index does not read the file again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old
from support.places import index_of

import parsieve as ps
from parsieve.cli import main
from parsieve.filters.target import RewriteTarget
from parsieve.index.sieve import compact
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
    wait_until_old(tmp_path)
    return tmp_path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that records the files whose keys are read."""
    groups: list[str] = []
    original = ParquetDir.read_keys

    def read_keys(self: ParquetDir, data_slice: Slice, columns: Sequence[tuple[str, ...]]) -> Iterator[pa.RecordBatch]:
        groups.append(data_slice.group)
        return original(self, data_slice, columns)

    monkeypatch.setattr(ParquetDir, "read_keys", read_keys)
    return groups


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def assert_plans_are_correct(table: ps.Table) -> None:
    for key in (0, 17, 599, 600, -1):
        assert table.plan(f"id = {key}").to_arrow()["id"].to_pylist() == [key] * (0 <= key < 600)


@pytest.mark.parametrize("kind", ["sieve", "bloom", "both"])
def test_files_with_new_filters_are_not_read_again(folder: Path, read: list[str], kind: str) -> None:
    table = ps.open_table(str(folder))
    table.build_index(["id", "n"], kind=kind)
    assert len(table.plan("id = 17", row_groups=False).files) == 1
    for path in files(folder)[:4]:
        assert ps.add_filters(path, columns="id").written
    wait_until_old(folder)
    # Until the update, the index does not cover them and plans keep them.
    assert len(table.plan("id = 17", row_groups=False).files) >= 4
    assert_plans_are_correct(table)
    read.clear()
    table.update_index()
    assert read == []
    assert len(table.plan("id = 17", row_groups=False).files) == 1
    assert_plans_are_correct(table)
    read.clear()
    assert table.verify_index() == []
    assert sorted(set(read)) == [path.relative_to(folder).as_posix() for path in files(folder)]
    assert not list((index_of(folder) / "renewals").iterdir())


def test_several_changes_of_filters_are_followed(folder: Path, read: list[str]) -> None:
    table = ps.open_table(str(folder))
    table.build_index("id", kind="both")
    first = files(folder)[0]
    ps.add_filters(first, columns="id")
    wait_until_old(folder)
    ps.add_filters(first, columns="n")
    wait_until_old(folder)
    ps.drop_filters(first, columns="id")
    wait_until_old(folder)
    read.clear()
    table.update_index()
    assert read == []
    assert table.verify_index() == []
    assert_plans_are_correct(table)


def test_files_with_changed_rows_are_read_again(folder: Path, read: list[str]) -> None:
    """Files that changed before the filters were added, between two additions, or after them."""
    table = ps.open_table(str(folder))
    table.build_index("id", kind="both")
    before, between, after, touched = files(folder)[:4]
    pq.write_table(pa.table({"id": [1000], "n": ["x"]}), before)
    wait_until_old(folder)
    ps.add_filters(before, columns="id")
    ps.add_filters(between, columns="id")
    wait_until_old(folder)
    pq.write_table(pa.table({"id": [1001], "n": ["x"]}), between)
    wait_until_old(folder)
    ps.add_filters(between, columns="id")
    ps.add_filters(after, columns="id")
    # Rewrite it in place with the same size, immediately.
    data = bytearray(after.read_bytes())
    with after.open("r+b") as file:
        file.write(data)
    ps.add_filters(touched, columns="id")
    wait_until_old(folder)
    os.utime(touched)
    wait_until_old(folder)
    read.clear()
    table.update_index(compact=False)
    assert len(set(read)) == 4
    assert table.verify_index() == []
    for key in (1000, 1001):
        assert table.plan(f"id = {key}").to_arrow()["id"].to_pylist() == [key]
    assert table.plan("id = 0 OR id = 2").to_arrow().num_rows == 0


@pytest.mark.parametrize("bytes_", [b"", b"nonsense", b"parsieve-index renewals 1 00\n"])
def test_a_damaged_renewal_is_ignored(folder: Path, read: list[str], bytes_: bytes) -> None:
    table = ps.open_table(str(folder))
    table.build_index("id", kind="sieve")
    ps.add_filters(files(folder)[0], columns="id")
    [note] = (index_of(folder) / "renewals").iterdir()
    note.write_bytes(bytes_)
    wait_until_old(folder)
    read.clear()
    table.update_index()
    assert len(read) == 1
    assert table.verify_index() == []


def test_a_renewal_of_another_file_is_ignored(folder: Path, read: list[str]) -> None:
    table = ps.open_table(str(folder))
    table.build_index("id", kind="sieve")
    source, target = files(folder)[0], files(folder)[2]
    ps.add_filters(source, columns="id")
    wait_until_old(folder)
    # The file with the known token replaces another file, at another path.
    source.replace(target)
    wait_until_old(folder)
    read.clear()
    table.update_index(compact=False)
    assert read == [target.relative_to(folder).as_posix()]
    assert table.verify_index() == []


def test_no_renewal_is_written_for_a_file_that_changed_just_before(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ps.open_table(str(folder)).build_index("id", kind="sieve")
    path = files(folder)[0]
    os.utime(path)
    with monkeypatch.context() as clock:
        soon = path.stat().st_ctime_ns + TICKS_NS // 2
        clock.setattr("parsieve.filters.target.time.time_ns", lambda: soon)
        places = RewriteTarget(path, None, "refuse", False, False)
    # A write within the tick would leave the same timestamps, so the copied rows may be outdated.
    with places:
        wait_until_old(folder)
        places.write(path.stat().st_size, [], lambda: iter(()), lambda _: None)
    assert not (index_of(folder) / "renewals").exists()
    wait_until_old(folder)
    with RewriteTarget(path, None, "refuse", False, False) as places:
        places.write(path.stat().st_size, [], lambda: iter(()), lambda _: None)
    assert len(list((index_of(folder) / "renewals").iterdir())) == 1


def test_no_renewal_is_written_without_an_index(folder: Path) -> None:
    ps.add_filters(files(folder)[0], columns="id")
    assert not index_of(folder).exists()


def test_the_command_line_suggests_an_update_of_the_index(folder: Path, capsys: Any) -> None:
    path = str(files(folder)[0])
    assert main(["add", path, "-c", "id"]) == 0
    assert "index update" not in capsys.readouterr().err
    assert main(["index", "build", str(folder), "id"]) == 0
    capsys.readouterr()
    for arguments in (["add", path, "-c", "n"], ["add", str(folder), "-c", "n"], ["drop", path, "-c", "n"]):
        assert main(arguments) == 0
        printed = capsys.readouterr().err
        assert f"parsieve index update {folder}" in printed
        assert printed.count("index update") == 1
    assert main(["add", path, "-c", "n", "--dry-run"]) == 0
    assert "index update" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["sieve", "both"])
def test_a_compaction_does_not_cover_a_file_whose_filters_were_added_meanwhile(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The compaction cannot read the file, because its token changed. The update gives it a new token."""
    table = ps.open_table(str(folder))
    table.build_index("id", kind=kind, progress=False)
    pq.write_table(pa.table({"id": [1000], "n": ["x"]}), folder / "day=0" / "new.parquet")
    wait_until_old(folder)
    table.update_index(progress=False)
    assert ps.add_filters(files(folder)[3], columns="id").written
    wait_until_old(folder)
    commit = compact._commit

    def update_and_commit(*arguments: Any, **options: Any) -> Any:
        ps.open_table(str(folder)).update_index(progress=False)
        return commit(*arguments, **options)

    monkeypatch.setattr(compact, "_commit", update_and_commit)
    ps.open_table(str(folder)).compact_index(progress=False)
    monkeypatch.undo()
    table = ps.open_table(str(folder))
    assert not [problem for problem in table.verify_index() if problem.loses_rows]
    assert_plans_are_correct(table)
    for number in range(FILES):
        assert table.plan(f"id = {number}").to_arrow()["id"].to_pylist() == [number]
    table.update_index(progress=False)
    assert len(table.plan("id = 17", row_groups=False, stale="error").files) == 1
    assert table.verify_index() == []


def test_a_file_whose_name_is_not_unicode_gets_filters(folder: Path) -> None:
    """Engines ignore the file because of the underscore, so the index does not contain it."""
    ps.open_table(str(folder)).build_index("id", kind="sieve", progress=False)
    ignored = Path(os.fsdecode(bytes(folder) + b"/_caf\xe9.parquet"))
    pq.write_table(pa.table({"id": range(600)}), folder / "_new.parquet")
    try:
        (folder / "_new.parquet").rename(ignored)
    except OSError:
        pytest.skip("this filesystem has no such names")
    wait_until_old(ignored.parent)
    assert ps.add_filters(ignored, columns="id").written
    assert len(ps.open_filters(ignored).ranges()) == 1

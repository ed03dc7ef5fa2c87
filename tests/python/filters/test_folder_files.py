"""Which files of a folder functions and commands process: names, links, pipes and sockets."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.cli import main
from parsieve.filters.folder_run import BROKEN, EMPTY, NAME, OUTSIDE, PARENT, Change, find_files

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need rights, and Windows has no such pipes")


def write(path: Path, start: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": range(start, start + 100)}), path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    for number, name in enumerate(("a.parquet", "B.PARQUET", "c.Parq", "d/e.PQ")):
        write(folder / name, number * 100)
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return write(tmp_path / "elsewhere" / "deep" / "x.parquet", 1000).parent.parent


@pytest.fixture
def pipe(folder: Path) -> Iterator[Path]:
    """A pipe and a socket in the folder, which are named like Parquet files."""
    os.mkfifo(folder / "pipe.parquet")
    with socket.socket(socket.AF_UNIX) as open_socket:
        # The path of a socket is short on any system.
        before = Path.cwd()
        os.chdir(folder)
        open_socket.bind("s.parquet")
        os.chdir(before)
        yield folder / "pipe.parquet"


def names(folder: Path, change: Change | None = None) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in find_files(folder, change).files]


def reasons(folder: Path, change: Change | None = None) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): why for path, why in find_files(folder, change).left_out.items()}


def with_filters(*paths: Path) -> list[bool]:
    return [bool(ps.open_filters(path).ranges()) for path in paths]


def test_names_in_upper_case_are_files_for_every_function(folder: Path) -> None:
    all_names = ["B.PARQUET", "a.parquet", "c.Parq", "d/e.PQ"]
    assert sorted(Path(path).name for path in ps.open_table(folder).plan("id >= 0").files) == [
        name.rpartition("/")[2] for name in all_names
    ]
    report = ps.add_filters(folder, columns="id")
    assert [Path(path).relative_to(folder).as_posix() for path in report.files] == all_names
    assert report.left_out == {}
    assert ps.check_filters(folder) == []
    assert len(ps.drop_filters(folder).dropped) == 4


def test_other_names_are_left_out_with_one_note(
    folder: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("notes.txt", "no suffix", "d/two\nlines", "_SUCCESS", ".a.parquet.crc"):
        (folder / name).write_text("no Parquet file")
    with caplog.at_level(logging.WARNING):
        report = ps.add_filters(folder, columns="id")
    assert report.left_out == dict.fromkeys(
        [str(folder / "d/two\nlines"), str(folder / "no suffix"), str(folder / "notes.txt")], NAME
    )
    assert str(report).endswith("; 3 skipped")
    message = f"skipped 3 names ('d/two\\nlines', no suffix, notes.txt): {NAME}"
    assert [record.getMessage() for record in caplog.records] == [f"{folder}: {message}"]
    for command in ("add", "drop", "check", "inspect"):
        assert main([command, str(folder)]) == 0
        assert capsys.readouterr().err.count(message) == 1
        assert main([command, str(folder), "--json"]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        answer = json.loads(printed.out)
        assert [entry["reason"] for entry in answer["left_out"]] == [NAME] * 3
        # An entry of a file does not repeat the fields of the folder.
        assert all(file.keys().isdisjoint({"files", "left_out"}) for file in answer["files"])


def test_a_folder_of_other_names_has_no_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no Parquet file")
    with pytest.raises(FileNotFoundError, match=r"no Parquet files .*; skipped 1 name \(notes.txt\)"):
        ps.add_filters(tmp_path)


def test_folders_behind_links_are_read_but_files_outside_are_not_changed(
    folder: Path, outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "link").symlink_to(outside)
    other = write(outside.parent / "other" / "y.parquet", 2000)
    (folder / "single.parquet").symlink_to(other)
    before = other.read_bytes()
    expected = ["B.PARQUET", "a.parquet", "c.Parq", "d/e.PQ"]
    assert names(folder) == [*expected, "link/deep/x.parquet", "single.parquet"]
    assert len(ps.open_table(folder).plan("id >= 0").files) == 6
    for change in Change:
        assert names(folder, change) == expected
        assert reasons(folder, change) == {"link": OUTSIDE, "single.parquet": OUTSIDE}
    for command in ("add", "drop"):
        assert main([command, str(folder)]) == 0
        printed = capsys.readouterr()
        assert "4 files" in printed.out
        assert printed.err.count(f"skipped 2 names (link, single.parquet): {OUTSIDE}") == 1
    report = ps.add_filters(folder, columns="id")
    assert set(report.left_out.values()) == {OUTSIDE}
    assert other.read_bytes() == before
    # The note says how to change them.
    for path in (folder / "link", folder / "single.parquet"):
        assert ps.add_filters(path, columns="id").written
    assert with_filters(other, outside / "deep/x.parquet") == [True, True]
    assert main(["check", str(folder)]) == 0
    assert "6 files, every filter holds every value" in capsys.readouterr().out


def test_a_file_behind_several_links_to_folders_is_changed_once(folder: Path) -> None:
    (folder / "again").symlink_to("d")
    (folder / "d" / "up").symlink_to(folder)
    (folder / "d" / "self").symlink_to(".")
    (folder / "z").symlink_to("again")
    assert names(folder) == names(folder, Change.REPLACE) == ["B.PARQUET", "a.parquet", "c.Parq", "d/e.PQ"]
    assert find_files(folder).left_out == {}
    report = ps.add_filters(folder, columns="id", threads=8)
    assert (len(report.files), len(report.added)) == (4, 4)


def test_links_inside_the_folder_lead_to_ignored_files(folder: Path) -> None:
    write(folder / ".versions" / "1" / "v.parquet", 500)
    (folder / "current").symlink_to(".versions/1")
    assert names(folder, Change.REPLACE)[-2:] == ["current/v.parquet", "d/e.PQ"]
    ps.add_filters(folder, columns="id")
    assert with_filters(folder / ".versions" / "1" / "v.parquet") == [True]


def test_links_in_circles_outside_of_the_folder_end(folder: Path, outside: Path) -> None:
    (outside / "deep" / "back").symlink_to(folder)
    (outside / "deep" / "around").symlink_to(outside)
    (folder / "link").symlink_to(outside)
    (folder / "parent").symlink_to(folder.parent)
    assert names(folder)[-1] == "link/deep/x.parquet"
    assert len(names(folder)) == 5
    assert reasons(folder) == {"parent": PARENT}


def test_a_folder_that_is_a_link_contains_its_files(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(folder)
    (folder / "f.parquet").symlink_to("a.parquet")
    report = ps.add_filters(tmp_path / "alias", columns="id")
    assert (len(report.files), report.left_out) == (4, {})


def test_broken_links_are_left_out(folder: Path) -> None:
    (folder / "gone.parquet").symlink_to("nowhere")
    (folder / "self.parquet").symlink_to("self.parquet")
    assert reasons(folder) == {"gone.parquet": BROKEN, "self.parquet": BROKEN}
    assert ps.add_filters(folder, columns="id").written


def test_files_without_bytes_are_left_out_as_in_plans(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "new.parquet").touch()
    assert reasons(folder) == {"new.parquet": EMPTY}
    assert len(ps.open_table(folder).plan("id >= 0").files) == 4
    for command in ("add", "check", "drop"):
        assert main([command, str(folder)]) == 0
        assert f"skipped 1 name (new.parquet): {EMPTY}" in capsys.readouterr().err


def test_hard_links_are_changed_in_place_once(folder: Path) -> None:
    os.link(folder / "a.parquet", folder / "same.parquet")
    assert "same.parquet" in names(folder, Change.REPLACE)
    report = ps.add_filters(folder, columns="id", in_place=True)
    assert len(report.files) == 4
    assert with_filters(folder / "same.parquet") == [True]


def test_pipes_and_sockets_are_left_out(
    folder: Path, pipe: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reasons(folder) == {"pipe.parquet": "it is a pipe", "s.parquet": "it is a socket"}
    for command in ("add", "check", "inspect", "drop"):
        assert main([command, str(folder)]) == 0
        assert "skipped 1 name (pipe.parquet): it is a pipe" in capsys.readouterr().err
    caplog.clear()
    table = ps.open_table(folder)
    for _ in range(2):
        assert len(table.plan("id >= 0").files) == 4
    assert len(table.plan("id >= 0").to_arrow()) == 400
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"{folder} leaves out what is not a file: {pipe} (a pipe), {folder / 's.parquet'} (a socket)"
    ]


def test_a_pipe_is_refused_wherever_a_file_is_opened(
    folder: Path, pipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = folder / "link.parquet"
    link.symlink_to(pipe)
    for path in (pipe, link):
        calls: list[Callable[[], Any]] = [
            partial(ps.open_filters, path),
            partial(ps.check_filters, path),
            partial(ps.add_filters, path, folder / "new.parquet", "id"),
            partial(ps.open_table(path).plan, "id = 1"),
        ]
        for call in calls:
            with pytest.raises(ps.UnsupportedError, match="is a pipe, not a file"):
                call()
        for change in (ps.add_filters, ps.drop_filters):
            with pytest.raises(ps.UnsupportedError, match="not a regular file"):
                change(path)
        assert main(["check", str(path)]) == 2
        assert "is a pipe, not a file; write its bytes to a file first" in capsys.readouterr().err
    with pytest.raises(ps.UnsupportedError, match="is a device, not a file"):
        ps.open_filters("/dev/zero")


def test_a_file_that_becomes_a_pipe_is_refused(folder: Path) -> None:
    table = ps.open_table(folder)
    plan = table.plan("id >= 0")
    (folder / "a.parquet").unlink()
    os.mkfifo(folder / "a.parquet")
    with pytest.raises(ps.ParsieveError, match=r"is a pipe, not a file|changed"):
        plan.to_arrow()


def test_folders_in_commands_may_be_uris(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri = folder.as_uri()
    for command in ("add", "check", "inspect", "drop"):
        assert main([command, uri]) == 0
        assert "4 files" in capsys.readouterr().out

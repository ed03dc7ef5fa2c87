"""Commands on folders: all files, failing files, a second run, tables, and the progress bar."""

import io
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.cli import main
from parsieve.filters import folder_run
from parsieve.io import fd
from parsieve.io.parallel import ProgressBar


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "many"
    for number in range(6):
        path = folder / f"day={number % 2}" / f"part-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            pa.table({"id": range(number, number + 400), "few": [1] * 400}),
            path,
            row_group_size=200,
            use_dictionary=False,
        )
    for hidden in ("_delta/part.parquet", ".cache/part.parquet", "day=0/_part.parquet", "day=0/.part.parquet", "a.txt"):
        path = folder / hidden
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"not for us")
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def versions(folder: Path) -> dict[Path, tuple[int, ...]]:
    """Return the identity of each file: which file it is and when it changed, but not when it was read."""
    return {path: fd.identity(path.stat()) for path in folder_run.parquet_files(folder)}


def test_all_files_get_filters_and_a_second_run_changes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "add", str(folder), "-c", "id")
    assert code == 0
    assert err.startswith("skipped 1 name (a.txt): ")
    assert err.count("\n") == 1
    assert "6 files, 6 written, 0 unchanged, 0 failed; 12 filters added" in out
    assert all(len(ps.open_filters(path).ranges()) == 2 for path in folder_run.parquet_files(folder))
    before = versions(folder)
    code, out, _ = run(capsys, "add", str(folder), "-c", "id", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["summary"]["unchanged"] == 6
    assert [file["written"] for file in report["files"]] == [False] * 6
    assert before == versions(folder)
    code, out, _ = run(capsys, "check", str(folder))
    assert (code, out) == (0, f"{folder}: 6 files, every filter holds every value\n")
    code, out, _ = run(capsys, "inspect", str(folder))
    assert code == 0
    assert "6 files, 6 of them with filters" in out
    assert json.loads(run(capsys, "inspect", str(folder), "--json")[1])["files"][5]["filters"][1]["row_group"] == 1
    code, out, _ = run(capsys, "drop", str(folder), "--dry-run")
    assert "6 would be written" in out
    code, out, _ = run(capsys, "drop", str(folder), "--threads", "3", "--in-place")
    assert "12 dropped" in out
    assert all(ps.open_filters(path).ranges() == [] for path in folder_run.parquet_files(folder))


def test_a_report_prints_a_summary(folder: Path) -> None:
    report = ps.add_filters(folder, columns="id")
    grown = report.bytes_after - report.bytes_before
    assert str(report) == f"{folder}: 6 files, 6 written; 12 filters added, 0 dropped; {grown:+,} bytes; 1 skipped"
    [path, *_] = report.files
    assert str(report.files[path]).startswith(f"{path}: 2 filters added, 0 dropped; +")


def test_a_file_that_fails_does_not_stop_the_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = folder / "day=0" / "part-0.parquet"
    bad.write_bytes(b"PAR1 but no footer")
    code, out, err = run(capsys, "add", str(folder), "-c", "id")
    assert code == 2
    assert "5 written" in out
    assert "1 failed" in out
    assert err.splitlines()[1].startswith(f"parsieve: {bad}: ")
    assert err.count("\n") == 2
    code, out, _ = run(capsys, "add", str(folder), "-c", "id", "--json")
    assert code == 2
    assert [("error" in file) for file in json.loads(out)["files"]] == [True] + [False] * 5
    for verb in ("check", "inspect"):
        code, out, err = run(capsys, verb, str(folder), "--json")
        assert code == 2
        assert len(json.loads(out)["files"]) == 6
        assert "part-0" in err


def test_a_second_run_processes_the_remaining_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finished = folder_run.parquet_files(folder)[:2]
    for path in finished:
        ps.add_filters(path, columns="id")
    _, out, _ = run(capsys, "add", str(folder), "-c", "id", "--json")
    assert json.loads(out)["summary"] | {"bytes_before": 0, "bytes_after": 0} == {
        "files": 6,
        "written": 4,
        "unchanged": 2,
        "failed": 0,
        "added": 8,
        "dropped": 0,
        "bytes_before": 0,
        "bytes_after": 0,
    }


def test_check_names_the_file_with_a_false_negative(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "add", str(folder), "-c", "id")
    path = folder_run.parquet_files(folder)[3]
    offset, length = ps.open_filters(path).ranges()[0][2:]
    assert length is not None
    with path.open("r+b") as file:
        file.seek(offset + length - 64)
        file.write(bytes(64))
    code, out, _ = run(capsys, "check", str(folder))
    assert code == 1
    assert "false negatives" in out
    assert str(path) in out


@pytest.mark.parametrize("below", ["", "day=1"])
def test_a_delta_table_is_rejected_before_any_file_changes(
    folder: Path, capsys: pytest.CaptureFixture[str], below: str
) -> None:
    (folder / below / "_delta_log").mkdir()
    code, _, err = run(capsys, "add", str(folder), "-c", "id")
    assert code == 2
    assert "Delta table" in err
    assert err.count("\n") == 1
    assert all(ps.open_filters(path).ranges() == [] for path in folder_run.parquet_files(folder))
    assert run(capsys, "inspect", str(folder))[0] == 0


def test_an_empty_folder_is_fine_and_wrong_options_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "0 files" in run(capsys, "add", str(tmp_path))[1]
    code, _, err = run(capsys, "add", str(tmp_path), "-o", "dest")
    assert code == 2
    assert "--output" in err
    code, _, err = run(capsys, "add", str(tmp_path), "--threads", "0")
    assert code == 2
    assert "threads" in err


def test_the_progress_bar_is_for_terminals_only() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, is_terminal in ((Terminal(), True), (io.StringIO(), False)):
        with ProgressBar(4, stream) as bar:
            for failed in (False, True, False, False):
                bar.step(failed)
        printed = stream.getvalue()
        assert bool(printed) == is_terminal
        assert not is_terminal or (printed.endswith("\n") and "4/4 files, 1 failed" in printed and "#" * 30 in printed)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs symbolic links")
def test_a_link_to_the_folder_itself_is_not_followed(folder: Path) -> None:
    before = folder_run.parquet_files(folder)
    (folder / "again").symlink_to(folder)
    assert folder_run.parquet_files(folder) == before


@pytest.mark.skipif(os.name == "nt", reason="links need rights")
def test_a_file_with_links_is_changed_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = folder_run.parquet_files(folder)
    for number, path in enumerate(before):
        (path.parent / f"a-{number}.parquet").symlink_to(path.name)
    for number, name in enumerate(("first.parquet", "second.parquet")):
        (folder / name).symlink_to(before[number])
    assert folder_run.parquet_files(folder) == before
    for command in ("add", "drop"):
        assert main([command, str(folder), "--threads", "8", "-q"]) == 0
        assert f"{len(before)} files, {len(before)} written, 0 unchanged, 0 failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--fpp", "0"], "fpp must be between 0 and 1 (exclusive), such as 0.01 for 1%, not 0.0"),
        (["--max-bytes", "1"], "--max-bytes must be at least 32, not 1"),
        (["--upload"], "--upload is for a file on an object store, but {folder} is a local folder"),
    ],
)
def test_wrong_arguments_are_one_error_not_one_for_each_file(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    code, out, err = run(capsys, "add", str(folder), *arguments)
    assert (code, out) == (2, "")
    assert problem.format(folder=folder) in err
    assert err.count("\n") == 1


def test_a_note_says_that_filters_are_kept_only_if_there_are_some(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"few": [1, 2]}), folder / "few.parquet")
    note = "existing filters are kept"
    assert note not in run(capsys, "add", str(folder))[2]
    assert note in run(capsys, "add", str(folder))[2]
    assert note in run(capsys, "add", str(folder / "day=0"), "-c", "id")[2]


def test_a_missing_folder_of_the_output_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, missing = folder / "day=0" / "part-0.parquet", folder / "missing"
    for dry_run in ([], ["--dry-run"]):
        code, _, err = run(capsys, "add", str(path), "-o", str(missing / "new.parquet"), *dry_run)
        assert (code, err) == (2, f"parsieve: {missing}: there is no such folder for the new file\n")

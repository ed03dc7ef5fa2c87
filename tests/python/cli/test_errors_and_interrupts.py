"""Commands that end early: errors, Ctrl-C, and a reader that closes the pipe."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.cli import main
from parsieve.cli.commands import build_parser
from parsieve.cli.keyfile import read_key_bytes
from parsieve.cli.main import _message
from parsieve.cli.texts.hints import in_shell
from parsieve.errors import describe
from parsieve.io import interrupts
from parsieve.io.store.local import naming_index_folder

# A build that never ends, since it reads each file again and again.
ENDLESS = """
import sys
from parsieve.lake.folder.table import ParquetDir
read_keys = ParquetDir.read_keys
def endless(self, slice, columns):
    while True:
        yield from read_keys(self, slice, columns)
ParquetDir.read_keys = endless
from parsieve.cli import main
sys.exit(main())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = tmp_path / "orders"
    table.mkdir()
    for part in range(4):
        pq.write_table(pa.table({"id": range(part, 40_000, 4)}), table / f"part-{part}.parquet")
    return table


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.parametrize(
    ("arguments", "error_type", "expected"),
    [
        (["plan", "{folder}", "nope = 1"], "ColumnNotFoundError", "there is no column 'nope'"),
        (["plan", "{folder}/absent", "id = 1"], "FileNotFoundError", "absent: no such file or folder"),
        (["inspect", "{folder}/absent"], "FileNotFoundError", "absent: No such file or directory"),
        (["plan", "{folder}", "id = = 1"], "ValueError", "id = = 1"),
        (["index", "stats", "{folder}"], "IndexNotFoundError", "parsieve index build"),
        (["check", "{folder}", "--threads", "0"], "ValueError", "threads"),
    ],
)
def test_errors_are_json_with_json(
    folder: Path, capsys: Any, arguments: list[str], error_type: str, expected: str
) -> None:
    arguments = [argument.format(folder=folder) for argument in arguments]
    assert main([*arguments, "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    error = json.loads(printed.err)["error"]
    assert error["type"] == error_type
    assert expected in error["message"]
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"parsieve: {error['message']}\n"


def test_failed_files_are_summarized_in_one_json_error(folder: Path, capsys: Any) -> None:
    (folder / "part-1.parquet").write_bytes(b"no Parquet")
    assert main(["check", str(folder), "--json"]) == 2
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)["files"]) == 4
    error = json.loads(printed.err)["error"]
    assert error["message"].startswith(f"1 of 4 files failed: {folder / 'part-1.parquet'}")


@pytest.mark.filterwarnings("default")
def test_warnings_are_json_with_json(folder: Path, tmp_path: Path, capsys: Any) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"footer_key": "00" * 16}))
    keys.chmod(0o644)
    main(["inspect", str(folder / "part-0.parquet"), "--key-file", str(keys), "--json"])
    if os.name == "nt":
        return
    assert "chmod 600" in json.loads(capsys.readouterr().err.splitlines()[0])["warning"]["message"]
    main(["inspect", str(folder / "part-0.parquet"), "--key-file", str(keys)])
    assert capsys.readouterr().err.startswith("parsieve: warning: other users can read the keys")


@pytest.mark.parametrize("text", ["{", "[]", '{"other": 1}', '{"column_keys": ["key"]}', '{"footer_key": "00"}'])
def test_the_error_for_a_bad_key_file_names_the_file_but_no_key(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ValueError, match=r"keys\.json") as caught:
        read_key_bytes(path)
    assert text not in str(caught.value)


def test_system_errors_are_described_with_their_path() -> None:
    assert describe(OSError(28, "No space left on device", "a/b")) == "a/b: No space left on device"
    assert describe(OSError(28, "No space left on device"), "table") == "table: No space left on device"
    assert describe(OSError("one\n  line")) == "one line"
    assert describe(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_the_error_for_an_unwritable_index_names_its_location(folder: Path, capsys: Any) -> None:
    location = folder / "part-0.parquet" / "index"
    assert main(["index", "build", str(folder), "id", "--kind", "sieve", "--index-location", str(location)]) == 2
    assert str(folder / "part-0.parquet") in capsys.readouterr().err


def test_a_build_on_a_read_only_table_suggests_an_index_location() -> None:
    error = OSError(errno.EROFS, "Read-only file system", "orders/_parsieve")
    hint = "use --index-location"
    for arguments, expected in [
        (["index", "build", "t", "a"], True),
        (["index", "build", "t", "a", "--index-location", "i"], False),
        (["plan", "t", "a = 1"], False),
        (["add", "t"], False),
    ]:
        text = _message(error, build_parser().parse_args(arguments))
        assert text.startswith("orders/_parsieve: Read-only file system")
        assert (hint in text) == expected, arguments


def test_the_hint_for_an_index_location_appears_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Read-only") as caught, naming_index_folder(tmp_path / "index"):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    text = _message(caught.value, build_parser().parse_args(["index", "build", "t", "a"]))
    hint = "Read-only file system; allow writing there, or store the index elsewhere, with --index-location PLACE"
    assert in_shell(text).endswith(hint)


def test_an_unreadable_data_file_has_no_hint_for_an_index_location(tmp_path: Path) -> None:
    error = PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path / "0.parquet"))
    text = _message(error, build_parser().parse_args(["index", "build", "t", "a"]))
    assert "0.parquet" in text
    assert "--index-location" not in text


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupted_build_prints_one_line_and_leaves_nothing(folder: Path, tmp_path: Path, as_json: bool) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = files(folder)
    command = [sys.executable, "-c", ENDLESS, "index", "build", str(folder), "id", "--kind", "sieve"]
    command += ["--memory", "1MiB", "--threads", "2", *(["--json"] * as_json)]
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(scratch)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while not files(scratch) and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=500)
    error = '{"error": {"type": "KeyboardInterrupt", "message": "interrupted"}}\n'
    assert (out, err) == ("", error if as_json else "parsieve: interrupted\n")
    assert process.returncode == 130
    assert files(scratch) == set()
    assert {path for path in files(folder) - before if path.is_file()} == set()


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_an_interrupt_stops_threads_and_is_reset_for_the_next_command(folder: Path) -> None:
    handler = signal.getsignal(signal.SIGINT)
    ps.add_filters(folder / "part-0.parquet", columns="id")
    with pytest.raises(KeyboardInterrupt), interrupts.handled():
        signal.raise_signal(signal.SIGINT)
    assert interrupts.requested()
    assert signal.getsignal(signal.SIGINT) is handler
    with pytest.raises(KeyboardInterrupt):
        ps.check_filters(folder / "part-0.parquet", threads=2)
    with interrupts.handled():
        interrupts.check()
    assert not interrupts.requested()


def test_a_command_runs_in_a_thread(folder: Path) -> None:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(main(["check", str(folder)])))
    thread.start()
    thread.join()
    assert codes == [0]


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
@pytest.mark.parametrize("arguments", [["--help"], ["inspect", "{folder}"], ["plan", "{folder}", "id >= 0"]])
def test_a_closed_pipe_ends_a_command_without_an_error(folder: Path, arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "parsieve", *(argument.format(folder=folder) for argument in arguments), "-q"]
    with os.fdopen(write, "w") as closed:
        result = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, check=False, timeout=500)
    assert result.stderr == ""
    assert result.returncode == 0

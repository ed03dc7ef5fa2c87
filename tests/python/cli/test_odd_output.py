"""Output that cannot be written or printed as it is, and unexpected values."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.cli import main
from parsieve.cli.parser import rows_of, size_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = tmp_path / "orders"
    table.mkdir()
    days = pa.array([10**7, 1], pa.int32()).cast(pa.date32())
    columns = {
        "id": [1, 2],
        "text": ["a\u2028b", "\x1b[31mred\n日本"],
        "nested": pa.StructArray.from_arrays([days], ["day"]),
        "days": pa.ListArray.from_arrays([0, 1, 2], days),
        "price": pa.array([1, 2], pa.decimal128(5, 2)),
    }
    pq.write_table(pa.table(columns), table / "日本.parquet")
    return table


def run(code: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment |= options.pop("environment", {})
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, env=environment, timeout=500, check=False, **options)


MAIN = "import sys; from parsieve.cli import main; sys.exit(main())"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device without space")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_below_standard_output_is_one_line(folder: Path, unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        environment = {"PYTHONUNBUFFERED": unbuffered}
        done = run(MAIN, "plan", str(folder), "id = 1", "-q", stdout=full, environment=environment)
    assert (done.returncode, done.stderr.decode()) == (2, "parsieve: standard output: No space left on device\n")


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
def test_a_closed_standard_output_is_no_error(folder: Path) -> None:
    close = "import os; os.close(1); os.execv(sys.executable, [sys.executable, '-c', sys.argv[1], *sys.argv[2:]])"
    for arguments, code in ((["id = 1"], 0), (["id = 3", "--exit-code"], 1), (["absent = 1"], 2)):
        done = run(f"import sys; {close}", MAIN, "plan", str(folder), *arguments, "-q")
        assert (done.returncode, b"Traceback" in done.stderr) == (code, False)


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
@pytest.mark.parametrize("closed", [0, 1, 2])
def test_closed_streams_end_no_command_with_a_traceback(folder: Path, closed: int) -> None:
    close = f"import os; os.close({closed}); os.execv(sys.executable, [sys.executable, '-c', *sys.argv[1:]])"
    commands = [["lookup", "id=1", "--columns", "id"], ["add", "-c", "id"], ["lookup", "id", "--keys-from", "-"]]
    for name, *arguments in commands:
        command = (f"import sys; {close}", MAIN, name, str(folder), *arguments)
        done = run(*command, input=b"1\n", stdout=subprocess.PIPE)
        reads_nothing = closed == 0 and "-" in arguments
        assert (done.returncode, b"Traceback" in done.stderr) == (2 if reads_nothing else 0, False)
        # Notes such as "1 row, 7 ms" are not printed elsewhere.
        assert b" ms\n" not in done.stdout


BROKEN_CONNECTION = """
import sys
import fsspec
from fsspec.implementations.memory import MemoryFileSystem
class Broken(MemoryFileSystem):
    protocol = "broken"
    def ls(self, *arguments, **options):
        raise BrokenPipeError(32, "Broken pipe")
    find = walk = info = exists = isdir = isfile = ls
fsspec.register_implementation("broken", Broken)
from parsieve.cli import main
sys.exit(main())
"""


def test_a_broken_connection_is_an_error() -> None:
    pytest.importorskip("fsspec")
    done = run(BROKEN_CONNECTION, "index", "build", "broken://orders", "id", stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr.decode()) == (2, "parsieve: broken://orders: Broken pipe\n")


@pytest.mark.skipif(os.name == "nt", reason="the pipe of a shell")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_failure_that_nobody_reads_has_its_exit_code(folder: Path, unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        for output in (write, subprocess.PIPE):
            command = [sys.executable, "-c", MAIN, "plan", str(folder), "absent = 1"]
            environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
            done = subprocess.run(command, stdout=output, stderr=write, env=environment, check=False, timeout=500)
            assert done.returncode == 2
    finally:
        os.close(write)


@pytest.mark.skipif(os.name == "nt", reason="the pipe of a shell")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["check"], 2), (["add", "-c", "id"], 2), (["add", "-c", "id", "--json"], 2), (["probe", "id", "9"], 1)],
)
def test_a_failure_is_reported_to_a_shell_that_reads_no_output(folder: Path, arguments: list[str], code: int) -> None:
    """With `set -o pipefail`, `parsieve check lake | head` succeeded for a damaged file."""
    name, *others = arguments
    file = folder / "日本.parquet"
    ps.add_filters(file, columns="id")
    (folder / "damaged.parquet").write_bytes(b"PAR1 damaged PAR1")
    for unbuffered in ("", "1"):
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "w") as closed:
            place = str(file if name == "probe" else folder)
            done = run(MAIN, name, place, *others, stdout=closed, environment={"PYTHONUNBUFFERED": unbuffered})
        assert done.returncode == code
        assert (b"damaged.parquet" in done.stderr) == (code == 2)
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8:strict"])
def test_a_report_is_printed_in_any_encoding(folder: Path, encoding: str) -> None:
    environment = {"PYTHONIOENCODING": encoding}
    done = run(MAIN, "add", str(folder), "-c", "id", stdout=subprocess.PIPE, environment=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"1 file, 1 written, 0 unchanged, 0 failed" in done.stdout
    name = "日本" if "utf" in encoding else r"\u65e5\u672c"
    assert f"{name}.parquet" in done.stdout.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes")
def test_names_that_are_not_utf8_stay_as_they_are(folder: Path) -> None:
    (folder / "日本.parquet").rename(os.fsdecode(bytes(folder) + b"/caf\xe9.parquet"))
    environment = {"PYTHONIOENCODING": "utf-8:strict"}
    done = run(MAIN, "check", str(folder), stdout=subprocess.PIPE, environment=environment)
    assert done.returncode == 0
    done = run(MAIN, "inspect", os.fsdecode(bytes(folder) + b"/caf\xe9.parquet"), stdout=-1, environment=environment)
    assert (done.returncode, b"/caf\xe9.parquet: 0 filters" in done.stdout) == (0, True)


def test_a_table_has_one_line_for_each_row(folder: Path, capsys: Any) -> None:
    assert main(["lookup", str(folder), "id=2", "--columns", "text,id"]) == 0
    assert capsys.readouterr().out == "text               id\n\\x1b[31mred\\n日本   2\n"


def test_days_inside_of_other_values_may_be_later_than_those_of_python(folder: Path, capsys: Any) -> None:
    assert main(["lookup", str(folder), "id=1", "id=2", "--columns", "nested,days", "--json"]) == 0
    late = "29349-01-26"
    expected = [{"nested": {"day": late}, "days": [late]}, {"nested": {"day": "1970-01-02"}, "days": ["1970-01-02"]}]
    assert json.loads(capsys.readouterr().out)["rows"] == expected


@pytest.mark.parametrize("kind", [pa.large_list(pa.date32()), pa.list_(pa.date32(), 1)])
def test_late_days_in_lists_of_polars_are_shown(tmp_path: Path, capsys: Any, kind: pa.DataType) -> None:
    days = pa.array([[10_000_000]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())).cast(kind)
    pq.write_table(pa.table({"id": [1], "days": days}), tmp_path / "0.parquet")
    assert main(["lookup", str(tmp_path), "id=1", "--columns", "days", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [{"days": ["29349-01-26"]}]


@pytest.mark.parametrize(("mark", "end"), [(b"", b"\n"), (b"\xef\xbb\xbf", b"\r\n"), (b"", b"")])
def test_only_newlines_end_a_key(
    folder: Path, tmp_path: Path, capsys: Any, monkeypatch: Any, mark: bytes, end: bytes
) -> None:
    content = mark + "a\u2028b".encode() + end
    (tmp_path / "keys").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))
    for name in (str(tmp_path / "keys"), "-"):
        assert main(["lookup", str(folder), "text", "--keys-from", name, "--columns", "id", "-q"]) == 0
        assert capsys.readouterr().out == "id\n 1\n"


def test_a_file_of_keys_must_be_utf8(folder: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "keys").write_bytes(b"caf\xe9\n")
    assert main(["lookup", str(folder), "text", "--keys-from", str(tmp_path / "keys")]) == 2
    assert f"{tmp_path / 'keys'} is not UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["NaN", "Infinity", "sNaN"])
def test_a_decimal_key_is_a_number(folder: Path, capsys: Any, text: str) -> None:
    assert main(["lookup", str(folder), f"price={text}"]) == 2
    assert f"'{text}' is not a value of type" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["99999999999999999999", "9" * 5000])
def test_any_limit_is_a_number_of_rows(folder: Path, capsys: Any, limit: str) -> None:
    assert main(["lookup", str(folder), "id=1", "--columns", "id", "--limit", limit, "-q"]) == 0
    assert capsys.readouterr().out == "id\n 1\n"
    assert rows_of(limit) == 2**63 - 1
    assert size_of("1" + "0" * 400) == 2**62


@pytest.mark.parametrize(
    "arguments",
    [
        *(["plan", "", "id = 1"], ["lookup", "", "id=1"], ["index", "drop", ""], ["report", "", "--where", "id = 1"]),
        *(["drop", ""], ["drop", "orders", "--output", ""], ["check", ""], ["inspect", ""], ["probe", "", "id", "1"]),
    ],
)
def test_an_empty_path_is_not_the_current_folder(
    folder: Path, monkeypatch: Any, capsys: Any, arguments: list[str]
) -> None:
    ps.add_filters(folder / "日本.parquet", columns="id")
    before = (folder / "日本.parquet").read_bytes()
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "the path is empty; for the current folder, write ." in capsys.readouterr().err
    assert (folder / "日本.parquet").read_bytes() == before


def test_an_empty_path_is_no_table(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(ValueError, match="the path of the table is empty"):
        ps.open_table("")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for function in (ps.add_filters, ps.drop_filters):
        with pytest.raises(ValueError, match="the path is empty"):
            function("")
    with pytest.raises(ValueError, match="the path is empty"):
        ps.add_filters(folder / "日本.parquet", "")
    with pytest.raises(FileNotFoundError):
        ps.check_filters("")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("options", [["--timeout", "0"], ["--timeout", "nan"], ["--max-plans", "0"]])
def test_a_server_that_could_answer_nothing_does_not_start(capsys: Any, options: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["serve", "sqlite:///absent.db", *options])
    assert stop.value.code == 2
    assert f"{options[1]!r} is not a number of" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_names_of_files_cannot_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("\x1b[2Jbad.parquet", "\x1b[2Jnotes.txt"):
        (tmp_path / name).write_bytes(b"no Parquet file")
    for arguments in (["check", str(tmp_path)], ["check", str(tmp_path / "\x1b[2Jbad.parquet")]):
        assert main(arguments) == 2
        printed = capsys.readouterr()
        assert "\x1b" not in printed.err + printed.out
        assert r"\x1b[2Jbad.parquet" in printed.err

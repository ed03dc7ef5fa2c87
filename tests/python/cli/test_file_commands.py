"""Commands for single files: tables and JSON on standard output, exit codes, and errors of one line."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.cli import main


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "orders.parquet"
    table = pa.table(
        {
            "id": [1, 2, 3, 4],
            "day": pa.array([20_000, 20_001, 20_002, 20_003], pa.date32()),
            "price": pa.array(["1.50", "2.50", "3.50", "4.50"]).cast(pa.decimal128(9, 2)),
            "at": pa.array([0, 10**6, 2 * 10**6, 3 * 10**6], pa.timestamp("us", "UTC")),
            "key": pa.array([bytes([n]) * 16 for n in range(4)], pa.binary(16)),
            "flag": [True, False, True, False],
        }
    )
    bloom: dict[str, Any] = {name: {"ndv": 4, "fpp": 0.0001} for name in table.column_names if name != "flag"}
    pq.write_table(table, path, row_group_size=2, bloom_filter_options=bloom)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> str:
    """Return the output of a command. Standard error must be empty unless the command fails."""
    assert main(arguments) == code
    printed = capsys.readouterr()
    assert (printed.err == "") == (code != 2)
    if code == 2:
        assert printed.out == ""
        assert printed.err.count("\n") == 1
        return printed.err
    return printed.out


def test_inspect_lists_filters_as_table_and_json(capsys: pytest.CaptureFixture[str], file: str) -> None:
    table = run(capsys, "inspect", file, code=0).splitlines()
    assert table[0].endswith("10 filters, 2 row groups, 6 columns")
    assert table[1].split() == ["row_group", "column", "type", "offset", "length"]
    assert len(table) == 12
    answer = json.loads(run(capsys, "inspect", "--json", "--read", file, code=0))
    assert answer["num_rows"] == [2, 2]
    assert answer["requests"] == 1
    assert [entry["column"] for entry in answer["filters"][:2]] == ["id", "day"]
    assert answer["filters"][0]["values"] == 2
    assert answer["filters"][0]["type"] == "INT64 integer"
    assert "values" in run(capsys, "inspect", "--read", file, code=0).splitlines()[1]


def test_inspect_reports_the_error_of_a_damaged_filter(
    capsys: pytest.CaptureFixture[str], file: str, tmp_path: Path
) -> None:
    data = bytearray(Path(file).read_bytes())
    data[ps.open_filters(file).ranges()[0].offset] = 0xFF
    (tmp_path / "bad.parquet").write_bytes(data)
    answer = json.loads(run(capsys, "inspect", "--json", "--read", str(tmp_path / "bad.parquet"), code=0))
    assert "at byte" in answer["filters"][0]["error"]
    assert "error" not in answer["filters"][1]


@pytest.mark.parametrize(
    ("column", "values", "expect"),
    [
        ("id", ["3"], "no maybe"),
        ("id", ["1", "4"], "maybe maybe"),
        ("id", ["9"], "no no"),
        ("day", ["2024-10-05"], "maybe no"),
        ("price", ["4.5"], "no maybe"),
        ("price", ["7"], "no no"),
        ("at", ["1970-01-01T00:00:01+00:00"], "maybe no"),
        ("at", ["1970-01-01T00:00:09"], "maybe maybe"),
        ("key", ["03030303-0303-0303-0303-030303030303"], "no maybe"),
        ("flag", ["true"], "maybe maybe"),
    ],
)
def test_probe_answers_for_each_row_group(
    capsys: pytest.CaptureFixture[str], file: str, column: str, values: list[str], expect: str
) -> None:
    code = 0 if "maybe" in expect else 1
    table = run(capsys, "probe", file, column, *values, code=code).splitlines()
    assert table[0].split() == ["row_group", "rows", "answer", "why"]
    assert [line.split()[2] for line in table[1:]] == expect.split()
    answer = json.loads(run(capsys, "probe", file, column, *values, "--json", code=code))
    assert [entry["answer"] for entry in answer["row_groups"]] == expect.split()


def test_size_prints_sizes_and_rates(capsys: pytest.CaptureFixture[str]) -> None:
    table = run(capsys, "size", "1000000", "--fpp", "0.01", code=0).splitlines()
    assert table[1].split()[0] == f"{ps.optimal_num_bytes(1_000_000, 0.01):,}"
    rates = ["--fpp", "0.1", "--fpp", "0.001"]
    rows = json.loads(run(capsys, "size", "1000000", *rates, "--tight", "--json", code=0))
    sizes = [ps.optimal_num_bytes(1_000_000, rate, tight=True) for rate in (0.1, 0.001)]
    assert [row["bytes"] for row in rows] == sizes
    assert 0.09 < rows[0]["fpp"] <= 0.1
    [row] = json.loads(run(capsys, "size", "1000", "--bytes", "1024", "--json", code=0))
    assert (row["bytes"], row["bits_per_value"]) == (1024, 8.192)
    assert row["fpp"] == ps.false_positive_rate(1024, 1000)
    main(["size", "5", "--bytes", "33"])
    assert capsys.readouterr().err.startswith("parsieve: ")


def test_errors_are_one_line(capsys: pytest.CaptureFixture[str], file: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no Parquet file at all")
    for arguments, expected in [
        (["probe", file, "nothing", "1"], "there is no column 'nothing'"),
        (["probe", file, "id", "one"], "'one' is not a value of type INT64 integer"),
        (["inspect", str(tmp_path / "gone")], "gone: No such file or directory"),
        (["inspect", str(tmp_path / "text")], "not a Parquet file: "),
        (["probe", str(tmp_path), "id", "1"], "is a folder"),
    ]:
        assert expected in run(capsys, *arguments, code=2)


def test_missing_arguments_fail_and_help_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code in [([], 2), (["probe"], 2), (["nothing"], 2), (["--help"], 0), (["probe", "--help"], 0)]:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == code
        printed = capsys.readouterr()
        assert (printed.out == "") == (code == 2)
        assert ("exit codes:" in printed.out) == (arguments == ["--help"])


def test_the_module_runs_as_a_program(file: str) -> None:
    command = [sys.executable, "-W", "error", "-m", "parsieve", "probe", file, "id", "9"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout.splitlines()[1].split() == ["0", "2", "no", "the", "filter", "excludes", "it"]


def test_a_broken_pipe_is_not_an_error(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            return descriptor.fileno()

    with Path(file).open("rb") as descriptor:
        monkeypatch.setattr(sys, "stdout", Closed())
        assert main(["inspect", file]) == 0

"""`parsieve lookup`: rows on standard output, missing keys and a summary on standard error."""

from __future__ import annotations

import io
import json
import re
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parsieve.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = tmp_path / "orders"
    table.mkdir()
    columns = {
        "id": [1, 2, 3],
        "name": ["ann", "b=c", ""],
        "at": pa.array([0, 2, 3], pa.timestamp("ns", "UTC")),
        "code": pa.array([uuid.UUID(int=number).bytes for number in (1, 2, 3)], pa.uuid()),
        "raw": [b"x", b"\xff", b"z"],
        "price": [Decimal("1.50"), Decimal("2.00"), None],
        "paid": [True, False, True],
        "score": [1.5, float("nan"), 2.0],
        "where": [{"city": "Rome"}, None, {"city": "Bonn"}],
    }
    pq.write_table(pa.table(columns), table / "part-0.parquet")
    return table


def run(capsys: Any, *arguments: object, code: int = 0) -> tuple[str, str]:
    """Run a command and return its standard output and standard error."""
    assert main(["lookup", *(str(argument) for argument in arguments)]) == code
    printed = capsys.readouterr()
    return printed.out, printed.err


def test_rows_are_in_the_order_of_the_keys(folder: Path, capsys: Any) -> None:
    out, err = run(capsys, folder, "id=3", "id=1", "id=9", "--columns", "name,ID")
    assert out.split("\n") == ["name  id", "       3", "ann    1", ""]
    assert re.fullmatch(r"no row has id = 9\n2 rows, [\d.,]+ m?s\n", err)
    assert run(capsys, folder, "id=3", "id=9", "-q")[1] == ""


def test_columns_that_are_no_list_of_names_are_one_line(folder: Path, capsys: Any) -> None:
    _, err = run(capsys, folder, "id=3", "--columns", "id\rname", code=2)
    assert err.startswith("parsieve: --columns 'id\\rname' is not a list of names: ")


def test_json(folder: Path, capsys: Any) -> None:
    out, err = run(capsys, folder, "id=2", "id=9", "--json")
    printed = json.loads(out)
    assert err == ""
    assert printed.pop("seconds") > 0
    assert printed == {
        "rows": [
            {
                "id": 2,
                "name": "b=c",
                "at": "1970-01-01 00:00:00.000000002Z",
                "code": "00000000-0000-0000-0000-000000000002",
                "raw": "ff",
                "price": "2.00",
                "paid": False,
                "score": "nan",
                "where": None,
            }
        ],
        "num_rows": 1,
        "missing": ["9"],
    }


@pytest.mark.parametrize(
    ("key", "ids"),
    [
        ("name=b=c", [2]),
        ("name=", [3]),
        ("at=1970-01-01T01:00:00+01:00", [1]),
        ("code=00000000-0000-0000-0000-000000000002", [2]),
        ("raw=z", [3]),
        ("price=1.5", [1]),
        ("paid=True", [1, 3]),
        ("score=2", [3]),
        ("score=nan", [2]),
        ("where.city=Bonn", [3]),
        ("NAME=ann", [1]),
    ],
)
def test_text_becomes_a_value_of_the_column(folder: Path, capsys: Any, key: str, ids: list[int]) -> None:
    out, _ = run(capsys, folder, key, "--columns", "id", "--json")
    assert [row["id"] for row in json.loads(out)["rows"]] == ids


def test_without_a_row_the_exit_code_is_1(folder: Path, capsys: Any) -> None:
    keys = [f"id={number}" for number in range(10, 24)]
    out, err = run(capsys, folder, *keys, code=1)
    assert out == ""
    assert err.startswith("no row has id = 10, 11, 12, 13, 14, 15, 16, 17, 18, 19 and 4 more\n0 rows, ")
    assert json.loads(run(capsys, folder, "id=9", "--json", code=1)[0])["rows"] == []


def test_a_limit(folder: Path, capsys: Any) -> None:
    out, err = run(capsys, folder, "paid=true", "--limit", 1, "--columns", "id")
    assert out == "id\n 1\n"
    assert err.startswith("1 of 2 rows, ")


def test_keys_from_files(folder: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys.txt").write_text("3\n9\n1\n")
    out, err = run(capsys, folder, "id", "--keys-from", tmp_path / "keys.txt", "--columns", "id")
    assert out == "id\n 3\n 1\n"
    assert err.startswith("no row has id = 9\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"3\r\n1")))
    assert run(capsys, folder, "id=2", "--keys-from", "-", "--columns", "id")[0] == "id\n 2\n 3\n 1\n"
    assert "keys.tx" in run(capsys, folder, "id", "--keys-from", tmp_path / "keys.tx", code=2)[1]


def test_empty_lines_at_the_end_of_a_file_are_no_keys(folder: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "keys.txt").write_bytes(b"3\n1\r\n\r\n\n")
    assert run(capsys, folder, "id", "--keys-from", tmp_path / "keys.txt", "--columns", "id")[0] == "id\n 3\n 1\n"
    (tmp_path / "names.txt").write_text("ann\n\n")
    _, err = run(capsys, folder, "name", "--keys-from", tmp_path / "names.txt", "--columns", "id")
    assert err.startswith("1 row, ")
    (tmp_path / "names.txt").write_text("\nann\n")
    out, _ = run(capsys, folder, "name", "--keys-from", tmp_path / "names.txt", "--columns", "id")
    assert out == "id\n 3\n 1\n", "elsewhere, an empty line is the empty string"


@pytest.mark.parametrize(
    ("column", "lines", "message"),
    [
        (
            "id",
            "3\n\n1\n",
            "line 2, column id: '' is not a value of type INT64 integer; write a value such as 42, or rem",
        ),
        ("id", "3\n1\nx\n", "line 3, column id: 'x' is not a value of type INT64 integer; write a value such as 42\n"),
        ("id", "9223372036854775808", "line 1, column id: 9223372036854775808 is out of the range of 64-bit integers"),
        ("paid", "true\nmaybe\n", "line 2, column paid: 'maybe' is not a value of type bool; write true or false"),
        ("price", "1.5\n1,5\n", "line 2, column price: '1,5' is not a value of type "),
    ],
)
def test_an_error_names_the_line_of_the_key(
    folder: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, column: str, lines: str, message: str
) -> None:
    path = tmp_path / "keys.txt"
    path.write_text(lines)
    assert f"{path}, {message}" in run(capsys, folder, column, "--keys-from", path, code=2)[1]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert f"standard input, {message}" in run(capsys, folder, column, "--keys-from", "-", code=2)[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["id=1", "name=ann"], "the keys must be of one column, not of id and name"),
        (["id"], "'id' has no value; write id=VALUE, or read keys with --keys-from"),
        (["id=1", "--limit", "-1"], "'-1' is not a number of rows"),
    ],
)
def test_wrong_arguments(folder: Path, capsys: Any, arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["lookup", str(folder), *arguments])
    assert message in capsys.readouterr().err


def test_errors(folder: Path, capsys: Any) -> None:
    assert "column id: 'abc' is not a value of type INT64" in run(capsys, folder, "id=abc", code=2)[1]
    assert "there is no column 'idd'" in run(capsys, folder, "idd=1", code=2)[1]
    assert "there is no column 'nam'" in run(capsys, folder, "id=1", "--columns", "nam", code=2)[1]


def test_the_time_zone_of_keys(folder: Path, capsys: Any) -> None:
    _, err = run(capsys, folder, "at=1970-01-01 01:00:00", code=2)
    assert "or pass --timezone" in err
    assert (
        run(capsys, folder, "at=1970-01-01 01:00:00", "--timezone", "Europe/Madrid", "--columns", "id")[0] == "id\n 1\n"
    )
    assert "unknown time zone 'Madrid'" in run(capsys, folder, "at=1970-01-01", "--timezone", "Madrid", code=2)[1]

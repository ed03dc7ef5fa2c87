"""Messages of the command line name its options and commands, not the arguments and methods of Python."""

from __future__ import annotations

import argparse
import logging
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parsieve.cli import main
from parsieve.cli.commands import build_parser
from parsieve.cli.output import Console
from parsieve.cli.texts.hints import OPTIONS, in_shell


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = tmp_path / "orders"
    table.mkdir()
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), table / "part-0.parquet")
    return table


def option_names(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from option_names(subparser)


def test_every_option_of_a_hint_exists() -> None:
    assert set(OPTIONS.values()) <= set(option_names(build_parser()))


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("has no earlier states; omit as_of", "has no earlier states; omit --as-of"),
        (
            "order_by takes one column; pass descending=True",
            "--order-by takes one column; pass --descending",
        ),
        ("pass order_by= and limit= for the order", "pass --order-by and --limit for the order"),
        ("pass another place as index_location=", "pass another place as --index-location"),
        ("add an offset, or pass timezone=). All files", "add an offset, or pass --timezone). All files"),
        ("build it anyway, pass expose=['a', \"it's\"]", "build it anyway, pass --expose a --expose 'it'\"'\"'s'"),
        ('; pass existing="replace" or "keep"', "; pass --existing replace or keep"),
        ('kind="text", unit="rows" pays off', "--kind text, --unit rows pays off"),
        ("pass expose=['a\" ', 'b']", "pass --expose 'a\" ' --expose b"),
        ("pass expose=['a' -']", "pass --expose"),
        ("choose with format=", "choose with --format"),
        ("memory must be at least 1 MiB", "--memory must be at least 1 MiB"),
        ("(row_groups=True reads them)", "(--row-groups reads them)"),
        ("Call verify_index() first", "Call `parsieve index verify` first"),
        ("expire_index(older_than=0) removes", "`parsieve index expire --older-than 0` removes"),
        (
            "use open_table('/a b').build_index(..., kind=\"bloom\"), or a dest outside of it",
            "use `parsieve index build '/a b' COLUMN --kind bloom`, or --output with a file outside of it",
        ),
        ("use open_table(...).build_index(...)", "use `parsieve index build TABLE COLUMN`"),
        ("convert_index(pages=False)", "`parsieve index convert --no-pages`"),
    ],
)
def test_hints_become_options_and_commands(python: str, shell: str) -> None:
    assert in_shell(python) == shell


@pytest.mark.parametrize(
    "text",
    [
        "orders/kind=True/format=/unit=ROWS/part-0.parquet is missing",
        "kind=A/part-0.parquet: no such file",
        "'limit=' is not a valid SQL condition: format = 'x'",
        "there is no column 'order_by'; the columns are: as_of, row_groups, memory",
        "no row has as_of = 3",
        "the column memory must be a string",
    ],
)
def test_paths_and_values_of_users_stay_as_they_are(text: str) -> None:
    assert in_shell(text) == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "{folder}", "id = 1", "--as-of", "3"], "omit --as-of"),
        (["plan", "{folder}", "id = 1", "--order-by", "x"], "--order-by takes one column; for the greatest values "),
        (["plan", "{folder}", "id = 1", "--order-by", "lower(name)"], "pass a column as --order-by"),
        (["plan", "{folder}", "id = 1", "--descending"], "--descending and --nulls need a column: pass --order-by"),
        (["plan", "{folder}", "id = 1 ORDER BY id"], "pass --order-by and --limit for the order"),
        (["index", "build", "{folder}", "id", "--memory", "1KB"], "--memory must be at least 1 MiB"),
        (["add", "{folder}/part-0.parquet", "--fpp", "2"], "--fpp must be between 0 and 1"),
    ],
)
def test_errors_of_commands(folder: Path, capsys: Any, arguments: list[str], message: str) -> None:
    assert main([argument.format(folder=folder) for argument in arguments]) == 2
    assert message in capsys.readouterr().err


def test_commands_in_messages_can_be_pasted(tmp_path: Path, capsys: Any) -> None:
    table, index = tmp_path / "my table", tmp_path / "my index"
    table.mkdir()
    pq.write_table(pa.table({"id": [1]}), table / "0.parquet")
    arguments = [str(table), "--index-location", str(index)]
    assert main(["index", "stats", *arguments]) == 2
    printed = capsys.readouterr().err
    assert f"run: parsieve index build '{table}' COLUMN --index-location '{index}'" in printed
    assert main(["index", "build", str(table), "id", *arguments[1:], "-q"]) == 0
    pq.write_table(pa.table({"id": [2]}), table / "1.parquet")
    assert main(["index", "stats", *arguments]) == 0
    command = capsys.readouterr().err.rsplit("run: ", 1)[1]
    assert main(shlex.split(command)[1:]) == 0
    assert main(["index", "stats", *arguments]) == 0
    assert "run: " not in capsys.readouterr().err
    assert main(["probe", str(table), "id", "1"]) == 2
    assert f"run: parsieve plan '{table}' 'id = VALUE'" in capsys.readouterr().err


def test_lines_of_the_log_name_commands(capsys: Any) -> None:
    with Console().logging():
        logging.getLogger("parsieve.index").warning("%s was dropped; call update_index()", "id")
    assert capsys.readouterr().err == "parsieve.index: id was dropped; call `parsieve index update`\n"

"""Help, versions, and suggestions for unknown arguments."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import pytest

import parsieve as ps
from parsieve.cli import main
from parsieve.cli.commands import build_parser
from parsieve.cli.parser import Parser, days_of, rate_of, read_early, size_of


def usage_error(capsys: Any, *arguments: str) -> str:
    """Return the error message for invalid arguments."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return str(printed.err)


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and the parsers of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from parsers(subparser)


@pytest.mark.parametrize("arguments", [[], ["index"], ["spark"], ["-q"]])
def test_a_missing_command_prints_the_help(capsys: Any, arguments: list[str]) -> None:
    error = usage_error(capsys, *arguments)
    assert error.startswith("usage: parsieve")
    assert "commands:" in error


def test_the_version_names_the_index_format(capsys: Any) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"parsieve {ps.__version__} (index format 2)\n"


def test_exit_codes_are_in_the_main_help_only() -> None:
    main_help, *others = [parser.format_help() for parser in parsers(build_parser())]
    assert "exit codes:" in main_help
    assert "130" in main_help
    assert not any("exit codes" in text.lower() for text in others)


def test_every_command_and_option_has_one_line_of_help() -> None:
    for parser in parsers(build_parser()):
        assert parser.description
        for action in parser._actions:
            if not isinstance(action, argparse._SubParsersAction):
                assert action.help, f"{parser.prog} {action.dest}"
                assert len(action.help) < 100, f"{parser.prog} {action.dest}"


def test_the_help_of_build_names_all_that_can_be_indexed(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["index", "build", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for word in (
        "struct's field",
        "list",
        "expression (lower(a))",
        "composite key ('a, b')",
        "'lower(a)' 'a, b'",
    ):
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plna", "t", "a = 1"], "unknown command 'plna'; did you mean 'plan'?"),
        (["index", "biuld", "t", "a"], "unknown command 'biuld'; did you mean 'build'?"),
        (["xyz"], "unknown command 'xyz'; the commands are: plan, lookup, advise,"),
        (["plan", "t", "a = 1", "--explian"], "unknown option --explian; did you mean '--explain'?"),
        (["plan", "t", "a = 1", "--expl"], "unknown option --expl; did you mean '--explain'?"),
        (["index", "build", "t", "a", "--memry=1GB"], "unknown option --memry; did you mean '--memory'?"),
        (["plan", "t", "a = 1", "--format", "dleta"], "did you mean 'delta'?"),
        (["plan", "t", "a = 1", "b = 2"], "unexpected argument 'b = 2' (try: parsieve plan --help)"),
        (["plan", "t"], "required: WHERE (try: parsieve plan --help)"),
        (["index", "build", "t", "a", "--memory", "2 parsecs"], "'2 parsecs' is not a size"),
        (["add", "t", "--fpp", "few"], "'few' is not a rate"),
        (["index", "build", "t", "a", "--fpp", "few"], "'few' is not a rate; write 0.01 or 1%, or none"),
    ],
)
def test_wrong_arguments_fail_with_one_line_and_a_suggestion(capsys: Any, arguments: list[str], message: str) -> None:
    error = usage_error(capsys, *arguments)
    assert message in error
    assert error.startswith("parsieve: ")
    assert error.count("\n") == 1
    output = json.loads(usage_error(capsys, *arguments, "--json"))
    assert output["error"]["type"] == "UsageError"
    assert message.split(" (try")[0] in output["error"]["message"]


def test_sizes_and_rates_have_units() -> None:
    assert [size_of(text) for text in ("512MB", "2GiB", "1KiB", "7", "1tb")] == [512 * 10**6, 2 << 30, 1024, 7, 10**12]
    for text in ("", "-1", "2G", "GB", "1 2MB", "inf"):
        with pytest.raises(argparse.ArgumentTypeError):
            size_of(text)
    assert (rate_of("0.5%"), rate_of("0.2")) == (0.005, 0.2)
    assert days_of("0.5").total_seconds() == 43_200


def test_output_options_are_read_before_arguments_are_parsed() -> None:
    assert read_early(["plan", "--", "--json", "-q"])["as_json"] is False
    assert read_early(["-vv", "plan", "--verbose"])["verbose"] == 3
    assert read_early(["--color", "always"])["color"] == "always"
    assert read_early(["--color"])["color"] == "auto"


def test_options_cannot_be_abbreviated() -> None:
    parser = Parser(prog="p")
    parser.add_argument("--threads")
    assert parser.parse_known_args(["--thr", "1"])[1] == ["--thr", "1"]

"""The parser that all commands share: common options, units of sizes, and errors with suggestions."""

from __future__ import annotations

import argparse
import datetime as dt
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from parsieve.errors import did_you_mean

Run = Callable[[argparse.Namespace], int]

# The names of values that are paths or URIs.
PATHS = {"FILE", "DIR", "PLACE", "SOURCE", "TABLE"}
COLORS = ("auto", "always", "never")
# Bytes per unit: decimal units, and binary units with an "i".
_UNITS = {"B": 1} | {
    f"{letter}{infix}B": base**power
    for infix, base in (("", 1000), ("i", 1024))
    for power, letter in enumerate("KMGT", start=1)
}


class UsageError(Exception):
    """Arguments that the command does not accept."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError`, with suggestions for misspelled arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False} | kwargs)

    def error(self, message: str) -> NoReturn:
        """Raise the message as an error."""
        raise UsageError(f"{message} (try: {self.prog} --help)")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all arguments; unknown arguments are an error of the command that they belong to."""
        options, extra = self.parse_known_args(args, namespace)
        parser: Parser = getattr(options, "parser", self)
        if extra and not _taken_as_list(extra, parser, options):
            parser.error(_unknown(extra, parser))
        if not hasattr(options, "run"):
            parser.print_missing_command()
        return options

    def print_missing_command(self) -> NoReturn:
        """Print the help to standard error and exit, because the command is missing."""
        self.print_help(sys.stderr)
        raise SystemExit(2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        hint = did_you_mean(str(value), choices)
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(
                None, f"unknown command {value!r}{hint or '; the commands are: ' + ', '.join(choices)}"
            )
        name = "/".join(action.option_strings) or action.metavar
        raise argparse.ArgumentError(None, f"{name}: {value!r} is not one of {', '.join(choices)}{hint}")


def _taken_as_list(extra: Sequence[str], parser: Parser, options: Any) -> bool:
    """Add values after an option to the list at the end of a command; return whether it has one.

    argparse ends such a list before the option: in `advise orders --json id`, it would be empty.
    """
    lists = [action for action in parser._actions if action.nargs in ("*", "+") and not action.option_strings]
    if not lists or any(value.startswith("-") for value in extra):
        return False
    name = lists[-1].dest
    try:
        values = parser._get_values(lists[-1], list(extra))
    except argparse.ArgumentError as error:
        parser.error(str(error))
    setattr(options, name, [*(getattr(options, name) or []), *values])
    return True


def _unknown(extra: Sequence[str], parser: Parser) -> str:
    option = next((argument.split("=")[0] for argument in extra if argument.startswith("-")), None)
    if option is None:
        return f"unexpected argument {extra[0]!r}"
    options = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
    return f"unknown option {option}{did_you_mean(option, options)}"


class Commands:
    """A group of commands, such as `parsieve index`."""

    def __init__(self, parser: Parser, leaves: list[tuple[Parser, bool]] | None = None) -> None:
        parser.set_defaults(parser=parser)
        self._commands = parser.add_subparsers(metavar="COMMAND", title="commands")
        # All commands that run something, and whether they print JSON.
        self._leaves = [] if leaves is None else leaves

    def add(self, name: str, run: Run, about: str, more: str = "", *, json: bool = True) -> Parser:
        """Add a command. `about` is one line for the list of commands; the command's own help also shows `more`."""
        parser: Parser = self._commands.add_parser(name, help=about, description=f"{about}. {more}".strip())
        parser.set_defaults(run=run, parser=parser)
        self._leaves.append((parser, json))
        return parser

    def group(self, name: str, about: str) -> Commands:
        """Add a command that has commands itself."""
        return Commands(self._commands.add_parser(name, help=about, description=f"{about}."), self._leaves)

    def finish(self) -> None:
        """Add the options that all commands share, below the command's own."""
        for parser, json in self._leaves:
            for action in parser._actions:
                if action.metavar in PATHS and action.type is None:
                    action.type = place_of
            add_output_options(parser, json=json)
            positionals = [_usage(action) for action in parser._actions if not action.option_strings]
            parser.usage = " ".join([parser.prog, "[OPTIONS]", *positionals])


def _usage(action: argparse.Action) -> str:
    several = {"*": f"[{action.metavar} ...]", "+": f"{action.metavar} ..."}
    return several.get(str(action.nargs), str(action.metavar))


def add_output_options(parser: Parser, *, json: bool) -> None:
    """Add the options that every command takes."""
    options = parser.add_argument_group("output")
    if json:
        options.add_argument("--json", action="store_true", help="print JSON, also for errors")
    options.add_argument(
        "-v", "--verbose", action="count", default=argparse.SUPPRESS, help="log more; -vv logs details"
    )
    options.add_argument(
        "-q", "--quiet", action="store_true", default=argparse.SUPPRESS, help="print no summary and no progress bar"
    )
    options.add_argument(
        "--color",
        choices=COLORS,
        default=argparse.SUPPRESS,
        metavar="WHEN",
        help="auto, always or never (default: auto)",
    )


def read_early(arguments: Sequence[str]) -> dict[str, Any]:
    """Return how to print. This must be known before the arguments are parsed, because it also applies to their errors.

    >>> from parsieve.cli.parser import read_early
    >>> read_early(["plan", "--json", "--color=never", "-vq"])
    {'as_json': True, 'quiet': True, 'verbose': 1, 'color': 'never'}
    """
    ours = list(arguments[: arguments.index("--")]) if "--" in arguments else list(arguments)
    short = "".join(argument[1:] for argument in ours if re.fullmatch("-[vq]+", argument))
    color = "auto"
    for at, argument in enumerate(ours):
        name, _, value = argument.partition("=")
        if name == "--color":
            value = value or (ours[at + 1] if at + 1 < len(ours) else "")
            color = value if value in COLORS else color
    return {
        "as_json": "--json" in ours,
        "quiet": "--quiet" in ours or "q" in short,
        "verbose": ours.count("--verbose") + short.count("v"),
        "color": color,
    }


def size_of(text: str) -> int:
    """Return the bytes of a size with a unit.

    >>> from parsieve.cli.parser import size_of
    >>> size_of("512MB"), size_of("2GiB"), size_of("1.5 kB"), size_of("4096")
    (512000000, 2147483648, 1500, 4096)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    units = {unit.casefold(): bytes_ for unit, bytes_ in _UNITS.items()}
    unit = units.get(match[2].casefold() or "b") if match else None
    if match is None or unit is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write a number of bytes, 512MB or 2GiB")
    # Larger sizes than 64 bits are no use, and could be infinite.
    return int(min(float(match[1]) * unit, float(1 << 62)))


def rate_of(text: str) -> float:
    """Return a false positive rate, which may be a percentage.

    >>> from parsieve.cli.parser import rate_of
    >>> rate_of("0.01"), rate_of("1%")
    (0.01, 0.01)
    """
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate; write 0.01 or 1%") from None


def rate_or_none(text: str) -> float | None:
    """Return a false positive rate, or None for the text "none".

    >>> from parsieve.cli.parser import rate_or_none
    >>> rate_or_none("2%"), rate_or_none("none")
    (0.02, None)
    """
    if text.casefold() == "none":
        return None
    try:
        return rate_of(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or none") from None


def rows_of(text: str) -> int:
    """Return a number of rows."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows")
    # No table has more rows than that, and Python converts no longer numbers.
    return int(text) if len(text) < 19 else (1 << 63) - 1


def place_of(text: str) -> str:
    """Return a path or URI. An empty one, as of an unset variable, would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; for the current folder, write .")
    return text


def days_of(text: str) -> dt.timedelta:
    """Return a number of days as a time span."""
    try:
        return dt.timedelta(days=float(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days") from None

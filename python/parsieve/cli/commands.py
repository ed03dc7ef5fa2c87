"""All commands in one parser, with the help that `parsieve` prints."""

from __future__ import annotations

import argparse
from typing import Any

from parsieve._core import __version__
from parsieve.cli import files, indexes, probe, serve, show, tables
from parsieve.cli.parser import Commands, Parser, add_output_options

EXIT_CODES = """exit codes:
  0    success
  1    nothing found, or a check failed: no row group can hold the value (probe), no file can hold a match
       (plan --exit-code), no key has a row (lookup), a filter misses values of its file (check), the index is
       wrong or damaged (index verify), something is missing (spark doctor)
  2    wrong arguments, or a file, table or index that cannot be read or written
  130  interrupted (Ctrl-C)
"""


class _Version(argparse.Action):
    """Prints the versions of the package and of the index format that it writes."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        from parsieve.io.document import VERSION

        print(f"parsieve {__version__} (index format {VERSION})")
        parser.exit()


def build_parser() -> Parser:
    """Return the parser of all commands.

    >>> from parsieve.cli.commands import build_parser
    >>> build_parser().parse_args(["plan", "orders", "id = 42"]).where
    'id = 42'
    """
    parser = Parser(
        prog="parsieve",
        description="Find the Parquet files and row groups that a query needs.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = Commands(parser)
    tables.add_commands(commands)
    indexes.add_commands(commands.group("index", "Build and maintain the index of a table"))
    files.add_commands(commands)
    probe.add_command(commands)
    serve.add_command(commands)
    show.add_commands(commands, build_parser)
    commands.finish()
    add_output_options(parser, json=False)
    return parser

"""The commands of `parsieve index`: build, update, compact, convert, drop, expire, verify and stats."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

import parsieve as ps
from parsieve.cli.output import Console
from parsieve.cli.parser import Commands, Parser, Run, days_of, rate_or_none, size_of
from parsieve.cli.tables import add_expose, add_table, command_for, open_of
from parsieve.cli.texts.hints import in_shell
from parsieve.index.build.kinds import KINDS
from parsieve.index.sizes import lookup_bytes, stored_bytes
from parsieve.predicate.expressions.expression import index_name
from parsieve.wording import count, size


def add_commands(commands: Commands) -> None:
    """Add the commands to the parser."""

    def command(name: str, run: Run, about: str, more: str = "") -> Parser:
        parser = commands.add(name, run, about, more)
        add_table(parser)
        return parser

    build = command(
        "build",
        _build,
        "Build the index of some columns",
        "Reads the table once for each kind of index. Quote expressions and composite keys: 'lower(a)' 'a, b'.",
    )
    build.add_argument(
        "columns",
        metavar="COLUMN",
        nargs="+",
        help="a column, a struct's field (a.b), a list, an expression (lower(a)), or a composite key ('a, b')",
    )
    build.add_argument(
        "--kind",
        choices=KINDS,
        default="auto",
        metavar="KIND",
        help="sieve (keys, intervals), bloom (keys), both, text (parts of strings), words, or auto (default)",
    )
    update = command("update", _update, "Bring an index up to date", "Reads only new and changed files.")
    compact = command("compact", _compact, "Merge an index and its updates", "May read files of the table again.")
    compact.add_argument(
        "--purge",
        action="store_true",
        help="read all files again, so that deleted rows leave no trace once older versions expire",
    )
    convert = command("convert", _convert, "Convert an index of parsieve 0.1 to format 2", "Reads the table once.")
    for parser in (build, convert):
        parser.add_argument(
            "--pages",
            action=argparse.BooleanOptionalAction,
            help="build or drop the map of all pages (default: keep it; build one for object stores)",
        )
        _add_layout(parser)
    for parser in (build, update, compact, convert):
        parser.add_argument("--threads", type=int, metavar="N", help="number of threads (default: one per processor)")
        parser.add_argument(
            "--memory",
            type=size_of,
            default=1 << 30,
            metavar="SIZE",
            help="memory for rows, such as 512MB or 2GiB (default: 1GiB)",
        )
        add_expose(parser)
    drop = command(
        "drop",
        _drop,
        "Drop the index of some columns, or of all columns",
        "If you name columns, earlier versions of the index keep them until they expire.",
    )
    drop.add_argument("columns", metavar="COLUMN", nargs="*", help="a column (default: all)")
    expire = command("expire", _expire, "Delete old versions of an index, and unused files")
    expire.add_argument(
        "--older-than",
        type=days_of,
        default="7",
        metavar="DAYS",
        help="keep the versions of the last DAYS days (default: 7)",
    )
    command("verify", _verify, "Compare an index with its table", "Reads both.")
    command("stats", _stats, "Show the size and precision of an index")


def _add_layout(parser: Parser) -> None:
    """Add the options for how an index is stored."""
    parser.add_argument(
        "--unit",
        choices=["auto", "file", "row_group", "rows"],
        default="auto",
        metavar="UNIT",
        help="what the index can skip: file, row_group, rows (20,000 rows), or auto (default: auto)",
    )
    parser.add_argument(
        "--fpp",
        type=rate_or_none,
        default=0.02,
        metavar="RATE",
        help="units that a query for a missing key keeps, such as 0.02 or 2%%, or none (default: 0.02)",
    )
    parser.add_argument(
        "--keep-keys",
        action="store_true",
        help="store all keys of a Sieve index, so that compactions need not read the table",
    )


def _build(options: argparse.Namespace) -> int:
    effort = _effort(options) | _layout(options)
    _change(options, lambda table: table.build_index(options.columns, options.kind, **effort))
    return 0


def _update(options: argparse.Namespace) -> int:
    _change(options, lambda table: table.update_index(**_effort(options)), needs_index=True)
    return 0


def _layout(options: argparse.Namespace) -> dict[str, Any]:
    return {"unit": options.unit, "fpp": options.fpp, "keep_keys": options.keep_keys, "pages": options.pages}


def _effort(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "expose": options.expose,
        "memory": options.memory,
        "threads": options.threads,
        "progress": False if options.console.quiet else None,
    }


def _compact(options: argparse.Namespace) -> int:
    _change(options, lambda table: table.compact_index(purge=options.purge, **_effort(options)), needs_index=True)
    return 0


def _convert(options: argparse.Namespace) -> int:
    _change(options, lambda table: table.convert_index(**_effort(options), **_layout(options)), needs_index=True)
    return 0


def _drop(options: argparse.Namespace) -> int:
    def drop(table: ps.Table) -> Any:
        if not table.index_kinds():
            raise ps.IndexNotFoundError(f"{table.uri} has no index to drop")
        return table.drop_index(options.columns or None)

    _change(options, drop)
    return 0


def _expire(options: argparse.Namespace) -> int:
    _change(options, lambda table: table.expire_index(options.older_than))
    return 0


def _change(options: argparse.Namespace, change: Callable[[ps.Table], Any], *, needs_index: bool = False) -> Any:
    """Change the index; print and return the report of the change."""
    table, console = open_of(options), options.console
    if needs_index:
        _kinds(options, table)
    report = change(table)
    if console.as_json:
        console.json(dataclasses.asdict(report))
    else:
        console.line(in_shell(str(report)))
    return report


def _verify(options: argparse.Namespace) -> int:
    table, console = open_of(options), options.console
    _kinds(options, table)
    problems = [
        {"column": index_name(lie.column), "part": lie.part, "problem": lie.problem, "loses_rows": lie.loses_rows}
        for lie in table.verify_index()
    ]
    if console.as_json:
        console.json(problems)
    else:
        for problem in problems:
            console.line(f"{problem['column']}\t{problem['part']}\t{problem['problem']}")
    if not problems:
        console.note(f"{options.file}: no problems found")
        _note_uncovered(options, table.count_uncovered())
    return 1 if problems else 0


def _kinds(options: argparse.Namespace, table: ps.Table) -> dict[str, str]:
    kinds = table.index_kinds()
    if not kinds:
        raise ps.IndexNotFoundError(
            f"{table.uri} has no index; to build one, run: {command_for(options, 'index build', 'COLUMN')}"
        )
    return kinds


def _stats(options: argparse.Namespace) -> int:
    table = open_of(options)
    kinds, stats, sizes, uncovered = _kinds(options, table), table.index_stats(), _sizes(table), table.count_uncovered()
    console: Console = options.console
    if console.as_json:
        fields = {name: dataclasses.asdict(column) for name, column in stats.items()}
        counts = {name: {"files_not_covered": missing} for name, missing in uncovered.items()}
        console.json(
            {name: {"kind": kind} | fields.get(name, {}) | sizes[name] | counts[name] for name, kind in kinds.items()}
        )
        return 0
    rows = []
    for name, kind in kinds.items():
        row = {"column": name, "kind": kind, "on disk": size(sizes[name]["bytes_stored"])}
        rows.append(row | {"for lookups": size(sizes[name]["bytes_lookup"])} | _precision(stats.get(name)))
    names = ["column", "kind", "files", "keys", "rows", "on disk", "for lookups", "files read for a missing key"]
    console.table(names, rows, right=names[2:])
    _note_uncovered(options, uncovered)
    return 0


def _note_uncovered(options: argparse.Namespace, uncovered: dict[str, int]) -> None:
    """Print how many files every plan keeps until the index is updated."""
    for name, missing in uncovered.items():
        if missing:
            options.console.note(
                f"{options.file}: the index of {name} does not cover {count(missing, 'file')} of the table; to bring "
                f"it up to date, run: {command_for(options, 'index update')}"
            )


def _precision(stats: Any) -> dict[str, str]:
    """Return the columns of the table that only a Sieve index has."""
    if stats is None:
        return {}
    return {
        "files": f"{stats.locations:,}",
        "keys": f"{stats.keys:,}",
        "rows": f"{stats.rows:,}",
        "files read for a missing key": f"{stats.reads_of_absent_keys:.1f}",
    }


def _sizes(table: ps.Table) -> dict[str, dict[str, int]]:
    """Return for each column's index the bytes on disk, and how many of them lookups read."""
    view = table.opened.index.look(table.opened.lake.schema_with_ids())
    if view is None:
        return {}
    return {
        index_name(path): {
            "bytes_stored": stored_bytes(view.commit, [path]),
            "bytes_lookup": lookup_bytes(view, [path]),
        }
        for path in view.commit.indexed
    }

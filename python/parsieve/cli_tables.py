"""The commands for tables: `parsieve plan` and `parsieve index`."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import parsieve as ps
from parsieve.explaining import doubts
from parsieve.folders import indexed_folder
from parsieve.keyfile import read_key_bytes
from parsieve.lake.states import state_of

FORMATS = ["parquet", "delta", "iceberg", "hudi"]
Command = Callable[..., argparse.ArgumentParser]


def add_commands(commands: Any, command: Command) -> None:
    """Add the commands to the parser; `command` makes one, with what all have."""
    about = "tell which files of a table can hold a matching row; the others certainly do not"
    plan = command("plan", _plan, about, "TABLE")
    plan.add_argument("where", metavar="WHERE", help="as in SQL: \"id = 42 AND day >= '2026-01-31'\"")
    plan.add_argument("--explain", action="store_true", help="say why files are kept and skipped")
    plan.add_argument("--as-of", metavar="STATE", help="a Delta version, Iceberg snapshot id, Hudi instant, or a time")
    plan.add_argument("--format", choices=FORMATS, help="by default what lies in the folder")
    plan.add_argument("--row-groups", action="store_true", help="read footers, to judge row groups too")
    index = commands.add_parser("index", help="the index of a table").add_subparsers(required=True, metavar="COMMAND")

    def of_index(name: str, run: Callable[[argparse.Namespace], int], about: str) -> argparse.ArgumentParser:
        return command(name, run, about, "TABLE", index)

    build = of_index("build", _build, "index some columns of a table in one scan")
    build.add_argument("columns", metavar="COLUMN", nargs="+", help="its path, with dots; commas are part of a name")
    build.add_argument(
        "--kind",
        choices=["auto", "sieve", "bloom", "both"],
        default="auto",
        help="by default what a sample says pays, if any",
    )
    advice = command("advise", _advise, "tell what indexes of a table would cost and save, by a sample", "TABLE")
    advice.add_argument("columns", metavar="COLUMN", nargs="*", help="by default those of the queries, else all")
    advice.add_argument("--where", action="append", default=[], metavar="WHERE", help="a query; may be repeated")
    for one in (plan, advice):
        one.add_argument("--timezone", metavar="ZONE", help="where clocks stand of timestamps that name no zone")
    update = of_index(
        "update", _update, "bring the index to the table as it is now; only new and changed files are read"
    )
    for one in (build, advice, update):
        one.add_argument(
            "--expose",
            action="append",
            default=[],
            metavar="COLUMN",
            help="index it though files encrypt it, so that its values lie open in the index; may be repeated",
        )
    of_index("compact", _compact, "make one of an index and its updates")
    drop = of_index("drop", _drop, "forget the index of some columns, or of all; its files go when they expire")
    drop.add_argument("columns", metavar="COLUMN", nargs="*", help="by default all that are indexed")
    expire = of_index("expire", _expire, "remove old versions of an index, and files that no version names")
    expire.add_argument("--older-than", type=_days, default="7", metavar="DAYS", help="keep those of so many days (7)")
    of_index("verify", _verify, "compare an index with its table by reading both")
    of_index("stats", _asked_stats, "tell what the index of each column costs and wastes")


def _days(text: str) -> dt.timedelta:
    try:
        return dt.timedelta(days=float(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days") from None


def tell_of_index(options: argparse.Namespace, written: bool) -> None:
    """Say that files with other filters are other files, which an index beside them does not know by itself."""
    if not written or "://" in options.file or options.output is not None:
        return
    changed = Path(options.file).resolve()
    folder = indexed_folder(changed / "any" if changed.is_dir() else changed)
    if folder is not None:
        print(
            f"the index of {folder} does not know the files as they are now, and excludes none of them; this binds it "
            f"anew: parsieve index update {folder}",
            file=sys.stderr,
        )


def _open(options: argparse.Namespace) -> ps.Table:
    keys = read_key_bytes(options.key_file) if options.key_file else None
    return ps.open_table(options.file, getattr(options, "format", None), decryption=keys)


def _build(options: argparse.Namespace) -> int:
    built = _open(options).build_index(options.columns, options.kind, expose=options.expose)
    for name, kind in {} if options.json else built.items():
        # What is a Sieve has more to tell.
        if kind in ("bloom", "none"):
            print(f"{name}: {kind}")
    return _stats(options)


def _advise(options: argparse.Namespace) -> int:
    advice = _open(options).advise(
        options.columns or None, options.where, expose=options.expose, timezone=options.timezone
    )
    if options.json:
        print(json.dumps([one._asdict() for one in advice], indent=2))
    for one in [] if options.json else advice:
        print(one)
    return 0


def _update(options: argparse.Namespace) -> int:
    return _indexed(options, lambda table: table.update_index(expose=options.expose))


def _compact(options: argparse.Namespace) -> int:
    return _indexed(options, lambda table: table.compact_index())


def _drop(options: argparse.Namespace) -> int:
    _must_be_indexed(_open(options))
    return _indexed(options, lambda table: table.drop_index(options.columns or None))


def _indexed(options: argparse.Namespace, change: Callable[[ps.Table], Any]) -> int:
    change(_open(options))
    return _stats(options)


def _expire(options: argparse.Namespace) -> int:
    versions, files = _open(options).expire_index(options.older_than)
    if options.json:
        print(json.dumps({"versions": versions, "files": files}))
    else:
        print(f"removed {versions} versions and {files} files")
    return 0


def _verify(options: argparse.Namespace) -> int:
    table = _open(options)
    _must_be_indexed(table)
    lies = table.verify_index()
    found = [
        {"column": ".".join(lie.column), "part": lie.part, "problem": lie.problem, "loses_rows": lie.loses_rows}
        for lie in lies
    ]
    if options.json:
        print(json.dumps(found, indent=2))
    for lie in [] if options.json else found:
        print(f"{lie['column']}\t{lie['part']}\t{lie['problem']}")
    if not lies:
        print(f"{options.file}: nothing wrong was found", file=sys.stderr)
    return 1 if lies else 0


def _must_be_indexed(table: ps.Table) -> dict[str, str]:
    kinds = table.index_kinds()
    if not kinds:
        raise ps.IndexNotFoundError(f"{table.uri} has no index; parsieve index build makes one")
    return kinds


def _asked_stats(options: argparse.Namespace) -> int:
    kinds = _must_be_indexed(_open(options))
    for name, kind in {} if options.json else kinds.items():
        if kind == "bloom":
            print(f"{name}: a filter for each file")
    return _stats(options)


def _stats(options: argparse.Namespace) -> int:
    table = _open(options)
    found = {name: dataclasses.asdict(one) for name, one in table.index_stats().items()}
    if options.json:
        kinds = table.index_kinds()
        print(json.dumps({name: {"kind": kind} | found.get(name, {}) for name, kind in kinds.items()}, indent=2))
    for name, one in {} if options.json else found.items():
        print(
            f"{name}: {one['keys']} keys and {one['rows']} rows of {one['locations']} files, "
            f"{one['lookup_bytes']} bytes for lookups, {one['reads_of_absent_keys']:.2f} files read for an absent key"
        )
    return 0


def _plan(options: argparse.Namespace) -> int:
    table = _open(options)
    plan = table.plan(
        options.where,
        state_of(options.as_of, table.format, "--as-of"),
        row_groups=options.row_groups or None,
        timezone=options.timezone,
        # Printed below.
        on_unknown="ignore",
    )
    if options.json:
        print(json.dumps(json.loads(plan.to_json()) | {"explanation": plan.explain()}, indent=2))
    elif options.explain:
        print(plan.explain())
    else:
        for path in plan.files:
            groups = plan.row_groups[path] if options.row_groups else None
            print(path if groups is None else f"{path}\t{','.join(map(str, groups))}")
        for line in doubts(plan):
            print(line, file=sys.stderr)
    return 0 if plan.kept else 1

"""The commands for tables: `parsieve plan`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import parsieve as ps

FORMATS = ["parquet", "delta", "iceberg", "hudi"]
Command = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]


def add_commands(command: Command) -> None:
    """Add the commands to the parser."""
    plan = command("plan", _plan, "tell which files of a table can hold a matching row; the others certainly do not")
    plan.add_argument("where", metavar="WHERE", help="as in SQL: \"id = 42 AND day >= '2026-01-31'\"")
    plan.add_argument("--explain", action="store_true", help="say why files are kept and skipped")
    plan.add_argument("--as-of", metavar="STATE", help="a Delta version, Iceberg snapshot id, Hudi instant, or a time")
    plan.add_argument("--format", choices=FORMATS, help="by default what lies in the folder")
    plan.add_argument("--row-groups", action="store_true", help="read footers, to judge row groups too")
    plan.add_argument("--timezone", metavar="ZONE", help="where clocks stand of timestamps that name no zone")


def _plan(options: argparse.Namespace) -> int:
    table = ps.open_table(options.file, options.format)
    plan = table.plan(
        options.where,
        _state(options.as_of),
        row_groups=options.row_groups or None,
        timezone=options.timezone,
    )
    if options.json:
        print(json.dumps(json.loads(plan.to_json()) | {"explanation": plan.explain()}, indent=2))
    elif options.explain:
        print(plan.explain())
    else:
        for path in plan.files:
            groups = plan.row_groups[path]
            print(path if groups is None else f"{path}\t{','.join(map(str, groups))}")
    return 0 if plan.kept else 1


def _state(text: str | None) -> Any:
    import datetime as dt

    if text is None:
        return None
    if text.isascii() and text.isdigit():
        # Hudi's instants are numbers of 14 or 17 digits, and are known as text.
        return text if len(text) in (14, 17) else int(text)
    return dt.datetime.fromisoformat(text)

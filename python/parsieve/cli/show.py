"""The commands that need no table: `parsieve size`, `demo`, `report`, `spark doctor` and `completion`."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import parsieve as ps
from parsieve.cli.completion import SHELLS, completion
from parsieve.cli.output import flush
from parsieve.cli.parser import Commands, Parser, rate_of, size_of
from parsieve.cli.tables import add_opening, add_timezone, open_of
from parsieve.report.page_file import refuse_other_files, write_page
from parsieve.wording import count


def add_commands(commands: Commands, build_parser: Callable[[], Parser]) -> None:
    """Add the commands to the parser; `build_parser` makes the parser of all commands, for completion."""
    size = commands.add("size", _size, "Show the size of a Bloom filter for a number of values")
    size.add_argument("values", type=int, metavar="VALUES", help="number of distinct values")
    either = size.add_mutually_exclusive_group()
    either.add_argument(
        "--fpp",
        type=rate_of,
        action="append",
        metavar="RATE",
        help="false positive rate; repeatable (default: 0.1 to 0.0001)",
    )
    either.add_argument(
        "--bytes", type=size_of, metavar="SIZE", help="show the false positive rate of a filter of this size"
    )
    size.add_argument(
        "--tight",
        action="store_true",
        help="allow any multiple of 32 bytes as size; some old readers reject such filters",
    )
    _add_report(commands)
    demo = commands.add("demo", _demo, "Make a sample table and query it with and without parsieve", json=False)
    demo.add_argument(
        "--keep",
        metavar="DIR",
        help="write the table to this new folder (default: a temporary folder, which is not deleted)",
    )
    demo.add_argument(
        "--report",
        metavar="FILE",
        default="parsieve-demo.html",
        help="where to write the HTML report (default: %(default)s)",
    )
    demo.add_argument("--files", type=int, default=200, metavar="N", help="number of files (default: %(default)s)")
    demo.add_argument("--rows", type=int, default=8_000_000, metavar="N", help="number of rows (default: %(default)s)")
    demo.add_argument("--no-spark", action="store_true", help="do not run Spark, even if it is installed")
    spark = commands.group("spark", "Check what Spark needs on this machine")
    doctor = spark.add("doctor", _doctor, "Show what a Spark session needs, and how to install what is missing")
    doctor.add_argument("--fetch", action="store_true", help="download missing jars")
    script = commands.add(
        "completion",
        lambda options: _completion(options, build_parser()),
        "Print a script that completes commands and options in a shell",
        'For bash, add this to ~/.bashrc: eval "$(parsieve completion bash)"',
        json=False,
    )
    script.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def _add_report(commands: Commands) -> None:
    report = commands.add(
        "report", _report, "Write a page that shows which files queries read, or charts benchmark records", json=False
    )
    report.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="a table, with --where; or JSON records of benchmarks"
    )
    report.add_argument("--where", action="append", metavar="WHERE", help="a query of the table; repeatable")
    report.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="parsieve-report.html",
        help="where to write it (default: %(default)s)",
    )
    add_opening(report)
    add_timezone(report)


def _size(options: argparse.Namespace) -> int:
    if options.bytes is not None:
        sizes = [options.bytes]
    else:
        rates = options.fpp or [0.1, 0.01, 0.001, 0.0001]
        sizes = [ps.optimal_num_bytes(options.values, rate, tight=options.tight) for rate in rates]
        if options.fpp is None:
            # Powers of two: one size keeps several of these rates.
            sizes = list(dict.fromkeys(sizes))
    rows = [(size, size * 8 / max(1, options.values), ps.false_positive_rate(size, options.values)) for size in sizes]
    if options.console.as_json:
        names = ("bytes", "bits_per_value", "fpp")
        options.console.json([dict(zip(names, row, strict=True)) for row in rows])
        return 0
    names = ("bytes", "bits per value", "false positives")
    lines = [
        (f"{size:,}", f"{bits:.2f}", f"{rate:.2%}" if rate >= 0.001 else f"{rate:.1e}") for size, bits, rate in rows
    ]
    options.console.table(names, [dict(zip(names, line, strict=True)) for line in lines], right=names)
    return 0


def _page(name: str, sources: Sequence[str] = ()) -> Path:
    """Return the path of the page; raise now, not after the work, if it cannot be written."""
    page = Path(name)
    folder = page.absolute().parent
    if page.is_dir():
        raise IsADirectoryError(f"{page} is a folder; --output must name a file")
    if not folder.is_dir():
        raise FileNotFoundError(f"cannot write {page}: no such folder: {folder}")
    if not os.access(page if page.exists() else folder, os.W_OK):
        raise PermissionError(f"cannot write {page}: permission denied")
    if any(page.resolve() == Path(source).resolve() for source in sources):
        raise FileExistsError(f"{page} is one of the input files; choose another --output")
    refuse_other_files(page)
    return page


def _demo(options: argparse.Namespace) -> int:
    from parsieve.demo.run import require_engines, run

    if options.files < 8 or options.rows < 1000 * options.files:
        raise ValueError("the demo needs at least 8 files with 1,000 rows each")
    page = _page(options.report)

    def say(line: str) -> None:
        if not options.console.quiet:
            options.console.line(line)
            flush()

    sizes = {"files": options.files, "rows": options.rows, "spark": not options.no_spark}
    if options.keep is None:
        require_engines()
        # The folder stays, so that the commands on the page work.
        run(Path(tempfile.mkdtemp(prefix="parsieve-demo-")) / "lake", page, **sizes, say=say)
        return 0
    folder = Path(options.keep)
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; the demo needs a new or an empty folder")
    run(folder, page, **sizes, say=say)
    return 0


def _report(options: argparse.Namespace) -> int:
    output = _page(options.output, options.sources)
    if options.where is not None:
        page, about = _page_of_table(options)
    else:
        from parsieve.report.records import page_of_records

        if other := [source for source in options.sources if not source.endswith(".json")]:
            raise ValueError(f"not a JSON record: {other[0]}; to report on a table, add a query: --where 'id = 42'")
        page = page_of_records([Path(source) for source in options.sources])
        about = count(len(options.sources), "record")
    write_page(output, page)
    options.console.line(options.output)
    options.console.note(about)
    return 0


def _page_of_table(options: argparse.Namespace) -> tuple[str, str]:
    from parsieve.predicate.parse import parse
    from parsieve.report.plans import page_of_plans

    if len(options.sources) > 1:
        raise ValueError("--where works with one table only")
    [options.file] = options.sources
    table = open_of(options)
    queries: list[Any] = options.where
    if options.timezone is not None:
        queries = [parse(where, table.schema, options.timezone) for where in queries]
    page = page_of_plans(table, queries, dt.datetime.now(dt.UTC).date())
    return page, f"{count(len(queries), 'query', 'queries')} of {table.uri}"


def _doctor(options: argparse.Namespace) -> int:
    from parsieve.spark.runtime.doctor import examine

    items = examine(fetch=options.fetch)
    if options.console.as_json:
        options.console.json([item._asdict() for item in items])
    else:
        options.console.table(["name", "state", "found"], [item._asdict() for item in items])
        for item in items:
            if item.remedy:
                options.console.line(f"{item.name}: {item.remedy}")
    return 1 if any(item.state == "missing" for item in items) else 0


def _completion(options: argparse.Namespace, parser: Parser) -> int:
    options.console.line(completion(parser, options.shell))
    return 0

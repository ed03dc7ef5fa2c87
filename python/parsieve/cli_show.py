"""The commands that show what skipping takes and does: `parsieve size`, `demo` and `report`."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import parsieve as ps


def add_commands(commands: Any, exit_codes: str) -> None:
    """Add the commands to the parser."""

    def command(name: str, run: Callable[[argparse.Namespace], int], about: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = commands.add_parser(
            name,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.",
            epilog=exit_codes,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.set_defaults(run=run)
        return added

    size = command("size", _size, "tell how large a Bloom filter is, or what rate of false positives one keeps")
    size.add_argument("values", type=int, metavar="VALUES", help="how many distinct ones it shall hold")
    either = size.add_mutually_exclusive_group()
    either.add_argument("--fpp", type=float, action="append", help="the rate to keep; may be repeated (0.1 to 0.0001)")
    either.add_argument("--bytes", type=int, metavar="N", help="the size that a filter has")
    size.add_argument("--tight", action="store_true", help="any multiple of 32 bytes; some old readers refuse those")
    size.add_argument("--json", action="store_true", help="print JSON instead of a table")
    demo = command("demo", _demo, "make a lake of late events, and ask it without and with parsieve; needs DuckDB")
    demo.add_argument(
        "--keep", metavar="DIR", help="write the lake to this new folder (default: a temporary one, which stays)"
    )
    demo.add_argument(
        "--report", metavar="FILE", default="parsieve-demo.html", help="where the page goes (%(default)s)"
    )
    demo.add_argument("--files", type=int, default=200, metavar="N", help="number of files (%(default)s)")
    demo.add_argument("--rows", type=int, default=8_000_000, metavar="N", help="number of rows (%(default)s)")
    demo.add_argument("--no-spark", action="store_true", help="leave Spark out, also where it is installed")
    report = command(
        "report", _report, "show on one page which files of a table some queries read, or what records of benches say"
    )
    report.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="a table by path or URI, with --where; or records, which are .json"
    )
    report.add_argument("--where", action="append", metavar="WHERE", help="a query of the table; may be repeated")
    report.add_argument("-o", "--output", metavar="FILE", default="parsieve-report.html", help="(%(default)s)")


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
    if options.json:
        names = ("bytes", "bits_per_value", "fpp")
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2))
        return 0
    print(f"{'bytes':>12} {'bits a value':>12} {'false positives':>15}")
    for size, bits, rate in rows:
        print(f"{size:12,} {bits:12.2f} {rate:15.2%}" if rate >= 0.001 else f"{size:12,} {bits:12.2f} {rate:15.1e}")
    return 0


def _page(name: str, sources: Sequence[str] = ()) -> Path:
    """Where a page goes. What forbids it is said before the work is done, and not after."""
    page = Path(name)
    folder = page.absolute().parent
    if page.is_dir():
        raise IsADirectoryError(f"{page} is a folder; name the file that the page goes to")
    if not folder.is_dir():
        raise FileNotFoundError(f"{page} cannot be written: there is no folder {folder}")
    if not os.access(page if page.exists() else folder, os.W_OK):
        raise PermissionError(f"{page} cannot be written")
    if any(page.resolve() == Path(one).resolve() for one in sources):
        raise FileExistsError(f"the page would take the place of {page}, which it is made from")
    return page


def _demo(options: argparse.Namespace) -> int:
    from parsieve.demo.run import require_engines, run

    if options.files < 8 or options.rows < 1000 * options.files:
        raise ValueError("a lake needs at least 8 files of 1,000 rows")
    page = _page(options.report)

    def say(line: str) -> None:
        print(line, flush=True)

    sizes = {"files": options.files, "rows": options.rows, "spark": not options.no_spark}
    if options.keep is None:
        require_engines()
        # It stays, so that the commands on the page work.
        run(Path(tempfile.mkdtemp(prefix="parsieve-demo-")) / "lake", page, **sizes, say=say)
        return 0
    folder = Path(options.keep)
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; the demo makes a lake of its own")
    run(folder, page, **sizes, say=say)
    return 0


def _report(options: argparse.Namespace) -> int:
    output = _page(options.output, options.sources)
    if options.where is not None:
        from parsieve.report.plans import page_of_plans

        if len(options.sources) > 1:
            raise ValueError("--where asks one table; name one")
        table = ps.open_table(options.sources[0])
        page = page_of_plans(table, options.where, dt.datetime.now(dt.UTC).date())
        about = f"{len(options.where)} quer{'y' if len(options.where) == 1 else 'ies'} of {table.uri}"
    else:
        from parsieve.report.records import page_of_records

        if other := [one for one in options.sources if not one.endswith(".json")]:
            raise ValueError(f"{other[0]} is no record (.json); to report a table, ask it something with --where")
        page = page_of_records([Path(one) for one in options.sources])
        about = f"{len(options.sources)} records"
    output.write_text(page, encoding="utf-8")
    print(options.output)
    print(about, file=sys.stderr)
    return 0

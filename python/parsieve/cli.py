"""The command line: parse, call, print. Data go to standard output, and nothing else does."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import sys
import uuid
import warnings
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import parsieve as ps
from parsieve import cli_show
from parsieve.atomic import refuse_tables
from parsieve.cli_tables import add_commands, tell_of_index
from parsieve.folders import Outcome, Progress, for_each_file, parquet_files
from parsieve.keyfile import read_keys

EXIT_CODES = """exit codes:
  0  done; for probe: some row group may hold one of the values
  1  probe and plan: no row group or file holds one, for certain; check: a filter excludes values that are there;
     index verify: the index is damaged or wrong; spark doctor: something is missing
  2  wrong arguments, a file that cannot be read or changed, or no index where one is asked for; the other files of a
     folder are done
"""

# Of files that failed, as many are named; the others would hide them.
FAILURES_SHOWN = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            code: int = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has seen enough. Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ps.ParsieveError, OSError, ValueError, TypeError) as error:
        is_of_a_file = isinstance(error, OSError) and error.filename and error.strerror
        said = f"{error.filename}: {error.strerror}" if is_of_a_file else str(error)  # type: ignore[union-attr]
        print(f"parsieve: {' '.join(said.split())}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="parsieve",
        description="Bloom filters of Parquet files, and plans of tables.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"parsieve {ps.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], int], about: str, what: str = "FILE", group: Any = commands
    ) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = group.add_parser(
            name,
            help=about.split(";")[0],
            description=f"{about[0].upper()}{about[1:]}.",
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        folders = what == "FILE" and name != "probe"
        added.add_argument("file", metavar=what, help="a path or a URI" + ", or a folder of files" * folders)
        if folders:
            added.add_argument("--threads", type=int, metavar="N", help="files, or parts of a file, at once")
        added.add_argument("--key-file", metavar="KEYS", help="JSON with footer_key and column_keys, as hex or base64")
        added.add_argument("--json", action="store_true", help="print JSON instead of a table")
        added.set_defaults(run=run)
        return added

    inspect = command("inspect", _inspect, "list the filters of a file; only its footer is read")
    inspect.add_argument("--read", action="store_true", help="read each filter too: its size, values and rate")
    probe = command("probe", _probe, "tell which row groups may hold one of some values; the others certainly do not")
    probe.add_argument("column", metavar="COLUMN", help="its path, with dots: address.zip, tags.list.element")
    probe.add_argument("values", metavar="VALUE", nargs="+", help="as the column has it: 42, 1.50, text, 2026-01-31")
    add = command("add", _add, "add filters to a file that exists; no data page is changed")
    drop = command("drop", _drop, "drop filters of a file; no data page is changed")
    for writing, what in ((add, "by default those that deserve a filter"), (drop, "by default all")):
        writing.add_argument(
            "-c",
            "--column",
            action="append",
            metavar="COLUMN",
            help=f"a name, whatever is in it; repeat -c for more; {what}",
        )
        writing.add_argument("-o", "--output", metavar="DEST", help="write another file, which must not exist")
        writing.add_argument("--dry-run", action="store_true", help="tell what would be done, and write nothing")
        writing.add_argument("--break-hard-links", action="store_true", help="let other names keep the old file")
        writing.add_argument("--upload", action="store_true", help="put an object of a store anew")
        writing.add_argument("--in-place", action="store_true", help="append to a file that is too large to copy")
    add.add_argument("--fpp", type=float, default=0.01, help="rate of false positives that each filter keeps (0.01)")
    add.add_argument("--max-bytes", type=int, default=128 << 20, metavar="N", help="largest filter of a row group")
    add.add_argument(
        "--existing",
        choices=["replace", "keep", "error"],
        help="what to do with filters that are there (replace; for a folder keep, so that an interrupted run goes on)",
    )
    command("check", _check, "read the data and prove the filters of a file by them")
    add_commands(commands, command)
    cli_show.add_commands(commands, EXIT_CODES)
    spark = commands.add_parser("spark", help="Spark sessions on this machine").add_subparsers(
        required=True, metavar="COMMAND"
    )
    doctor = spark.add_parser(
        "doctor",
        help="tell what a session needs, what of it is here, and how to mend the rest",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("--fetch", action="store_true", help="download the jars that are missing")
    doctor.add_argument("--json", action="store_true", help="print JSON instead of a table")
    doctor.set_defaults(run=_doctor)
    return parser


def _add(options: argparse.Namespace) -> int:
    folder = Path(options.file).is_dir()

    def add(path: Any) -> ps.RewriteReport:
        return ps.add_filters(
            path,
            options.output,
            options.column or "auto",
            options.fpp,
            max_bytes=options.max_bytes,
            existing=options.existing or ("keep" if folder else "replace"),
            hard_links="break" if options.break_hard_links else "refuse",
            in_place=options.in_place,
            upload=options.upload,
            encryption=_keys(options),
            threads=1 if folder else options.threads,
            dry_run=options.dry_run,
        )

    if folder:
        return _rewrite_all(options, add)
    before = set() if options.existing is not None else _present(options)
    report = add(options.file)
    code = _rewritten(report, options.json)
    replaced = sum((one.row_group, one.column) in before for one in report.added)
    if replaced:
        would = "would take" if options.dry_run else "took"
        print(f"{replaced} {would} the place of filters that were there: --existing keep leaves those", file=sys.stderr)
    tell_of_index(options, report.written)
    return code


def _present(options: argparse.Namespace) -> set[tuple[int, Any]]:
    with ps.open_filters(options.file, _keys(options)) as filters:
        return {(place.row_group, place.column) for place in filters.ranges()}


def _drop(options: argparse.Namespace) -> int:
    def drop(path: Any) -> ps.RewriteReport:
        return ps.drop_filters(
            path,
            options.output,
            options.column,
            hard_links="break" if options.break_hard_links else "refuse",
            in_place=options.in_place,
            upload=options.upload,
            encryption=_keys(options),
            dry_run=options.dry_run,
        )

    if Path(options.file).is_dir():
        return _rewrite_all(options, drop)
    report = drop(options.file)
    code = _rewritten(report, options.json)
    tell_of_index(options, report.written)
    return code


def _all(options: argparse.Namespace, work: Callable[[Path], Any]) -> list[Outcome[Any]]:
    """What became of the files of a folder."""
    files = parquet_files(Path(options.file))
    with Progress(len(files)) as bar:
        return for_each_file(work, files, threads=options.threads, bar=bar)


def _rewrite_all(options: argparse.Namespace, work: Callable[[Path], ps.RewriteReport]) -> int:
    if options.output is not None:
        raise ValueError("a folder is changed where it is; --output is for one file")
    refuse_tables(Path(options.file).resolve() / "*.parquet")
    outcomes = _all(options, work)
    reports = [one.result for one in outcomes if one.result is not None]
    failed = [one for one in outcomes if one.error is not None]
    summary = {
        "files": len(outcomes),
        "written": sum(report.written for report in reports),
        "unchanged": sum(not report.written for report in reports),
        "failed": len(failed),
        "added": sum(len(report.added) for report in reports),
        "dropped": sum(len(report.dropped) for report in reports),
        "bytes_before": sum(report.bytes_before for report in reports),
        "bytes_after": sum(report.bytes_after for report in reports),
    }
    if options.json:
        files = [
            {"path": str(one.path), "error": one.error} if one.result is None else _as_json(one.result)
            for one in outcomes
        ]
        print(json.dumps({"folder": options.file, "files": files, "summary": summary}, indent=2))
    else:
        rows = [
            {
                "file": os.path.relpath(report.path, Path(options.file).resolve()),
                "added": len(report.added),
                "dropped": len(report.dropped),
                "bytes_before": report.bytes_before,
                "bytes_after": report.bytes_after,
            }
            for report in reports
            if report.added or report.dropped
        ]
        if rows:
            _table(list(rows[0]), rows)
        would = "would be " if options.dry_run else ""
        changed = len(rows) if options.dry_run else summary["written"]
        if options.run is _add and options.existing is None and changed < len(reports):
            print("files that have such filters keep them: --existing replace makes them anew", file=sys.stderr)
        print(
            f"{options.file}: {len(outcomes)} files, {changed} {would}written, {len(reports) - changed} unchanged, "
            f"{len(failed)} failed; {summary['added']} filters added, {summary['dropped']} dropped"
        )
    tell_of_index(options, bool(summary["written"]))
    return _failures(failed)


def _failures(failed: list[Outcome[Any]]) -> int:
    for one in failed[:FAILURES_SHOWN]:
        # What a reader met says its file already.
        said = str(one.error) if str(one.error).startswith(str(one.path)) else f"{one.path}: {one.error}"
        print(f"parsieve: {said}", file=sys.stderr)
    if len(failed) > FAILURES_SHOWN:
        print(f"parsieve: … and {len(failed) - FAILURES_SHOWN} more; --json lists all", file=sys.stderr)
    return 2 if failed else 0


def _rewritten(report: ps.RewriteReport, as_json: bool) -> int:
    if as_json:
        print(json.dumps(_as_json(report), indent=2))
        return 0
    added = [one._asdict() for one in report.added]
    dropped = [{"row_group": row_group, "column": column} for row_group, column in report.dropped]
    for column, reason in report.reasons.items():
        print(f"{_cell(column)}: {reason}")
    if added:
        _table(
            ["row_group", "column", "offset", "length", "ndv", "fpp"],
            [one | {"fpp": float(f"{one['fpp']:.3g}")} for one in added],
        )
    if dropped:
        _table(["row_group", "column"], dropped)
    done = "written" if report.written else "nothing written"
    print(f"{report.path}: {done}, {report.bytes_before} bytes before, {report.bytes_after} after")
    return 0


def _as_json(report: ps.RewriteReport) -> dict[str, Any]:
    added = [one._asdict() for one in report.added]
    dropped = [{"row_group": row_group, "column": column} for row_group, column in report.dropped]
    reasons = {_cell(column): reason for column, reason in report.reasons.items()}
    return report._asdict() | {"added": added, "dropped": dropped, "reasons": reasons}


def _keys(options: argparse.Namespace) -> ps.FileKeys | None:
    return read_keys(options.key_file) if options.key_file else None


def _check(options: argparse.Namespace) -> int:
    keys = _keys(options)
    if not Path(options.file).is_dir():
        findings = {options.file: ps.check_filters(options.file, encryption=keys, threads=options.threads)}
        failed: list[Outcome[Any]] = []
    else:
        outcomes = _all(options, lambda path: ps.check_filters(path, encryption=keys, threads=1))
        findings = {str(one.path): one.result for one in outcomes if one.result is not None}
        failed = [one for one in outcomes if one.error is not None]
    found = [(file, one) for file, of in findings.items() for one in of]
    if options.json:
        files = [{"file": file, "findings": [one._asdict() for one in of]} for file, of in findings.items()]
        files += [{"file": str(one.path), "error": one.error} for one in failed]
        is_folder = Path(options.file).is_dir()
        print(json.dumps({"folder": options.file, "files": files} if is_folder else files[0], indent=2))
    elif found:
        rows = [{**one._asdict(), "finding": one.kind, "file": file} for file, one in found]
        _table(["file"] * (len(findings) > 1) + ["row_group", "column", "finding", "text"], rows)
    else:
        filters = sum(_count(path, keys) for path in findings)
        said = "every filter holds every value" if filters else "no filters to check"
        print(f"{options.file}: {f'{len(findings)} files, ' * (len(findings) != 1)}{said}")
    return _failures(failed) or (1 if any(one.kind == "false negatives" for _, one in found) else 0)


def _count(path: str, keys: ps.FileKeys | None) -> int:
    with ps.open_filters(path, keys) as filters:
        return len(filters.ranges())


def _doctor(options: argparse.Namespace) -> int:
    from parsieve.spark.doctor import examine

    items = examine(fetch=options.fetch)
    if options.json:
        print(json.dumps([item._asdict() for item in items], indent=2))
    else:
        _table(["name", "state", "found"], [item._asdict() for item in items])
        for item in items:
            if item.mend:
                print(f"{item.name}: {item.mend}")
    return 1 if any(item.state == "missing" for item in items) else 0


def _inspect(options: argparse.Namespace) -> int:
    if Path(options.file).is_dir():
        return _inspect_all(options)
    summary = _inspected(options.file, options)
    rows = summary["filters"]
    if options.json:
        print(json.dumps(summary, indent=2, allow_nan=False))
        return 0
    counts = {"filter": len(rows), "row group": len(summary["num_rows"]), "column": len(summary["columns"])}
    print(f"{options.file}: {', '.join(f'{n} {what}' + 's' * (n != 1) for what, n in counts.items())}")
    names = ["row_group", "column", "type", "offset", "length"]
    _table(names + ["blocks", "values", "rate", "error"] * options.read, rows)
    return 0


def _inspect_all(options: argparse.Namespace) -> int:
    outcomes = _all(options, lambda path: _inspected(path, options))
    failed = [one for one in outcomes if one.error is not None]
    found = [one.result for one in outcomes if one.result is not None]
    if options.json:
        errors = [{"file": str(one.path), "error": one.error} for one in failed]
        print(json.dumps({"folder": options.file, "files": found + errors}, indent=2, allow_nan=False))
        return _failures(failed)
    rows = [
        {
            "file": os.path.relpath(summary["file"], options.file),
            "row_groups": len(summary["num_rows"]),
            "rows": sum(summary["num_rows"]),
            "filters": len(summary["filters"]),
            "columns_with_filters": ", ".join(sorted({_cell(row["column"]) for row in summary["filters"]})),
        }
        for summary in found
    ]
    print(f"{options.file}: {len(rows)} files, {sum(row['filters'] > 0 for row in rows)} of them with filters")
    _table(["file", "row_groups", "rows", "filters", "columns_with_filters"], rows)
    return _failures(failed)


def _inspected(file: Any, options: argparse.Namespace) -> dict[str, Any]:
    with ps.open_filters(file, _keys(options)) as filters:
        rows: list[dict[str, Any]] = []
        for place in filters.ranges():
            column = place.column
            row = place._asdict() | {"type": filters.column_type(column)}
            if options.read:
                row |= _measured(filters, place.row_group, column)
            rows.append(row)
        return {
            "file": str(file),
            "created_by": filters.created_by,
            "encrypted": filters.encrypted,
            "columns": filters.columns,
            "num_rows": filters.num_rows,
            "bytes_fetched": filters.bytes_fetched,
            "requests": filters.requests,
            "filters": rows,
        }


def _measured(filters: ps.FileFilters, row_group: int, column: str | tuple[str, ...]) -> dict[str, Any]:
    try:
        filter = filters.filter(row_group, column)
    except ps.ParsieveError as error:
        return {"error": str(error)}
    if filter is None:
        return {}
    full = filter.estimated_fpp == 1.0
    return {
        "blocks": filter.num_blocks,
        "values": None if full else round(filter.estimated_ndv),
        "rate": float(f"{filter.estimated_fpp:.3g}"),
    }


def _probe(options: argparse.Namespace) -> int:
    with ps.open_filters(options.file, _keys(options)) as filters:
        values = [_value(text, filters.column_type(options.column)) for text in options.values]
        answers = filters.might_contain({options.column: values})
        rows = [
            {"row_group": number, "rows": rows, "answer": "maybe" if answer else "no", "why": why}
            for number, (rows, answer, why) in enumerate(
                zip(filters.num_rows, answers, _reasons(filters, options.column, answers), strict=True)
            )
        ]
        cost = {"bytes_fetched": filters.bytes_fetched, "requests": filters.requests}
    if options.json:
        print(json.dumps({"file": options.file, "column": options.column, "row_groups": rows} | cost, indent=2))
    else:
        _table(["row_group", "rows", "answer", "why"], rows)
    return 0 if any(answers) else 1


def _reasons(filters: ps.FileFilters, column: str, answers: Sequence[bool]) -> list[str]:
    """Why each row group may hold a value or does not, as far as the footer and the answer tell."""
    places = {place.row_group for place in filters.ranges() if _cell(place.column) == column}
    if filters.column_type(column) is None:
        return ["no filter excludes anything of this type"] * len(answers)
    absent = "there is no filter" + (" that can be read without its key" if filters.encrypted else "")
    return [
        "the filter excludes it" if not answer else "the filter does not exclude it" if number in places else absent
        for number, answer in enumerate(answers)
    ]


# How text is read for each meaning of a column type.
_READERS: dict[str, Callable[[str], Any]] = {
    "integer": int,
    "unsigned": int,
    "real": float,
    "decimal": Decimal,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "instant": dt.datetime.fromisoformat,
}


def _value(text: str, column_type: str | None) -> Any:
    """The text of an argument as a value of the column."""
    if column_type is None:
        return text
    physical, meaning = column_type.split(" ")
    if physical == "FIXED_LEN_BYTE_ARRAY(16)" and re.fullmatch(
        r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text
    ):
        return uuid.UUID(text)
    reader = _READERS.get(meaning.split("[")[0], str)
    # Python's times end at microseconds, and what is left over would be dropped without a word.
    if re.match(r"time|instant", meaning) and re.search(r"[.,]\d{6}0*[1-9]", text):
        raise ValueError(f"{text!r} has nanoseconds, which this command cannot ask for; use might_contain from Python")
    try:
        return reader(text)
    except (ValueError, ArithmeticError):
        raise ValueError(f"{text!r} is no value of a column of type {column_type}") from None


def _table(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    """Columns under their names, numbers to the right."""
    cells = [list(names)] + [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    numeric = [all(not isinstance(row.get(name), str) for row in rows) for name in names]
    for line in cells:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(padded).rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return ".".join(value) if isinstance(value, tuple) else str(value)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"parsieve: warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

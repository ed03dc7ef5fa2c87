"""The commands for files: `parsieve inspect`, `add`, `drop` and `check`."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import parsieve as ps
from parsieve.cli.keyfile import read_keys
from parsieve.cli.output import Console, cell
from parsieve.cli.parser import Commands, Parser, rate_of, size_of
from parsieve.filters.folder_run import Change, Outcome, change_of, find_files, for_each_file, local_folder
from parsieve.filters.options import checked_fpp, checked_max_bytes
from parsieve.filters.rewrite import HAS_FILTERS
from parsieve.filters.target import refuse_table_file, refuse_table_files
from parsieve.io.index_location import indexed_folder
from parsieve.io.parallel import ProgressBar
from parsieve.wording import count

# How many failed files to list; the others are only counted.
FAILURES_SHOWN = 5


def add_commands(commands: Commands) -> None:
    """Add the commands to the parser."""
    inspect = commands.add("inspect", _inspect, "List the Bloom filters of files", "Reads only footers.")
    add_path(inspect, folder=True)
    inspect.add_argument(
        "--read", action="store_true", help="read each filter to show its size and false positive rate"
    )
    add = commands.add(
        "add",
        _add,
        "Add Bloom filters to existing files",
        "Data pages do not change. Each file is replaced atomically.",
    )
    drop = commands.add(
        "drop",
        _drop,
        "Drop Bloom filters from files",
        "Data pages do not change. Readers no longer find the filters, but their bytes stay in the file.",
    )
    for parser, default in ((add, "columns that benefit"), (drop, "all columns")):
        add_path(parser, folder=True)
        parser.add_argument(
            "-c",
            "--column",
            action="append",
            metavar="COLUMN",
            help=f"a column; a struct's field as struct.field; repeatable (default: {default})",
        )
        parser.add_argument("-o", "--output", metavar="FILE", help="write to this new file and leave FILE unchanged")
        parser.add_argument("--dry-run", action="store_true", help="show what would change, and write nothing")
        parser.add_argument(
            "--break-hard-links",
            action="store_true",
            help="replace files that have hard links; the other links keep the old content",
        )
        parser.add_argument(
            "--upload", action="store_true", help="allow a file on an object store; uploads the whole new file"
        )
        parser.add_argument(
            "--in-place", action="store_true", help="change the file itself, for files that are too large to copy"
        )
    add.add_argument(
        "--fpp",
        type=rate_of,
        default=0.01,
        metavar="RATE",
        help="false positive rate, such as 0.01 or 1%% (default: 0.01)",
    )
    add.add_argument(
        "--max-bytes",
        type=size_of,
        default=128 << 20,
        metavar="SIZE",
        help="largest filter of a row group (default: 128MiB)",
    )
    add.add_argument(
        "--existing",
        choices=["replace", "keep", "error"],
        metavar="ACTION",
        help="replace existing filters, keep them, or stop with an error (default: replace; in a folder: keep)",
    )
    check = commands.add("check", _check, "Check the Bloom filters of files against their data")
    add_path(check, folder=True)


def add_path(parser: Parser, *, folder: bool) -> None:
    """Add the argument that names a file, and the keys to read it."""
    parser.add_argument("file", metavar="FILE", help="a path or URI" + ", or a folder of files" * folder)
    if folder:
        parser.add_argument(
            "--threads", type=int, metavar="N", help="how many files, or parts of a file, to read in parallel"
        )
    parser.add_argument(
        "--key-file", metavar="FILE", help="JSON file with footer_key and column_keys, in hex or base64"
    )


def _add(options: argparse.Namespace) -> int:
    folder = local_folder(options.file)
    # Wrong arguments are one error, not one for each file.
    checked_fpp(options.fpp)
    checked_max_bytes(options.max_bytes)

    def add(path: Any) -> ps.RewriteReport:
        return ps.add_filters(
            path,
            options.output,
            options.column or "auto",
            options.fpp,
            max_bytes=options.max_bytes,
            existing=options.existing or ("replace" if folder is None else "keep"),
            hard_links="break" if options.break_hard_links else "refuse",
            in_place=options.in_place,
            upload=options.upload,
            encryption=keys_of(options),
            threads=options.threads if folder is None else 1,
            dry_run=options.dry_run,
        )

    if folder is not None:
        return _rewrite_all(options, folder, add)
    before = set() if options.existing is not None else _present(options)
    report = add(options.file)
    _print_rewritten(report, options.console)
    replaced = sum((added.row_group, added.column) in before for added in report.added)
    if replaced:
        would = "would replace" if options.dry_run else "replaced"
        options.console.note(f"{would} {count(replaced, 'existing filter')} (use --existing keep to leave them)")
    _hint_at_index(options, report.written)
    return 0


def _present(options: argparse.Namespace) -> set[tuple[int, Any]]:
    with ps.open_filters(options.file, keys_of(options)) as filters:
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
            encryption=keys_of(options),
            dry_run=options.dry_run,
        )

    if (folder := local_folder(options.file)) is not None:
        return _rewrite_all(options, folder, drop)
    report = drop(options.file)
    _print_rewritten(report, options.console)
    _hint_at_index(options, report.written)
    return 0


def _hint_at_index(options: argparse.Namespace, written: bool) -> None:
    """Print how to update the table's index after filters changed."""
    if not written or "://" in options.file or options.output is not None:
        return
    changed = Path(options.file).resolve()
    folder = indexed_folder(changed / "any" if changed.is_dir() else changed)
    if folder is not None:
        options.console.note(
            f"the index of {folder} does not know the changed files yet and keeps them in every plan; "
            f"to update it, run: {shlex.join(['parsieve', 'index', 'update', str(folder)])}"
        )


def _all(
    options: argparse.Namespace, folder: Path, work: Callable[[Path], Any], change: Change | None = None
) -> tuple[list[Outcome[Any]], list[dict[str, str]]]:
    """Do the work for all files of a folder. Also return the skipped names with the reasons, for JSON."""
    found = find_files(folder, change)
    if change is not None:
        refuse_table_files(found.files)
    for note in found.notes(folder):
        options.console.note(note)
    with ProgressBar(len(found.files), show=False if options.console.quiet else None) as bar:
        outcomes = for_each_file(work, found.files, threads=options.threads, bar=bar)
    return outcomes, [{"path": str(path), "reason": found.left_out[path]} for path in sorted(found.left_out)]


def _rewrite_all(options: argparse.Namespace, folder: Path, work: Callable[[Path], ps.RewriteReport]) -> int:
    if options.output is not None:
        raise ValueError("--output works only for a single file; the files of a folder are replaced")
    if options.upload:
        raise ValueError(f"--upload is for a file on an object store, but {options.file} is a local folder")
    refuse_table_file(folder.resolve() / "*.parquet")
    outcomes, left_out = _all(options, folder, work, change_of(in_place=options.in_place))
    reports = [outcome.result for outcome in outcomes if outcome.result is not None]
    failed = [outcome for outcome in outcomes if outcome.error is not None]
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
    if options.console.as_json:
        files = [
            {"path": str(outcome.path), "error": outcome.error} if outcome.result is None else _as_json(outcome.result)
            for outcome in outcomes
        ]
        options.console.json({"folder": options.file, "files": files, "left_out": left_out, "summary": summary})
    else:
        _print_all_rewritten(options, folder, reports, summary)
    _hint_at_index(options, bool(summary["written"]))
    return _failures(failed, len(outcomes), options.console)


def _print_all_rewritten(
    options: argparse.Namespace, folder: Path, reports: list[ps.RewriteReport], summary: dict[str, int]
) -> None:
    rows = [
        {
            "file": os.path.relpath(report.path, folder.resolve()),
            "added": len(report.added),
            "dropped": len(report.dropped),
            "bytes_before": report.bytes_before,
            "bytes_after": report.bytes_after,
        }
        for report in reports
        if report.added or report.dropped
    ]
    if rows:
        options.console.table(list(rows[0]), rows)
    would = "would be " if options.dry_run else ""
    changed = len(rows) if options.dry_run else summary["written"]
    if options.run is _add and options.existing is None and any(_is_kept(report, options) for report in reports):
        options.console.note("existing filters are kept (use --existing replace to replace them)")
    options.console.line(
        f"{options.file}: {count(summary['files'], 'file')}, {changed:,} {would}written, "
        f"{len(reports) - changed:,} unchanged, {summary['failed']:,} failed; "
        f"{count(summary['added'], 'filter')} added, {summary['dropped']:,} dropped"
    )


def _is_kept(report: ps.RewriteReport, options: argparse.Namespace) -> bool:
    """Return whether a file got no filters because it has them."""
    reasons = report.reasons.values()
    return not report.added and (options.column is not None or any(HAS_FILTERS in reason for reason in reasons))


def _failures(failed: list[Outcome[Any]], of: int, console: Console) -> int:
    """Print the errors of the files that failed, and return the exit code."""
    # Some errors already name their file.
    texts = [
        outcome.error if str(outcome.error).startswith(str(outcome.path)) else f"{outcome.path}: {outcome.error}"
        for outcome in failed
    ]
    if console.as_json and failed:
        console.error(f"{len(failed):,} of {count(of, 'file')} failed: {'; '.join(map(str, texts))}", "ParsieveError")
    else:
        for text in texts[:FAILURES_SHOWN]:
            console.error(str(text), "ParsieveError")
        if len(failed) > FAILURES_SHOWN:
            console.error(f"… and {len(failed) - FAILURES_SHOWN:,} more; --json lists all", "ParsieveError")
    return 2 if failed else 0


def _print_rewritten(report: ps.RewriteReport, console: Console) -> None:
    if console.as_json:
        console.json(_as_json(report))
        return
    added = [filter._asdict() for filter in report.added]
    dropped = [{"row_group": row_group, "column": column} for row_group, column in report.dropped]
    for column, reason in report.reasons.items():
        console.line(f"{cell(column)}: {reason}")
    if added:
        rows = [row | {"fpp": float(f"{row['fpp']:.3g}")} for row in added]
        console.table(["row_group", "column", "offset", "length", "ndv", "fpp"], rows)
    if dropped:
        console.table(["row_group", "column"], dropped)
    done = "written" if report.written else "nothing written"
    console.line(f"{report.path}: {done}, {report.bytes_before:,} bytes before, {report.bytes_after:,} after")


def _as_json(report: ps.RewriteReport) -> dict[str, Any]:
    added = [filter._asdict() for filter in report.added]
    dropped = [{"row_group": row_group, "column": column} for row_group, column in report.dropped]
    reasons = {cell(column): reason for column, reason in report.reasons.items()}
    # Only the report of a folder has files and skipped names.
    of_file = {name: value for name, value in report._asdict().items() if name not in ("files", "left_out")}
    return of_file | {"added": added, "dropped": dropped, "reasons": reasons}


def keys_of(options: argparse.Namespace) -> ps.FileKeys | None:
    """Return the keys of an encrypted file."""
    return read_keys(options.key_file) if options.key_file else None


def _check(options: argparse.Namespace) -> int:
    keys, console = keys_of(options), options.console
    folder = local_folder(options.file)
    is_folder = folder is not None
    failed: list[Outcome[Any]] = []
    left_out: list[dict[str, str]] = []
    if folder is not None:
        outcomes, left_out = _all(options, folder, lambda path: ps.check_filters(path, encryption=keys, threads=1))
        findings = {str(outcome.path): outcome.result for outcome in outcomes if outcome.result is not None}
        failed = [outcome for outcome in outcomes if outcome.error is not None]
    else:
        findings = {options.file: ps.check_filters(options.file, encryption=keys, threads=options.threads)}
    found = [(file, finding) for file, of in findings.items() for finding in of]
    if console.as_json:
        files: list[dict[str, Any]] = [
            {"file": file, "findings": [finding._asdict() for finding in of]} for file, of in findings.items()
        ]
        files += [{"file": str(outcome.path), "error": outcome.error} for outcome in failed]
        console.json({"folder": options.file, "files": files, "left_out": left_out} if is_folder else files[0])
    elif found:
        rows = [{**finding._asdict(), "finding": finding.kind, "file": file} for file, finding in found]
        console.table(["file"] * (len(findings) > 1) + ["row_group", "column", "finding", "text"], rows)
    elif findings or not failed:
        filters = sum(_count(path, keys) for path in findings)
        result = "every filter holds every value" if filters else "no filters to check"
        console.line(f"{options.file}: {count(len(findings), 'file') + ', ' if is_folder else ''}{result}")
    code = _failures(failed, len(findings) + len(failed), console)
    return code or (1 if any(finding.kind == "false negatives" for _, finding in found) else 0)


def _count(path: str, keys: ps.FileKeys | None) -> int:
    with ps.open_filters(path, keys) as filters:
        return len(filters.ranges())


def _inspect(options: argparse.Namespace) -> int:
    if (folder := local_folder(options.file)) is not None:
        return _inspect_all(options, folder)
    summary = _inspected(options.file, options)
    rows = summary["filters"]
    if options.console.as_json:
        options.console.json(summary)
        return 0
    counts = {"filter": len(rows), "row group": len(summary["num_rows"]), "column": len(summary["columns"])}
    options.console.line(f"{options.file}: {', '.join(count(number, noun) for noun, number in counts.items())}")
    names = ["row_group", "column", "type", "offset", "length"]
    options.console.table(names + ["blocks", "values", "rate", "error"] * options.read, rows)
    return 0


def _inspect_all(options: argparse.Namespace, folder: Path) -> int:
    outcomes, left_out = _all(options, folder, lambda path: _inspected(path, options))
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    found = [outcome.result for outcome in outcomes if outcome.result is not None]
    if options.console.as_json:
        errors = [{"file": str(outcome.path), "error": outcome.error} for outcome in failed]
        options.console.json({"folder": options.file, "files": found + errors, "left_out": left_out})
        return _failures(failed, len(outcomes), options.console)
    rows = [
        {
            "file": os.path.relpath(summary["file"], folder),
            "row_groups": len(summary["num_rows"]),
            "rows": sum(summary["num_rows"]),
            "filters": len(summary["filters"]),
            "columns_with_filters": ", ".join(sorted({cell(row["column"]) for row in summary["filters"]})),
        }
        for summary in found
    ]
    with_filters = sum(row["filters"] > 0 for row in rows)
    options.console.line(f"{options.file}: {count(len(rows), 'file')}, {with_filters:,} of them with filters")
    options.console.table(["file", "row_groups", "rows", "filters", "columns_with_filters"], rows)
    return _failures(failed, len(outcomes), options.console)


def _inspected(file: Any, options: argparse.Namespace) -> dict[str, Any]:
    with ps.open_filters(file, keys_of(options)) as filters:
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

"""The commands that query a table: `parsieve plan`, `parsieve lookup` and `parsieve advise`."""

from __future__ import annotations

import argparse
import csv
import json
import logging
import math
import shlex
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

import parsieve as ps
from parsieve.cli.keyfile import read_key_bytes
from parsieve.cli.output import Console, seconds
from parsieve.cli.parser import Commands, Parser, rows_of
from parsieve.cli.texts.hints import in_shell
from parsieve.cli.texts.keys import KeyText, read_keys_from, typed_keys
from parsieve.wording import count, size

if TYPE_CHECKING:
    import pyarrow as pa


# Messages name at most this many keys.
MOST_NAMED = 10
FORMATS = ["parquet", "delta", "iceberg", "hudi"]

_LOG = logging.getLogger("parsieve.cli")


def add_commands(commands: Commands) -> None:
    """Add the commands to the parser."""
    plan = commands.add(
        "plan", _plan, "List the files of a table that can hold a match", "All other files contain no match."
    )
    add_table(plan)
    plan.add_argument("where", metavar="WHERE", help="a SQL condition: \"id = 42 AND day >= '2026-01-31'\"")
    plan.add_argument("--explain", action="store_true", help="show why each file is kept or skipped")
    plan.add_argument("--row-groups", action="store_true", help="also read footers, and list row groups after a tab")
    add_as_of(plan)
    plan.add_argument(
        "--order-by", metavar="COLUMN", help="sort rows by COLUMN: list the files in the order to read them"
    )
    plan.add_argument("--descending", action="store_true", help="the greatest values of COLUMN come first")
    plan.add_argument(
        "--nulls", choices=["first", "last"], default="last", help="whether nulls of COLUMN come first or last"
    )
    plan.add_argument(
        "--limit", type=rows_of, metavar="N", help="plan for the first N rows; affects --explain and --json"
    )
    plan.add_argument("--exit-code", action="store_true", help="exit with 1 if no file can hold a match")
    plan.add_argument(
        "--on-unknown",
        choices=["warn", "error", "ignore"],
        default="warn",
        metavar="ACTION",
        help="for conditions that parsieve does not understand: warn, error or ignore (default: warn)",
    )
    lookup = commands.add(
        "lookup", _lookup, "Print the rows of some keys", "Reads only the pages that can hold one of the keys."
    )
    add_table(lookup)
    lookup.add_argument(
        "keys",
        metavar="COLUMN=VALUE",
        nargs="+",
        help="a key, such as id=42; all keys must be of one column; with --keys-from, pass COLUMN alone",
    )
    lookup.add_argument(
        "--keys-from", metavar="FILE", help="also read keys of COLUMN from a file, one per line; - is standard input"
    )
    lookup.add_argument("--columns", metavar="NAMES", help="the columns to print: id,name (default: all)")
    lookup.add_argument("--limit", type=rows_of, metavar="N", help="print at most N rows")
    add_as_of(lookup)
    advice = commands.add(
        "advise", _advise, "Estimate what an index of each column would cost and save", "Reads a sample of the files."
    )
    add_table(advice)
    advice.add_argument(
        "columns", metavar="COLUMN", nargs="*", help="columns (default: the columns of --where, or all)"
    )
    advice.add_argument("--where", action="append", default=[], metavar="WHERE", help="a typical query; repeatable")
    add_expose(advice)
    for parser in (plan, lookup, advice):
        add_timezone(parser)


def add_table(parser: Parser) -> None:
    """Add the argument that names a table, and the options to open it."""
    parser.add_argument("file", metavar="TABLE", help="the path or URI of a table")
    add_opening(parser)


def add_opening(parser: Parser) -> None:
    """Add the options to open a table."""
    options = parser.add_argument_group("table")
    options.add_argument(
        "--format",
        choices=FORMATS,
        metavar="FORMAT",
        help=f"the table's format: {', '.join(FORMATS)} (default: detected)",
    )
    options.add_argument("--index-location", metavar="PLACE", help="folder or URI of the table's index")
    options.add_argument(
        "--key-file", metavar="FILE", help="JSON file with footer_key and column_keys, in hex or base64"
    )


def add_as_of(parser: Parser) -> None:
    """Add the option for an earlier state of the table."""
    parser.add_argument(
        "--as-of", metavar="STATE", help="a Delta version, Iceberg snapshot id, Hudi instant, or a time"
    )


def add_timezone(parser: Parser) -> None:
    """Add the option for timestamps without a time zone."""
    parser.add_argument("--timezone", metavar="ZONE", help="time zone to assume for timestamps without one")


def add_expose(parser: Parser) -> None:
    """Add the option for encrypted columns."""
    parser.add_argument(
        "--expose",
        action="append",
        default=[],
        metavar="COLUMN",
        help="index an encrypted column; its values will be readable in the index; repeatable",
    )


def open_of(options: argparse.Namespace) -> ps.Table:
    """Open the table that the options name."""
    begun = time.perf_counter()
    keys = read_key_bytes(options.key_file) if options.key_file else None
    table = ps.open_table(options.file, options.format, index_location=options.index_location, decryption=keys)
    _LOG.info("opened the %s table %s in %s", table.format, table.uri, seconds(time.perf_counter() - begun))
    return table


def command_for(options: argparse.Namespace, command: str, *arguments: str) -> str:
    """Return another command for the same table, so that a user can paste it into a shell."""
    words = ["parsieve", *command.split(), options.file, *arguments]
    for name in ("format", "index_location", "key_file"):
        if getattr(options, name, None) is not None:
            words += [f"--{name.replace('_', '-')}", getattr(options, name)]
    return shlex.join(words)


def _plan(options: argparse.Namespace) -> int:
    from parsieve.lake.as_of import state_of

    # Import before the clock starts, so that the summary shows only the time of the plan.
    import_module("parsieve.predicate.read.sql.conditions")

    table = open_of(options)
    as_of = state_of(options.as_of, table.format, "--as-of")
    begun = time.perf_counter()
    # The command prints unknown conditions itself.
    plan = table.plan(
        options.where,
        as_of,
        row_groups=options.row_groups or None,
        timezone=options.timezone,
        on_unknown="error" if options.on_unknown == "error" else "ignore",
        order_by=options.order_by,
        descending=options.descending,
        nulls=options.nulls,
        limit=options.limit,
    )
    elapsed = time.perf_counter() - begun
    _LOG.info("read %s in %s for the plan", size(plan.bytes_fetched), count(plan.requests, "request"))
    console: Console = options.console
    if console.as_json:
        console.json(json.loads(plan.to_json()) | {"seconds": elapsed, "explanation": plan.explain()})
        _print_doubts(plan, console, with_unknown=options.on_unknown != "ignore")
    elif options.explain:
        console.line(in_shell(plan.explain()))
    else:
        _print_files(plan, console, with_row_groups=options.row_groups)
        _print_doubts(plan, console, with_unknown=options.on_unknown != "ignore")
        console.note(_summary(plan, elapsed))
    return 1 if options.exit_code and not plan.kept else 0


def _print_files(plan: ps.Plan, console: Console, *, with_row_groups: bool) -> None:
    for path in plan.files:
        groups = plan.row_groups[path] if with_row_groups else None
        console.line(path if groups is None else f"{path}\t{','.join(map(str, groups))}")


def _print_doubts(plan: ps.Plan, console: Console, *, with_unknown: bool) -> None:
    """Print which conditions were not understood, and why files were kept in doubt."""
    from parsieve.plan.explain import doubts

    unknown = plan.record.unknown
    for line in doubts(plan.record):
        if not any(part.text in line and part.reason in line for part in unknown):
            console.note(line)
        elif with_unknown:
            console.warn(line)


def _summary(plan: ps.Plan, elapsed: float) -> str:
    """Return the plan in one line: files, bytes and time."""
    slices = plan.record.snapshot.slices
    parts = [f"{len(plan.record.kept):,} of {count(len(slices), 'file')}"]
    if len(slices) and not slices.size.null_count:
        sizes = slices.size.to_pylist()
        parts.append(size(sum(sizes[number] for number in plan.record.kept), of=sum(sizes)))
    return ", ".join([*parts, seconds(elapsed)])


def _lookup(options: argparse.Namespace) -> int:
    from parsieve.lake.as_of import state_of
    from parsieve.predicate.column_names import ColumnNames
    from parsieve.predicate.expr import Column
    from parsieve.predicate.read.keys import find_compared

    name, texts = _column_and_keys(options)
    table = open_of(options)
    as_of = state_of(options.as_of, table.format, "--as-of")
    compared = find_compared(ColumnNames(table.opened.snapshot(as_of).schema), name)
    if not isinstance(compared, Column) and len(compared.columns) > 1:
        options.parser.error(f"{compared} is a composite key, which this command does not support; use `parsieve plan`")
    column = compared if isinstance(compared, Column) else compared.value
    columns = None if options.columns is None else _names_in(options)
    begun = time.perf_counter()
    result = table.lookup(
        compared.path if isinstance(compared, Column) else name,
        typed_keys(texts, column),
        columns,
        as_of=as_of,
        timezone=options.timezone,
    )
    elapsed = time.perf_counter() - begun
    rows, missing = _printable_rows(result.table.slice(0, options.limit)), [str(key) for key in result.missing]
    console: Console = options.console
    if console.as_json:
        console.json({"rows": rows, "num_rows": len(result), "missing": missing, "seconds": elapsed})
        return 0 if len(result) else 1
    if rows:
        console.table(result.table.schema.names, rows)
    if missing:
        more = f" and {len(missing) - MOST_NAMED:,} more" if len(missing) > MOST_NAMED else ""
        console.note(f"no row has {column} = {', '.join(missing[:MOST_NAMED])}{more}")
    shown = f"{len(rows):,} of " if len(rows) < len(result) else ""
    console.note(f"{shown}{count(len(result), 'row')}, {seconds(elapsed)}")
    return 0 if len(result) else 1


def _names_in(options: argparse.Namespace) -> list[str]:
    try:
        return next(csv.reader([options.columns]))
    except csv.Error as error:
        raise ValueError(f"--columns {options.columns!r} is not a list of names: {error}") from None


def _column_and_keys(options: argparse.Namespace) -> tuple[str, list[KeyText]]:
    """Return the name of the column, and the text of its keys."""
    pairs = [argument.partition("=") for argument in options.keys]
    names = list(dict.fromkeys(name for name, _, _ in pairs))
    if len(names) > 1:
        options.parser.error(
            f"the keys must be of one column, not of {' and '.join(names)}; for conditions on several columns, "
            "use `parsieve plan`"
        )
    bare = [name for name, equals, _ in pairs if not equals]
    if bare and options.keys_from is None:
        options.parser.error(f"{bare[0]!r} has no value; write {bare[0]}=VALUE, or read keys with --keys-from")
    texts = [KeyText(text) for _, equals, text in pairs if equals]
    if options.keys_from is not None:
        texts += read_keys_from(options.keys_from)
    return names[0], texts


def _printable_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows whose values can be printed as JSON. Times are text, because Python's have no nanoseconds."""
    for place, column in enumerate(table.schema):
        printed = _with_times_as_text(column.type)
        if printed != column.type:
            table = table.set_column(place, column.name, table.column(place).cast(printed))
    return [{name: _printable(value) for name, value in row.items()} for row in table.to_pylist()]


def _with_times_as_text(kind: pa.DataType) -> pa.DataType:
    """Return a type with strings in place of times, at any depth."""
    import pyarrow as pa

    if pa.types.is_temporal(kind):
        return kind if pa.types.is_duration(kind) else pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_times_as_text(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_with_times_as_text(kind.key_type), _with_times_as_text(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        item = kind.value_field.with_type(_with_times_as_text(kind.value_type))
        if pa.types.is_large_list(kind):
            return pa.large_list(item)
        return pa.list_(item, kind.list_size if pa.types.is_fixed_size_list(kind) else -1)
    return kind


def _printable(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _printable(inner) for name, inner in value.items()}
    return [_printable(inner) for inner in value] if isinstance(value, list | tuple) else value


def _advise(options: argparse.Namespace) -> int:
    advice = open_of(options).advise(
        options.columns or None, options.where, expose=options.expose, timezone=options.timezone
    )
    console: Console = options.console
    if console.as_json:
        console.json([_advice_record(advised) for advised in advice])
        return 0
    rows = [_advice_row(advised) for advised in advice]
    if rows:
        console.table(list(rows[0]), rows, right=list(rows[0])[2:-1])
        sampled, of = max(advised.sampled for advised in advice), advice[0].slices
        console.note(f"estimated from {sampled:,} of {count(of, 'file')}; reads: min/max alone -> with the index")
    return 0


def _advice_record(advice: ps.Advice) -> dict[str, Any]:
    return advice._asdict() | {"texts": [text._asdict() for text in advice.texts]}


def _advice_row(advice: ps.Advice) -> dict[str, Any]:
    """Return one row of the table: the recommended index, its cost and its savings."""
    kinds = {"sieve": ["sieve"], "bloom": ["bloom"], "both": ["sieve", "bloom"]}.get(advice.recommendation, [])
    stored = {"sieve": advice.sieve_bytes, "bloom": advice.bloom_bytes}
    lookup = {"sieve": advice.sieve_lookup_bytes, "bloom": advice.bloom_bytes}
    key = min((getattr(advice, f"{kind}_reads") for kind in kinds), default=advice.minmax_reads)
    absent = min((getattr(advice, f"{kind}_absent") for kind in kinds), default=advice.minmax_absent)
    interval = advice.sieve_reads if "sieve" in kinds else advice.minmax_reads
    on_disk = size(sum(stored[kind] for kind in kinds)) if kinds else "-"
    for_lookups = size(sum(lookup[kind] for kind in kinds)) if kinds else "-"
    if advice.text is not None:
        on_disk = for_lookups = size(advice.text.num_bytes)
    return {
        "column": advice.column,
        "kind": advice.recommendation,
        "on disk": on_disk,
        "for lookups": for_lookups,
        "files for a key": _reads(advice.minmax_reads, key),
        "missing key": _reads(advice.minmax_absent, absent),
        "interval": _reads(advice.minmax_reads, interval),
        "note": in_shell(advice.why),
    }


def _reads(before: float, after: float) -> str:
    texts = [f"{reads:.1f}".removesuffix(".0") for reads in (before, after)]
    return texts[0] if texts[0] == texts[1] else " -> ".join(texts)

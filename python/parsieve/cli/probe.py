"""`parsieve probe`: which row groups of a file can hold a value, by its Bloom filters."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

import parsieve as ps
from parsieve.cli.files import add_path, keys_of
from parsieve.cli.output import cell
from parsieve.cli.parser import Commands
from parsieve.cli.texts.values import value_of
from parsieve.filters.open import UnusableFilter, probe


def add_command(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add(
        "probe", _probe, "Show which row groups of a file can hold a value", "Uses the file's Bloom filters."
    )
    add_path(parser, folder=False)
    parser.add_argument(
        "column", metavar="COLUMN", help="a column; for nested fields the path: address.zip, tags.list.element"
    )
    parser.add_argument("values", metavar="VALUE", nargs="+", help="a value of the column: 42, 1.50, text, 2026-01-31")


def _probe(options: argparse.Namespace) -> int:
    if Path(options.file).is_dir():
        raise IsADirectoryError(
            f"{options.file} is a folder, and this command takes one file; to find the files of a folder that can hold "
            f"a value, run: {shlex.join(['parsieve', 'plan', options.file, f'{options.column} = VALUE'])}"
        )
    with ps.open_filters(options.file, keys_of(options)) as filters:
        values = [value_of(text, filters.column_type(options.column)) for text in options.values]
        answers, unusable = probe(filters, {options.column: values})
        rows = [
            {"row_group": number, "rows": rows, "answer": "maybe" if answer else "no", "why": why}
            for number, (rows, answer, why) in enumerate(
                zip(filters.num_rows, answers, _reasons(filters, options.column, answers, unusable), strict=True)
            )
        ]
        cost = {"bytes_fetched": filters.bytes_fetched, "requests": filters.requests}
    if options.console.as_json:
        options.console.json({"file": options.file, "column": options.column, "row_groups": rows} | cost)
    else:
        options.console.table(["row_group", "rows", "answer", "why"], rows)
    return 0 if any(answers) else 1


def _reasons(
    filters: ps.FileFilters, column: str, answers: Sequence[bool], unusable: Sequence[UnusableFilter]
) -> list[str]:
    """Return for each row group why it can or cannot hold a value."""
    places = {place.row_group for place in filters.ranges() if cell(place.column) == column}
    if filters.column_type(column) is None:
        return ["filters cannot answer for this type"] * len(answers)
    absent = "no filter" + (" that can be read without its key" if filters.encrypted else "")
    problems = {filter.row_group: f"the filter cannot be used: {filter.reason}" for filter in unusable}
    return [
        "the filter excludes it"
        if not answer
        else problems.get(number, "the filter does not exclude it")
        if number in places
        else absent
        for number, answer in enumerate(answers)
    ]

"""`parsieve probe`: which row groups of a file can hold a value, by its Bloom filters."""

from __future__ import annotations

import argparse
import datetime as dt
import re
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import parsieve as ps
from parsieve.cli.files import add_path, keys_of
from parsieve.cli.output import cell
from parsieve.cli.parser import Commands


def add_command(commands: Commands) -> None:
    """Add the command to the parser."""
    probe = commands.add(
        "probe", _probe, "Show which row groups of a file can hold a value", "Uses the file's Bloom filters."
    )
    add_path(probe, folder=False)
    probe.add_argument(
        "column", metavar="COLUMN", help="a column; for nested fields the path: address.zip, tags.list.element"
    )
    probe.add_argument("values", metavar="VALUE", nargs="+", help="a value of the column: 42, 1.50, text, 2026-01-31")


def _probe(options: argparse.Namespace) -> int:
    with ps.open_filters(options.file, keys_of(options)) as filters:
        values = [value_of(text, filters.column_type(options.column)) for text in options.values]
        answers = filters.might_contain({options.column: values})
        rows = [
            {"row_group": number, "rows": rows, "answer": "maybe" if answer else "no", "why": why}
            for number, (rows, answer, why) in enumerate(
                zip(filters.num_rows, answers, _reasons(filters, options.column, answers), strict=True)
            )
        ]
        cost = {"bytes_fetched": filters.bytes_fetched, "requests": filters.requests}
    if options.console.as_json:
        options.console.json({"file": options.file, "column": options.column, "row_groups": rows} | cost)
    else:
        options.console.table(["row_group", "rows", "answer", "why"], rows)
    return 0 if any(answers) else 1


def _reasons(filters: ps.FileFilters, column: str, answers: Sequence[bool]) -> list[str]:
    """Return for each row group why it can hold a value or why not."""
    places = {place.row_group for place in filters.ranges() if cell(place.column) == column}
    if filters.column_type(column) is None:
        return ["filters cannot answer for this type"] * len(answers)
    absent = "no filter" + (" that can be read without its key" if filters.encrypted else "")
    return [
        "the filter excludes it" if not answer else "the filter does not exclude it" if number in places else absent
        for number, answer in enumerate(answers)
    ]


# How to convert text to each column type.
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


def value_of(text: str, column_type: str | None) -> Any:
    """Return the text of an argument as a value of a column, whose type is None if it has no filters."""
    if column_type is None:
        return text
    physical, meaning = column_type.split(" ")
    if physical == "FIXED_LEN_BYTE_ARRAY(16)" and re.fullmatch(
        r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text
    ):
        return uuid.UUID(text)
    reader = _READERS.get(meaning.split("[")[0], str)
    # Python's times have microseconds, and drop further digits silently.
    if re.match(r"time|instant", meaning) and re.search(r"[.,]\d{6}0*[1-9]", text):
        raise ValueError(f"{text!r} has nanoseconds, which this command does not support; use Python")
    try:
        return reader(text)
    except (ValueError, ArithmeticError):
        raise ValueError(f"{text!r} is not a value of type {column_type}") from None

"""Read keys as text, and turn each into a value of a column."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import parsieve as ps
from parsieve.cli.texts.values import value_of

if TYPE_CHECKING:
    from parsieve.predicate.expr import Column

_BOOLEANS = {"true": True, "false": False}


class KeyText(NamedTuple):
    """A key as text."""

    text: str
    # The file and line of the key. An argument has none.
    place: str = ""


def read_keys_from(name: str) -> list[KeyText]:
    """Return the keys in a file, one per line. The name - is standard input. Empty lines at the end are no keys."""
    shown = "standard input" if name == "-" else name
    if name == "-" and sys.stdin is None:
        raise ValueError("standard input is closed, so there are no keys to read")
    content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        # Windows may put a mark before the first line.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{shown} is not UTF-8: {error.reason} at byte {error.start}") from None
    # Only these end a line: a text may contain the other characters that Python's splitlines splits at.
    text = text.replace("\r\n", "\n").rstrip("\r\n")
    lines = text.split("\n") if text else []
    return [KeyText(line, f"{shown}, line {number}, ") for number, line in enumerate(lines, 1)]


def typed_keys(texts: Sequence[KeyText], column: Column) -> list[Any]:
    """Return keys as values of a column. The error of a text that is no such value names its line and the column."""
    kind = str(column.value_type)
    try:
        column_type = ps.BloomFilter(1, type=column.value_type).column_type
    except ps.UnsupportedError:
        column_type = None
    read = _boolean if kind == "bool" else partial(value_of, column_type=column_type)
    keys = []
    for key in texts:
        try:
            value = read(key.text)
            if isinstance(value, int) and not -(1 << 63) <= value < 1 << (64 if kind.startswith("uint") else 63):
                raise ValueError(f"{value} is out of the range of 64-bit integers")
        except ValueError as error:
            remedy = ", or remove the empty line" if key.place and not key.text else ""
            raise ValueError(f"{key.place}column {column}: {error}{remedy}") from None
        keys.append(value.encode() if isinstance(value, str) and "binary" in kind else value)
    return keys


def _boolean(text: str) -> bool:
    if text.casefold() not in _BOOLEANS:
        raise ValueError(f"{text!r} is not a value of type bool; write true or false")
    return _BOOLEANS[text.casefold()]

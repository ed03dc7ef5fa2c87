"""Columns in folder names, `year=2026/month=1`: which there are, of what type, with what value."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa

from parsieve._core import UnsupportedError

NULL = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def texts_of(folder: str) -> dict[str, str | None]:
    """Column to text for each `column=value` folder of a path."""
    found: dict[str, str | None] = {}
    for part in folder.split("/"):
        name, equals, value = part.partition("=")
        if equals and name:
            found[unquote(name)] = None if value == NULL else unquote(value)
    return found


def fields_of(folders: Iterable[str]) -> list[pa.Field]:
    """The partition columns of a table and their types, from all its folders.

    int32 or int64 where every value is such a number, date32 where every value is a day that exists, else text. Folders
    that disagree on their columns are refused, as Spark does.
    """
    names: tuple[str, ...] | None = None
    seen: dict[str, set[str]] = {}
    for folder in folders:
        texts = texts_of(folder)
        if names is not None and names != tuple(texts):
            raise UnsupportedError(
                f"some files lie under the partition columns {_said(names)}, others under {_said(tuple(texts))} "
                f"({folder or 'the folder itself'}); open one of the folders below"
            )
        names = tuple(texts)
        for name, text in texts.items():
            values = seen.setdefault(name, set())
            if text is not None:
                values.add(text)
    return [pa.field(name, _type_of(values)) for name, values in seen.items()]


def values_of(folder: str, fields: Sequence[pa.Field]) -> Mapping[str, object]:
    """The partition values of a folder, of the columns' types."""
    texts = texts_of(folder)
    return {one.name: _value(texts[one.name], one.type) for one in fields}


def _said(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def _type_of(texts: set[str]) -> pa.DataType:
    if texts and all(_INTEGER.fullmatch(text) for text in texts):
        size = max(max(number, -number - 1) for number in map(int, texts))
        if size < 2**63:
            return pa.int32() if size < 2**31 else pa.int64()
    if texts and all(_is_date(text) for text in texts):
        return pa.date32()
    return pa.string()


def _is_date(text: str) -> bool:
    try:
        return bool(_DATE.fullmatch(text)) and dt.date.fromisoformat(text) is not None
    except ValueError:
        return False


def _value(text: str | None, kind: pa.DataType) -> object:
    if text is None or pa.types.is_string(kind):
        return text
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(text)
    if pa.types.is_integer(kind):
        return int(text)
    try:
        return pa.scalar(text).cast(kind).as_py()
    except pa.ArrowException as error:
        raise UnsupportedError(f"the partition value {text!r} is not a valid {kind}: {error}") from error

"""Read partition columns, their types and their values from folder names such as `year=2026/month=1`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from urllib.parse import unquote

import pyarrow as pa

from parsieve._core import UnsupportedError
from parsieve.lake import bounds

NULL = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def texts_of(folder: str) -> dict[str, str | None]:
    """Return the columns and texts of the `column=value` folders in a path."""
    texts: dict[str, str | None] = {}
    for part in folder.split("/"):
        name, equals, value = part.partition("=")
        if equals and name:
            column, text = _decoded(name, folder), _decoded(value, folder)
            if column in texts:
                raise UnsupportedError(
                    f"{folder} has two values of the partition column {column!r}, and engines read different ones; "
                    "rename one of the folders"
                )
            if column.lower() in map(str.lower, texts):
                raise UnsupportedError(
                    f"{folder} has two partition columns whose names differ only in case, and engines disagree about "
                    "their values; rename one of the folders"
                )
            texts[column] = None if value == NULL else text
    return texts


def _decoded(text: str, folder: str) -> str:
    """Return a part of a folder's name without its escapes."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise UnsupportedError(
            f"the escapes in the name of the folder {folder} are not UTF-8, and engines read them in different ways; "
            "rename it"
        ) from None


def fields_of(folders: Iterable[str]) -> list[pa.Field]:
    """Return the partition columns of a table and their types, from all its folders.

    The type is int32 or int64 if all values are such numbers, date32 if all values are valid dates, and else string.
    Like Spark, raise an error if the folders have different columns.
    """
    names: tuple[str, ...] | None = None
    values_by_name: dict[str, set[str]] = {}
    for folder in folders:
        texts = texts_of(folder)
        if names is not None and names != tuple(texts):
            raise UnsupportedError(
                f"some files have the partition columns {_listed(names)}, but others have {_listed(tuple(texts))} "
                f"({folder or 'the folder itself'}); open one of the subfolders as a table"
            )
        names = tuple(texts)
        for name, text in texts.items():
            values = values_by_name.setdefault(name, set())
            if text is not None:
                values.add(text)
    return [pa.field(name, _type_of(values)) for name, values in values_by_name.items()]


def values_of(folder: str, fields: Sequence[pa.Field]) -> Mapping[str, object]:
    """Return the partition values of a folder, converted to the columns' types."""
    texts = texts_of(folder)
    return {field.name: _value(texts[field.name], field.type) for field in fields}


def _listed(names: tuple[str, ...]) -> str:
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
        # `Decimal` also reads other texts, such as 1_000.
        if pa.types.is_decimal(kind) and _DECIMAL.fullmatch(text):
            return bounds.decimal_of(Decimal(text), kind.precision, kind.scale)
        return pa.scalar(text).cast(kind).as_py()
    except (pa.ArrowException, ValueError, InvalidOperation) as error:
        raise UnsupportedError(f"the partition value {text!r} is not a valid {kind}: {error}") from error

"""Turn the text of an argument into a value of a column."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any


def _finite(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError(text)
    return value


# How to convert text to each column type.
_READERS: dict[str, Callable[[str], Any]] = {
    "integer": int,
    "unsigned": int,
    "real": float,
    "decimal": _finite,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "instant": dt.datetime.fromisoformat,
}
# A value of each column type whose text may be invalid.
_EXAMPLES = {
    "integer": "42",
    "unsigned": "42",
    "real": "1.5",
    "decimal": "1.50",
    "date": "2026-01-31",
    "time": "12:30:00",
    "timestamp": "2026-01-31T12:30:00",
    "instant": "2026-01-31T12:30:00Z",
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
        example = _EXAMPLES[meaning.split("[")[0]]
        raise ValueError(f"{text!r} is not a value of type {column_type}; write a value such as {example}") from None

"""Parts of messages: types as users name them, shortened texts, and why a condition was not understood."""

from __future__ import annotations

import datetime as dt
import reprlib
from typing import Any

import pyarrow as pa

# How many characters of a predicate a message contains.
LONGEST = 200


class NotUnderstoodError(Exception):
    """A part of a predicate was not understood. It never leaves this package: `parse` returns `Unknown` instead.

    The text gives the reason, with `{column}` in place of the column's name. `literal` is what to write instead of the
    value.
    """

    def __init__(self, text: str, literal: str | None = None) -> None:
        super().__init__(text)
        self.literal = literal

    def __str__(self) -> str:
        return self.about("the column")

    def about(self, column: str, op: str = "=") -> str:
        """Return the reason for one column, with the comparison to write instead if there is one."""
        text = str(self.args[0]).replace("{column}", column)
        if self.literal is None:
            return text
        instead = f"({self.literal})" if op == "IN" else self.literal
        return f"{text}; write {column} {op} {instead}"


def shortened(text: str) -> str:
    """Return a text that fits into a message.

    >>> from parsieve.predicate.messages import shortened
    >>> len(shortened("x = 1 OR " * 1000))
    200
    """
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def value_text(value: Any) -> str:
    """Return a Python value as it is shown in a message: shortened, and times as in SQL.

    >>> import datetime as dt
    >>> from parsieve.predicate.messages import value_text
    >>> value_text([dt.datetime(2026, 1, 1), dt.date(2026, 1, 31)])
    '[2026-01-01 00:00:00, 2026-01-31]'
    """
    return _Texts().repr(value)


class _Texts(reprlib.Repr):
    """Shortens values. Python's `repr` of a datetime is longer than the limit, and would be cut in the middle."""

    def repr1(self, x: Any, level: int) -> str:
        """Return the text of a value, or of an element of a list."""
        is_time = isinstance(x, dt.date | dt.time) or (isinstance(x, pa.Scalar) and pa.types.is_temporal(x.type))
        is_numpy_time = getattr(x, "ndim", None) == 0 and getattr(getattr(x, "dtype", None), "kind", None) == "M"
        if is_time or is_numpy_time:
            try:
                return shortened(str(x))
            except (OverflowError, ValueError):
                # Python has no such time.
                return shortened(repr(x.cast(pa.int64() if x.type.bit_width == 64 else pa.int32())))
        return super().repr1(x, level)


def type_name(kind: pa.DataType) -> str:
    """Return a type with its article, as in "a string" or "a decimal(10, 2)"."""
    types = pa.types
    if types.is_boolean(kind):
        return "a boolean"
    if types.is_integer(kind):
        return f"an {kind}" if types.is_signed_integer(kind) else f"a {kind}"
    if types.is_decimal(kind):
        return f"a decimal({kind.precision}, {kind.scale})"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "a string"
    if types.is_fixed_size_binary(kind):
        return f"a binary of {kind.byte_width} bytes"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return "a binary"
    if types.is_date(kind):
        return "a date"
    if types.is_timestamp(kind):
        return f"a timestamp with{'out a' if kind.tz is None else ' a'} time zone"
    if types.is_time(kind):
        return "a time of day"
    if types.is_floating(kind):
        return {16: "a half float", 32: "a float", 64: "a double"}[kind.bit_width]
    return f"of type {kind}"

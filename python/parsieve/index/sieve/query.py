"""What is asked of one column of an index. Literals are of the column's own type; doubt about them keeps everything."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from parsieve import _core


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A question about one column; made by the functions of this module."""

    kind: str
    values: pa.Array | pa.ChunkedArray | None = None
    low: pa.Scalar | None = None
    high: pa.Scalar | None = None
    low_strict: bool = False
    high_strict: bool = False
    start: bytes = b""

    def on(self, axis: _core.SieveAxis) -> _core.SieveQuery:
        """The question in keys. `TypeError` where a literal is of another kind than the column."""
        made = _core.SieveQuery
        if self.kind == "in":
            assert self.values is not None
            return made.points(axis, self.values)
        if self.kind == "between":
            strict = {"low_strict": self.low_strict, "high_strict": self.high_strict}
            return made.between(axis, _column(self.low), _column(self.high), **strict)
        if self.kind == "prefix":
            return made.prefix(axis, self.start)
        sides = {"null": made.null, "not null": made.not_null, "nan": made.nan}
        return sides[self.kind](axis)


def equals(value: pa.Scalar) -> Query:
    """Equal to a value.

    >>> import pyarrow as pa
    >>> from parsieve.index import query
    >>> query.equals(pa.scalar(42)).kind
    'in'
    """
    return Query("in", values=_one(value))


def is_in(values: pa.Array | pa.ChunkedArray) -> Query:
    """Equal to one of many values; nulls among them equal nothing."""
    return Query("in", values=values)


def between(
    low: pa.Scalar | None, high: pa.Scalar | None, *, low_strict: bool = False, high_strict: bool = False
) -> Query:
    """From a value to a value; None leaves that side open."""
    return Query("between", low=low, high=high, low_strict=low_strict, high_strict=high_strict)


def prefix(start: str | bytes) -> Query:
    """Text or binary that begins so."""
    return Query("prefix", start=start.encode() if isinstance(start, str) else start)


def is_null() -> Query:
    """No value."""
    return Query("null")


def is_not_null() -> Query:
    """A value."""
    return Query("not null")


def is_nan() -> Query:
    """Not a number."""
    return Query("nan")


def _column(value: pa.Scalar | None) -> pa.Array | None:
    return None if value is None else _one(value)


def _one(value: pa.Scalar) -> pa.Array:
    """A value as an array of one, by Arrow itself: Python's times have no nanoseconds."""
    return pa.repeat(value, 1)

"""Queries to one column of an index. Literals have the type of the column."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from parsieve import _core


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A query to one column. Use the functions of this module to create one."""

    kind: str
    values: pa.Array | pa.ChunkedArray | None = None
    low: pa.Scalar | None = None
    high: pa.Scalar | None = None
    low_strict: bool = False
    high_strict: bool = False
    start: bytes = b""

    def on(self, axis: _core.SieveAxis) -> _core.SieveQuery:
        """Encode the query for a column. Raises `TypeError` if a literal's type differs from the column's."""
        factory = _core.SieveQuery
        if self.kind == "in":
            assert self.values is not None
            return factory.points(axis, self.values)
        if self.kind == "between":
            strict = {"low_strict": self.low_strict, "high_strict": self.high_strict}
            return factory.between(axis, _array_or_none(self.low), _array_or_none(self.high), **strict)
        if self.kind == "prefix":
            return factory.prefix(axis, self.start)
        by_kind = {"null": factory.null, "not null": factory.not_null, "nan": factory.nan}
        return by_kind[self.kind](axis)


def equals(value: pa.Scalar) -> Query:
    """Query rows that equal a value.

    >>> import pyarrow as pa
    >>> from parsieve.index import query
    >>> query.equals(pa.scalar(42)).kind
    'in'
    """
    return Query("in", values=_array_of(value))


def is_in(values: pa.Array | pa.ChunkedArray) -> Query:
    """Query rows that equal one of many values. Nulls among the values match nothing."""
    return Query("in", values=values)


def between(
    low: pa.Scalar | None, high: pa.Scalar | None, *, low_strict: bool = False, high_strict: bool = False
) -> Query:
    """Query rows between two values. None leaves that side open."""
    return Query("between", low=low, high=high, low_strict=low_strict, high_strict=high_strict)


def prefix(start: str | bytes) -> Query:
    """Query strings or binary values that start with this prefix."""
    return Query("prefix", start=start.encode() if isinstance(start, str) else start)


def is_null() -> Query:
    """Query rows without a value."""
    return Query("null")


def is_not_null() -> Query:
    """Query rows with a value."""
    return Query("not null")


def is_nan() -> Query:
    """Query rows that are NaN."""
    return Query("nan")


def _array_or_none(value: pa.Scalar | None) -> pa.Array | None:
    return None if value is None else _array_of(value)


def _array_of(value: pa.Scalar) -> pa.Array:
    """Return an array with this value. Converting to a Python datetime instead would lose nanoseconds."""
    return pa.repeat(value, 1)

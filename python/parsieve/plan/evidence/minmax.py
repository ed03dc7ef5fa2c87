"""Minima, maxima and counts against questions: of constant columns, of the lake's own metadata, of footers."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.lake.slices import PartitionColumn
from parsieve.plan.evidence.base import Evidence
from parsieve.plan.evidence.questions import (
    Among,
    Begins,
    Beyond,
    HasNan,
    HasNull,
    HasValue,
    Outside,
    Question,
    Within,
    comparable,
)
from parsieve.predicate.expr import Column, Literal

# So many values are compared one by one; more are searched for in order.
FEW = 8


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBounds:
    """What is certain of a column, unit by unit; null is what is not known. No value that is no NaN lies outside."""

    lower: pa.Array
    upper: pa.Array
    nulls: pa.Array
    # Values, nulls and NaNs too.
    values: pa.Array
    nans: pa.Array | None = None
    # Whether all values are certainly of the column's type; None where nobody looked.
    fits: pa.BooleanArray | None = None


class MinMax(Evidence):
    """Bounds of columns as evidence."""

    def __init__(self, name: str, bounds: Callable[[Column], ColumnBounds | None]) -> None:
        self.name = name
        self._read = bounds
        self._bounds: dict[tuple[str, ...], ColumnBounds | None] = {}

    def bounds(self, column: Column) -> ColumnBounds | None:
        """What is known of a column."""
        if column.path not in self._bounds:
            self._bounds[column.path] = self._read(column)
        return self._bounds[column.path]

    def may_match(self, question: Question, wanted: pa.BooleanArray) -> pa.BooleanArray | None:
        """Compares all units at once."""
        bounds = self.bounds(question.column)
        return None if bounds is None else may_match(question, bounds)

    def describe(self, question: Question, unit: int) -> str:
        """Describe the bounds of one unit."""
        bounds = self.bounds(question.column)
        assert bounds is not None
        nulls, values = bounds.nulls[unit].as_py(), bounds.values[unit].as_py()
        if values is not None and nulls == values:
            return "all values are null" if values else "it has no rows"
        if isinstance(question, Beyond):
            return f"all values are of type {question.column.value_type}"
        if isinstance(question, HasNull):
            return "no nulls"
        if isinstance(question, HasNan):
            return "no NaN"
        lower, upper = (
            Literal(bound[unit]) if bound[unit].is_valid else None for bound in (bounds.lower, bounds.upper)
        )
        if lower is not None and lower == upper:
            return f"every value is {lower}"
        return _between(lower, upper)


def _between(lower: Literal | None, upper: Literal | None) -> str:
    if lower is None and upper is None:
        return "no value matches"
    if lower is None or upper is None:
        return f"every value is at least {lower}" if upper is None else f"every value is at most {upper}"
    return f"values are between {lower} and {upper}"


def may_match(question: Question, bounds: ColumnBounds) -> pa.BooleanArray | None:
    """For each unit, whether a row may answer the question by what is certain of its column."""
    some = _not(pc.equal(bounds.nulls, bounds.values))
    match question:
        case HasNull():
            return _not(pc.equal(bounds.nulls, 0))
        case HasValue():
            return some
        case HasNan():
            if not pa.types.is_floating(question.column.value_type):
                return _all(some, False)
            return some if bounds.nans is None else pc.and_(some, _not(pc.equal(bounds.nans, 0)))
        case Beyond():
            return None if bounds.fits is None else pc.and_(some, pc.invert(bounds.fits))
    try:
        lower, upper = comparable(bounds.lower), comparable(bounds.upper)
        match question:
            case Within():
                return pc.and_(some, _within(question, lower, upper))
            case Among(_, values):
                return pc.and_(some, _among(comparable(values), lower, upper))
            case Outside(_, values):
                constant = pc.and_(pc.equal(lower, upper), pc.is_in(lower, value_set=comparable(values)))
                return pc.and_(some, _not(constant))
            case Begins(_, prefix, opposite):
                return pc.and_(some, _begins(_bytes(prefix), opposite, lower, upper))
    except pa.ArrowNotImplementedError:
        # A type without an order in pyarrow.
        return None
    return None


def _not(excluded: pa.BooleanArray) -> pa.BooleanArray:
    """Where nothing is known, nothing is excluded."""
    return pc.invert(pc.fill_null(excluded, False))


def _all(like: pa.Array, value: bool) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value), len(like))


def _scalar(value: Literal) -> pa.Scalar:
    return comparable(pa.repeat(value.scalar, 1))[0]


def _within(question: Within, lower: pa.Array, upper: pa.Array) -> pa.BooleanArray:
    found = _all(lower, True)
    if question.low is not None:
        below = pc.less_equal if question.low_open else pc.less
        found = pc.and_(found, _not(below(upper, _scalar(question.low))))
    if question.high is not None:
        above = pc.greater_equal if question.high_open else pc.greater
        found = pc.and_(found, _not(above(lower, _scalar(question.high))))
    return found


def _among(values: pa.Array, lower: pa.Array, upper: pa.Array) -> pa.BooleanArray:
    if len(values) <= FEW:
        found = _all(lower, False)
        for value in values:
            found = pc.or_(found, _not(pc.or_kleene(pc.less(upper, value), pc.greater(lower, value))))
        return found
    ordered = _ticks(values.take(pc.array_sort_indices(values)))
    mask = [
        low is None or high is None or bisect_left(ordered, low) < bisect_right(ordered, high)
        for low, high in zip(_ticks(lower), _ticks(upper), strict=True)
    ]
    return pa.array(mask, pa.bool_())


def _ticks(values: pa.Array) -> list[Any]:
    """Python values in the same order; times as what they are stored as, since Python ends at microseconds."""
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    found: list[Any] = values.to_pylist()
    return found


def _bytes(prefix: Literal) -> bytes:
    value = prefix.scalar.as_py()
    return value.encode() if isinstance(value, str) else bytes(value)


def _begins(prefix: bytes, opposite: bool, lower: pa.Array, upper: pa.Array) -> pa.BooleanArray:
    if opposite:
        # Whatever lies between two that begin alike begins so too.
        return _not(pc.and_(pc.starts_with(lower, prefix), pc.starts_with(upper, prefix)))
    found = _not(pc.less(upper, pa.scalar(prefix, upper.type)))
    kept = prefix.rstrip(b"\xff")
    if kept:
        beyond = kept[:-1] + bytes([kept[-1] + 1])
        found = pc.and_(found, _not(pc.greater_equal(lower, pa.scalar(beyond, lower.type))))
    return found


def partitions(columns: Mapping[str, PartitionColumn]) -> MinMax:
    """Return the columns that are constant in each slice as evidence."""

    def bounds(column: Column) -> ColumnBounds | None:
        name = column.path[0]
        if len(column.path) > 1 or name not in columns:
            return None
        numbers = columns[name].numbers
        given = columns[name].values
        nan = [isinstance(value, float) and math.isnan(value) for value in given]
        try:
            distinct = [None if is_nan else value for value, is_nan in zip(given, nan, strict=True)]
            values = pa.array(distinct, column.value_type).take(numbers)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return None

        def counted(flags: Sequence[bool]) -> pa.Array:
            return pa.array([int(flag) for flag in flags], pa.int64()).take(numbers)

        nulls = counted([value is None for value in given])
        return ColumnBounds(values, values, nulls, counted([True] * len(given)), counted(nan), numbers.is_valid())

    return MinMax("partition values", bounds)


def lake_statistics(statistics: Callable[[tuple[str, ...]], Any]) -> MinMax:
    """The lake's own minima and maxima."""

    def bounds(column: Column) -> ColumnBounds | None:
        known = statistics(column.path)
        if known is None or known.lower.type != column.value_type:
            return None
        return ColumnBounds(known.lower, known.upper, known.null_count, known.value_count)

    return MinMax("the table's min/max", bounds)

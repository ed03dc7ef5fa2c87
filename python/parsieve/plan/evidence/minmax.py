"""Evidence from minima, maxima and counts: of partition columns, of the table's metadata, and of footers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.lake.slices import PartitionColumn
from parsieve.plan.evidence.base import Evidence
from parsieve.plan.evidence.questions import (
    HasAnyOf,
    HasInRange,
    HasNan,
    HasNull,
    HasOtherThan,
    HasOtherType,
    HasPrefix,
    HasValue,
    Question,
    comparable,
    sample_of,
)
from parsieve.predicate.expr import Column, Literal

# Up to this many values are compared one by one; more are sorted and searched.
FEW = 8
# Of more values than this, a sample is compared first.
MANY = 10_000
SAMPLE = 1000


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBounds:
    """Proven facts about a column, for each unit; null means unknown. All values but NaN are within the bounds."""

    lower: pa.Array
    upper: pa.Array
    nulls: pa.Array
    # The number of values, including nulls and NaN.
    values: pa.Array
    nans: pa.Array | None = None
    # Whether all values certainly have the column's type; None if unknown.
    fits: pa.BooleanArray | None = None


class MinMax(Evidence):
    """Evidence from the bounds of columns."""

    def __init__(self, name: str, bounds: Callable[[Column], ColumnBounds | None]) -> None:
        self.name = name
        self._read = bounds
        self._bounds: dict[tuple[str, ...], ColumnBounds | None] = {}

    def bounds(self, column: Column) -> ColumnBounds | None:
        """Return the bounds of a column in all units, or None if nothing is known."""
        if column.path not in self._bounds:
            self._bounds[column.path] = self._read(column)
        return self._bounds[column.path]

    def may_match(self, question: Question, candidates: pa.BooleanArray) -> pa.BooleanArray | None:
        """Compare the bounds of all units together."""
        bounds = self.bounds(question.column)
        return None if bounds is None else may_match(question, bounds)

    def describe(self, question: Question, unit: int) -> str:
        """Describe the bounds of one unit."""
        bounds = self.bounds(question.column)
        assert bounds is not None
        nulls, values = bounds.nulls[unit].as_py(), bounds.values[unit].as_py()
        if values is not None and nulls == values:
            return "all values are null" if values else "it has no rows"
        if isinstance(question, HasOtherType):
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
    """Return for each unit whether a row may answer the question, judging by the bounds of its column."""
    # Where there are bounds, there are values. Some writers count too many nulls.
    bounded = pc.or_(pc.is_valid(bounds.lower), pc.is_valid(bounds.upper))
    some = pc.or_(bounded, _not(pc.equal(bounds.nulls, bounds.values)))
    match question:
        case HasNull():
            return _not(pc.equal(bounds.nulls, 0))
        case HasValue():
            return some
        case HasNan():
            if not pa.types.is_floating(question.column.value_type):
                return _all(some, False)
            return some if bounds.nans is None else pc.and_(some, _not(pc.equal(bounds.nans, 0)))
        case HasOtherType():
            return None if bounds.fits is None else pc.and_(some, pc.invert(bounds.fits))
    try:
        lower, upper = comparable(bounds.lower), comparable(bounds.upper)
        match question:
            case HasInRange():
                return pc.and_(some, _in_range(question, lower, upper))
            case HasAnyOf(_, values):
                return pc.and_(some, _any_of(comparable(values), lower, upper))
            case HasOtherThan(_, values):
                constant = pc.and_(pc.equal(lower, upper), pc.is_in(lower, value_set=comparable(values)))
                return pc.and_(some, _not(constant))
            case HasPrefix(_, prefix, opposite):
                return pc.and_(some, _has_prefix(_bytes(prefix), opposite, lower, upper))
    except pa.ArrowNotImplementedError:
        # pyarrow cannot compare this type.
        return None
    return None


def _not(excluded: pa.BooleanArray) -> pa.BooleanArray:
    """Invert a mask of excluded units. A null excludes nothing."""
    return pc.invert(pc.fill_null(excluded, False))


def _all(like: pa.Array, value: bool) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value), len(like))


def _scalar(value: Literal) -> pa.Scalar:
    return comparable(pa.repeat(value.scalar, 1))[0]


def _in_range(question: HasInRange, lower: pa.Array, upper: pa.Array) -> pa.BooleanArray:
    mask = _all(lower, True)
    if question.low is not None:
        below = pc.less_equal if question.low_open else pc.less
        mask = pc.and_(mask, _not(below(upper, _scalar(question.low))))
    if question.high is not None:
        above = pc.greater_equal if question.high_open else pc.greater
        mask = pc.and_(mask, _not(above(lower, _scalar(question.high))))
    return mask


def _any_of(values: pa.Array, lower: pa.Array, upper: pa.Array) -> pa.BooleanArray:
    if len(values) <= FEW:
        mask = _all(lower, False)
        for value in values:
            mask = pc.or_(mask, _not(pc.or_kleene(pc.less(upper, value), pc.greater(lower, value))))
        return mask
    if len(values) > MANY:
        mask = _any_of(sample_of(values, SAMPLE), lower, upper)
        if mask.true_count == len(mask):
            return mask
    return _has_value_between(lower, upper, values)


def _has_value_between(lower: pa.Array, upper: pa.Array, values: pa.Array) -> pa.BooleanArray:
    """Return, for each unit, whether its bounds contain a value. True if a bound is unknown."""
    size = len(lower)
    # The sort is stable, so a value comes after an equal lower bound and before an equal upper bound.
    order = pc.array_sort_indices(pa.concat_arrays([lower, values, upper]))
    is_value = pc.and_(pc.greater_equal(order, size), pc.less(order, size + len(values)))
    # The number of values before each bound, in the order of the units.
    before = pc.cumulative_sum(is_value.cast(pa.int64()))
    is_bound = pc.invert(is_value)
    places = pc.array_sort_indices(order.filter(is_bound))
    numbers = before.filter(is_bound).take(places)
    has_value = pc.less(numbers.slice(0, size), numbers.slice(size))
    return pc.or_(has_value, pc.or_(_is_unknown(lower), _is_unknown(upper)))


def _is_unknown(bounds: pa.Array) -> pa.BooleanArray:
    return pc.is_null(bounds, nan_is_null=pa.types.is_floating(bounds.type))


def _bytes(prefix: Literal) -> bytes:
    value = prefix.scalar.as_py()
    return value.encode() if isinstance(value, str) else bytes(value)


def _has_prefix(prefix: bytes, opposite: bool, lower: pa.Array, upper: pa.Array) -> pa.BooleanArray:
    if opposite:
        # If both bounds begin with the prefix, every value between them does too.
        return _not(pc.and_(pc.starts_with(lower, prefix), pc.starts_with(upper, prefix)))
    mask = _not(pc.less(upper, pa.scalar(prefix, upper.type)))
    incremented = prefix.rstrip(b"\xff")
    if incremented:
        # The least value that is greater than all values with the prefix.
        end = incremented[:-1] + bytes([incremented[-1] + 1])
        mask = pc.and_(mask, _not(pc.greater_equal(lower, pa.scalar(end, lower.type))))
    return mask


def partitions(columns: Mapping[str, PartitionColumn]) -> MinMax:
    """Return evidence from the columns that are constant in each slice."""

    def bounds(column: Column) -> ColumnBounds | None:
        name = column.path[0]
        if len(column.path) > 1 or name not in columns:
            return None
        constants, numbers = columns[name].values, columns[name].numbers
        is_nan = [isinstance(value, float) and math.isnan(value) for value in constants]
        try:
            distinct = [None if nan else value for value, nan in zip(constants, is_nan, strict=True)]
            values = pa.array(distinct, column.value_type).take(numbers)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return None

        def counted(flags: Sequence[bool]) -> pa.Array:
            return pa.array([int(flag) for flag in flags], pa.int64()).take(numbers)

        nulls, nans = counted([value is None for value in constants]), counted(is_nan)
        return ColumnBounds(values, values, nulls, counted([True] * len(constants)), nans, numbers.is_valid())

    return MinMax("partition values", bounds)


def lake_statistics(statistics: Callable[[tuple[str, ...]], Any]) -> MinMax:
    """Return evidence from the minima and maxima in the table's own metadata."""

    def bounds(column: Column) -> ColumnBounds | None:
        of_column = statistics(column.path)
        if of_column is None or of_column.lower.type != column.value_type:
            return None
        return ColumnBounds(of_column.lower, of_column.upper, of_column.null_count, of_column.value_count)

    return MinMax("the table's min/max", bounds)

"""Build typed predicates. A literal that the column's type cannot represent becomes its nearest value, exactly."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from typing import Literal as OneOf

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.predicate.expr import (
    Always,
    And,
    Column,
    Compare,
    Expr,
    HasToken,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Operator,
    Or,
    OutOfType,
    StartsWith,
    Unknown,
    all_of,
    any_of,
)
from parsieve.predicate.literals import DecimalLiteral, NearestValues, Value, decimal_literal, nearest_values
from parsieve.predicate.messages import NotUnderstoodError, shortened, type_name
from parsieve.predicate.text.folding import certain_runs, is_certain
from parsieve.predicate.text.like import Pattern, Wildcard
from parsieve.predicate.text.regex import AllOf, AnyOf, Required
from parsieve.predicate.text.trigrams import TRIGRAM
from parsieve.predicate.text.words import is_word, words_of
from parsieve.predicate.times.numpy_times import has_multiple_steps, to_arrow_scalar
from parsieve.predicate.times.pandas_times import has_nanoseconds, is_nat, nanosecond_type
from parsieve.predicate.times.steps import first_of_year, step_around
from parsieve.predicate.times.temporal import DAY_NANOS, NANOS, Clock, Day, Moment, to_moment

StepForm = OneOf["timestamp", "date", "year"]

# `5 < x` is `x > 5`.
MIRRORED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of a comparison: a column, or the hour, day, month or year that contains its timestamp."""

    column: Column
    # The step of the calendar, and how its beginning is written: as a timestamp, a date, or the number of the year.
    step: str | None = None
    form: StepForm = "timestamp"
    # Whether the column is cast to a type that can hold all values of the column's type, but not of wider types.
    cast: bool = False


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds typed predicates. `zone` is the time zone of literals without one."""

    zone: str | None = None

    def compare(self, operand: Operand, op: Operator, value: Value | None) -> Expr:
        """Build `operand op value`; None is null."""
        if value is None:
            return Always(None)
        if operand.step is not None:
            return self._compare_step(operand, operand.step, op, value)
        column = operand.column
        nearest = self._nearest_values(column, value, op)
        compared = _compare_nearest(column, op, nearest, format_value(value))
        if operand.cast and nearest.exact and op in ("=", "!="):
            # A file may store a wider type, whose values the cast may round to this value.
            rounded = OutOfType(column, f"{column} = {format_value(value)}")
            return Or((compared, rounded)) if op == "=" else And((compared, Not(rounded)))
        return compared

    def _nearest_values(self, column: Column, value: Value, op: str) -> NearestValues:
        """Return the column's nearest values; an error names the column."""
        try:
            return nearest_values(value, column.value_type, self.zone)
        except NotUnderstoodError as error:
            raise NotUnderstoodError(error.about(str(column), op)) from None

    def _compare_step(self, operand: Operand, step: str, op: Operator, value: Value) -> Expr:
        """Build a comparison of a step, such as the hour that contains a timestamp, as a comparison of the timestamp.

        A later timestamp never has an earlier step. So the step of a timestamp begins before a value exactly if the
        timestamp is before the first step that begins at the value or later. The other operators follow from this.
        """
        column = operand.column
        nanos = self._step_value(operand, value, op)
        begin, end = (Moment(Fraction(bound), is_zoned(column)) for bound in step_around(step, nanos))
        starts_step = nanos == begin.nanos
        timestamp = Operand(column)
        match op:
            case "<" | ">=":
                return self.compare(timestamp, op, begin if starts_step else end)
            case "<=":
                return self.compare(timestamp, "<", end)
            case ">":
                return self.compare(timestamp, ">=", end)
            case "=" | "!=" if not starts_step:
                text = f"the {step} of {column} {op} {format_value(value)}"
                return false_unless_null(column, text) if op == "=" else true_unless_null(column, text)
            case "=":
                return And((self.compare(timestamp, ">=", begin), self.compare(timestamp, "<", end)))
            case "!=":
                return Or((self.compare(timestamp, "<", begin), self.compare(timestamp, ">=", end)))

    def _step_value(self, operand: Operand, value: Value, op: str) -> Fraction:
        """Return the nanoseconds of a value that is compared with a step."""
        column = operand.column
        if operand.form == "year":
            if isinstance(value, bool) or not isinstance(value, Fraction) or value.denominator != 1:
                raise NotUnderstoodError(f"the year of {column} is a whole number; write 2026")
            return Fraction(first_of_year(value.numerator))
        if operand.form == "date":
            days = nearest_values(value, pa.date32(), self.zone)
            if not days.exact:
                raise NotUnderstoodError(
                    f"the date of {column} cannot be compared with a time; write DATE '2026-01-31'"
                )
            return Fraction(days.floor.cast(pa.int32()).as_py() * DAY_NANOS)
        try:
            return to_moment(value, is_zoned(column), self.zone).nanos
        except NotUnderstoodError as error:
            raise NotUnderstoodError(error.about(str(column), op)) from None

    def contains(self, operand: Operand, values: Iterable[Value | None]) -> Expr:
        """Build `operand IN (values)`. If a value is None, the result is null instead of false, as in SQL."""
        values = list(values)
        column = operand.column
        nulls: tuple[Expr, ...] = (Always(None),) if None in values else ()
        not_null = [value for value in values if value is not None]
        if operand.step is not None:
            return any_of(*(self.compare(operand, "=", value) for value in not_null), *nulls)
        nearest = [self._nearest_values(column, value, "IN") for value in not_null]
        members = pa.array([value.floor for value in nearest if value.exact], column.value_type)
        # Values that the type cannot represent match no row of this type, but a file may store a wider type.
        others = [
            format_value(value) for value, near in zip(not_null, nearest, strict=True) if operand.cast or not near.exact
        ]
        if len(members) or not others:
            return any_of(column_in(column, members), *out_of_type_leaf(column, others), *nulls)
        return any_of(*out_of_type_leaf(column, others), *nulls)

    def starts_with(self, operand: Operand, prefix: Value | None) -> Expr:
        """Build `operand STARTS WITH prefix`, for text or bytes."""
        if prefix is None:
            return Always(None)
        column = operand.column
        if operand.step is not None or not (is_text(column.value_type) or is_bytes(column.value_type)):
            raise NotUnderstoodError(
                f"{column} is {type_name(column.value_type)}; only strings and binaries have prefixes"
            )
        if not isinstance(prefix, str if is_text(column.value_type) else bytes):
            raise NotUnderstoodError(f"{column} is {type_name(column.value_type)}, and the prefix is of another type")
        return (
            StartsWith(column, Literal(prefix_scalar(prefix, column.value_type)))
            if prefix
            else true_unless_null(column)
        )

    def like(self, operand: Operand, pattern: Pattern, *, ignore_case: bool = False) -> Expr:
        """Build `operand LIKE pattern`, or ILIKE."""
        column, texts = operand.column, [token for token in pattern if isinstance(token, str)]
        _require_text(operand, texts)
        if not ignore_case or not texts:
            match pattern:
                case ():
                    return self.compare(operand, "=", "")
                case (str(text),):
                    return self.compare(operand, "=", text)
                case (Wildcard.ANY,):
                    return true_unless_null(column)
                case (str(text), Wildcard.ANY):
                    return self.starts_with(operand, text)
        if not ignore_case:
            like = Like(column, pattern)
            # Minima and maxima answer for the beginning.
            first = pattern[0]
            return And((self.starts_with(operand, first), like)) if isinstance(first, str) else like
        if Wildcard.ONE not in pattern and all(is_certain(text) for text in texts):
            return Like(column, pattern, ignore_case=True)
        instead = "" if column.is_computed or column.is_repeated else f" (compare lower({column}) instead)"
        raise NotUnderstoodError(
            f"engines disagree about ILIKE for _, for the letters I, K and S, and for non-ASCII characters{instead}"
        )

    def has_token(self, operand: Operand, word: Value | None) -> Expr:
        """Build a test for texts that have a word."""
        if word is None:
            return Always(None)
        if not isinstance(word, str) or not is_word(word):
            tests = [f"has_token({operand.column}, '{part}')" for part in words_of(str(word))]
            instead = f"; write {shortened(' AND '.join(tests))}" if len(tests) > 1 else ""
            raise NotUnderstoodError(
                f"a token is one word: only ASCII letters, ASCII digits and non-ASCII characters{instead}"
            )
        _require_text(operand, (word,))
        return HasToken(operand.column, word)

    def requiring(self, operand: Operand, required: Required, *, ignore_case: bool = False) -> Expr | None:
        """Build a condition that is implied by the texts that a pattern requires; None if there is none."""
        _require_text(operand, ())
        if isinstance(required, AnyOf):
            branches = [self.requiring(operand, part, ignore_case=ignore_case) for part in required.parts]
            present = [branch for branch in branches if branch is not None]
            return any_of(*present) if len(present) == len(branches) else None
        if isinstance(required, AllOf):
            parts = [self.requiring(operand, part, ignore_case=ignore_case) for part in required.parts]
        else:
            _require_text(operand, (required,))
            texts = certain_runs(required) if ignore_case else [required]
            # Shorter texts skip no files.
            parts = [
                Like(operand.column, (Wildcard.ANY, text, Wildcard.ANY), ignore_case)
                for text in texts
                if len(text) >= TRIGRAM
            ]
        conditions = [part for part in parts if part is not None]
        return all_of(*conditions) if conditions else None

    def is_null(self, operand: Operand) -> Expr:
        """Build `operand IS NULL`. The hour or day of a timestamp is null if the timestamp is."""
        return IsNull(operand.column)


def is_zoned(column: Column) -> bool:
    """Return whether a column has timestamps with a time zone."""
    return getattr(column.value_type, "tz", None) is not None


def _require_text(operand: Operand, texts: Iterable[str]) -> None:
    """Raise an error unless a column holds text, and the texts of a pattern can be stored."""
    if operand.step is not None or not is_text(operand.column.value_type):
        raise NotUnderstoodError(
            f"{operand.column} is {type_name(operand.column.value_type)}; only strings match a pattern"
        )
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise NotUnderstoodError("the text is not valid Unicode") from None


def is_text(type: pa.DataType) -> bool:
    """Return whether a type holds text."""
    return any(test(type) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def is_bytes(type: pa.DataType) -> bool:
    """Return whether a type holds bytes that are not declared as text."""
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(test(type) for test in tests)


def prefix_scalar(prefix: str | bytes, type: pa.DataType) -> pa.Scalar:
    """Return a prefix of values of `type` as a scalar.

    A prefix of fixed-width values is shorter than they are, so it is a plain binary.
    """
    try:
        return pa.scalar(prefix, pa.binary() if pa.types.is_fixed_size_binary(type) else type)
    except UnicodeEncodeError:
        raise NotUnderstoodError("the text is not valid Unicode") from None


def false_unless_null(column: Column, text: str | None = None) -> Expr:
    """Build a condition that is false if the column has a value, and null if it has none."""
    return OutOfType(column, text or f"{column} IN ()")


def true_unless_null(column: Column, text: str | None = None) -> Expr:
    """Build a condition that is true if the column has a value, and null if it has none."""
    return Not(false_unless_null(column, text))


def out_of_type_leaf(column: Column, others: Sequence[str]) -> tuple[Expr, ...]:
    """Build one leaf for all values of a list that the column's type cannot represent; empty if there are none."""
    if not others:
        return ()
    listed = ", ".join(others[:3]) + (f", and {len(others) - 3} more" if len(others) > 3 else "")
    return (OutOfType(column, f"{column} IN ({listed})" if len(others) > 1 else f"{column} = {listed}"),)


def format_value(value: Value) -> str:
    """Format a value for messages."""
    match value:
        case DecimalLiteral(number):
            return format_value(number)
        case Fraction() if value.denominator == 1:
            # Python refuses to print integers of more than 4,300 digits.
            return str(value.numerator) if abs(value.numerator) < 10**300 else "a number beyond 10^300"
        case Fraction():
            return str(float(value)) if abs(value.numerator) < 10**300 > value.denominator else "a number"
        case Moment(nanos):
            return f"the moment {format_value(nanos)} ns since 1970"
        case Clock(nanos):
            return f"the time {format_value(nanos)} ns after midnight"
        case Day(days):
            return f"day {days} since 1970"
        case str() | bytes():
            return repr(value)
    return str(value)


def _compare_nearest(column: Column, op: Operator, nearest: NearestValues, text: str) -> Expr:
    if nearest.exact:
        if pa.types.is_floating(column.value_type) and math.isnan(nearest.floor.as_py()):
            return _compare_with_nan(column, op, Literal(nearest.floor))
        return Compare(column, op, Literal(nearest.floor))
    match op:
        case "=":
            return false_unless_null(column, f"{column} = {text}")
        case "!=":
            return true_unless_null(column, f"{column} = {text}")
        case "<" | "<=" if nearest.floor is None:
            return false_unless_null(column, f"{column} {op} {text}")
        case ">" | ">=" if nearest.ceil is None and pa.types.is_time(column.value_type):
            # A column may have the time 24:00:00, which is not a literal.
            return Compare(column, ">", Literal(nearest.floor))
        case ">" | ">=" if nearest.ceil is None:
            return false_unless_null(column, f"{column} {op} {text}")
        # The bounds of a file are values of this type, and the type has no value between the literal and its neighbor.
        # So comparing with the neighbor gives the same result for the bounds, also below NOT.
        case "<" | "<=":
            return Compare(column, "<=", Literal(nearest.floor))
        case ">" | ">=":
            return Compare(column, ">=", Literal(nearest.ceil))


def _compare_with_nan(column: Column, op: Operator, nan: Literal) -> Expr:
    # NaN is greater than all other values, and equal to itself.
    match op:
        case "=" | ">=":
            return Compare(column, "=", nan)
        case "!=" | "<":
            return Compare(column, "!=", nan)
        case "<=":
            return true_unless_null(column)
        case ">":
            return false_unless_null(column)


def column_in(column: Column, values: pa.Array, *, are_distinct: bool = False) -> Expr:
    """Build `column IN values`, for values of the column's type without nulls.

    NaN and zero get separate comparisons. Set `are_distinct` if no value occurs twice.
    """
    comparisons: list[Expr] = []
    if pa.types.is_floating(column.value_type):
        is_nan = pc.is_nan(values.cast(pa.float64()))
        is_zero = pc.equal(values.cast(pa.float64()), 0.0)
        for special, value in ((is_nan, math.nan), (is_zero, 0.0)):
            if pc.any(special).as_py():
                comparisons.append(Compare(column, "=", Literal(nearest_values(value, column.value_type).floor)))
        values = values.filter(pc.invert(pc.or_(is_nan, is_zero)))
    values = values if are_distinct else distinct(values)
    if len(values) == 1:
        return any_of(Compare(column, "=", Literal(values[0])), *comparisons)
    if len(values) or not comparisons:
        return any_of(In(column, values) if len(values) else false_unless_null(column), *comparisons)
    return any_of(*comparisons)


def distinct(values: pa.Array) -> pa.Array:
    """Return the distinct values, in their order."""
    try:
        return values.unique()
    except pa.ArrowNotImplementedError:
        # pyarrow's `unique` does not support half floats, 32-bit and 64-bit decimals, and some other types.
        first_positions: dict[Any, int] = {}
        for position, value in enumerate(values):
            first_positions.setdefault(value, position)
        return values.take(pa.array(first_positions.values(), pa.int64()))


def explain_unknown(part: Unknown) -> str:
    """Return a message about a part that was not understood and so excludes nothing."""
    return f"{part.text} excludes nothing: {part.reason}"


def make_unknown(text: str, error: NotUnderstoodError | str) -> Unknown:
    """Build a leaf for a part that was not understood, with the reason."""
    return Unknown(shortened(text), str(error))


def python_value(value: Any) -> Value | None:
    """Convert a Python, numpy or Arrow value; None is null."""
    if isinstance(value, pa.Scalar):
        return scalar_value(value)
    if hasattr(value, "dtype") and hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        # A numpy scalar or an array of dimension 0. Arrow knows the units of numpy's times.
        if has_multiple_steps(value):
            raise NotUnderstoodError(f"numpy times in steps of several units ({value.dtype}) are not supported")
        if not hasattr(value[()], "dtype"):
            # An array of Python objects.
            return python_value(value[()])
        try:
            return scalar_value(to_arrow_scalar(value[()]))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            raise NotUnderstoodError(f"values of type {value.dtype} are not supported") from None
    if value is None or isinstance(value, bool | str | bytes | float | uuid.UUID):
        return value
    if is_nat(value):
        return None
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, Decimal):
        if value.is_nan():
            return math.nan
        return float(value) if not value.is_finite() else decimal_literal(value)
    if has_nanoseconds(value):
        return scalar_value(pa.scalar(value, nanosecond_type(value)))
    # Arrow converts other subclasses.
    if type(value) in (datetime, date, time):
        return scalar_value(_temporal(value))
    if isinstance(value, timedelta):
        raise NotUnderstoodError("durations are not supported")
    try:
        return scalar_value(pa.scalar(value))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise NotUnderstoodError(f"values of type {type(value).__qualname__} are not supported") from None


def _temporal(value: datetime | date | time) -> pa.Scalar:
    if isinstance(value, datetime):
        offset = value.utcoffset()
        if offset is not None:
            # Near the ends of Python's range, the moment in UTC is no `datetime`.
            elapsed = value.replace(tzinfo=None) - datetime(1970, 1, 1)
            microseconds = elapsed // timedelta(microseconds=1) - offset // timedelta(microseconds=1)
            return pa.scalar(microseconds, pa.int64()).cast(pa.timestamp("us", "UTC"))
        return pa.scalar(value, pa.timestamp("us"))
    if isinstance(value, time):
        if value.tzinfo is not None:
            raise NotUnderstoodError("times of day with a time zone are not supported")
        return pa.scalar(value, pa.time64("us"))
    return pa.scalar(value, pa.date32())


def scalar_value(scalar: pa.Scalar) -> Value | None:
    """Convert an Arrow scalar; None is null."""
    if isinstance(scalar.type, pa.BaseExtensionType):
        scalar = scalar.value
    if scalar is None or not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_dictionary(kind):
        return scalar_value(scalar.value)
    types = pa.types
    if types.is_boolean(kind) or is_text(kind) or is_bytes(kind):
        try:
            value: Value = scalar.as_py()
        except UnicodeDecodeError:
            raise NotUnderstoodError("the text is not valid UTF-8") from None
        return value
    if types.is_integer(kind):
        return Fraction(scalar.as_py())
    if types.is_floating(kind):
        return float(scalar.as_py())
    if types.is_decimal(kind):
        return DecimalLiteral(Fraction(scalar.as_py()))
    if types.is_date32(kind):
        return Day(scalar.cast(pa.int32()).as_py())
    if types.is_date64(kind):
        return Moment(Fraction(scalar.cast(pa.int64()).as_py() * 10**6), False)
    if types.is_timestamp(kind):
        return Moment(Fraction(scalar.cast(pa.int64()).as_py() * NANOS[kind.unit]), kind.tz is not None)
    if types.is_time(kind):
        storage = pa.int32() if kind.bit_width == 32 else pa.int64()
        return Clock(Fraction(scalar.cast(storage).as_py() * NANOS[kind.unit]))
    raise NotUnderstoodError(f"values of type {kind} are not supported")

"""Typed forms from columns and values: what is not of the column's type is said with the values beside it, exactly."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.predicate.expr import (
    Always,
    And,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    OutOfType,
    StartsWith,
    Unknown,
    either,
    value_type,
)
from parsieve.predicate.literals import NANOS, Clock, Day, Moment, Nearest, Place, UnlikeError, Value, place
from parsieve.predicate.messages import shortened, type_name
from parsieve.predicate.numpy_times import in_steps, scalar_of

# `5 < x` is `x > 5`.
MIRRORED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Operand:
    """What stands on one side of a comparison: a column as it is, or the day of its timestamp."""

    column: Column
    day: bool = False
    # Whether it is cast to a type that holds all values of its own, but not those of wider types.
    cast: bool = False


@dataclass(frozen=True, slots=True)
class Builder:
    """Makes typed forms; `zone` is where clocks stand that literals without a zone were read from."""

    zone: str | None = None

    def compare(self, operand: Operand, op: Operator, value: Value | None) -> Expr:
        """`operand op value`, where None is null."""
        if value is None:
            return Always(None)
        if operand.day:
            return self._compare_day(operand.column, op, value)
        column = operand.column
        spot = self._place(column, value, op)
        compared = _placed(column, op, spot, shown(value))
        if operand.cast and spot.exact and op in ("=", "!="):
            # Values of a wider type may be rounded to this one.
            rounded = OutOfType(column, f"{column} = {shown(value)}")
            return Or((compared, rounded)) if op == "=" else And((compared, Not(rounded)))
        return compared

    def _place(self, column: Column, value: Value, op: str) -> Place:
        """Where a value lies among those of a column; the error names the column."""
        try:
            return place(value, column.value_type, self.zone)
        except UnlikeError as error:
            raise UnlikeError(error.about(str(column), op)) from None

    def _compare_day(self, column: Column, op: Operator, value: Value) -> Expr:
        """The day of a timestamp: every comparison is one of moments with a midnight."""
        days = place(value, pa.date32(), self.zone)
        if not days.exact:
            raise UnlikeError(f"the date of {column} cannot be compared with a time; write DATE '2026-01-31'")
        first = days.floor.cast(pa.int32()).as_py()
        begin, end = (Moment(Fraction((first + more) * 86_400 * 10**9), _zoned(column)) for more in (0, 1))
        day = Operand(column)
        match op:
            case "<":
                return self.compare(day, "<", begin)
            case "<=":
                return self.compare(day, "<", end)
            case ">":
                return self.compare(day, ">=", end)
            case ">=":
                return self.compare(day, ">=", begin)
            case "=":
                return And((self.compare(day, ">=", begin), self.compare(day, "<", end)))
            case "!=":
                return Or((self.compare(day, "<", begin), self.compare(day, ">=", end)))

    def contains(self, operand: Operand, values: Iterable[Value | None]) -> Expr:
        """`operand IN (values)`; a null among them makes unknown what is not found."""
        values = list(values)
        column = operand.column
        nulls: tuple[Expr, ...] = (Always(None),) if None in values else ()
        given = [value for value in values if value is not None]
        if operand.day:
            return either(*(self._compare_day(column, "=", value) for value in given), *nulls)
        places = [self._place(column, value, "IN") for value in given]
        found = pa.array([spot.floor for spot in places if spot.exact], column.value_type)
        # What no value of the type equals finds no row, and stays a leaf all the same: a file may hold another type.
        others = [shown(value) for value, spot in zip(given, places, strict=True) if operand.cast or not spot.exact]
        if len(found) or not others:
            return either(members(column, found), *among_others(column, others), *nulls)
        return either(*among_others(column, others), *nulls)

    def starts_with(self, operand: Operand, prefix: Value | None) -> Expr:
        """Whether text or bytes begin with `prefix`."""
        if prefix is None:
            return Always(None)
        column = operand.column
        if operand.day or not (is_text(column.value_type) or is_bytes(column.value_type)):
            raise UnlikeError(f"{column} is {type_name(column.value_type)}; only strings and binaries have prefixes")
        if not isinstance(prefix, str if is_text(column.value_type) else bytes):
            raise UnlikeError(f"{column} is {type_name(column.value_type)}, and the prefix is of another type")
        return StartsWith(column, Literal(prefix_scalar(prefix, column.value_type))) if prefix else present(column)

    def is_null(self, operand: Operand) -> Expr:
        """Whether there is no value: the day of a timestamp is null where the timestamp is."""
        return IsNull(operand.column)


def _zoned(column: Column) -> bool:
    return getattr(column.value_type, "tz", None) is not None


def is_text(type: pa.DataType) -> bool:
    """Whether a type holds text."""
    return any(test(type) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def is_bytes(type: pa.DataType) -> bool:
    """Whether a type holds bytes that no one knows to be text."""
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(test(type) for test in tests)


def prefix_scalar(prefix: str | bytes, type: pa.DataType) -> pa.Scalar:
    """A prefix of values of `type`; of a fixed width it is shorter than they are, and so of another type."""
    try:
        return pa.scalar(prefix, pa.binary() if pa.types.is_fixed_size_binary(type) else type)
    except UnicodeEncodeError:
        raise UnlikeError("the text is not valid Unicode") from None


def never(column: Column, text: str | None = None) -> Expr:
    """Return what is false where the column has a value, and null where it has none."""
    return OutOfType(column, text or f"{column} IN ()")


def present(column: Column, text: str | None = None) -> Expr:
    """Return what is true where the column has a value, and null where it has none."""
    return Not(never(column, text))


def among_others(column: Column, others: Sequence[str]) -> tuple[Expr, ...]:
    """Return one leaf for all values of a list that the column's type cannot hold."""
    if not others:
        return ()
    listed = ", ".join(others[:3]) + (f", and {len(others) - 3} more" if len(others) > 3 else "")
    return (OutOfType(column, f"{column} IN ({listed})" if len(others) > 1 else f"{column} = {listed}"),)


def shown(value: Value) -> str:
    """Return a value as people read it."""
    match value:
        case Nearest(number):
            return shown(number)
        case Fraction() if value.denominator == 1:
            # Python refuses to print more digits than some 4,300.
            return str(value.numerator) if abs(value.numerator) < 10**300 else "a number beyond 10^300"
        case Fraction():
            return str(float(value)) if abs(value.numerator) < 10**300 > value.denominator else "a number"
        case Moment(nanos):
            return f"the moment {shown(nanos)} ns since 1970"
        case Clock(nanos):
            return f"the time {shown(nanos)} ns after midnight"
        case Day(days):
            return f"day {days} since 1970"
        case str() | bytes():
            return repr(value)
    return str(value)


def _placed(column: Column, op: Operator, spot: Place, text: str) -> Expr:
    if spot.exact:
        if pa.types.is_floating(column.value_type) and math.isnan(spot.floor.as_py()):
            return _beside_nan(column, op, Literal(spot.floor))
        return Compare(column, op, Literal(spot.floor))
    match op:
        case "=":
            return never(column, f"{column} = {text}")
        case "!=":
            return present(column, f"{column} = {text}")
        case "<" | "<=" if spot.floor is None:
            return never(column, f"{column} {op} {text}")
        case ">" | ">=" if spot.ceil is None:
            return never(column, f"{column} {op} {text}")
        # A file is judged by bounds that are values of this type, and no such value lies between a value and its
        # neighbour. So this is right for the other values of the file too, and so is the negation.
        case "<" | "<=":
            return Compare(column, "<=", Literal(spot.floor))
        case ">" | ">=":
            return Compare(column, ">=", Literal(spot.ceil))


def _beside_nan(column: Column, op: Operator, nan: Literal) -> Expr:
    # NaN is above all others and equal to itself.
    match op:
        case "=" | ">=":
            return Compare(column, "=", nan)
        case "!=" | "<":
            return Compare(column, "!=", nan)
        case "<=":
            return present(column)
        case ">":
            return never(column)


def members(column: Column, values: pa.Array) -> Expr:
    """`column IN values`, for values of the column's type without nulls; NaN and zeros are compared one by one."""
    apart: list[Expr] = []
    if pa.types.is_floating(column.value_type):
        is_nan = pc.is_nan(values.cast(pa.float64()))
        is_zero = pc.equal(values.cast(pa.float64()), 0.0)
        for special, value in ((is_nan, math.nan), (is_zero, 0.0)):
            if pc.any(special).as_py():
                apart.append(Compare(column, "=", Literal(place(value, column.value_type).floor)))
        values = values.filter(pc.invert(pc.or_(is_nan, is_zero)))
    values = distinct(values)
    if len(values) == 1:
        return either(Compare(column, "=", Literal(values[0])), *apart)
    if len(values) or not apart:
        return either(In(column, values) if len(values) else never(column), *apart)
    return either(*apart)


def distinct(values: pa.Array) -> pa.Array:
    """Return the distinct values, in their order."""
    try:
        return values.unique()
    except pa.ArrowNotImplementedError:
        # pyarrow does this for few types; half floats and short decimals are not among them.
        places: dict[Any, int] = {}
        for number, value in enumerate(values):
            places.setdefault(value, number)
        return values.take(pa.array(places.values(), pa.int64()))


def explained(part: Unknown) -> str:
    """Return what to tell the user about a part that excludes nothing."""
    return f"{part.text} excludes nothing: {part.reason}"


def unknown(text: str, error: UnlikeError | str) -> Unknown:
    """What was not understood, and why."""
    return Unknown(shortened(text), str(error))


def python_value(value: Any) -> Value | None:
    """A value of Python, as tuples hold them."""
    if isinstance(value, pa.Scalar):
        return scalar_value(value)
    if hasattr(value, "dtype") and hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        # A scalar of numpy, or an array around one: Arrow knows the units of its times.
        if in_steps(value):
            raise UnlikeError(f"numpy times in steps of several units ({value.dtype}) are not supported")
        try:
            return scalar_value(scalar_of(value[()]))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            raise UnlikeError(f"values of type {value.dtype} are not supported") from None
    if value is None or isinstance(value, bool | str | bytes | float | uuid.UUID):
        return value
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, Decimal):
        return float(value) if not value.is_finite() else Nearest(Fraction(value))
    # Subclasses such as pandas.Timestamp have nanoseconds that only Arrow reads.
    if type(value) in (datetime, date, time):
        return scalar_value(_temporal(value))
    if isinstance(value, timedelta):
        raise UnlikeError("durations are not supported")
    try:
        return scalar_value(pa.scalar(value))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise UnlikeError(f"values of type {type(value).__qualname__} are not supported") from None


def _temporal(value: datetime | date | time) -> pa.Scalar:
    if isinstance(value, datetime):
        offset = value.utcoffset()
        if offset is not None:
            return pa.scalar(value.replace(tzinfo=None) - offset, pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
        return pa.scalar(value, pa.timestamp("us"))
    if isinstance(value, time):
        if value.tzinfo is not None:
            raise UnlikeError("times of day with a time zone are not supported")
        return pa.scalar(value, pa.time64("us"))
    return pa.scalar(value, pa.date32())


def scalar_value(scalar: pa.Scalar) -> Value | None:
    """An Arrow scalar as the value that it stands for."""
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
            raise UnlikeError("the text is not valid UTF-8") from None
        return value
    if types.is_integer(kind):
        return Fraction(scalar.as_py())
    if types.is_floating(kind):
        return float(scalar.as_py())
    if types.is_decimal(kind):
        return Nearest(Fraction(scalar.as_py()))
    if types.is_date32(kind):
        return Day(scalar.cast(pa.int32()).as_py())
    if types.is_date64(kind):
        return Moment(Fraction(scalar.cast(pa.int64()).as_py() * 10**6), False)
    if types.is_timestamp(kind):
        return Moment(Fraction(scalar.cast(pa.int64()).as_py() * NANOS[kind.unit]), kind.tz is not None)
    if types.is_time(kind):
        storage = pa.int32() if kind.bit_width == 32 else pa.int64()
        return Clock(Fraction(scalar.cast(storage).as_py() * NANOS[kind.unit]))
    raise UnlikeError(f"values of type {kind} are not supported")


def cast_value(value: Value | None, to: pa.DataType, zone: str | None) -> Value | None:
    """A literal cast to a type; only casts that change nothing are understood."""
    if value is None:
        return None
    spot = place(value, to, zone)
    if not spot.exact:
        raise UnlikeError(f"the cast to {to} changes the value; write a value of that type")
    return scalar_value(spot.floor)


def cast_operand(operand: Operand, to: pa.DataType, zone: str | None) -> Operand:
    """A column cast to a type; only casts that keep every value, or the day of a timestamp, are understood."""
    have = operand.column.value_type
    if operand.day:
        have = pa.date32()
    if _keeps_values(have, value_type(to)):
        return operand if have == value_type(to) else replace(operand, cast=True)
    if pa.types.is_timestamp(have) and pa.types.is_date(to) and not operand.day:
        if have.tz is None or zone in ("UTC", "Etc/UTC", "Z", "+00:00"):
            return Operand(operand.column, day=True)
        raise UnlikeError(
            f"the date of {operand.column} depends on the time zone; pass timezone='UTC', or compare the timestamp"
        )
    raise UnlikeError(
        f"casting {operand.column} from {have} to {to} may change values; compare {operand.column} itself"
    )


def _keeps_values(have: pa.DataType, to: pa.DataType) -> bool:
    types = pa.types
    if have == to or (is_text(have) and is_text(to)):
        return True
    if types.is_integer(have):
        digits = _digits(have)
        if types.is_integer(to):
            signs = types.is_signed_integer(to) or not types.is_signed_integer(have)
            widens = to.bit_width > have.bit_width or (
                to.bit_width == have.bit_width and types.is_signed_integer(have) == types.is_signed_integer(to)
            )
            return bool(signs and widens)
        if types.is_decimal(to):
            return bool(to.precision - to.scale >= digits)
        return bool(types.is_floating(to)) and bool(have.bit_width < {16: 8, 32: 24, 64: 53}[to.bit_width])
    if types.is_floating(have) and types.is_floating(to):
        return bool(to.bit_width >= have.bit_width)
    if types.is_decimal(have) and types.is_decimal(to):
        return bool(to.scale >= have.scale and to.precision - to.scale >= have.precision - have.scale)
    if types.is_timestamp(have) and types.is_timestamp(to):
        # Finer units overflow far from today; an engine would fail there, and we compare exactly.
        return bool((have.tz is None) == (to.tz is None)) and NANOS[to.unit] <= NANOS[have.unit]
    return bool(types.is_date(have) and types.is_timestamp(to)) and to.tz is None


def _digits(type: pa.DataType) -> int:
    return {8: 3, 16: 5, 32: 10, 64: 20}[type.bit_width]

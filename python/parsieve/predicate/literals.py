"""Find the nearest values of a column's type for a literal: the literal itself, or one on each side. Never round."""

from __future__ import annotations

import math
import re
import struct
import uuid
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from parsieve.predicate.elements import is_list
from parsieve.predicate.messages import NotUnderstoodError, shortened, type_name
from parsieve.predicate.times.temporal import DAY_NANOS, NANOS, Clock, Day, Moment, read_clock, read_moment, to_moment


@dataclass(frozen=True, slots=True)
class DecimalLiteral:
    """A number with a decimal point. Compared with a floating-point column, it means the nearest double."""

    number: Fraction


# Integers and exact decimals are Fractions. A float is exactly that number, including NaN and the infinities.
Value = Fraction | DecimalLiteral | float | str | bytes | bool | Moment | Day | Clock | uuid.UUID


@dataclass(frozen=True, slots=True)
class NearestValues:
    """The values of a type on both sides of a literal, as scalars; both are the literal if the type can hold it."""

    # None if the type has no value on that side.
    floor: Any
    ceil: Any
    exact: bool

    @classmethod
    def exactly(cls, scalar: pa.Scalar) -> NearestValues:
        """Return the result for a literal that is a value of the type."""
        return cls(scalar, scalar, True)


def nearest_values(value: Value, type: pa.DataType, zone: str | None = None) -> NearestValues:
    """Return the values of `type` that are nearest to `value`.

    `zone` is the time zone of timestamps without one. Raises `NotUnderstoodError` if the two cannot be compared.
    """
    types = pa.types
    if types.is_boolean(type):
        if isinstance(value, bool):
            return NearestValues.exactly(pa.scalar(value, type))
        raise NotUnderstoodError("{column} is a boolean; compare it with TRUE or FALSE")
    if types.is_integer(type):
        bits, signed = type.bit_width, types.is_signed_integer(type)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return _nearest_integers(_number(value, type), low, high, lambda number: pa.scalar(number, type))
    if types.is_decimal(type):
        scaled = _number(value, type)
        if isinstance(scaled, float) and math.isfinite(scaled):
            # Some engines compare a float with a decimal as doubles, others as decimals. Accept only floats for which
            # both give the same result.
            scaled = Fraction(scaled)
            if (scaled * Fraction(10) ** type.scale).denominator != 1:
                raise NotUnderstoodError(
                    f"{{column}} is {type_name(type)}, and the float {float(scaled)!r} is not exactly such a decimal; "
                    "pass a Decimal"
                )
        scaled = scaled if isinstance(scaled, float) else scaled * Fraction(10) ** type.scale
        most = 10**type.precision - 1
        return _nearest_integers(scaled, -most, most, lambda number: pa.scalar(_decimal(number, type.scale), type))
    if types.is_floating(type):
        return _nearest_floats(value, type)
    if types.is_date(type):
        return _nearest_dates(value, type)
    if types.is_timestamp(type):
        return _nearest_timestamps(value, type, zone)
    if types.is_time(type):
        clock = read_clock(value) if isinstance(value, str) else value
        if not isinstance(clock, Clock):
            raise NotUnderstoodError("{column} is a time of day; write '12:30:00'")
        if not 0 <= clock.nanos < DAY_NANOS:
            # DuckDB writes 24:00:00, which Polars reads as null.
            raise NotUnderstoodError("engines disagree about times outside of a day, such as 24:00:00")
        per = NANOS[type.unit]
        return _nearest_integers(
            clock.nanos / per, 0, DAY_NANOS // per - 1, lambda number: _integer_scalar(number, type)
        )
    if types.is_string(type) or types.is_large_string(type) or types.is_string_view(type):
        if isinstance(value, str):
            try:
                return NearestValues.exactly(pa.scalar(value, type))
            except UnicodeEncodeError:
                raise NotUnderstoodError("the text is not valid Unicode") from None
        raise NotUnderstoodError("{column} is a string", _as_text(value))
    if _is_binary(type):
        return _nearest_binaries(value, type)
    if is_list(type):
        raise NotUnderstoodError("{column} is a list; test its elements, as in list_contains({column}, 'a')")
    raise NotUnderstoodError(
        f"{{column}} is {type_name(type)}, and comparisons with columns of that type are not supported"
    )


def _as_text(value: Value) -> str:
    """Return the SQL string literal that the user may have meant."""
    if isinstance(value, DecimalLiteral):
        value = value.number
    if isinstance(value, Fraction):
        is_integer = value.denominator == 1
        return f"'{value.numerator}'" if is_integer and abs(value.numerator) < 10**40 else "'...'"
    return f"'{value}'" if isinstance(value, uuid.UUID) else "'...'"


def _is_binary(type: pa.DataType) -> bool:
    return any(
        test(type)
        for test in (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_binary_view,
        )
    )


def _nearest_integers(number: Fraction | float, low: int, high: int, scalar: Any) -> NearestValues:
    """Return the integers from `low` to `high` that are nearest to a number, as scalars."""
    if isinstance(number, float):
        if math.isnan(number):
            raise NotUnderstoodError("only floating-point columns can contain NaN")
        if math.isinf(number):
            return NearestValues(scalar(high), None, False) if number > 0 else NearestValues(None, scalar(low), False)
        number = Fraction(number)
    floor, ceil = math.floor(number), math.ceil(number)
    if ceil < low:
        return NearestValues(None, scalar(low), False)
    if floor > high:
        return NearestValues(scalar(high), None, False)
    if floor == ceil:
        return NearestValues.exactly(scalar(floor))
    return NearestValues(scalar(floor) if floor >= low else None, scalar(ceil) if ceil <= high else None, False)


def _integer_scalar(number: int, type: pa.DataType) -> pa.Scalar:
    storage = pa.int32() if type.bit_width == 32 else pa.int64()
    return pa.scalar(number, storage).cast(type)


def _decimal(unscaled: int, scale: int) -> Decimal:
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((1 if unscaled < 0 else 0, digits, -scale))


_NUMBER = re.compile(r"[+-]?(\d{1,1000}(\.\d{0,1000})?|\.\d{1,1000})([eE][+-]?\d{1,3})?")
_LARGE_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")


def _number(value: Value, type: pa.DataType) -> Fraction | float:
    if isinstance(value, DecimalLiteral):
        return value.number
    if isinstance(value, str):
        return read_number(value).number
    if isinstance(value, bytes) and 0 < len(value) <= 8:
        # `0x0a` is a binary literal, as X'0A' is.
        raise NotUnderstoodError(f"{{column}} is {type_name(type)}, not binary", str(int.from_bytes(value)))
    if isinstance(value, bool) or not isinstance(value, Fraction | float):
        raise NotUnderstoodError(f"{{column}} is {type_name(type)}; compare it with a number")
    return value


def read_number(text: str) -> DecimalLiteral:
    """Read a number as SQL writes it."""
    if _NUMBER.fullmatch(text) is None:
        if len(text) > 1000:
            raise NotUnderstoodError(f"numbers of more than 1,000 digits are not supported; this one has {len(text):,}")
        if _LARGE_EXPONENT.fullmatch(text) is not None:
            raise NotUnderstoodError("numbers with an exponent of more than three digits are not supported")
        raise NotUnderstoodError(f"{shortened(repr(text))} is not a number")
    return DecimalLiteral(Fraction(text))


def decimal_literal(number: Decimal) -> DecimalLiteral:
    """Return the literal of a finite decimal. An exponent such as 999,999,999 would need a gigabyte of digits."""
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if max(abs(exponent), abs(number.adjusted())) > 1000:
        raise NotUnderstoodError("decimals of more than 1,000 digits are not supported")
    return DecimalLiteral(Fraction(number))


_SPECIAL = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "-inf": -math.inf, "-infinity": -math.inf}


def _nearest_floats(value: Value, type: pa.DataType) -> NearestValues:
    if isinstance(value, str) and value.lower() in _SPECIAL:
        value = _SPECIAL[value.lower()]
    number = _number(value, type)
    try:
        nearest_double = float(number)
    except OverflowError:
        # It is infinite for DuckDB and Python, an error for Spark, and a finite number for exact arithmetic.
        limit = "inf" if number > 0 else "-inf"
        raise NotUnderstoodError(
            f"the number is too large for a double, and engines disagree about it; write '{limit}'"
        ) from None
    if isinstance(value, DecimalLiteral | str):
        number = nearest_double
    bits: int = type.bit_width
    if isinstance(number, float) and not math.isfinite(number):
        return NearestValues.exactly(_float_scalar(number, type))
    exact = Fraction(number)
    near = _round_to_width(exact, bits)
    if math.isfinite(near) and Fraction(near) == exact:
        # Adding 0.0 removes the sign of zero: both zeros are equal.
        return NearestValues.exactly(_float_scalar(near + 0.0, type))
    below = near if near < exact else _adjacent_float(near, -math.inf, bits)
    above = near if near > exact else _adjacent_float(near, math.inf, bits)
    return NearestValues(_float_scalar(below, type), _float_scalar(above, type), False)


def _float_scalar(number: float, type: pa.DataType) -> pa.Scalar:
    if type.bit_width == 16:
        return pa.scalar(number, pa.float32()).cast(type)
    return pa.scalar(number, type)


# The formats of `struct` for floats of each width, and for integers of the same width.
_PACKED = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}


def _round_to_width(exact: Fraction, bits: int) -> float:
    """Round to a float of this width. The result may be on either side, and it may not be the very nearest float."""
    try:
        return float(struct.unpack(_PACKED[bits][0], struct.pack(_PACKED[bits][0], float(exact)))[0])
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _adjacent_float(number: float, towards: float, bits: int) -> float:
    """Return the next float of a width, in the direction of `towards`."""
    as_float, as_integer = _PACKED[bits]
    if number == 0:
        smallest = float(struct.unpack(as_float, struct.pack(as_integer, 1))[0])
        return smallest if towards > 0 else -smallest
    pattern = int(struct.unpack(as_integer, struct.pack(as_float, number))[0])
    # Among floats of one sign, the bit patterns are in the order of the magnitudes.
    away_from_zero = (towards > number) == (number > 0)
    return float(struct.unpack(as_float, struct.pack(as_integer, pattern + (1 if away_from_zero else -1)))[0])


def _nearest_dates(value: Value, type: pa.DataType) -> NearestValues:
    if isinstance(value, str):
        value = read_moment(value)
        if isinstance(value, Moment) and value.nanos % DAY_NANOS == 0 and not value.zoned:
            value = Day(int(value.nanos // DAY_NANOS))
    if isinstance(value, Moment) and not value.zoned:
        days = value.nanos / DAY_NANOS
    elif isinstance(value, Day):
        days = Fraction(value.days)
    else:
        if isinstance(value, Moment):
            raise NotUnderstoodError("{column} is a date and the value has a time zone; write a date")
        raise NotUnderstoodError("{column} is a date; write DATE '2026-01-31'")
    if pa.types.is_date32(type):
        return _nearest_integers(
            days, -(1 << 31), (1 << 31) - 1, lambda number: pa.scalar(number, pa.int32()).cast(type)
        )
    most = (1 << 63) // 86_400_000
    return _nearest_integers(
        days, -most, most - 1, lambda number: pa.scalar(number * 86_400_000, pa.int64()).cast(type)
    )


def _nearest_timestamps(value: Value, type: pa.DataType, zone: str | None) -> NearestValues:
    moment = to_moment(value, True if type.tz is not None else None, zone)
    if type.tz is None and moment.zoned:
        raise NotUnderstoodError("the value has a time zone and {column} has none; write the value without a zone")
    per = NANOS[type.unit]
    return _nearest_integers(
        moment.nanos / per, -(1 << 63), (1 << 63) - 1, lambda number: _integer_scalar(number, type)
    )


def _nearest_binaries(value: Value, type: pa.DataType) -> NearestValues:
    if isinstance(value, str) and pa.types.is_fixed_size_binary(type) and type.byte_width == 16:
        try:
            value = uuid.UUID(value)
        except ValueError:
            raise NotUnderstoodError(f"{shortened(repr(value))} is not a UUID") from None
    if isinstance(value, uuid.UUID):
        value = value.bytes
    if not isinstance(value, bytes):
        uuids = " or a UUID" if pa.types.is_fixed_size_binary(type) and type.byte_width == 16 else ""
        raise NotUnderstoodError(f"{{column}} is {type_name(type)}; write bytes such as X'00ff'{uuids}")
    if not pa.types.is_fixed_size_binary(type) or len(value) == type.byte_width:
        return NearestValues.exactly(pa.scalar(value, type))
    # Values of another length compare byte by byte. A longer value is just above its first `width` bytes, and a shorter
    # one is just below itself padded with zeros.
    width = type.byte_width
    prefix = value[:width]
    floor = prefix if len(value) > width else _predecessor(prefix, width)
    ceil = _successor(prefix) if len(value) > width else prefix.ljust(width, b"\0")
    return NearestValues(
        None if floor is None else pa.scalar(floor, type), None if ceil is None else pa.scalar(ceil, type), False
    )


def _predecessor(prefix: bytes, width: int) -> bytes | None:
    number = int.from_bytes(prefix.ljust(width, b"\0"))
    return (number - 1).to_bytes(width) if number else None


def _successor(value: bytes) -> bytes | None:
    number = int.from_bytes(value) + 1
    return number.to_bytes(len(value)) if number < 1 << 8 * len(value) else None

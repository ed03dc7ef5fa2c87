"""Where a value lies among the values of a column's type: exactly on one, or between two. Nothing is rounded."""

from __future__ import annotations

import contextlib
import math
import re
import struct
import uuid
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from parsieve.predicate.messages import shortened, type_name

NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86_400 * 10**9


class UnlikeError(Exception):
    """A value that cannot be compared with a column. It never leaves this package: `parse` returns `Unknown` instead.

    The text says why, with `{column}` in place of the column's name. `literal` is what to write instead of the value.
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


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of time in nanoseconds since 1970: of the world where `zoned`, else of an unnamed place's clock."""

    nanos: Fraction
    zoned: bool


@dataclass(frozen=True, slots=True)
class Day:
    """A date, in days since 1970."""

    days: int


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day in nanoseconds."""

    nanos: Fraction


# A decimal or whole number is a Fraction; a float stands for itself, and is where NaN and the infinities are.
# `Nearest` is a decimal literal with a point, which becomes the nearest double where it meets floating numbers.
@dataclass(frozen=True, slots=True)
class Nearest:
    """A number that was written with a decimal point."""

    number: Fraction


Value = Fraction | Nearest | float | str | bytes | bool | Moment | Day | Clock | uuid.UUID


@dataclass(frozen=True, slots=True)
class Place:
    """The values of the type on both sides, as scalars: the same one twice where the value is one of them."""

    # Scalars, or None where no value of the type lies on that side.
    floor: Any
    ceil: Any
    exact: bool

    @classmethod
    def at(cls, scalar: pa.Scalar) -> Place:
        """On a value of the type."""
        return cls(scalar, scalar, True)


def place(value: Value, type: pa.DataType, zone: str | None = None) -> Place:
    """Where `value` lies among those of `type`; `zone` is where the clock of a moment without a zone stands."""
    types = pa.types
    if types.is_boolean(type):
        if isinstance(value, bool):
            return Place.at(pa.scalar(value, type))
        raise UnlikeError("{column} is a boolean; compare it with TRUE or FALSE")
    if types.is_integer(type):
        bits, signed = type.bit_width, types.is_signed_integer(type)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return _whole(_number(value, type), low, high, lambda whole: pa.scalar(whole, type))
    if types.is_decimal(type):
        scaled = _number(value, type)
        if isinstance(scaled, float) and math.isfinite(scaled):
            # Engines compare such a pair as doubles, some as decimals: only what is the same for all is understood.
            scaled = Fraction(scaled)
            if (scaled * Fraction(10) ** type.scale).denominator != 1:
                raise UnlikeError(
                    f"{{column}} is {type_name(type)}, and the float {float(scaled)!r} is not exactly such a decimal; "
                    "pass a Decimal"
                )
        scaled = scaled if isinstance(scaled, float) else scaled * Fraction(10) ** type.scale
        most = 10**type.precision - 1
        return _whole(scaled, -most, most, lambda whole: pa.scalar(_decimal(whole, type.scale), type))
    if types.is_floating(type):
        return _floating(value, type)
    if types.is_date(type):
        return _date(value, type)
    if types.is_timestamp(type):
        return _timestamp(value, type, zone)
    if types.is_time(type):
        clock = _clock(value) if isinstance(value, str) else value
        if not isinstance(clock, Clock):
            raise UnlikeError("{column} is a time of day; write '12:30:00'")
        per = NANOS[type.unit]
        return _whole(clock.nanos / per, 0, _DAY // per - 1, lambda whole: _integral(whole, type))
    if types.is_string(type) or types.is_large_string(type) or types.is_string_view(type):
        if isinstance(value, str):
            try:
                return Place.at(pa.scalar(value, type))
            except UnicodeEncodeError:
                raise UnlikeError("the text is not valid Unicode") from None
        raise UnlikeError("{column} is a string", _as_text(value))
    if _is_binary(type):
        return _binary(value, type)
    raise UnlikeError(f"{{column}} is {type_name(type)}, and comparisons with columns of that type are not supported")


def _as_text(value: Value) -> str:
    """Return the SQL literal of the text that someone may have meant."""
    if isinstance(value, Nearest):
        value = value.number
    if isinstance(value, Fraction):
        whole = value.denominator == 1
        return f"'{value.numerator}'" if whole and abs(value.numerator) < 10**40 else "'...'"
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


def _whole(number: Fraction | float, low: int, high: int, scalar: Any) -> Place:
    """A number among the whole ones from `low` to `high`."""
    if isinstance(number, float):
        if math.isnan(number):
            raise UnlikeError("NaN exists in float columns only")
        if math.isinf(number):
            return Place(scalar(high), None, False) if number > 0 else Place(None, scalar(low), False)
        number = Fraction(number)
    floor, ceil = math.floor(number), math.ceil(number)
    if ceil < low:
        return Place(None, scalar(low), False)
    if floor > high:
        return Place(scalar(high), None, False)
    if floor == ceil:
        return Place.at(scalar(floor))
    return Place(scalar(floor) if floor >= low else None, scalar(ceil) if ceil <= high else None, False)


def _integral(whole: int, type: pa.DataType) -> pa.Scalar:
    storage = pa.int32() if type.bit_width == 32 else pa.int64()
    return pa.scalar(whole, storage).cast(type)


def _decimal(unscaled: int, scale: int) -> Decimal:
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((1 if unscaled < 0 else 0, digits, -scale))


_NUMBER = re.compile(r"[+-]?(\d{1,1000}(\.\d{0,1000})?|\.\d{1,1000})([eE][+-]?\d{1,3})?")


def _number(value: Value, type: pa.DataType) -> Fraction | float:
    if isinstance(value, Nearest):
        return value.number
    if isinstance(value, str):
        return read_number(value).number
    if isinstance(value, bool) or not isinstance(value, Fraction | float):
        raise UnlikeError(f"{{column}} is {type_name(type)}; compare it with a number")
    return value


def read_number(text: str) -> Nearest:
    """A number as SQL writes it."""
    if _NUMBER.fullmatch(text) is None:
        if len(text) > 1000:
            raise UnlikeError(f"numbers of more than 1,000 digits are not supported; this one has {len(text):,}")
        raise UnlikeError(f"{shortened(repr(text))} is not a number")
    return Nearest(Fraction(text))


_SPECIAL = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "-inf": -math.inf, "-infinity": -math.inf}


def _floating(value: Value, type: pa.DataType) -> Place:
    if isinstance(value, str) and value.lower() in _SPECIAL:
        value = _SPECIAL[value.lower()]
    number = _number(value, type)
    if isinstance(value, Nearest | str):
        # A number beyond all doubles stays itself: it is below infinity.
        with contextlib.suppress(OverflowError):
            number = float(number)
    bits: int = type.bit_width
    if isinstance(number, float) and not math.isfinite(number):
        return Place.at(_real(number, type))
    exact = Fraction(number)
    near = _rounded(exact, bits)
    if math.isfinite(near) and Fraction(near) == exact:
        # Zero keeps its sign nowhere: both zeros are equal.
        return Place.at(_real(near + 0.0, type))
    below = near if near < exact else _next(near, -math.inf, bits)
    above = near if near > exact else _next(near, math.inf, bits)
    return Place(_real(below, type), _real(above, type), False)


def _real(number: float, type: pa.DataType) -> pa.Scalar:
    if type.bit_width == 16:
        return pa.scalar(number, pa.float32()).cast(type)
    return pa.scalar(number, type)


# How numbers of a width are packed, as themselves and as whole numbers.
_PACKED = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}


def _rounded(exact: Fraction, bits: int) -> float:
    """The nearest number of a width, or nearly: the caller looks at which side it is."""
    try:
        return float(struct.unpack(_PACKED[bits][0], struct.pack(_PACKED[bits][0], float(exact)))[0])
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _next(number: float, towards: float, bits: int) -> float:
    """The neighbour of a number of a width."""
    real, whole = _PACKED[bits]
    if number == 0:
        least = float(struct.unpack(real, struct.pack(whole, 1))[0])
        return least if towards > 0 else -least
    pattern = int(struct.unpack(whole, struct.pack(real, number))[0])
    # The patterns of numbers of one sign are in the order of their sizes.
    away = (towards > number) == (number > 0)
    return float(struct.unpack(real, struct.pack(whole, pattern + (1 if away else -1)))[0])


def _date(value: Value, type: pa.DataType) -> Place:
    if isinstance(value, str):
        value = read_moment(value)
        if isinstance(value, Moment) and value.nanos % _DAY == 0 and not value.zoned:
            value = Day(int(value.nanos // _DAY))
    if isinstance(value, Moment) and not value.zoned:
        days = value.nanos / _DAY
    elif isinstance(value, Day):
        days = Fraction(value.days)
    else:
        if isinstance(value, Moment):
            raise UnlikeError("{column} is a date and the value has a time zone; write a date")
        raise UnlikeError("{column} is a date; write DATE '2026-01-31'")
    if pa.types.is_date32(type):
        return _whole(days, -(1 << 31), (1 << 31) - 1, lambda whole: pa.scalar(whole, pa.int32()).cast(type))
    most = (1 << 63) // 86_400_000
    return _whole(days, -most, most - 1, lambda whole: pa.scalar(whole * 86_400_000, pa.int64()).cast(type))


def _timestamp(value: Value, type: pa.DataType, zone: str | None) -> Place:
    found = moment(value, True if type.tz is not None else None, zone)
    if type.tz is None and found.zoned:
        raise UnlikeError("the value has a time zone and {column} has none; write the value without a zone")
    per = NANOS[type.unit]
    return _whole(found.nanos / per, -(1 << 63), (1 << 63) - 1, lambda whole: _integral(whole, type))


def _instant(moment: Moment, zone: str | None) -> Moment:
    """What the world's time is when a clock in `zone` shows `moment`."""
    if zone is None:
        raise UnlikeError(
            "{column} has a time zone and the value has none; add an offset, as in '2026-01-31 12:00:00+00:00', "
            "or pass timezone="
        )
    tz = zone_named(zone)
    whole, rest = divmod(moment.nanos, 10**9)
    try:
        wall = datetime(1970, 1, 1) + timedelta(seconds=int(whole))
        first, second = (wall.replace(tzinfo=tz, fold=fold).utcoffset() for fold in (0, 1))
    except OverflowError:
        raise UnlikeError("the timestamp is out of range for a time zone; write it in UTC") from None
    if first is None or first != second:
        raise UnlikeError(f"{wall} occurs twice or never in {zone}, because of daylight saving time; add an offset")
    return Moment((whole - int(first.total_seconds())) * 10**9 + rest, True)


def zone_named(zone: str) -> Any:
    """A time zone by its name or offset."""
    offset = _OFFSET.fullmatch(zone)
    if offset is not None:
        return timezone(timedelta(seconds=_seconds(offset)))
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UnlikeError(f"there is no time zone {shortened(repr(zone))}") from None


def moment(value: Value, zoned: bool | None, zone: str | None) -> Moment:
    """A literal as a timestamp with a zone, without one, or (None) as it is written."""
    if isinstance(value, str):
        value = read_moment(value)
    if isinstance(value, Day):
        value = Moment(Fraction(value.days * _DAY), False)
    if not isinstance(value, Moment):
        raise UnlikeError("{column} is a timestamp; write TIMESTAMP '2026-01-31 12:00:00'")
    if zoned and not value.zoned:
        return _instant(value, zone)
    if zoned is False and value.zoned:
        raise UnlikeError("the literal has a time zone, but its type TIMESTAMP has none")
    return value


_OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?")
_MOMENT = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)(?:[T ](?P<time>\d\d:\d\d(?::\d\d(?:\.\d{1,30})?)?) ?(?P<zone>[Zz]|\S.*)?)?", re.ASCII
)


def _seconds(offset: re.Match[str]) -> int:
    hours, minutes = int(offset["hours"]), int(offset["minutes"] or 0)
    if hours > 18 or minutes > 59:
        raise UnlikeError(f"{offset[0]!r} is not a time zone offset")
    return (-1 if offset["sign"] == "-" else 1) * (hours * 3600 + minutes * 60)


def read_moment(text: str) -> Day | Moment:
    """A date, or a timestamp with or without a zone, as SQL writes them."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise UnlikeError(
            f"{shortened(repr(text))} is not a date or timestamp; write '2026-01-31' or '2026-01-31 12:00:00.5+00:00'"
        )
    try:
        days = date.fromisoformat(found["date"]).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        raise UnlikeError(f"there is no day {found['date']}") from None
    if found["time"] is None:
        return Day(days)
    wall = Moment(days * _DAY + _clock(found["time"]).nanos, False)
    zone = found["zone"]
    if zone is None:
        return wall
    return Moment(wall.nanos, True) if zone in "Zz" else _instant(wall, zone)


def _clock(text: str) -> Clock:
    found = re.fullmatch(r"(\d\d):(\d\d)(?::(\d\d(?:\.\d{1,30})?))?", text, re.ASCII)
    if found is None or int(found[1]) > 23 or int(found[2]) > 59 or Fraction(found[3] or 0) >= 60:
        raise UnlikeError(f"{shortened(repr(text))} is not a time of day; write '12:30:00'")
    return Clock((int(found[1]) * 3600 + int(found[2]) * 60 + Fraction(found[3] or 0)) * 10**9)


def _binary(value: Value, type: pa.DataType) -> Place:
    if isinstance(value, str) and pa.types.is_fixed_size_binary(type) and type.byte_width == 16:
        try:
            value = uuid.UUID(value)
        except ValueError:
            raise UnlikeError(f"{shortened(repr(value))} is not a UUID") from None
    if isinstance(value, uuid.UUID):
        value = value.bytes
    if not isinstance(value, bytes):
        uuids = " or a UUID" if pa.types.is_fixed_size_binary(type) and type.byte_width == 16 else ""
        raise UnlikeError(f"{{column}} is {type_name(type)}; write bytes such as X'00ff'{uuids}")
    if not pa.types.is_fixed_size_binary(type) or len(value) == type.byte_width:
        return Place.at(pa.scalar(value, type))
    # Shorter and longer values have their place between those of the column's width, in the order of bytes.
    width = type.byte_width
    kept = value[:width]
    # What is longer lies above its beginning; what is shorter, below what it becomes with zeros.
    floor = kept if len(value) > width else _before(kept, width)
    ceil = _after(kept) if len(value) > width else kept.ljust(width, b"\0")
    return Place(
        None if floor is None else pa.scalar(floor, type), None if ceil is None else pa.scalar(ceil, type), False
    )


def _before(prefix: bytes, width: int) -> bytes | None:
    number = int.from_bytes(prefix.ljust(width, b"\0"))
    return (number - 1).to_bytes(width) if number else None


def _after(whole: bytes) -> bytes | None:
    number = int.from_bytes(whole) + 1
    return number.to_bytes(len(whole)) if number < 1 << 8 * len(whole) else None

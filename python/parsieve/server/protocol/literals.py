"""Convert the literals of a client's filter. A literal of unclear meaning is not understood, and excludes nothing."""

from __future__ import annotations

import math
import re
import struct
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

from parsieve.predicate.literals import DecimalLiteral, Value
from parsieve.predicate.messages import NotUnderstoodError, shortened
from parsieve.predicate.times.temporal import Clock, Day, Moment, read_moment
from parsieve.server.protocol.errors import bad_request

_DECIMAL = re.compile(r"-?\d{1,40}(\.\d{1,40})?")
_MICRO = 1000
_FLOATING = ("FloatType", "DoubleType")
# How Java writes infinite numbers. It cannot read them again in the filter of a plan.
_INFINITE = ("Infinity", "-Infinity")
_NOT_IN_JSON = (
    "which Iceberg's expressions do not allow (pyiceberg writes null for infinity); compare with the greatest finite "
    "number instead: x > 1.7976931348623157e308"
)


def read_literal(value: Any, kind: Any) -> list[Value]:
    """Return the values that a client may mean by a literal for a column of an Iceberg type.

    Clients round a literal to the type of a `float` column, or compare exactly. So it has two meanings.
    """
    if isinstance(value, dict) and value.get("type") == "literal":
        value = value.get("value")
    name = type(kind).__name__
    if value is None or (name in _FLOATING and value in _INFINITE):
        raise bad_request(f"the filter compares a column with {value or 'null'}, {_NOT_IN_JSON}")
    if name == "FloatType" and _is_number(value):
        return list(dict.fromkeys([_rounded(float(value)), float(value)]))
    read = _ONE_MEANING.get(name)
    result = None if read is None else read(value)
    if result is None:
        raise NotUnderstoodError(f"{shortened(repr(value))} is not a valid literal for the type {kind}")
    return [result]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300


def _rounded(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _integer(value: Any) -> Value | None:
    return Fraction(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _double(value: Any) -> Value | None:
    return float(value) if _is_number(value) and float(value) == value else None


def _decimal(value: Any) -> Value | None:
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return DecimalLiteral(Fraction(Decimal(value)))
    return _integer(value)


def _date(value: Any) -> Value | None:
    # Java's clients send the days since 1970.
    if isinstance(value, int) and not isinstance(value, bool):
        return Day(value)
    moment = read_moment(value) if isinstance(value, str) else None
    return moment if isinstance(moment, Day) else None


def _time(value: Any) -> Value | None:
    number = _integer(value)
    return Clock(number * _MICRO) if isinstance(number, Fraction) else None


def _timestamp(value: Any, zoned: bool) -> Value | None:
    # Java's clients send the microseconds since 1970.
    if isinstance(value, int) and not isinstance(value, bool):
        return Moment(Fraction(value * _MICRO), zoned)
    moment = read_moment(value) if isinstance(value, str) else None
    return moment if isinstance(moment, Moment) and moment.zoned is zoned else None


def _uuid(value: Any) -> Value | None:
    try:
        return uuid.UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None


_ONE_MEANING: dict[str, Any] = {
    "BooleanType": lambda value: value if isinstance(value, bool) else None,
    "IntegerType": _integer,
    "LongType": _integer,
    "DoubleType": _double,
    "DecimalType": _decimal,
    "DateType": _date,
    "TimeType": _time,
    "TimestampType": lambda value: _timestamp(value, False),
    "TimestamptzType": lambda value: _timestamp(value, True),
    "StringType": lambda value: value if isinstance(value, str) else None,
    "UUIDType": _uuid,
}

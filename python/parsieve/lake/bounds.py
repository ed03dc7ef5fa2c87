"""Widen the minima and maxima of writers until they are certain: truncated strings, rounded numbers, old calendars.

Also convert the decimals of a table's metadata.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation, localcontext

# Writers truncate strings to 16 or 32 characters, or to 64 bytes. Shorter strings are complete.
CUT_FROM = 16
# Spark's old calendar assigns other dates to earlier days.
GREGORIAN = dt.date(1582, 10, 15)
EPOCH = dt.date(1970, 1, 1)
_FIRST_SURROGATE = 0xD800
_AFTER_SURROGATES = 0xE000
EXACT = Context(prec=100)


def text_lower(text: str) -> str:
    """Return a lower bound, in byte order, of all strings that a writer may have ordered at or after `text`."""
    ends = (at for at, character in enumerate(text) if ord(character) > 0xFFFF or _is_surrogate(character))
    return text[: next(ends, len(text))]


def text_upper(text: str) -> str | None:
    """Return an upper bound of all strings whose maximum a writer may have truncated to `text`, or None."""
    cut = next((at for at, character in enumerate(text) if ord(character) >= _FIRST_SURROGATE), len(text))
    if cut == len(text) and len(text.encode()) < CUT_FROM:
        return text
    return _successor(text[:cut])


def _is_surrogate(character: str) -> bool:
    return _FIRST_SURROGATE <= ord(character) < _AFTER_SURROGATES


def _successor(prefix: str) -> str | None:
    """Return the least string greater than all strings with this prefix, whose characters precede the surrogates."""
    if not prefix:
        return None
    after = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(_AFTER_SURROGATES if after == _FIRST_SURROGATE else after)


def bytes_upper(data: bytes) -> bytes | None:
    """Return an upper bound of all values whose maximum a writer may have truncated to `data`, or None."""
    if len(data) < CUT_FROM:
        return data
    trimmed = data.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


def double_around(value: float) -> tuple[float, float] | None:
    """Return the next doubles below and above a number that a writer printed, or None for NaN."""
    if math.isnan(value):
        return None
    return math.nextafter(value, -math.inf), math.nextafter(value, math.inf)


def float_around(value: float) -> tuple[float, float] | None:
    """Return the next floats of single precision below and above a number, or None for NaN and overflows.

    An infinity is returned unchanged.
    """
    if math.isnan(value):
        return None
    if math.isinf(value):
        return value, value
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return None
    return _next_float(single, -1), _next_float(single, 1)


def _next_float(value: float, direction: int) -> float:
    if value == 0:
        return math.copysign(math.ldexp(1, -149), direction)
    (bits,) = struct.unpack("<i", struct.pack("<f", value))
    step = direction if value > 0 else -direction
    neighbor: tuple[float] = struct.unpack("<f", struct.pack("<i", bits + step))
    return neighbor[0]


def decimal_around(value: Decimal, precision: int, scale: int) -> tuple[Decimal | None, Decimal | None]:
    """Return the decimals below and above a number that a writer may have converted to a double."""
    if not value.is_finite():
        return None, None
    with localcontext(EXACT):
        units = value.scaleb(scale)
        doubt = abs(units) * Decimal(2) ** -50
        nearest = units.to_integral_value()
        if doubt < Decimal("0.5") and abs(units - nearest) <= doubt:
            low = high = nearest
        else:
            low = (units - doubt).to_integral_value(ROUND_FLOOR)
            high = (units + doubt).to_integral_value(ROUND_CEILING)
        limit = Decimal(10) ** precision
        return (
            low.scaleb(-scale) if abs(low) < limit else None,
            high.scaleb(-scale) if abs(high) < limit else None,
        )


def decimal_of(value: Decimal, precision: int, scale: int) -> Decimal:
    """Return the same decimal with the digits of a type. Raise `ValueError` if it is not a value of the type.

    pyarrow must not get other decimals: if they have more than 76 decimal places, it reads beyond a table in memory.
    """
    # A table may have a decimal for each of its files, so this is fast.
    if value.is_finite():
        try:
            exact = value.quantize(_last_place(scale), context=EXACT)
        except InvalidOperation:
            pass
        else:
            if exact == value and exact.adjusted() < precision - scale:
                return exact
    raise ValueError(f"{value} is not a decimal({precision}, {scale})")


@functools.cache
def _last_place(scale: int) -> Decimal:
    """Return the least positive decimal of a scale. It does not depend on the decimal context of the thread."""
    return Decimal((0, (1,), -scale))

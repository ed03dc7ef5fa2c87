"""Minima and maxima as writers left them, made certain: cut strings, rounded numbers and calendars that changed."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext

# Writers cut strings at 16 or 32 characters, or at 64 bytes; those below are whole.
CUT_FROM = 16
# Days before are another day in Spark's old calendar.
GREGORIAN = dt.date(1582, 10, 15)
EPOCH = dt.date(1970, 1, 1)
_FIRST_SURROGATE = 0xD800
_AFTER_SURROGATES = 0xE000
EXACT = Context(prec=100)


def text_lower(text: str) -> str:
    """A string that is no greater, byte by byte, than anything that the writer held not less than `text`."""
    return text[: next((at for at, one in enumerate(text) if ord(one) > 0xFFFF or _lone(one)), len(text))]


def text_upper(text: str) -> str | None:
    """A string not less than all that begin with `text`, where it may have been cut; None where there is none."""
    cut = next((at for at, one in enumerate(text) if ord(one) >= _FIRST_SURROGATE), len(text))
    if cut == len(text) and len(text.encode()) < CUT_FROM:
        return text
    return _successor(text[:cut])


def _lone(one: str) -> bool:
    return _FIRST_SURROGATE <= ord(one) < _AFTER_SURROGATES


def _successor(prefix: str) -> str | None:
    """The least string above all that begin with a prefix of characters below the surrogates."""
    if not prefix:
        return None
    after = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(_AFTER_SURROGATES if after == _FIRST_SURROGATE else after)


def bytes_upper(data: bytes) -> bytes | None:
    """Bytes that are not less than all that begin with `data`, where it may have been cut."""
    if len(data) < CUT_FROM:
        return data
    trimmed = data.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


def double_around(value: float) -> tuple[float, float] | None:
    """The neighbours of a number that was printed and read again; None for what is no number of the axis."""
    if math.isnan(value):
        return None
    return math.nextafter(value, -math.inf), math.nextafter(value, math.inf)


def float_around(value: float) -> tuple[float, float] | None:
    """The same in single precision."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return value, value
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return None
    return _float_step(single, -1), _float_step(single, 1)


def _float_step(value: float, way: int) -> float:
    if value == 0:
        return math.copysign(math.ldexp(1, -149), way)
    (bits,) = struct.unpack("<i", struct.pack("<f", value))
    step = way if value > 0 else -way
    found: tuple[float] = struct.unpack("<f", struct.pack("<i", bits + step))
    return found[0]


def decimal_around(value: Decimal, precision: int, scale: int) -> tuple[Decimal | None, Decimal | None]:
    """The decimals around a number that a writer may have passed through a double."""
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

"""Dates, timestamps and times of day in predicates, and the text forms that SQL has for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from parsieve.predicate.messages import NotUnderstoodError, shortened

# Nanoseconds per unit of Arrow's times.
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY_NANOS = 86_400 * 10**9

_OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?")
_MOMENT = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)(?:[T ](?P<time>\d\d:\d\d(?::\d\d(?:\.\d{1,30})?)?) ?(?P<zone>[Zz]|\S.*)?)?", re.ASCII
)
_CLOCK = re.compile(r"(\d\d):(\d\d)(?::(\d\d(?:\.\d{1,30})?))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Moment:
    """A timestamp in nanoseconds since 1970: in UTC if `zoned`, otherwise the local time of an unnamed zone."""

    nanos: Fraction
    zoned: bool


@dataclass(frozen=True, slots=True)
class Day:
    """A date, in days since 1970."""

    days: int


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day, in nanoseconds since midnight."""

    nanos: Fraction


def read_moment(text: str) -> Day | Moment:
    """Read a date, or a timestamp with or without a zone, as SQL writes them."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise NotUnderstoodError(
            f"{shortened(repr(text))} is not a date or timestamp; write '2026-01-31' or '2026-01-31 12:00:00.5+00:00'"
        )
    try:
        days = date.fromisoformat(match["date"]).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        raise NotUnderstoodError(f"{match['date']} is not a valid date") from None
    if match["time"] is None:
        return Day(days)
    local = Moment(days * DAY_NANOS + read_clock(match["time"]).nanos, False)
    zone = match["zone"]
    if zone is None:
        return local
    return Moment(local.nanos, True) if zone in "Zz" else _in_utc(local, zone)


def read_clock(text: str) -> Clock:
    """Read a time of day."""
    match = _CLOCK.fullmatch(text)
    if match is None or int(match[1]) > 23 or int(match[2]) > 59 or Fraction(match[3] or 0) >= 60:
        raise NotUnderstoodError(f"{shortened(repr(text))} is not a time of day; write '12:30:00'")
    return Clock((int(match[1]) * 3600 + int(match[2]) * 60 + Fraction(match[3] or 0)) * 10**9)


def to_moment(value: object, zoned: bool | None, zone: str | None) -> Moment:
    """Convert a literal to a timestamp.

    Args:
        value: Text, a date or a timestamp.
        zoned: True for a timestamp in UTC, False for one without a zone, None to keep the zone of the literal.
        zone: The time zone of literals without one.
    """
    if isinstance(value, str):
        value = read_moment(value)
    if isinstance(value, Day):
        value = Moment(Fraction(value.days * DAY_NANOS), False)
    if not isinstance(value, Moment):
        raise NotUnderstoodError("{column} is a timestamp; write TIMESTAMP '2026-01-31 12:00:00'")
    if zoned and not value.zoned:
        return _in_utc(value, zone)
    if zoned is False and value.zoned:
        raise NotUnderstoodError("the literal has a time zone, but its type TIMESTAMP has none")
    return value


def zone_named(zone: str) -> Any:
    """Return a time zone by its name or offset."""
    offset = _OFFSET.fullmatch(zone)
    if offset is not None:
        return timezone(timedelta(seconds=_offset_seconds(offset)))
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise NotUnderstoodError(f"unknown time zone {shortened(repr(zone))}") from None


def check_zone(zone: str | None) -> None:
    """Raise `ValueError` if a time zone does not exist, and `TypeError` if it is not a string. None is allowed."""
    if zone is not None and not isinstance(zone, str):
        raise TypeError(f"a time zone is a name such as 'Europe/Madrid', or an offset such as '+01:00', not {zone!r}")
    try:
        if zone is not None:
            zone_named(zone)
    except NotUnderstoodError as error:
        raise ValueError(f"{error}; give a name such as Europe/Madrid, or an offset such as +01:00") from None


def _offset_seconds(offset: re.Match[str]) -> int:
    hours, minutes = int(offset["hours"]), int(offset["minutes"] or 0)
    if hours > 18 or minutes > 59:
        raise NotUnderstoodError(f"{offset[0]!r} is not a time zone offset")
    return (-1 if offset["sign"] == "-" else 1) * (hours * 3600 + minutes * 60)


def _in_utc(local: Moment, zone: str | None) -> Moment:
    """Convert the local time of a zone to UTC."""
    if zone is None:
        raise NotUnderstoodError(
            "{column} has a time zone and the value has none; add an offset, as in '2026-01-31 12:00:00+00:00', "
            "or pass timezone="
        )
    tz = zone_named(zone)
    seconds, rest = divmod(local.nanos, 10**9)
    try:
        wall_clock = datetime(1970, 1, 1) + timedelta(seconds=int(seconds))
        first, second = (wall_clock.replace(tzinfo=tz, fold=fold).utcoffset() for fold in (0, 1))
    except OverflowError:
        raise NotUnderstoodError("the timestamp is out of range for a time zone; write it in UTC") from None
    if first is None or first != second:
        raise NotUnderstoodError(
            f"{wall_clock} occurs twice or never in {zone}, because of daylight saving time; add an offset"
        )
    return Moment((seconds - int(first.total_seconds())) * 10**9 + rest, True)

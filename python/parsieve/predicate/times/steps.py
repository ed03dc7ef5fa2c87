"""The second, minute, hour, day, week, month, quarter or year that contains a moment."""

from __future__ import annotations

import math
from datetime import date
from fractions import Fraction

from parsieve.predicate.times.temporal import DAY_NANOS

_SECOND = 10**9
_LENGTHS = {
    "second": _SECOND,
    "minute": 60 * _SECOND,
    "hour": 3600 * _SECOND,
    "day": DAY_NANOS,
    "week": 7 * DAY_NANOS,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
STEPS = (*_LENGTHS, *_MONTHS)
# Steps that begin at midnight.
WHOLE_DAYS = ("day", "week", *_MONTHS)

# Weeks begin on Monday, and 1970-01-01 was a Thursday.
_FIRST_MONDAY = 4 * DAY_NANOS
# The calendar repeats after 400 years. Dates in Python end in 9999, but Parquet has later dates.
_CYCLE_DAYS, _CYCLE_MONTHS = 146_097, 4_800
_EPOCH_DAY, _EPOCH_MONTH = date(1970, 1, 1).toordinal(), 1970 * 12


def step_around(step: str, nanos: Fraction) -> tuple[int, int]:
    """Return the first nanosecond of the step that contains a moment, and that of the next step.

    >>> from fractions import Fraction
    >>> from parsieve.predicate.times.steps import step_around
    >>> step_around("hour", Fraction(-1))
    (-3600000000000, 0)
    """
    if step in _LENGTHS:
        length = _LENGTHS[step]
        origin = _FIRST_MONDAY if step == "week" else 0
        begin = math.floor((nanos - origin) / length) * length + origin
        return begin, begin + length
    months = _MONTHS[step]
    first = _month_of(math.floor(nanos / DAY_NANOS)) // months * months
    return _first_day(first) * DAY_NANOS, _first_day(first + months) * DAY_NANOS


def first_of_year(year: int) -> int:
    """Return the first nanosecond of a year."""
    return _first_day(year * 12) * DAY_NANOS


def _month_of(day: int) -> int:
    """Return the number of months between the beginning of the year 0 and a day."""
    cycle, rest = divmod(day, _CYCLE_DAYS)
    in_cycle = date.fromordinal(_EPOCH_DAY + rest)
    return cycle * _CYCLE_MONTHS + in_cycle.year * 12 + in_cycle.month - 1


def _first_day(month: int) -> int:
    """Return the first day of a month, in days since 1970."""
    cycle, rest = divmod(month - _EPOCH_MONTH, _CYCLE_MONTHS)
    year, month_of_year = divmod(rest + _EPOCH_MONTH, 12)
    return cycle * _CYCLE_DAYS + date(year, month_of_year + 1, 1).toordinal() - _EPOCH_DAY

"""Parse `as_of` from text: a version, an instant, a time, or the name of a branch or tag."""

from __future__ import annotations

import datetime as dt

from parsieve.lake.base import AsOf

STATES = {"delta": "a version, or a time", "hudi": "an instant of 14 or 17 digits, or a time"}


def state_of(text: str | None, format: str, called: str = "as_of") -> AsOf:
    """Parse a version, instant or time for tables of a format. Error messages call the option `called`.

    >>> from parsieve.lake.as_of import state_of
    >>> state_of("3", "delta"), state_of("20260131120000", "hudi")
    (3, '20260131120000')
    >>> state_of("2026-01-31T12:00:00Z", "delta")
    datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)
    """
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        # Hudi's instants have 14 or 17 digits and stay text.
        return text if len(text) in (14, 17) and format != "iceberg" else int(text)
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        if format in STATES:
            raise ValueError(
                f"{called} of a {format} table must be {STATES[format]} such as 2026-01-31T12:00:00Z, not {text!r}"
            ) from None
        # In Iceberg, this is a branch or a tag. A plain folder rejects any `as_of` later.
        return text
    if time.tzinfo is None:
        if format == "iceberg":
            return text
        raise ValueError(f"{called} {text} has no time zone; add one, as in {time.isoformat()}Z")
    return time

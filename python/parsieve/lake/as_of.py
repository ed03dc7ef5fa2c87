"""A table's earlier state as people write it down: what a text means as `as_of` of each format."""

from __future__ import annotations

import datetime as dt

from parsieve.lake.base import AsOf

STATES = {"delta": "a version, or a time", "hudi": "an instant of 14 or 17 digits, or a time"}


def state_of(text: str | None, format: str, called: str = "as_of") -> AsOf:
    """The state that a text names; `called` is how the text was asked for.

    >>> from parsieve.lake.states import state_of
    >>> state_of("3", "delta"), state_of("20260131120000", "hudi")
    (3, '20260131120000')
    >>> state_of("2026-01-31T12:00:00Z", "delta")
    datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)
    """
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        # Hudi's instants are numbers of 14 or 17 digits, and are known as text.
        return text if len(text) in (14, 17) and format != "iceberg" else int(text)
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        if format in STATES:
            raise ValueError(
                f"{called} of a {format} table is {STATES[format]} such as 2026-01-31T12:00:00Z, not {text!r}"
            ) from None
        # A branch or a tag of Iceberg; whatever it is, a plain folder has none.
        return text
    if time.tzinfo is None:
        if format == "iceberg":
            return text
        raise ValueError(f"{called} {text} names no time zone; say which, as in {time.isoformat()}Z")
    return time

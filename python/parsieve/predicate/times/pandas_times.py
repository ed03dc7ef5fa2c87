"""Convert pandas times. pyarrow refuses `NaT`, and drops the nanoseconds of a `Timestamp` if it infers the type."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa


def has_nanoseconds(value: Any) -> bool:
    """Return whether a value is a pandas `Timestamp` between two microseconds."""
    # The nanosecond of `pandas.NaT` is NaN, which is not greater.
    return isinstance(value, datetime) and getattr(value, "nanosecond", 0) > 0


def is_nat(value: Any) -> bool:
    """Return whether a value is `pandas.NaT`, which is no time and not equal to itself."""
    return isinstance(value, datetime) and value != value


def nanosecond_type(value: Any) -> pa.TimestampType:
    """Return the Arrow type for such a value."""
    return pa.timestamp("ns", None if value.tzinfo is None else "UTC")


def mixes_zones(values: Iterable[Any]) -> bool:
    """Return whether only some of the times have a time zone. pyarrow would read the others as UTC."""
    return len({value.tzinfo is None for value in values if isinstance(value, datetime) and not is_nat(value)}) > 1

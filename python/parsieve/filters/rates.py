"""False positive rates as callers give them."""

from __future__ import annotations

import numbers
from decimal import Decimal
from typing import Any


def checked_fpp(fpp: Any, name: str = "fpp") -> float:
    """Return a false positive rate as a number between 0 and 1; the error says what to pass instead."""
    if isinstance(fpp, bool) or not isinstance(fpp, (numbers.Real, Decimal)):
        raise TypeError(f"{name} must be a number between 0 and 1, such as 0.01 for 1%, not {fpp!r}")
    if not 0 < float(fpp) < 1:
        raise ValueError(f"{name} must be between 0 and 1 (exclusive), such as 0.01 for 1%, not {fpp!r}")
    return float(fpp)

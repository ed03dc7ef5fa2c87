"""Names for the parameters of tests."""

from __future__ import annotations

import re


def short_repr(value: object) -> str:
    """Return the start of the repr of a value, without its address in memory, which differs in each run."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:40]

"""Explain why an index does not cover a file: the file is new, changed or too young, or the index is unreadable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from parsieve.lake.base import Location, Slice
from parsieve.lake.slices import Slices, locations_and_tokens

NEW = "not in the index (added later, or unreadable at the time); update_index() adds it"
CHANGED = "changed after it was indexed; update_index() reads it again"
YOUNG = "written too recently to detect later changes; update_index() adds it once it is older"
UNREADABLE = "the part of the index that covers it cannot be read"
REASONS = frozenset((NEW, CHANGED, YOUNG, UNREADABLE))


def uncovered(
    slices: Sequence[Slice],
    numbers: Iterable[int],
    indexed_tokens: Sequence[Mapping[Location, str]],
    is_damaged: bool,
) -> dict[int, list[str]]:
    """Return for each numbered slice why the index of the predicate's columns does not cover it.

    `indexed_tokens` has a mapping for each column: the version of each location that its index covers. `is_damaged` is
    true if a part of the index cannot be read.
    """
    reasons: dict[int, list[str]] = {}
    chosen = list(numbers)
    uncovered_slices = Slices.of(slices).select(pa.array(chosen, pa.int64()))
    for number, location, current in zip(chosen, *locations_and_tokens(uncovered_slices), strict=True):
        tokens = {token for by_location in indexed_tokens if (token := by_location.get(location)) is not None}
        if is_damaged and (not tokens or current in tokens):
            reasons[number] = [UNREADABLE]
        elif tokens:
            reasons[number] = [CHANGED]
        else:
            reasons[number] = [NEW if current else YOUNG]
    return reasons

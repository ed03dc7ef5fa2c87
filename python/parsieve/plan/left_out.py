"""Why an index does not cover a file: the file is new, changed or too young, or the index cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from parsieve.lake.base import Location
from parsieve.lake.slices import Slices

NEW = "not in the index (added later, or unreadable at the time); update_index() adds it"
CHANGED = "changed after it was indexed; update_index() reads it again"
YOUNG = "written too recently to detect later changes; update_index() adds it once it is older"
UNREADABLE = "the part of the index that covers it cannot be read"
REASONS = frozenset((NEW, CHANGED, YOUNG, UNREADABLE))


def reasons(
    slices: Slices, numbers: Iterable[int], bound: Sequence[Mapping[Location, str]], is_damaged: bool
) -> dict[int, list[str]]:
    """Return for each slice why the index of the columns in the predicate does not cover it.

    `bound` are the versions of locations that each column's index covers; `is_damaged` if a part of it cannot be read.
    """
    found: dict[int, list[str]] = {}
    chosen = list(numbers)
    for number, piece in zip(chosen, slices.at(chosen), strict=True):
        tokens = {token for one in bound if (token := one.get(piece.location)) is not None}
        if is_damaged and (not tokens or piece.token in tokens):
            found[number] = [UNREADABLE]
        elif tokens:
            found[number] = [CHANGED]
        else:
            found[number] = [NEW if piece.token else YOUNG]
    return found

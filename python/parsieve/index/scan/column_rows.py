"""The interface of the rows that an executor has read."""

from __future__ import annotations

from typing import Protocol


class ColumnRows(Protocol):
    """The sorted rows of one column of some slices. The lists have one entry per unit."""

    nulls: list[int]
    nans: list[int]
    # Whether the unit's slice could not be read, or has values of another type.
    unread: list[bool]
    # Why slices could not be read, by their position.
    failed: dict[int, Exception]

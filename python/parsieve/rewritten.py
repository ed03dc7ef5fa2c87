"""What was done to a file: the filters that it got and lost."""

from __future__ import annotations

from typing import NamedTuple

ColumnName = str | tuple[str, ...]


class AddedFilter(NamedTuple):
    """One new filter: where it lies, its distinct values, and the rate of false positives that they let expect."""

    row_group: int
    column: ColumnName
    offset: int
    length: int
    ndv: int
    fpp: float


class RewriteReport(NamedTuple):
    """What `add_filters` or `drop_filters` did, or with `dry_run=True` would do."""

    path: str
    added: list[AddedFilter]
    dropped: list[tuple[int, ColumnName]]
    reasons: dict[ColumnName, str]
    bytes_before: int
    bytes_after: int
    bytes_fetched: int
    written: bool

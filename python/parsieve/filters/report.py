"""The report of the filters that were added to a file or dropped from it."""

from __future__ import annotations

from typing import NamedTuple

from parsieve.filters.open import ColumnName
from parsieve.observe.notebook import html_of
from parsieve.wording import count


class AddedFilter(NamedTuple):
    """A new filter: its place in the file, its number of distinct values, and its false positive rate.

    For up to 16,384 values, `ndv` is exact. For more, it is estimated from the bits of the filter, with an error below
    1% unless the filter is full. In a floating-point column, it also counts the other zero and the NaN that Spark looks
    up. `fpp` is computed from the bits, so it is exact for a random value.
    """

    row_group: int
    column: ColumnName
    offset: int
    length: int
    ndv: int
    fpp: float


class RewriteReport(NamedTuple):
    """The changes of `add_filters` or `drop_filters`, or with `dry_run=True` the plan. `print` it for a summary.

    For a folder, `files` maps each path to the report of that file, and the other fields sum up these reports, except
    that `reasons` is empty. `left_out` maps each skipped path of the folder to the reason. It does not contain the
    names that engines ignore.

    >>> from parsieve import RewriteReport
    >>> print(RewriteReport("a.parquet", [], [(0, "id")], {"id": "it was dropped"}, 2_500, 1_400, 100, True))
    a.parquet: 0 filters added, 1 dropped; -1,100 bytes
    id: it was dropped
    """

    path: str
    added: list[AddedFilter]
    dropped: list[tuple[int, ColumnName]]
    reasons: dict[ColumnName, str]
    bytes_before: int
    bytes_after: int
    bytes_fetched: int
    written: bool
    files: dict[str, RewriteReport] = {}  # noqa: RUF012 - nothing writes to it
    left_out: dict[str, str] = {}  # noqa: RUF012 - nothing writes to it

    def __repr__(self) -> str:
        return f"<parsieve.RewriteReport: {self}>"

    def _repr_html_(self) -> str | None:
        return html_of(self)

    def __str__(self) -> str:
        written = sum(report.written for report in self.files.values())
        changes = [f"{count(len(self.files), 'file')}, {written:,} written"] if self.files else []
        changes.append(f"{count(len(self.added), 'filter')} added, {len(self.dropped):,} dropped")
        changes.append(f"{self.bytes_after - self.bytes_before:+,} bytes")
        if self.left_out:
            changes.append(f"{len(self.left_out):,} skipped")
        reasons = [f"{name if isinstance(name, str) else '.'.join(name)}: {why}" for name, why in self.reasons.items()]
        return "\n".join([f"{self.path}: {'; '.join(changes)}", *reasons])


def combine_reports(folder: str, files: dict[str, RewriteReport], left_out: dict[str, str]) -> RewriteReport:
    """Return one report that sums up the reports of a folder's files."""
    reports = files.values()
    return RewriteReport(
        folder,
        [added for report in reports for added in report.added],
        [dropped for report in reports for dropped in report.dropped],
        {},
        sum(report.bytes_before for report in reports),
        sum(report.bytes_after for report in reports),
        sum(report.bytes_fetched for report in reports),
        any(report.written for report in reports),
        files,
        left_out,
    )

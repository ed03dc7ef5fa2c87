"""Choose how the rows of a plan are read: page by page, or as complete row groups."""

from __future__ import annotations

from dataclasses import dataclass

from parsieve.plan.record import PlanRecord
from parsieve.predicate.expr import Always, element_tests
from parsieve.predicate.normalize import normalize

# If at most this share of a table can match, Polars and DuckDB get the rows that the page reader finds. Otherwise they
# scan the files themselves, because they decode many rows faster.
FEW = 0.25


@dataclass(frozen=True, slots=True)
class Reading:
    """How the rows of a plan are read."""

    # Whether only the pages that can hold matching rows are decoded. pyarrow decodes complete row groups.
    by_pages: bool
    # Whether Polars and DuckDB get rows that parsieve has read. Otherwise they scan the kept files.
    for_engines: bool
    # The share of the table that can match, or None if it is not known.
    share: float | None

    def __str__(self) -> str:
        if not self.by_pages:
            return "complete row groups are decoded, because the predicate is the same for every row"
        if self.for_engines:
            return "only pages that can hold matches are decoded, also for Polars and DuckDB"
        reason = (
            "the sizes of files are not known" if self.share is None else f"{self.share:.0%} of the table can match"
        )
        return (
            "only pages that can hold matches are decoded; Polars and DuckDB scan the kept files themselves, "
            f"because {reason}"
        )


def choose_reading(record: PlanRecord) -> Reading:
    """Choose how the rows of a plan are read."""
    by_pages = not isinstance(normalize(record.expr), Always)
    share = record.candidate_share
    # Engines cannot test elements of lists in the same way, so they get rows that are read here.
    is_few = (share is not None and share <= FEW) or bool(element_tests(record.expr))
    return Reading(by_pages, by_pages and is_few, share)

"""Report each plan to the counters of this process, to traces and to the log."""

from __future__ import annotations

import logging

from parsieve.observe import counters
from parsieve.observe.logs import PLAN, place
from parsieve.plan.record import PlanRecord
from parsieve.predicate.expr import columns
from parsieve.wording import count, size

# Plans that take longer than this many seconds are logged at level INFO.
SLOW = 1.0
# How many problems of the index a line lists.
SHOWN = 5


def count_plan(record: PlanRecord, seconds: float) -> None:
    """Add a plan to the counters of this process."""
    # Listing the kept files takes longer than counting them, so plans do not list them here.
    kept = record.files.kept.true_count if record.groups is None else len(record.kept)
    groups_kept = 0 if record.groups is None else record.groups[0].kept.true_count
    counters.add(
        plans=1,
        files_kept=kept,
        files_skipped=len(record.snapshot.slices) - kept,
        row_groups_kept=groups_kept,
        row_groups_skipped=0 if record.groups is None else len(record.groups[1]) - groups_kept,
        plan_seconds=seconds,
    )


def attributes_of(record: PlanRecord) -> dict[str, str | bool | int | float]:
    """Return the attributes of a plan's span. They contain no values of the predicate."""
    return {
        "parsieve.table": place(record.lake.uri),
        "parsieve.columns": ", ".join(_columns_of(record)),
        "parsieve.files": len(record.snapshot.slices),
        "parsieve.files_kept": len(record.kept),
        "parsieve.requests": record.cost.requests,
        "parsieve.bytes_read": record.cost.bytes_fetched,
    }


def log_plan(record: PlanRecord, seconds: float) -> None:
    """Log the result of each kind of evidence at level DEBUG; slow plans and problems of the index at level INFO.

    Lines at level INFO have no values of the predicate.
    """
    if seconds > SLOW and PLAN.isEnabledFor(logging.INFO):
        read = f"{size(record.cost.bytes_fetched)} in {count(record.cost.requests, 'request')}"
        names = ", ".join(_columns_of(record)) or "no column"
        PLAN.info("slow plan: %.1f s for %s of %s (read %s)", seconds, names, place(record.lake.uri), read)
    if record.notes and PLAN.isEnabledFor(logging.INFO):
        # Queries of engines show no plan, so this line is all that reports the problem.
        notes = "; ".join(map(place, record.notes[:SHOWN]))
        more = f"; and {len(record.notes) - SHOWN:,} more" if len(record.notes) > SHOWN else ""
        PLAN.info("planned %s with problems: %s%s", place(record.lake.uri), notes, more)
    if PLAN.isEnabledFor(logging.DEBUG):
        evidence = ", ".join(f"{stage.evidence} kept {stage.kept} of {stage.asked}" for stage in record.stages)
        kept, total = len(record.kept), len(record.snapshot.slices)
        PLAN.debug("kept %d of %d files in %.3f s for %s (%s)", kept, total, seconds, record.expr, evidence)


def _columns_of(record: PlanRecord) -> list[str]:
    return list(dict.fromkeys(".".join(column.path) for column in columns(record.expr)))

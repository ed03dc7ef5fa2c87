"""Make plans: apply evidence to a predicate's questions, from cheap to expensive, and judge row groups if that pays."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.errors import ParsieveWarning, StaleIndexError
from parsieve.index.log.commit import TEXT_CONTENTS
from parsieve.lake.base import Snapshot
from parsieve.observe import counters
from parsieve.observe.logs import PLAN, place
from parsieve.plan.cost_model import CostModel
from parsieve.plan.evidence.bloom_index import BloomIndexEvidence, TextIndexEvidence
from parsieve.plan.evidence.candidates import Candidates
from parsieve.plan.evidence.coverage import REASONS, uncovered
from parsieve.plan.evidence.footers import Cost
from parsieve.plan.evidence.minmax import lake_statistics, partitions
from parsieve.plan.evidence.questions import HoldsText, HoldsWord, Question, ask, leaves
from parsieve.plan.evidence.row_groups import GroupJudge
from parsieve.plan.evidence.sieve_index import SieveIndexEvidence
from parsieve.plan.plan import Plan
from parsieve.plan.record import PlanRecord
from parsieve.plan.rows.judge import exclude_files, exclude_groups, find_rows
from parsieve.predicate.bind import BoundPredicate
from parsieve.predicate.builder import explain_unknown
from parsieve.predicate.expr import columns
from parsieve.predicate.expressions.implied import with_implied
from parsieve.wording import count, size

if TYPE_CHECKING:
    from parsieve.plan.open_table import OpenTable

# Plans that take longer than this many seconds are logged at level INFO.
SLOW = 1.0


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What evidence a plan may use, besides the metadata of the table's format."""

    # Whether to read footers: True reads all, False none. None reads a footer if nothing else answers, or if it pays.
    row_groups: bool | None = None
    # Whether to use the index, and the filters in files.
    use_index: bool = True
    use_filters: bool = True


DEFAULTS = PlanOptions()


def make_plan(table: OpenTable, snapshot: Snapshot, bound: BoundPredicate, options: PlanOptions) -> Plan:
    """Plan a predicate on a snapshot of a table."""
    requests, num_bytes = table.index.cost
    view, notes = table.view(snapshot) if options.use_index else (None, [])
    certain = table.lake.types_are_certain
    expressions = [] if view is None else view.expressions(snapshot.schema)
    tree = ask(with_implied(bound.expr, expressions, certain), types_are_certain=certain)
    questions = list(leaves(tree))
    cost = Cost()
    doubts: dict[int, list[str]] = {}
    files = Candidates.all(tree, len(snapshot.slices))
    files.apply(partitions(snapshot.slices.partition_values))
    files.apply(lake_statistics(snapshot.statistics))
    # For each question, the slices that need no footer for it.
    answered = _answered_by_statistics(snapshot, questions)
    by_rows: list[SieveIndexEvidence | TextIndexEvidence] = []
    if view is not None:
        sieve, bloom = SieveIndexEvidence(view, snapshot.slices), BloomIndexEvidence(view, snapshot.slices)
        texts = [TextIndexEvidence(view, snapshot.slices, content) for content in TEXT_CONTENTS]
        by_rows = [sieve, *texts]
        by_filters: list[BloomIndexEvidence | TextIndexEvidence] = [bloom, *texts]
        indexes: list[SieveIndexEvidence | BloomIndexEvidence | TextIndexEvidence] = [sieve, *by_filters]
        for index in indexes:
            files.apply(index)
        by_sieve = [sieve.covers(question) for question in questions]
        # The Bloom index has false positives that min/max statistics may exclude, so it does not replace a footer.
        answered = [_either(*masks) for masks in zip(answered, by_sieve, strict=True)]
        by_index = [
            functools.reduce(_either, (filters.covers(question) for filters in by_filters), first)
            for question, first in zip(questions, by_sieve, strict=True)
        ]
        unreadable = functools.reduce(or_, (filters.failed for filters in by_filters), sieve.doubts)
        notes += [f"the index, {part}: {error}" for part, error in unreadable.items()]
        covered = [mask for mask in by_index if mask is not None]
        if covered:
            is_uncovered = pc.invert(functools.reduce(pc.or_, covered))
            numbers = pc.indices_nonzero(pc.and_(files.kept, is_uncovered)).to_pylist()
            if numbers:
                tokens = [index.indexed_tokens(question) for question in questions for index in indexes]
                doubts = uncovered(snapshot.slices, numbers, list(filter(None, tokens)), bool(unreadable))
    rows = find_rows(files, by_rows)
    if rows is not None:
        exclude_files(files, rows)
    judge = GroupJudge(
        table.lake,
        snapshot,
        table.footers,
        files,
        cost,
        use_filters=options.use_filters,
        known=lambda groups: None if rows is None else exclude_groups(groups, rows),
    )
    chosen = _unanswered(files, judge, answered, options.row_groups)
    if options.row_groups is None and options.use_filters and questions:
        chosen = sorted(chosen + _worth_opening(table, snapshot, files, judge, chosen))
    groups = judge.judge(chosen) if chosen else None
    if groups is not None:
        rows = find_rows(files, by_rows, groups, {number: footer.num_rows for number, footer in judge.opened.items()})
        if rows is not None:
            exclude_groups(groups, rows)
        for number, reasons in judge.doubts(groups).items():
            doubts.setdefault(number, []).extend(reasons)
    cost.requests += table.index.cost[0] - requests
    cost.bytes_fetched += table.index.cost[1] - num_bytes
    pages = None if view is None else view.pages
    return Plan(PlanRecord(table.lake, snapshot, bound.expr, files, groups, rows, doubts, tuple(notes), cost, pages))


def count_plan(record: PlanRecord, seconds: float) -> None:
    """Add a plan to the counters of this process."""
    # Listing the kept files takes longer than counting them, so it is left to whoever needs them.
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
    """Log the result of each kind of evidence at level DEBUG, and slow plans without their values at level INFO."""
    if seconds > SLOW and PLAN.isEnabledFor(logging.INFO):
        read = f"{size(record.cost.bytes_fetched)} in {count(record.cost.requests, 'request')}"
        names = ", ".join(_columns_of(record)) or "no column"
        PLAN.info("slow plan: %.1f s for %s of %s (read %s)", seconds, names, place(record.lake.uri), read)
    if PLAN.isEnabledFor(logging.DEBUG):
        evidence = ", ".join(f"{stage.evidence} kept {stage.kept} of {stage.asked}" for stage in record.stages)
        kept, total = len(record.kept), len(record.snapshot.slices)
        PLAN.debug("kept %d of %d files in %.3f s for %s (%s)", kept, total, seconds, record.expr, evidence)


def _columns_of(record: PlanRecord) -> list[str]:
    return list(dict.fromkeys(".".join(column.path) for column in columns(record.expr)))


def check_arguments(as_of: Any, on_unknown: str) -> None:
    """Raise an error for arguments of `Table.plan` that were passed in the wrong place."""
    if on_unknown not in ("warn", "error", "ignore"):
        raise ValueError(f'on_unknown must be "warn", "error" or "ignore", not {on_unknown!r}')
    if isinstance(as_of, list | tuple | dict):
        raise TypeError(
            f"as_of must be a version or a datetime, not a {type(as_of).__name__}; pass values for ? as params=[...]"
        )


def report_unknown(bound: BoundPredicate, on_unknown: str) -> None:
    """Warn the caller of `Table.plan` about each part of the predicate that is not understood, or raise an error."""
    texts = list(dict.fromkeys(explain_unknown(part) for part in bound.unknown))
    if texts and on_unknown == "error":
        raise UnsupportedError("; ".join(texts))
    if on_unknown == "warn":
        for text in texts:
            warnings.warn(text, ParsieveWarning, stacklevel=3)


def refuse_stale(record: PlanRecord, is_indexed: bool) -> None:
    """Raise `StaleIndexError` if a plan keeps files that no index covers, or if the index could not be used."""
    if record.keeps and not (is_indexed or record.notes):
        raise StaleIndexError(
            f"{record.lake.uri} has no index, so {count(len(record.keeps), 'file')} must be read, such as "
            f'{record.keeps[0].path}. Build one with build_index(), or plan with stale="keep"'
        )
    paths = [keep.path for keep in record.keeps if REASONS.intersection(keep.doubt)]
    if not paths and not record.notes:
        return
    reasons = list(record.notes)
    if paths:
        reasons.append(f"it does not cover {count(len(paths), 'file')}, such as {paths[0]}")
    raise StaleIndexError(
        f"the index of {record.lake.uri} is out of date: {'; '.join(reasons)}. Bring it up to date with "
        'update_index(), or plan with stale="keep"'
    )


def _answered_by_statistics(snapshot: Snapshot, questions: Sequence[Question]) -> list[pa.BooleanArray | None]:
    """Return for each question the slices whose table metadata makes a footer unnecessary."""
    by_column: dict[tuple[str, ...], pa.BooleanArray | None] = {}
    partition_columns = snapshot.slices.partition_values
    for question in questions:
        path = question.column.path
        if path in by_column:
            continue
        by_column[path] = None
        if path[0] in partition_columns:
            by_column[path] = partition_columns[path[0]].numbers.is_valid()
        statistics = snapshot.statistics(path)
        if statistics is not None:
            has_statistics = pc.or_(pc.is_valid(statistics.lower), pc.is_valid(statistics.null_count))
            by_column[path] = _either(by_column[path], has_statistics)
    # Footers have no answer about text inside strings.
    everything = pa.repeat(pa.scalar(True), len(snapshot.slices))
    return [
        everything if isinstance(question, HoldsText | HoldsWord) else by_column[question.column.path]
        for question in questions
    ]


def _either(left: pa.BooleanArray | None, right: pa.BooleanArray | None) -> pa.BooleanArray | None:
    if left is None or right is None:
        return right if left is None else left
    return pc.or_(left, right)


def _unanswered(
    files: Candidates, judge: GroupJudge, answered: Sequence[pa.BooleanArray | None], row_groups: bool | None
) -> list[int]:
    """Return the kept slices whose footers must be read: those with an unanswered question, or all if asked to."""
    if row_groups is False or not answered:
        return []
    to_open = files.kept
    if not row_groups and all(mask is not None for mask in answered):
        to_open = pc.and_not(to_open, functools.reduce(pc.and_, answered))
    return judge.usable(pc.indices_nonzero(to_open).to_pylist())


def _worth_opening(
    table: OpenTable, snapshot: Snapshot, files: Candidates, judge: GroupJudge, chosen: list[int]
) -> list[int]:
    """Return further kept slices whose footers and filters are worth reading."""
    kept = pc.indices_nonzero(files.kept)
    if chosen:
        kept = kept.filter(pc.invert(pc.is_in(kept, value_set=pa.array(chosen, kept.type))))
    more = CostModel(snapshot, files, judge, table.footers.experience).choose(kept)
    judge.cost.not_opened = len(kept) - len(more) if more else 0
    return more

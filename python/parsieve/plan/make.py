"""Make plans: apply evidence to a predicate's questions, from cheap to expensive, and judge row groups if that pays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.lake.base import Snapshot
from parsieve.plan.cost_model import CostModel
from parsieve.plan.evidence.candidates import Candidates
from parsieve.plan.evidence.footers import Cost
from parsieve.plan.evidence.index.apply import apply_indexes, either
from parsieve.plan.evidence.minmax import lake_statistics, partitions
from parsieve.plan.evidence.questions import HasMatch, HasWord, Question, leaves, question_tree
from parsieve.plan.evidence.row_groups import GroupJudge
from parsieve.plan.plan import Plan
from parsieve.plan.record import PlanRecord
from parsieve.plan.rows.judge import exclude_files, exclude_groups, find_rows
from parsieve.predicate.bind import BoundPredicate
from parsieve.predicate.expressions.implied import with_implied

if TYPE_CHECKING:
    from parsieve.index.view import View
    from parsieve.plan.open_table import OpenTable


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
    before = _cost_of_index_and_keys(table)
    cost = Cost()
    view, notes = table.view(snapshot) if options.use_index else (None, [])
    record = _make_record(table, snapshot, bound, options, (view, notes), cost)
    if record.health == "damaged" and view is not None and table.is_expired(view):
        record = _make_record(table, snapshot, bound, options, table.view(snapshot), cost)
    after = _cost_of_index_and_keys(table)
    cost.requests += after[0] - before[0]
    cost.bytes_fetched += after[1] - before[1]
    return Plan(record)


def _cost_of_index_and_keys(table: OpenTable) -> tuple[int, int]:
    """Return the requests made and the bytes read so far for the index of a table, and for the keys of its files."""
    costs = [table.index.cost, (0, 0) if table.lake.keys is None else table.lake.keys.cost]
    return sum(requests for requests, _ in costs), sum(num_bytes for _, num_bytes in costs)


def _make_record(
    table: OpenTable,
    snapshot: Snapshot,
    bound: BoundPredicate,
    options: PlanOptions,
    index: tuple[View | None, list[str]],
    cost: Cost,
) -> PlanRecord:
    """Plan with a version of the index, which may have problems."""
    view, notes = index
    certain = table.lake.types_are_certain
    expressions = [] if view is None else view.expressions(snapshot.schema)
    tree = question_tree(with_implied(bound.expr, expressions, certain), types_are_certain=certain)
    questions = list(leaves(tree))
    files = Candidates.all(tree, len(snapshot.slices))
    files.apply(partitions(snapshot.slices.partition_values))
    files.apply(lake_statistics(snapshot.statistics))
    # For each question, the slices that need no footer for it.
    answered = _answered_by_statistics(snapshot, questions)
    by_index = apply_indexes(view, snapshot.slices, questions, files)
    answered = [either(*masks) for masks in zip(answered, by_index.answered, strict=True)]
    doubts = by_index.doubts
    rows = find_rows(files, by_index.with_units)
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
        footers = {number: footer.num_rows for number, footer in judge.opened.items()}
        rows = find_rows(files, by_index.with_units, groups, footers)
        if rows is not None:
            exclude_groups(groups, rows)
        for number, reasons in judge.doubts(groups).items():
            doubts.setdefault(number, []).extend(reasons)
    pages = None if view is None else view.pages
    health = "unusable" if notes else by_index.health
    notes = [*notes, *by_index.problems]
    return PlanRecord(table.lake, snapshot, bound.expr, files, groups, rows, doubts, tuple(notes), cost, pages, health)


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
            by_column[path] = either(by_column[path], has_statistics)
    # Footers have no answer about text inside strings.
    everything = pa.repeat(pa.scalar(True), len(snapshot.slices))
    return [
        everything if isinstance(question, HasMatch | HasWord) else by_column[question.column.path]
        for question in questions
    ]


def _unanswered(
    files: Candidates, judge: GroupJudge, answered: Sequence[pa.BooleanArray | None], row_groups: bool | None
) -> list[int]:
    """Return the kept slices whose footers must be read: those with an unanswered question, or all on request."""
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

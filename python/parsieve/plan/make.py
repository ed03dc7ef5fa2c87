"""Make plans: parse the predicate, apply evidence from cheap to expensive, and judge row groups if that pays off."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.errors import ParsieveWarning, StaleIndexError
from parsieve.index.view import View
from parsieve.lake.base import Lake, Snapshot
from parsieve.plan import left_out
from parsieve.plan.cost.model import CostModel
from parsieve.plan.evidence.bloom_index import ShelfEvidence
from parsieve.plan.evidence.candidates import Sieving
from parsieve.plan.evidence.footers import Cost, Footers
from parsieve.plan.evidence.minmax import lake_statistics, partitions
from parsieve.plan.evidence.questions import Question, ask, leaves
from parsieve.plan.evidence.row_groups import GroupJudge
from parsieve.plan.evidence.sieve_index import IndexEvidence
from parsieve.plan.plan import Plan
from parsieve.predicate.builder import explained
from parsieve.predicate.expr import And, unknowns
from parsieve.predicate.parse import Params, parse, parse_keys
from parsieve.wording import count, size

# Plans that take longer than this many seconds are logged at level INFO.
SLOW = 1.0
_log = logging.getLogger("parsieve.plan")


def make_plan(
    lake: Lake,
    snapshot: Snapshot,
    footers: Footers,
    view: View | None,
    where: Any,
    keys: Mapping[Any, Any] | None,
    row_groups: bool | None,
    timezone: str | None,
    notes: Sequence[str] = (),
    *,
    filters: bool = True,
    params: Params | None = None,
) -> Plan:
    """Plan a predicate on a snapshot of a table. `notes` are doubts that are already known.

    Without a view and without `filters`, only min/max statistics are used.
    """
    expr = parse(where, snapshot.schema, timezone, params)
    if keys is not None:
        joined = parse_keys(keys, snapshot.schema)
        expr = joined if where is None else And((expr, joined))
    # The types of a plain folder are those of its first file.
    tree = ask(expr, types_are_certain=lake.format != "parquet")
    cost = Cost()
    doubts: dict[int, list[str]] = {}
    files = Sieving.begin(tree, len(snapshot.slices))
    files.hear(partitions(snapshot.slices.partition_values))
    files.hear(lake_statistics(snapshot.statistics))
    judged = _by_statistics(snapshot, list(leaves(tree)))
    if view is not None:
        index, shelves = IndexEvidence(view, snapshot.slices), ShelfEvidence(view, snapshot.slices)
        files.hear(index)
        files.hear(shelves)
        sieved = [index.speaks(question) for question in leaves(tree)]
        # Filters are wrong now and then where the minimum and the maximum are not, so footers are read all the same.
        judged = [_either(*pair) for pair in zip(judged, sieved, strict=True)]
        filtered = [shelves.speaks(question) for question in leaves(tree)]
        spoken = [_either(*pair) for pair in zip(sieved, filtered, strict=True)]
        broken = index.doubts | shelves.failed
        notes = [*notes, *(f"the index, {part}: {why}" for part, why in broken.items())]
        asked = [one for one in spoken if one is not None]
        if asked:
            silent = pc.invert(functools.reduce(pc.or_, asked))
            numbers = pc.indices_nonzero(pc.and_(files.kept, silent)).to_pylist()
            heard = [one.bound(question) for question in leaves(tree) for one in (index, shelves)] if numbers else []
            doubts = left_out.reasons(snapshot.slices, numbers, [one for one in heard if one], bool(broken))
    judge = GroupJudge(lake, snapshot, footers, files, cost, blooms=filters)
    chosen = _unjudged(files, judge, judged, row_groups)
    if row_groups is None and filters and judged:
        chosen = sorted(chosen + _worth_opening(snapshot, footers, files, judge, chosen, cost))
    groups = judge.judge(chosen) if chosen else None
    if groups is not None:
        for number, why in judge.doubts(groups).items():
            doubts.setdefault(number, []).extend(why)
    return Plan(lake, snapshot, expr, files, groups, doubts, list(notes), cost)


def log_plan(plan: Plan, seconds: float) -> None:
    """Log what a plan kept and why, and that it was slow."""
    if seconds > SLOW and _log.isEnabledFor(logging.INFO):
        read = f"{size(plan.bytes_fetched)} in {count(plan.requests, 'request')}"
        _log.info("slow plan: %.1f s for %s (read %s)", seconds, plan._expr, read)
    if _log.isEnabledFor(logging.DEBUG):
        stages = [*plan._files.stages, *([] if plan._groups is None else plan._groups[0].stages)]
        evidence = ", ".join(f"{stage.name} kept {stage.kept} of {stage.asked}" for stage in stages)
        total = len(plan._snapshot.slices)
        _log.debug("kept %d of %d files in %.3f s for %s (%s)", len(plan._kept), total, seconds, plan._expr, evidence)


def check_arguments(as_of: Any, on_unknown: str) -> None:
    """Raise an error for arguments of `Table.plan` that were passed in the wrong place."""
    if on_unknown not in ("warn", "error", "ignore"):
        raise ValueError(f'on_unknown is "warn", "error" or "ignore", not {on_unknown!r}')
    if isinstance(as_of, list | tuple | dict):
        raise TypeError(
            f"as_of is a version or a datetime, not a {type(as_of).__name__}; pass the values of ? as params=[...]"
        )


def report_unknown(plan: Plan, on_unknown: str) -> None:
    """Warn the caller of `Table.plan` about each part that is not understood, or raise an error."""
    texts = list(dict.fromkeys(explained(part) for part in unknowns(plan._expr)))
    if texts and on_unknown == "error":
        raise UnsupportedError("; ".join(texts))
    if on_unknown == "warn":
        for text in texts:
            warnings.warn(text, ParsieveWarning, stacklevel=3)


def refuse_stale(plan: Plan, is_indexed: bool) -> None:
    """Raise `StaleIndexError` if a plan keeps files that no index covers, or if the index could not be used."""
    if plan.kept and not (is_indexed or plan._notes):
        raise StaleIndexError(
            f"{plan._lake.uri} has no index, so {count(len(plan.kept), 'file')} must be read, such as "
            f'{plan.kept[0].path}. Build one with build_index(), or plan with stale="keep"'
        )
    unknown = [keep.path for keep in plan.kept if left_out.REASONS.intersection(keep.doubt)]
    if not unknown and not plan._notes:
        return
    why = list(plan._notes)
    if unknown:
        why.append(f"it does not cover {count(len(unknown), 'file')}, such as {unknown[0]}")
    raise StaleIndexError(
        f"the index of {plan._lake.uri} is out of date: {'; '.join(why)}. Bring it up to date with "
        'update_index(), or plan with stale="keep"'
    )


def _by_statistics(snapshot: Snapshot, questions: Sequence[Question]) -> list[pa.BooleanArray | None]:
    """Return for each comparison and slice whether the table's own metadata answer as well as a footer could."""
    by_column: dict[tuple[str, ...], pa.BooleanArray | None] = {}
    partitioned = snapshot.slices.partition_values
    for question in questions:
        path = question.column.path
        if path in by_column:
            continue
        by_column[path] = None
        if path[0] in partitioned:
            by_column[path] = partitioned[path[0]].numbers.is_valid()
        known = snapshot.statistics(path)
        if known is not None:
            by_column[path] = _either(by_column[path], pc.or_(pc.is_valid(known.lower), pc.is_valid(known.null_count)))
    return [by_column[question.column.path] for question in questions]


def _either(one: pa.BooleanArray | None, other: pa.BooleanArray | None) -> pa.BooleanArray | None:
    if one is None or other is None:
        return other if one is None else one
    return pc.or_(one, other)


def _unjudged(
    files: Sieving, judge: GroupJudge, judged: Sequence[pa.BooleanArray | None], row_groups: bool | None
) -> list[int]:
    """Return the kept slices whose footers must be read: all, or those for which a comparison is still unanswered."""
    if row_groups is False or not judged:
        return []
    open_still = files.kept
    if not row_groups and all(one is not None for one in judged):
        open_still = pc.and_not(open_still, functools.reduce(pc.and_, judged))
    return [number for number in pc.indices_nonzero(open_still).to_pylist() if judge.is_usable(number)]


def _worth_opening(
    snapshot: Snapshot, footers: Footers, files: Sieving, judge: GroupJudge, chosen: list[int], cost: Cost
) -> list[int]:
    """Return further kept slices whose footers and filters are worth reading."""
    kept = pc.indices_nonzero(files.kept)
    if chosen:
        kept = kept.filter(pc.invert(pc.is_in(kept, value_set=pa.array(chosen, kept.type))))
    more = CostModel(snapshot, files, judge, footers.experience).choose(kept)
    cost.not_opened = len(kept) - len(more) if more else 0
    return more

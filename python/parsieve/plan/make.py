"""Make plans: parse the predicate, apply evidence from cheap to expensive, and judge row groups if that pays off."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.errors import ParsieveWarning, StaleIndexError
from parsieve.lake.base import Snapshot
from parsieve.plan.cost_model import CostModel
from parsieve.plan.evidence.bloom_index import ShelfEvidence
from parsieve.plan.evidence.candidates import Sieving
from parsieve.plan.evidence.coverage import REASONS, uncovered
from parsieve.plan.evidence.footers import Cost
from parsieve.plan.evidence.minmax import lake_statistics, partitions
from parsieve.plan.evidence.questions import Question, ask, leaves
from parsieve.plan.evidence.row_groups import GroupJudge
from parsieve.plan.evidence.sieve_index import IndexEvidence
from parsieve.plan.plan import Plan
from parsieve.plan.record import PlanRecord
from parsieve.predicate.bind import BoundPredicate
from parsieve.predicate.builder import explained
from parsieve.wording import count, size

if TYPE_CHECKING:
    from parsieve.plan.open_table import OpenTable

# Plans that take longer than this many seconds are logged at level INFO.
SLOW = 1.0
_log = logging.getLogger("parsieve.plan")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What evidence a plan may use, besides the metadata of the table's format."""

    # Whether to read footers: True reads all, False none, None those that no other evidence replaces or that pay off.
    row_groups: bool | None = None
    # Whether to use the index, and the filters in files.
    use_index: bool = True
    use_filters: bool = True


DEFAULTS = PlanOptions()


def make_plan(table: OpenTable, snapshot: Snapshot, bound: BoundPredicate, options: PlanOptions) -> Plan:
    """Plan a predicate on a snapshot of a table."""
    requests, num_bytes = table.index.cost
    view, notes = table.view(snapshot) if options.use_index else (None, [])
    lake = table.lake
    # The types of a plain folder are those of its first file.
    tree = ask(bound.expr, types_are_certain=lake.format != "parquet")
    cost = Cost()
    doubts: dict[int, list[str]] = {}
    files = Sieving.begin(tree, len(snapshot.slices))
    files.hear(partitions([piece.partition_values for piece in snapshot.slices]))
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
        notes += [f"the index, {part}: {why}" for part, why in broken.items()]
        asked = [one for one in spoken if one is not None]
        if asked:
            silent = pc.invert(functools.reduce(pc.or_, asked))
            numbers = pc.indices_nonzero(pc.and_(files.kept, silent)).to_pylist()
            heard = [one.bound(question) for question in leaves(tree) for one in (index, shelves)] if numbers else []
            doubts = uncovered(snapshot.slices, numbers, [one for one in heard if one], bool(broken))
    judge = GroupJudge(lake, snapshot, table.footers, files, cost, use_filters=options.use_filters)
    chosen = _unjudged(files, judge, judged, options.row_groups)
    if options.row_groups is None and options.use_filters and judged:
        chosen = sorted(chosen + _worth_opening(table, snapshot, files, judge, chosen))
    groups = judge.judge(chosen) if chosen else None
    if groups is not None:
        for number, why in judge.doubts(groups).items():
            doubts.setdefault(number, []).extend(why)
    cost.requests += table.index.cost[0] - requests
    cost.bytes_fetched += table.index.cost[1] - num_bytes
    return Plan(PlanRecord(lake, snapshot, bound.expr, files, groups, doubts, tuple(notes), cost))


def log_plan(record: PlanRecord, seconds: float) -> None:
    """Log what a plan kept and why, and that it was slow."""
    if seconds > SLOW and _log.isEnabledFor(logging.INFO):
        read = f"{size(record.cost.bytes_fetched)} in {count(record.cost.requests, 'request')}"
        _log.info("slow plan: %.1f s for %s (read %s)", seconds, record.expr, read)
    if _log.isEnabledFor(logging.DEBUG):
        evidence = ", ".join(f"{stage.evidence} kept {stage.kept} of {stage.asked}" for stage in record.stages)
        kept, total = len(record.kept), len(record.snapshot.slices)
        _log.debug("kept %d of %d files in %.3f s for %s (%s)", kept, total, seconds, record.expr, evidence)


def check_arguments(as_of: Any, on_unknown: str) -> None:
    """Raise an error for arguments of `Table.plan` that were passed in the wrong place."""
    if on_unknown not in ("warn", "error", "ignore"):
        raise ValueError(f'on_unknown is "warn", "error" or "ignore", not {on_unknown!r}')
    if isinstance(as_of, list | tuple | dict):
        raise TypeError(
            f"as_of is a version or a datetime, not a {type(as_of).__name__}; pass the values of ? as params=[...]"
        )


def report_unknown(bound: BoundPredicate, on_unknown: str) -> None:
    """Warn the caller of `Table.plan` about each part that is not understood, or raise an error."""
    texts = list(dict.fromkeys(explained(part) for part in bound.unknown))
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
    unknown = [keep.path for keep in record.keeps if REASONS.intersection(keep.doubt)]
    if not unknown and not record.notes:
        return
    why = list(record.notes)
    if unknown:
        why.append(f"it does not cover {count(len(unknown), 'file')}, such as {unknown[0]}")
    raise StaleIndexError(
        f"the index of {record.lake.uri} is out of date: {'; '.join(why)}. Bring it up to date with "
        'update_index(), or plan with stale="keep"'
    )


def _by_statistics(snapshot: Snapshot, questions: Sequence[Question]) -> list[pa.BooleanArray | None]:
    """Return for each comparison and slice whether the table's own metadata answer as well as a footer could."""
    by_column: dict[tuple[str, ...], pa.BooleanArray | None] = {}
    partitioned = {name for piece in snapshot.slices for name in piece.partition_values}
    for question in questions:
        path = question.column.path
        if path in by_column:
            continue
        by_column[path] = None
        if path[0] in partitioned:
            by_column[path] = pa.array([path[0] in piece.partition_values for piece in snapshot.slices], pa.bool_())
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
    table: OpenTable, snapshot: Snapshot, files: Sieving, judge: GroupJudge, chosen: list[int]
) -> list[int]:
    """Return further kept slices whose footers and filters are worth reading."""
    kept = pc.indices_nonzero(files.kept)
    if chosen:
        kept = kept.filter(pc.invert(pc.is_in(kept, value_set=pa.array(chosen, kept.type))))
    more = CostModel(snapshot, files, judge, table.footers.experience).choose(kept)
    judge.cost.not_opened = len(kept) - len(more) if more else 0
    return more

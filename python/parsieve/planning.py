"""How a plan is made: the predicate read, evidence heard by its cost, row groups looked at where it pays."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.errors import ParsieveWarning, StaleIndexError
from parsieve.filters import FileFilters
from parsieve.index.view import View
from parsieve.lake.base import Lake, Slice, Snapshot
from parsieve.plan import Plan
from parsieve.predicate.build import explained
from parsieve.predicate.expr import And, Column, unknowns
from parsieve.predicate.parse import Params, parse, parse_keys
from parsieve.prune.bloom import FileBlooms
from parsieve.prune.footer_stats import Cost, FileFooter, Footers, bounds_of
from parsieve.prune.index import IndexEvidence
from parsieve.prune.minmax import ColumnBounds, MinMax, lake_statistics, partitions
from parsieve.prune.planner import Sieving
from parsieve.prune.questions import Beyond, Question, Tree, ask, leaves
from parsieve.prune.shelf import ShelfEvidence

STALE = "the index does not hold this version of it; update_index() reads it"


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
    """The plan of a predicate on a snapshot of a table; `notes` are doubts that are known already.

    Without a view and `filters` it says what minima and maxima can do alone.
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
    files.hear(partitions([piece.partition_values for piece in snapshot.slices]))
    files.hear(lake_statistics(snapshot.statistics))
    judged = [_by_statistics(snapshot, question) for question in leaves(tree)]
    if view is not None:
        index, shelves = IndexEvidence(view, snapshot.slices), ShelfEvidence(view, snapshot.slices)
        files.hear(index)
        files.hear(shelves)
        sieved = [index.speaks(question) for question in leaves(tree)]
        # Filters are wrong now and then where the minimum and the maximum are not, so footers are read all the same.
        judged = [_either(*pair) for pair in zip(judged, sieved, strict=True)]
        filtered = [shelves.speaks(question) for question in leaves(tree)]
        spoken = [_either(*pair) for pair in zip(sieved, filtered, strict=True)]
        notes = [*notes, *(f"the index, {part}: {why}" for part, why in (index.doubts | shelves.failed).items())]
        asked = [one for one in spoken if one is not None]
        if asked:
            silent = pc.invert(functools.reduce(pc.or_, asked))
            doubts = {number: [STALE] for number in pc.indices_nonzero(silent).to_pylist()}
    chosen = _to_open(lake, snapshot, files, judged, row_groups)
    groups = _judge_groups(lake, snapshot, footers, files, chosen, cost, doubts, filters) if chosen else None
    return Plan(lake, snapshot, expr, files, groups, doubts, list(notes), cost)


def check_arguments(as_of: Any, on_unknown: str) -> None:
    """Raise an error for arguments of `Table.plan` that are mistaken for others."""
    if on_unknown not in ("warn", "error", "ignore"):
        raise ValueError(f'on_unknown is "warn", "error" or "ignore", not {on_unknown!r}')
    if isinstance(as_of, list | tuple | dict):
        raise TypeError(
            f"as_of is a version or a datetime, not a {type(as_of).__name__}; pass the values of ? as params=[...]"
        )


def report_unknown(plan: Plan, on_unknown: str) -> None:
    """Warn the caller of `Table.plan` about each part that excludes nothing, or raise an error."""
    texts = list(dict.fromkeys(explained(part) for part in unknowns(plan._expr)))
    if texts and on_unknown == "error":
        raise UnsupportedError("; ".join(texts))
    if on_unknown == "warn":
        for text in texts:
            warnings.warn(text, ParsieveWarning, stacklevel=3)


def refuse_stale(plan: Plan, is_indexed: bool) -> None:
    """`StaleIndexError` for a plan that keeps files of which no index knows, or that could not use it."""
    if plan.kept and not (is_indexed or plan._notes):
        raise StaleIndexError(
            f"{plan._lake.uri} has no index, so {len(plan.kept)} files are kept unseen, such as {plan.kept[0].path}. "
            'Build one with build_index(), or plan with stale="keep"'
        )
    unknown = [keep.path for keep in plan.kept if STALE in keep.doubt]
    if not unknown and not plan._notes:
        return
    why = [*plan._notes, *([f"{len(unknown)} files are kept unseen, such as {unknown[0]}"] if unknown else [])]
    raise StaleIndexError(
        f"the index does not hold {plan._lake.uri} as it is: {'; '.join(why)}. Bring it up to date with "
        'update_index(), or plan with stale="keep"'
    )


def _by_statistics(snapshot: Snapshot, question: Question) -> pa.BooleanArray | None:
    """For each slice, whether the table's own metadata answer a question as well as a footer could."""
    column = question.column
    constant = [column.path[0] in piece.partition_values for piece in snapshot.slices]
    found = pa.array(constant, pa.bool_()) if any(constant) else None
    known = snapshot.statistics(column.path)
    return found if known is None else _either(found, pc.or_(pc.is_valid(known.lower), pc.is_valid(known.null_count)))


def _either(one: pa.BooleanArray | None, other: pa.BooleanArray | None) -> pa.BooleanArray | None:
    if one is None or other is None:
        return other if one is None else one
    return pc.or_(one, other)


def _columns(tree: Tree) -> list[Column]:
    return list({question.column.path: question.column for question in leaves(tree)}.values())


def _to_open(
    lake: Lake,
    snapshot: Snapshot,
    files: Sieving,
    judged: Sequence[pa.BooleanArray | None],
    row_groups: bool | None,
) -> list[int]:
    """The slices whose footers are worth reading: all that are kept, or those of which a question is open still."""
    if row_groups is False or not judged:
        return []
    open_still = files.kept
    if not row_groups and all(one is not None for one in judged):
        open_still = pc.and_not(open_still, functools.reduce(pc.and_, judged))
    columns = _columns(files.tree)
    chosen = []
    for number in pc.indices_nonzero(open_still).to_pylist():
        piece = snapshot.slices[number]
        # A footer says nothing of columns that are constant by the table's own word.
        varying = any(column.path[0] not in lake.constants(piece) for column in columns)
        if varying and lake.row_groups_usable(piece):
            chosen.append(number)
    return chosen


def _judge_groups(
    lake: Lake,
    snapshot: Snapshot,
    footers: Footers,
    files: Sieving,
    chosen: list[int],
    cost: Cost,
    doubts: dict[int, list[str]],
    blooms: bool,
) -> tuple[Sieving, list[tuple[int, int]]]:
    """The row groups of some slices on their way through what their files say."""
    pieces: list[Slice] = [snapshot.slices[number] for number in chosen]
    read = footers.read(pieces, _columns(files.tree), snapshot.schema, lake, cost)
    known: dict[int, FileFooter] = {}
    for number, footer in zip(chosen, read, strict=True):
        if isinstance(footer, str):
            doubts.setdefault(number, []).append(footer)
        else:
            known[number] = _without(footer, lake.constants(snapshot.slices[number]))
    units = [(number, group) for number, footer in known.items() for group in range(len(footer.num_rows))]
    groups = files.split([number for number, _ in units])

    def bounds(column: Column) -> ColumnBounds:
        return bounds_of(column, [(known[number], group) for number, group in units])

    groups.hear(MinMax("footers' min/max", bounds))
    for question in leaves(files.tree):
        if isinstance(question, Beyond) and question in groups.answers:
            other = pc.and_(groups.kept, groups.answers[question])
            for number in dict.fromkeys(units[unit][0] for unit in pc.indices_nonzero(other).to_pylist()):
                doubts.setdefault(number, []).append(
                    f"its {question.column} may have values that are no {question.column.value_type}, the table's type"
                )

    def filters(number: int) -> FileFilters:
        piece = snapshot.slices[number]
        return FileFilters(lake.open_base(piece), lake.file_keys(piece))

    if blooms:
        groups.hear(FileBlooms(units, known, filters, cost))
    return groups, units


def _without(footer: FileFooter, constants: Collection[str]) -> FileFooter:
    """A footer without the columns that are constant by the table's word, which wins over the file."""
    if not constants:
        return footer
    columns = {path: chunk for path, chunk in footer.columns.items() if path[0] not in constants}
    return FileFooter(footer.num_rows, columns)

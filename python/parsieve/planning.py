"""How a plan is made: the predicate read, evidence heard by its cost, row groups looked at where it pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from parsieve.lake.base import AsOf, Lake, Slice, Snapshot
from parsieve.plan import Plan
from parsieve.predicate.expr import And, Column
from parsieve.predicate.parse import parse, parse_keys
from parsieve.prune.bloom import FileBlooms
from parsieve.prune.footer_stats import Cost, FileFooter, Footers, bounds_of
from parsieve.prune.index import IndexEvidence, IndexView
from parsieve.prune.minmax import MinMax, lake_statistics, partitions
from parsieve.prune.planner import Sieving
from parsieve.prune.questions import Tree, ask, leaves


def make_plan(
    lake: Lake,
    footers: Footers,
    where: Any,
    as_of: AsOf,
    keys: Mapping[Any, Any] | None,
    row_groups: bool | None,
    timezone: str | None,
    view: IndexView | None = None,
) -> Plan:
    """The plan of a predicate on a table at an instant."""
    snapshot = lake.snapshot(as_of)
    expr = parse(where, snapshot.schema, timezone)
    if keys:
        expr = And((expr, parse_keys(keys, snapshot.schema)))
    tree = ask(expr)
    cost = Cost()
    files = Sieving.begin(tree, len(snapshot.slices))
    files.hear(partitions([piece.partition_values for piece in snapshot.slices]))
    files.hear(lake_statistics(snapshot.statistics))
    index = IndexEvidence(view, snapshot.slices) if view is not None else None
    if index is not None:
        files.hear(index)
    doubts = _doubts(snapshot, files, index)
    chosen = _to_open(lake, snapshot, files, index, row_groups)
    groups = _judge_groups(lake, snapshot, footers, files, chosen, cost, doubts) if chosen else None
    return Plan(lake, snapshot, expr, files, groups, doubts, cost)


def _doubts(snapshot: Snapshot, files: Sieving, index: IndexEvidence | None) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    if index is not None:
        for number, known in enumerate(index.known):
            if not known:
                found.setdefault(number, []).append("the index does not hold this version of it: update_index()")
    return found


def _columns(tree: Tree) -> list[Column]:
    return list({question.column.path: question.column for question in leaves(tree)}.values())


def _to_open(
    lake: Lake, snapshot: Snapshot, files: Sieving, index: IndexEvidence | None, row_groups: bool | None
) -> list[int]:
    """The slices whose footers are worth reading: all that are kept, or those that nothing else was known of."""
    columns = _columns(files.tree)
    if row_groups is False or not columns:
        return []
    kept = []
    for number in pc.indices_nonzero(files.kept).to_pylist():
        piece = snapshot.slices[number]
        # A footer says nothing of columns that are constant by the table's own word.
        varying = any(column.path[0] not in piece.partition_values for column in columns)
        if varying and lake.row_groups_usable(piece):
            kept.append(number)
    if row_groups is None:
        kept = [number for number in kept if not _is_judged(snapshot, columns, index, number)]
    return kept


def _is_judged(snapshot: Snapshot, columns: Sequence[Column], index: IndexEvidence | None, number: int) -> bool:
    """Whether another evidence knew one of the columns of a slice: then its footer costs more than it may tell."""
    if index is not None and index.known[number] and any(index.covers(column) for column in columns):
        return True
    for column in columns:
        known = snapshot.statistics(column.path)
        if known is not None and (known.lower[number].is_valid or known.null_count[number].is_valid):
            return True
    return False


def _judge_groups(
    lake: Lake,
    snapshot: Snapshot,
    footers: Footers,
    files: Sieving,
    chosen: list[int],
    cost: Cost,
    doubts: dict[int, list[str]],
) -> tuple[Sieving, list[tuple[int, int]]]:
    """The row groups of some slices on their way through what their files say."""
    pieces: list[Slice] = [snapshot.slices[number] for number in chosen]
    read = footers.read(pieces, _columns(files.tree), snapshot.schema, lake.open_base, cost)
    known: dict[int, FileFooter] = {}
    for number, footer in zip(chosen, read, strict=True):
        if isinstance(footer, str):
            doubts.setdefault(number, []).append(footer)
        else:
            known[number] = footer
    units = [(number, group) for number, footer in known.items() for group in range(len(footer.num_rows))]
    groups = files.split([number for number, _ in units])

    def bounds(column: Column) -> Any:
        # A constant column of the table wins over one of the same name in the file.
        pairs = [
            (None if column.path[0] in snapshot.slices[number].partition_values else known[number], group)
            for number, group in units
        ]
        return bounds_of(column, pairs)

    groups.hear(MinMax("footers' min/max", bounds))
    groups.hear(FileBlooms(units, _own(known, snapshot), lambda number: lake.open_base(snapshot.slices[number]), cost))
    return groups, units


def _own(known: dict[int, FileFooter], snapshot: Snapshot) -> dict[int, FileFooter]:
    """Footers without the columns that the table says otherwise than the file."""
    found = {}
    for number, footer in known.items():
        constant = snapshot.slices[number].partition_values
        columns = {path: chunk for path, chunk in footer.columns.items() if path[0] not in constant}
        found[number] = FileFooter(footer.num_rows, columns)
    return found

"""Rank the candidates of a plan: files whose bounds come first in an order are read first.

A ranking only decides the order of reading. Further plans decide which files are not read at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import ParsieveError
from parsieve.plan.evidence.footers import bounds_of
from parsieve.plan.evidence.minmax import ColumnBounds, lake_statistics, partitions
from parsieve.plan.evidence.questions import comparable

if TYPE_CHECKING:
    from parsieve.index.view import View
    from parsieve.plan.open_table import OpenTable
    from parsieve.plan.order.ordering import Ordering
    from parsieve.plan.record import PlanRecord


class Bound(NamedTuple):
    """The first value of a file in an order, or the bound of it. It is compared only with values of other files."""

    # None if the file has no values except nulls and NaN.
    value: Any
    # Whether there may be nulls, and NaN.
    nulls: bool
    nans: bool


class Ranking(NamedTuple):
    """The kept files of a plan in the order to read them, and where their bounds come from."""

    numbers: list[int]
    source: str
    # How many files have no bounds. They come first.
    unknown: int
    # Why the index could not be used, if it failed this time.
    problem: str | None = None


def rank(table: OpenTable, view: View | None, record: PlanRecord, ordering: Ordering, *, footers: bool) -> Ranking:
    """Rank the kept files of a plan. Reads footers only if `footers` is true and nothing else has bounds."""
    numbers = record.kept
    bounds = _from_metadata(record, numbers, ordering)
    source, problem = "the table's min/max", None
    if None in bounds and view is not None:
        try:
            of_index = _from_index(view, record, numbers, ordering)
        except (ParsieveError, OSError, TypeError, ValueError) as error:
            of_index, problem = [None] * len(numbers), str(error)
        if sum(bound is None for bound in of_index) < sum(bound is None for bound in bounds):
            return _ranked(numbers, of_index, "the index", ordering)
    missing = [at for at, bound in enumerate(bounds) if bound is None]
    if missing and footers:
        of_footers = _from_footers(table, record, [numbers[at] for at in missing], ordering)
        for at, bound in zip(missing, of_footers, strict=True):
            bounds[at] = bound
        if len(missing) == len(numbers):
            source = "footers' min/max"
    return _ranked(numbers, bounds, source, ordering)._replace(problem=problem)


def _ranked(numbers: Sequence[int], bounds: Sequence[Bound | None], source: str, ordering: Ordering) -> Ranking:
    first: list[int] = []
    valued: list[tuple[Any, int]] = []
    last: list[int] = []
    for number, bound in zip(numbers, bounds, strict=True):
        if bound is None or (bound.nulls and ordering.nulls == "first") or (bound.nans and ordering.descending):
            first.append(number)
        elif bound.value is not None:
            valued.append((bound.value, number))
        else:
            last.append(number)
    valued.sort(key=lambda pair: pair[0], reverse=ordering.descending)
    unknown = sum(bound is None for bound in bounds)
    return Ranking([*first, *(number for _, number in valued), *last], source, unknown)


def _from_metadata(record: PlanRecord, numbers: Sequence[int], ordering: Ordering) -> list[Bound | None]:
    """Return the bounds from partition values, or from the table's own statistics."""
    snapshot = record.snapshot
    for evidence in (partitions(snapshot.slices.partition_values), lake_statistics(snapshot.statistics)):
        bounds = evidence.bounds(ordering.column)
        if bounds is not None:
            return _typed(bounds, ordering, pa.array(numbers, pa.int64()))
    return [None] * len(numbers)


def _typed(bounds: ColumnBounds, ordering: Ordering, positions: pa.Array | None = None) -> list[Bound | None]:
    """Return the bounds of some units as values that Python can compare."""
    values = comparable(bounds.upper if ordering.descending else bounds.lower)
    nans = pa.nulls(len(values), pa.int64()) if bounds.nans is None else bounds.nans
    columns = [values, bounds.nulls, bounds.values, nans]
    if positions is not None:
        columns = [column.take(positions) for column in columns]
    if pa.types.is_temporal(columns[0].type):
        # Python's times have no nanoseconds.
        columns[0] = columns[0].view(pa.int32() if columns[0].type.bit_width == 32 else pa.int64())
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    # Footers do not count NaN. Their files are not ranked first, since few have any.
    return [
        None if value is None and (nulls is None or nulls != count) else Bound(value, nulls != 0, bool(nans))
        for value, nulls, count, nans in rows
    ]


def _from_footers(
    table: OpenTable, record: PlanRecord, numbers: Sequence[int], ordering: Ordering
) -> list[Bound | None]:
    """Return the bounds from the footers of files that describe the table's rows."""
    bounds: list[Bound | None] = [None] * len(numbers)
    pieces = record.slices(numbers)
    usable = [
        at
        for at, piece in enumerate(pieces)
        if table.lake.row_groups_usable(piece) and ordering.column.path[0] not in table.lake.constants(piece)
    ]
    chosen = [pieces[at] for at in usable]
    footers = table.footers.read(chosen, [ordering.column], record.snapshot.schema, table.lake, record.cost)
    opened = [(at, footer) for at, footer in zip(usable, footers, strict=True) if not isinstance(footer, str)]
    groups = [(footer, group) for _, footer in opened for group in range(len(footer.num_rows))]
    of_groups = iter(_typed(bounds_of(ordering.column, groups), ordering) if groups else ())
    for at, footer in opened:
        bounds[at] = _first(list(islice(of_groups, len(footer.num_rows))), ordering)
    return bounds


def _from_index(view: View, record: PlanRecord, numbers: Sequence[int], ordering: Ordering) -> list[Bound | None]:
    """Return the bounds from the units of the index. In files with several units, only units with candidates count."""
    bounds: list[Bound | None] = [None] * len(numbers)
    path = view.find(ordering.column.path, ordering.column.field_id)
    if path is None:
        return bounds
    reader = view.reader(path)
    ids = reader.numbered(record.snapshot.slices).take(pa.array(numbers, pa.int64()))
    covered = pc.indices_nonzero(ids.is_valid()).to_pylist()
    statistics = reader.unit_statistics(ids.drop_null())
    ranges = reader.unit_ranges(ids.drop_null())
    for at, units, known in zip(covered, statistics, ranges, strict=True):
        if units is None or any(unknown for *_, unknown in units):
            continue
        rows = record.row_ranges.get(numbers[at])
        if rows is not None and known is not None and len(known[1]) == len(units):
            units = [
                unit for unit, (_, start, size) in zip(units, known[1], strict=True) if _overlaps(rows, start, size)
            ]
        side = 1 if ordering.descending else 0
        bounds[at] = _first([Bound(unit[side], unit[4] > 0, unit[5] > 0) for unit in units], ordering)
    return bounds


def _overlaps(rows: Sequence[tuple[int, int]], start: int, size: int) -> bool:
    return any(first < start + size and start < first + count for first, count in rows)


def _first(units: Sequence[Bound | None], ordering: Ordering) -> Bound | None:
    """Return the bound of several units together."""
    known = [unit for unit in units if unit is not None]
    if len(known) < len(units):
        return None
    values = [unit.value for unit in known if unit.value is not None]
    best = None if not values else max(values) if ordering.descending else min(values)
    return Bound(best, any(unit.nulls for unit in known), any(unit.nans for unit in known))

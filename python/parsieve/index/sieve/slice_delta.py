"""The content of a delta in format 2: the rows of slices that the index did not have before, by unit.

A changed slice gets a new id, so a delta only adds rows. The rows of an id that no location has any more are masked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from parsieve import _core
from parsieve.index.log.commit import DeltaPart
from parsieve.index.log.parts import Part
from parsieve.index.scan.column_rows import ColumnRows
from parsieve.index.scan.units import UnitLayout, UnitNumbers
from parsieve.index.sieve.delta import Counts, Difference
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import ColumnPath
from parsieve.lake.rows.columns import leaf_of
from parsieve.predicate.elements import flat


@dataclass
class SliceDelta:
    """The changes of one column: slices that were read, and changed rows of slices that are single units."""

    type: pa.DataType
    instant: int
    # The ids of the slices that were read follow each other. Their units are numbered from 0.
    first_id: int
    layouts: Sequence[UnitLayout] = ()
    # For each unit: its nulls, its NaN, and whether its rows were not read.
    sides: list[tuple[int, int, bool]] = field(default_factory=list)
    # The ids of slices with changed rows, their inserted and deleted nulls, and their inserted and deleted NaN. Their
    # numbers follow the numbers of the units.
    changed: list[tuple[int, Counts, Counts, bool]] = field(default_factory=list)
    # Blocks of sorted runs of changed rows.
    inserted: list[bytes] = field(default_factory=list)
    deleted: list[bytes] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Return whether no rows have changed."""
        return not (self.layouts or self.changed)

    def read(self, layouts: Sequence[UnitLayout], rows: ColumnRows) -> None:
        """Add slices that were read. Pass the runs of their rows to `put`."""
        self.layouts = layouts
        self.sides = list(zip(rows.nulls, rows.nans, rows.unread, strict=True))

    def apply(self, differences: Mapping[int, Difference], path: ColumnPath) -> None:
        """Add changed rows, by the id of their slice, after the slices that were read."""
        first = len(UnitNumbers(self.layouts))
        axis = _core.SieveAxis(self.type)
        inserted, deleted = _core.SievePairs(axis), _core.SievePairs(axis)
        for number, (slice_id, difference) in enumerate(sorted(differences.items()), first):
            counts = [
                [pairs.push(flat(leaf_of(batch, path)), number) for batch in batches]
                for pairs, batches in ((inserted, difference.inserted), (deleted, difference.deleted))
            ]
            nulls = [sum(num_nulls for _, num_nulls, _ in kind) for kind in counts]
            nans = [sum(num_nans for _, _, num_nans in kind) for kind in counts]
            self.changed.append((slice_id, (nulls[0], nulls[1]), (nans[0], nans[1]), False))
        self.inserted, self.deleted = inserted.sort(), deleted.sort()

    def put(self, store: Store, read: Sequence[bytes] = ()) -> DeltaPart:
        """Store the delta, with the blocks of the rows that were read."""
        axis = _core.SieveAxis(self.type)
        ids = range(self.first_id, self.first_id + len(self.layouts))
        data = _core.sieve_delta2(
            axis,
            instant=self.instant,
            units=core_units(ids, self.layouts),
            sides=self.sides,
            changed=self.changed,
            plus=[*read, *self.inserted],
            minus=self.deleted,
        )
        part = Part.put(store, unique("deltas", "delta"), data)
        return DeltaPart(self.instant, part, _core.SieveTimeline.open2(axis, None, [data]).num_changes)


def core_units(ids: Iterable[int], layouts: Sequence[UnitLayout]) -> _core.SieveUnits:
    """Return the units of slices, whose ids ascend."""
    units = _core.SieveUnits()
    for slice_id, layout in zip(ids, layouts, strict=True):
        units.add(slice_id, layout.row_groups, layout.rows_per_unit)
    return units

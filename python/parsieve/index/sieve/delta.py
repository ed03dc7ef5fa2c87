"""The content of a delta: how the rows of one column changed since the previous version of the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from parsieve import _core
from parsieve.index.log.commit import DeltaPart
from parsieve.index.log.parts import Part
from parsieve.index.scan.column_rows import ColumnRows
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import ColumnPath, Location
from parsieve.lake.rows.columns import leaf_of
from parsieve.predicate.elements import flat

# The inserted and deleted rows without a key, such as nulls.
Counts = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """How the rows of one location changed between two of its tokens, from a table that records row changes.

    Rows are record batches with the indexed columns of the table's schema. An updated row is deleted and inserted.
    Deleted rows narrow answers only after the next compaction, when the exact keys prove that no such row is left.
    """

    since: str
    until: str
    inserted: Sequence[pa.RecordBatch] = ()
    deleted: Sequence[pa.RecordBatch] = ()


Differences = Mapping[Location, Difference]


@dataclass
class Delta:
    """The changes of one column in format 1.

    Rows that were read again replace everything known about the first locations.
    """

    type: pa.DataType
    instant: int
    locations: list[Location] = field(default_factory=list)
    # The number of locations, from the start of the list, whose earlier rows are discarded.
    num_replaced: int = 0
    # Number of a location, inserted and deleted nulls, inserted and deleted NaN, and whether rows were not read.
    sides: list[tuple[int, Counts, Counts, bool]] = field(default_factory=list)
    # Blocks of sorted runs of inserted and deleted rows.
    inserted: list[bytes] = field(default_factory=list)
    deleted: list[bytes] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Return whether no rows have changed."""
        return not self.locations

    def replace(self, locations: Sequence[Location], rows: ColumnRows | None) -> None:
        """Discard the earlier rows of these locations. The first ones have new `rows`; the others were removed.

        Pass the runs of the new rows to `put`.
        """
        self.locations += locations
        self.num_replaced = len(self.locations)
        if rows is not None:
            counts = zip(rows.nulls, rows.nans, rows.unread, strict=True)
            self.sides += [
                (number, (nulls, 0), (nans, 0), unread) for number, (nulls, nans, unread) in enumerate(counts)
            ]

    def apply(self, location: Location, difference: Difference, path: ColumnPath) -> None:
        """Add the rows of a difference."""
        number = len(self.locations)
        axis = _core.SieveAxis(self.type)
        nulls, nans = [], []
        for batches, blocks in ((difference.inserted, self.inserted), (difference.deleted, self.deleted)):
            pairs = _core.SievePairs(axis)
            counts = [pairs.push(flat(leaf_of(batch, path)), number) for batch in batches]
            nulls.append(sum(num_nulls for _, num_nulls, _ in counts))
            nans.append(sum(num_nans for _, _, num_nans in counts))
            blocks += pairs.sort()
        self.locations.append(location)
        self.sides.append((number, (nulls[0], nulls[1]), (nans[0], nans[1]), False))

    def put(self, store: Store, read: Sequence[bytes] = ()) -> DeltaPart:
        """Store the delta, with the blocks of the rows that were read."""
        axis = _core.SieveAxis(self.type)
        data = _core.sieve_delta(
            axis,
            instant=self.instant,
            locations=[(location.partition, location.group) for location in self.locations],
            # Discards the earlier rows of these locations. A new location has none.
            dead=range(self.num_replaced),
            sides=[side for side in self.sides if side[1:] != ((0, 0), (0, 0), False)],
            plus=[*self.inserted, *read],
            minus=self.deleted,
        )
        part = Part.put(store, unique("deltas", "delta"), data)
        return DeltaPart(self.instant, part, _core.SieveTimeline(axis, None, [data]).num_changes)

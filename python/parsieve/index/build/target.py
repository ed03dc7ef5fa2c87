"""The snapshot to which a build or an update brings an index."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.index.build.lost import find_column
from parsieve.index.build.renewals import Renewed
from parsieve.index.log.commit import BloomState, ColumnState, TableState
from parsieve.lake.base import ColumnPath, Location, Slice, Snapshot
from parsieve.lake.slices import Slices, locations_and_tokens
from parsieve.sharing import cached_property


@dataclass(frozen=True)
class Target:
    """A snapshot of the table, and the locations in it that an index can cover."""

    snapshot: Snapshot
    table: TableState
    tokens: Mapping[Location, str]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Target:
        """Return the target for a snapshot. Slices without a token, and locations with two slices, are not covered."""
        tokens: dict[Location, str] = {}
        duplicates = set()
        for location, token in zip(*locations_and_tokens(snapshot.slices), strict=True):
            if location in tokens:
                duplicates.add(location)
            tokens[location] = token
        covered = {location: token for location, token in tokens.items() if token and location not in duplicates}
        return cls(snapshot, TableState.of(snapshot), covered)

    @cached_property
    def slices(self) -> Slices:
        """Return the covered slices, sorted by location. The position of a slice is its number in a new index."""
        return self.slices_at(self.tokens.keys())

    def find_column(self, state: ColumnState | BloomState) -> tuple[ColumnPath, pa.Field] | None:
        """Return the current path and field of an indexed column.

        Return None if the index must be dropped: the table no longer has the column, or this kind of index does not
        support the column's current type.
        """
        return find_column(self.snapshot.schema, state)

    def is_before(self, state: ColumnState | BloomState) -> bool:
        """Return whether another process has updated an index to a later snapshot, which may have more columns."""
        return state.table.instant > self.table.instant

    def changed_slices(self, bound: Mapping[Location, str], renewed: Renewed) -> Slices:
        """Return the slices that an index bound to these tokens has to read, sorted by location.

        `renewed` has the earlier tokens of slices that still have the same rows.
        """
        changed = []
        for number, location in enumerate(locations_and_tokens(self.snapshot.slices)[0]):
            token, old_token = self.tokens.get(location), bound.get(location)
            has_same_rows = bool(old_token) and old_token in renewed.get(location, ())
            if token is not None and token != old_token and not has_same_rows:
                changed.append(number)
        return _sorted(self.snapshot.slices, changed)

    def slices_at(self, locations: Collection[Location]) -> Slices:
        """Return the covered slices at these locations, sorted by location."""
        numbers = enumerate(locations_and_tokens(self.snapshot.slices)[0])
        chosen = [number for number, location in numbers if location in locations and location in self.tokens]
        return _sorted(self.snapshot.slices, chosen)

    def bindings(self, failed: Iterable[Location]) -> dict[Location, str]:
        """Return the tokens to bind. Slices that could not be read get none, so that the next update reads them."""
        return {**self.tokens, **dict.fromkeys(failed, "")}


def require_readable(slices: Sequence[Slice], failed: Mapping[Location, Exception]) -> None:
    """Raise the first error if no slice could be read: do not build an empty index."""
    if slices and len(failed) == len(slices):
        raise failed[slices[0].location]


def _sorted(slices: Slices, numbers: Sequence[int]) -> Slices:
    """Return the slices at some positions, sorted by location. Their objects are made when they are read."""
    chosen = pa.array(numbers, pa.int64())
    names = pa.table({"partition": slices.partition.take(chosen), "group": slices.group.take(chosen)})
    order = pc.sort_indices(names, [("partition", "ascending"), ("group", "ascending")])
    return slices.select(chosen.take(order))

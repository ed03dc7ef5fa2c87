"""Bring a Sieve index to a snapshot of its table: read new and changed slices, and write the changes as deltas."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic

import pyarrow as pa

from parsieve import _core
from parsieve.errors import IndexNotFoundError
from parsieve.index.build.executor import Executor, RowsT
from parsieve.index.build.lost import why_dropped
from parsieve.index.build.target import Target
from parsieve.index.build.units import units_of
from parsieve.index.log import bindings
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.columns import column_ids_of, differ_in_width, field_id_of
from parsieve.index.log.commit import ColumnState, Commit, DeltaPart, Layout, named
from parsieve.index.log.log import Log
from parsieve.index.log.parts import Part
from parsieve.index.log.publish import Transaction
from parsieve.index.scan.column_rows import ColumnRows
from parsieve.index.scan.units import Unit, UnitLayout
from parsieve.index.sieve.build import failed_locations, rebuild
from parsieve.index.sieve.compact import MOST_MASKED, compact
from parsieve.index.sieve.delta import Delta, Difference, Differences
from parsieve.index.sieve.reader import ColumnReader
from parsieve.index.sieve.reread import masks_of
from parsieve.index.sieve.slice_delta import SliceDelta
from parsieve.io.store.base import Store
from parsieve.lake.base import ColumnPath, Location
from parsieve.lake.slices import locations_of
from parsieve.observe.logs import INDEX
from parsieve.sharing import cached_property

if TYPE_CHECKING:
    from parsieve.index.build.renewals import Renewed
    from parsieve.lake.base import Lake, Slice, Snapshot

# The locations and tokens of slices that are read together.
Scan = tuple[tuple[Location, str], ...]

# Every reader of a column reads its deltas. A compaction is due after this many deltas, or this many changes.
MAX_DELTAS = 16
MAX_CHANGES = 1_000_000


def update(
    log: Log,
    lake: Lake,
    snapshot: Snapshot,
    executor: Executor[Any],
    *,
    differences: Differences | None = None,
    renewed: Renewed | None = None,
    compaction: bool = True,
) -> Commit:
    """Bring every column to a snapshot.

    Only new and changed slices are read. A slice with a `Difference` from the indexed token is not read, nor is one
    that `renewed` has with the indexed token, because it still has the same rows. Columns whose index cannot be updated
    are rebuilt, and columns with too many deltas are compacted.
    """
    with executor:
        version, outdated = _add_deltas(
            log, lake, Target.of(snapshot), executor, _Known(differences or {}, renewed or {})
        )
    version = rebuild(log, lake, snapshot, outdated, executor) or version
    return compact_overgrown(log, lake, snapshot, executor, version) if compaction else version


def compact_overgrown(log: Log, lake: Lake, snapshot: Snapshot, executor: Executor[Any], version: Commit) -> Commit:
    """Compact the columns that cost readers more than a compaction costs."""
    overgrown = [path for path, state in version.columns.items() if _is_overgrown(log.store, state)]
    return compact(log, executor, overgrown, lake, snapshot) if overgrown else version


@dataclass(frozen=True)
class _Known:
    """Information about changed slices that makes reading them unnecessary."""

    differences: Differences
    renewed: Renewed


@dataclass(frozen=True)
class _Change:
    """How the table changed for one column."""

    state: ColumnState
    # Where the column is now.
    path: ColumnPath
    field_id: int | None
    # The tokens and ids of the column.
    bound: Bindings
    # Slices to read, locations that the table no longer has, and slices whose changed rows are known.
    slices: list[Slice]
    gone: list[Location]
    differences: dict[Location, Difference]

    @cached_property
    def scan(self) -> Scan:
        """Return what identifies the slices to read: columns with the same slices share a scan."""
        return tuple((file_slice.location, file_slice.token) for file_slice in self.slices)

    @property
    def unit(self) -> Unit:
        """Return the kind of units. In format 1, they are files."""
        return "file" if self.state.layout is None else self.state.layout.unit

    @property
    def key(self) -> tuple[ColumnPath, Unit, Scan]:
        """Return what identifies the rows to read."""
        return self.path, self.unit, self.scan

    def bound_after(self, target: Target, rows: ColumnRows | None) -> Bindings:
        """Return the bindings once the rows are indexed."""
        failed = {} if rows is None else failed_locations(self.slices, rows)
        return self.bound.after(target.bindings(failed), locations_of(self.slices))


class _Reads(Generic[RowsT]):
    """The rows that an update has read. A retry uses them again.

    The units of a scan are numbered from 0, so a retry may give its slices other ids.
    """

    def __init__(self, lake: Lake, executor: Executor[RowsT]) -> None:
        self._lake = lake
        self._executor = executor
        self._rows: dict[tuple[ColumnPath, Unit, Scan], tuple[Sequence[UnitLayout], RowsT]] = {}

    def read(self, changes: Sequence[_Change]) -> None:
        """Read the slices that changed, unless they were read before."""
        for scan in dict.fromkeys(change.scan for change in changes if change.slices):
            unread = [change for change in changes if change.scan == scan and change.key not in self._rows]
            if unread:
                slices = unread[0].slices
                kinds = {change.path: change.unit for change in unread}
                units = units_of(self._lake, slices, kinds, self._executor)
                types = {change.path: change.state.type for change in unread}
                rows = self._executor.read_rows(self._lake, slices, types, units)
                self._rows |= {change.key: (units[change.path], rows[change.path]) for change in unread}

    def of(self, change: _Change) -> tuple[Sequence[UnitLayout], RowsT | None]:
        """Return the units and the rows of the slices that a column reads."""
        return self._rows.get(change.key, ((), None))


def _add_deltas(
    log: Log, lake: Lake, target: Target, executor: Executor[Any], known: _Known
) -> tuple[Commit, dict[ColumnPath, Layout | None]]:
    """Commit deltas that bring the columns to the target.

    Also return the columns that must be rebuilt instead, with their layouts. Until then, they keep their old index, so
    that it is not lost if the build fails.
    """
    transaction = Transaction(log, "update")
    reads = _Reads(lake, executor)
    while True:
        newest = transaction.begin()
        if newest is None or newest.is_empty:
            raise IndexNotFoundError(f"{log.store} holds no index; build one first")
        columns: dict[ColumnPath, ColumnState] = {}
        outdated: dict[ColumnPath, Layout | None] = {}
        changes: list[_Change] = []
        chains: dict[tuple[Part, ...], Bindings] = {}

        # Find out how the table changed for each column.
        for path, state in newest.columns.items():
            column = target.find_column(state)
            may_be_ahead = column is None or (transaction.is_retry and target.snapshot.id is not None)
            if may_be_ahead and target.is_before(state):
                # Another writer has updated this column to a later snapshot, or built it for one.
                columns[path] = state
                continue
            if column is None:
                INDEX.warning("%s", why_dropped(target.snapshot.schema, state))
                continue
            current_path, field = column
            if _has_other_values(target, field.type, state.type):
                columns[current_path], outdated[current_path] = named(state, target.snapshot.schema), state.layout
                continue
            if state.bindings not in chains:
                chains[state.bindings] = bindings.read(log.store, state.bindings)
            changes.append(_change_of(log.store, target, state, column, chains[state.bindings], known=known))
        reads.read(changes)

        # Write the deltas and the bindings of each column.
        for change in changes:
            layouts, rows = reads.of(change)
            parts = _write_deltas(executor, change, layouts, rows, newest.version + 1)
            if parts is None:
                columns[change.path] = named(change.state, target.snapshot.schema)
                outdated[change.path] = change.state.layout
                continue
            chain = bindings.write(log.store, change.state.bindings, change.bound, change.bound_after(target, rows))
            columns[change.path] = replace(
                change.state,
                path=change.path,
                field_id=change.field_id,
                column_ids=column_ids_of(target.snapshot.schema, change.path),
                table=target.table,
                bindings=chain,
                deltas=(*change.state.deltas, *parts),
            )

        if columns == newest.columns:
            return newest, outdated
        if version := transaction.commit(target.table, columns=columns):
            return version, outdated


def _has_other_values(target: Target, current: pa.DataType, indexed: pa.DataType) -> bool:
    """Return whether the keys of the indexed type cannot answer queries for the current type of a column."""
    if _core.SieveAxis(current).meaning != _core.SieveAxis(indexed).meaning:
        return True
    # The schema of a plain folder comes from its first file, so the width of a type may change. Queries use the current
    # type, so the keys must be read with this type too. Other formats declare the types of their columns.
    return target.snapshot.id is None and differ_in_width(current, indexed)


def _change_of(
    store: Store,
    target: Target,
    state: ColumnState,
    column: tuple[ColumnPath, pa.Field],
    bound: Bindings,
    *,
    known: _Known,
) -> _Change:
    path, field = column
    slices, differences = [], {}
    for file_slice in target.changed_slices(bound.tokens, known.renewed):
        location, old_token = file_slice.location, bound.tokens.get(file_slice.location)
        difference = known.differences.get(location)
        tokens = (old_token, target.tokens[location])
        if difference is not None and old_token and (difference.since, difference.until) == tokens:
            differences[location] = difference
        else:
            slices.append(file_slice)
    if differences and state.layout is not None:
        # The units of a slice whose rows are known no longer describe its file, so read it again if it has several.
        finer = _with_known_ranges(ColumnReader(store, state), differences, bound)
        slices = sorted([*slices, *target.slices_at(finer)], key=lambda file_slice: file_slice.location)
        differences = {location: known for location, known in differences.items() if location not in finer}
    gone = sorted(location for location in bound.tokens if location not in target.tokens)
    return _Change(state, path, field_id_of(field), bound, slices, gone, differences)


def _with_known_ranges(reader: ColumnReader, locations: Collection[Location], bound: Bindings) -> set[Location]:
    """Return the locations whose units are ranges of rows, or whose units cannot be read."""
    assert bound.ids is not None
    chosen = sorted(locations)
    if reader.timeline is None:
        return set(chosen)
    ranges = reader.unit_ranges(pa.array([bound.ids[location] for location in chosen], pa.uint32()))
    return {location for location, known in zip(chosen, ranges, strict=True) if known is not None}


def _write_deltas(
    executor: Executor[Any], change: _Change, layouts: Sequence[UnitLayout], rows: ColumnRows | None, instant: int
) -> list[DeltaPart] | None:
    """Store the changes of a column. Return None if they are too large.

    If no rows have changed, only the tokens differ, and there is nothing to write.
    """
    data_type, bound = change.state.type, change.bound
    delta: Delta | SliceDelta
    if bound.ids is None:
        named = Delta(data_type, instant)
        named.replace([*(file_slice.location for file_slice in change.slices), *change.gone], rows)
        for location, difference in sorted(change.differences.items()):
            named.apply(location, difference, change.path)
        delta = named
    else:
        new = SliceDelta(data_type, instant, bound.next_id)
        if rows is not None:
            new.read(layouts, rows)
        new.apply({bound.ids[location]: known for location, known in change.differences.items()}, change.path)
        delta = new
    if delta.is_empty:
        return []
    part = executor.write_delta(delta, rows)
    return None if part is None else [part]


def _is_overgrown(store: Store, state: ColumnState) -> bool:
    """Return whether the deltas or the masked slices of a column cost readers more than a compaction costs."""
    changes = sum(delta.changes for delta in state.deltas)
    if len(state.deltas) > MAX_DELTAS or changes > max(MAX_CHANGES, state.base.pairs // 4):
        return True
    if state.layout is None:
        return False
    reader = ColumnReader(store, state)
    if len(reader.bindings.live_ids()) == reader.bindings.next_id:
        # Every slice that was ever read is still there.
        return False
    masks = masks_of(reader, reader.bindings)
    return masks is not None and masks.share >= MOST_MASKED

"""Bring a Sieve index to a snapshot of its table: read new and changed slices, and write the changes as deltas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from parsieve import _core
from parsieve.errors import IndexNotFoundError
from parsieve.index.build.target import Target
from parsieve.index.log import bindings
from parsieve.index.log.columns import differ_in_width, field_id_of
from parsieve.index.log.commit import ColumnState, Commit, Log, Part
from parsieve.index.log.publish import Transaction
from parsieve.index.sieve.build import build, failed_locations
from parsieve.index.sieve.compact import compact
from parsieve.index.sieve.delta import Delta, Difference, Differences

if TYPE_CHECKING:
    from parsieve.index.build.executor import ColumnRows, Executor
    from parsieve.index.log.renewals import Renewed
    from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot

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
    if outdated:
        version = build(log, lake, snapshot, outdated, executor)
    overgrown = [path for path, state in version.columns.items() if _is_overgrown(state)]
    return compact(log, executor, overgrown) if compaction and overgrown else version


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
    # What the column is bound to.
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
    def unit(self) -> str:
        """Return the kind of units. In format 1, they are files."""
        return "file" if self.state.layout is None else self.state.layout.unit


def _add_deltas(
    log: Log, lake: Lake, target: Target, executor: Executor[Any], known: _Known
) -> tuple[Commit, list[ColumnPath]]:
    """Commit deltas that bring the columns to the target. Also return the columns that must be rebuilt instead."""
    transaction = Transaction(log, "update")
    # The rows of each column and scan, which a retry uses again. Their units are numbered from 0 in each scan, so a
    # retry may give their slices other ids.
    rows_read = _RowsRead(lake, executor)
    while True:
        newest = transaction.begin()
        if newest is None or newest.is_empty:
            raise IndexNotFoundError(f"{log.store} holds no index; build one first")
        columns: dict[ColumnPath, ColumnState] = {}
        outdated: list[ColumnPath] = []
        changes: list[_Change] = []
        chains: dict[tuple[Part, ...], Bindings] = {}

        # Find out how the table changed for each column.
        for path, state in newest.columns.items():
            if transaction.is_retry and target.snapshot.id is not None and state.table.instant > target.table.instant:
                # The other writer has updated this column to a later snapshot.
                columns[path] = state
                continue
            column = target.find_column(state)
            if column is None:
                continue
            current_path, field = column
            if _has_other_values(target, field.type, state.type):
                outdated.append(current_path)
                continue
            if state.bindings not in chains:
                chains[state.bindings] = bindings.read(log.store, state.bindings)
            changes.append(_change_of(log, target, state, column, chains[state.bindings], known))
        rows_read.read(changes)

        # Write the deltas and the bindings of each column.
        for change in changes:
            read = rows_read.of(change)
            parts = []
            for delta, rows in _deltas_of(change, read, newest.version + 1):
                part = executor.write_delta(delta, rows)
                if part is None:
                    outdated.append(change.path)
                    break
                parts.append(part)
            else:
                failed = {} if read is None else failed_locations(change.slices, read.rows)
                bound = change.bound.after(target.bindings(failed), [slice.location for slice in change.slices])
                columns[change.path] = replace(
                    change.state,
                    path=change.path,
                    field_id=change.field_id,
                    table=target.table,
                    bindings=bindings.write(log.store, change.state.bindings, change.bound, bound),
                    deltas=(*change.state.deltas, *parts),
                )

        if columns == newest.columns and not outdated:
            return newest, []
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
    target: Target,
    state: ColumnState,
    column: tuple[ColumnPath, pa.Field],
    bound: Mapping[Location, str],
    known: _Known,
) -> _Change:
    path, field = column
    slices, differences = [], {}
    for file_slice in target.changed_slices(bound, known.renewed):
        location, old_token = file_slice.location, bound.get(file_slice.location)
        difference = known.differences.get(location)
        tokens = (old_token, target.tokens[location])
        if difference is not None and old_token and (difference.since, difference.until) == tokens:
            differences[location] = difference
        else:
            slices.append(file_slice)
    gone = sorted(location for location in bound if location not in target.tokens)
    return _Change(state, path, field_id_of(field), bound, slices, gone, differences)


def _delta_of(change: _Change, rows: ColumnRows | None, instant: int) -> Delta:
    delta = Delta(change.state.type, instant)
    delta.replace([*(file_slice.location for file_slice in change.slices), *change.gone], rows)
    for location, difference in sorted(change.differences.items()):
        delta.apply(location, difference, change.path)
    return delta


def _is_overgrown(state: ColumnState) -> bool:
    """Return whether the deltas of a column cost readers more than a compaction costs."""
    changes = sum(delta.changes for delta in state.deltas)
    return len(state.deltas) > MAX_DELTAS or changes > max(MAX_CHANGES, state.base.pairs // 4)

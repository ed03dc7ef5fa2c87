"""Bring Bloom indexes and text indexes to a snapshot of their table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from parsieve import _core
from parsieve._core import UnsupportedError
from parsieve.index.bloom.compact import full_shelves
from parsieve.index.build.executor import Executor
from parsieve.index.build.lost import why_dropped
from parsieve.index.build.renewals import Renewed
from parsieve.index.build.target import Target
from parsieve.index.build.units import units_of
from parsieve.index.log import bindings
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.columns import field_id_of
from parsieve.index.log.commit import TEXT_FORM, BloomState, Commit, Content, TextState
from parsieve.index.log.log import Log
from parsieve.index.log.publish import Transaction
from parsieve.index.scan.units import Unit
from parsieve.lake.base import Lake, Snapshot
from parsieve.observe.logs import INDEX

StateT = TypeVar("StateT", bound=BloomState)

# A lookup reads each shelf with one request, so merge the shelves behind the full ones if there are more than these.
MAX_SHELVES = 8


def update(
    log: Log, lake: Lake, snapshot: Snapshot, executor: Executor[Any], *, renewed: Renewed | None = None
) -> Commit | None:
    """Bring every column to a snapshot; return None if there is no index.

    Only new and changed slices are read, and the others keep their filters. A slice that `renewed` has with the indexed
    token is not read either, because it still has the same rows.
    """
    target = Target.of(snapshot)
    transaction = Transaction(log, "update bloom")
    while True:
        newest = transaction.begin()
        if newest is None or not (newest.blooms or newest.texts):
            return newest
        bring = _Update(log, lake, target, executor, renewed or {})
        blooms = {state.path: state for state in bring.all_of(newest.blooms.values())}
        texts = {(state.path, state.content): state for state in bring.all_of(newest.texts.values())}
        if blooms == newest.blooms and texts == newest.texts:
            return newest
        if version := transaction.commit(target.table, blooms=blooms, texts=texts):
            return version


@dataclass(frozen=True)
class _Update:
    log: Log
    lake: Lake
    target: Target
    executor: Executor[Any]
    renewed: Renewed

    def all_of(self, states: Iterable[StateT]) -> list[StateT]:
        """Return the updated states of the columns that the table still has."""
        updated = [self._updated(state) for state in states]
        return [state for state in updated if state is not None]

    def _updated(self, state: StateT) -> StateT | None:
        content: Content = "values"
        unit: Unit = "file"
        if isinstance(state, TextState) and state.form != TEXT_FORM:
            # A newer parsieve can use it, and brings it up to date.
            return state
        if isinstance(state, TextState):
            content, unit = state.content, state.unit
        column = self.target.find_column(state)
        if column is None and self.target.is_before(state):
            # Another writer has built it for a later snapshot.
            return state
        if column is None:
            INDEX.warning("%s", why_dropped(self.target.snapshot.schema, state))
            return None
        store, (path, field) = self.log.store, column
        if not _has_same_hashes(field.type, state.type):
            # Values of the new type have other hashes, so the filters are useless.
            state = replace(state, bindings=(), shelves=())
        bound = bindings.read(store, state.bindings) if state.bindings else bindings.NOTHING
        changed = self.target.changed_slices(bound.tokens, self.renewed)
        units = units_of(self.lake, changed, {path: unit}, self.executor)
        rates = {path: state.fpp}
        added, failed = self.executor.fill_shelves(self.lake, changed, rates, content=content, units=units)
        tokens = self.target.bindings(failed)
        shelves = (*state.shelves, *added[path])
        if len(shelves) > MAX_SHELVES:
            full = full_shelves(store, shelves, tokens, self.executor.shelf_size)
            if len(shelves) - full > MAX_SHELVES:
                shelves = (*shelves[:full], *self.executor.merge_shelves(shelves[full:], tokens))
        return replace(
            state,
            path=path,
            field_id=field_id_of(field),
            type=field.type,
            table=self.target.table,
            bindings=bindings.write(store, state.bindings, bound, Bindings(tokens)),
            shelves=shelves,
        )


def _has_same_hashes(left: pa.DataType, right: pa.DataType) -> bool:
    """Return whether values of two types are of one kind, so that filters of one type answer for the other exactly."""
    try:
        return bool(_core.SieveAxis(left).meaning == _core.SieveAxis(right).meaning)
    except UnsupportedError:
        return bool(left == right)

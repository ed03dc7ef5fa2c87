"""Bring a Bloom index to a snapshot of its table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from parsieve import _core
from parsieve._core import UnsupportedError
from parsieve.index.bloom.compact import full_shelves
from parsieve.index.build.executor import Executor
from parsieve.index.build.target import Target
from parsieve.index.log import bindings
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.columns import field_id_of
from parsieve.index.log.commit import Commit, Log
from parsieve.index.log.publish import Transaction
from parsieve.index.log.renewals import Renewed
from parsieve.lake.base import Lake, Snapshot

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
        if newest is None or not newest.blooms:
            return newest
        blooms = {}
        for state in newest.blooms.values():
            column = target.find_column(state)
            if column is None:
                continue
            path, field = column
            if not _has_same_hashes(field.type, state.type):
                # Values of the new type have other hashes, so the filters are useless.
                state = replace(state, bindings=(), shelves=())
            bound = bindings.read(log.store, state.bindings) if state.bindings else bindings.NOTHING
            changed = target.changed_slices(bound.tokens, renewed or {})
            added, failed = executor.fill_shelves(lake, changed, {path: state.fpp})
            tokens = target.bindings(failed)
            shelves = (*state.shelves, *added[path])
            if len(shelves) > MAX_SHELVES:
                full = full_shelves(log.store, shelves, tokens)
                if len(shelves) - full > MAX_SHELVES:
                    shelves = (*shelves[:full], *executor.merge_shelves(shelves[full:], tokens))
            blooms[path] = replace(
                state,
                path=path,
                field_id=field_id_of(field),
                type=field.type,
                table=target.table,
                bindings=bindings.write(log.store, state.bindings, bound, Bindings(tokens)),
                shelves=shelves,
            )
        if blooms == newest.blooms:
            return newest
        if version := transaction.commit(target.table, blooms=blooms):
            return version


def _has_same_hashes(left: pa.DataType, right: pa.DataType) -> bool:
    """Return whether values of two types are of one kind, so that filters of one type answer for the other exactly."""
    try:
        return bool(_core.SieveAxis(left).meaning == _core.SieveAxis(right).meaning)
    except UnsupportedError:
        return bool(left == right)

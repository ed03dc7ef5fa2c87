"""The Bloom index of a table: built from a lake, brought to later snapshots, asked for keys.

It answers for keys alone, and may say "maybe" where there is none; for tables whose files must not change, it is
what filters inside the files are for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from parsieve import _core
from parsieve._core import UnsupportedError
from parsieve.errors import ColumnNotFoundError, ConflictError
from parsieve.filters.options import checked_fpp
from parsieve.index.bloom.shelf import SHELF_BYTES, Filled, Filling, Placed, shelve
from parsieve.index.bloom.waiting import Budget, WaitingFilters
from parsieve.index.log import bindings
from parsieve.index.log.columns import current_field, field_id_of, path_of
from parsieve.index.log.commit import BloomState, Commit, Log, Part, Shelf, TableState
from parsieve.index.log.publish import Blooms, Columns, commit
from parsieve.index.log.renewals import Renewed
from parsieve.index.scan.runs import UNSORTED_SHARE, WAITING_SHARE, each, threads_of
from parsieve.index.scan.spill import Room
from parsieve.index.sieve.build import Effort, bindable, tokens_of
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.lake.rows.columns import leaf_field

# More shelves than these behind the full ones are put together: each costs a lookup a request.
MOST_SHELVES = 8
# Rows to expect of a slice whose number of rows is unknown.
SOME_ROWS = 1_000_000
# Files from this size on may well have more, so that their footer is read first.
LARGE_FILE = 1 << 20


class Hands(Protocol):
    """Who reads the slices and stores the shelves: this process, or others for it."""

    def shelve(
        self, slices: Sequence[Slice], rates: Mapping[ColumnPath, float]
    ) -> tuple[dict[ColumnPath, tuple[Shelf, ...]], dict[Location, Exception]]:
        """Shelves with a filter for each slice and column, read in one scan; and the slices that could not be read."""

    def reshelve(self, shelves: Sequence[Shelf], bound: Mapping[Location, str]) -> tuple[Shelf, ...]:
        """Fewer shelves with the filters that still count."""


@dataclass(frozen=True)
class _OwnHands:
    lake: Lake
    effort: Effort
    store: Store

    def shelve(
        self, slices: Sequence[Slice], rates: Mapping[ColumnPath, float]
    ) -> tuple[dict[ColumnPath, tuple[Shelf, ...]], dict[Location, Exception]]:
        failed: dict[Location, Exception] = {}
        budget = Budget(int(self.effort.memory * UNSORTED_SHARE))
        with self._room() as room:
            waiting = {path: WaitingFilters(room, len(slices)) for path in rates}

            def read(number: int) -> None:
                filled, error = fill(self.lake, slices[number], rates, budget)
                for filters, one in zip(waiting.values(), filled, strict=True):
                    filters.put(number, one)
                if error is not None:
                    failed[slices[number].location] = error

            each(read, range(len(slices)), threads_of(self.effort.threads))
            return {path: put(self.store, filters, self._shelf_bytes) for path, filters in waiting.items()}, failed

    def reshelve(self, shelves: Sequence[Shelf], bound: Mapping[Location, str]) -> tuple[Shelf, ...]:
        with self._room() as room:
            waiting = WaitingFilters(room, 0)
            for filled in live(self.store, shelves, bound):
                waiting.append(filled)
            return put(self.store, waiting, self._shelf_bytes)

    def _room(self) -> Room:
        """A budget for filters that wait for their shelf; the rest goes to temporary files."""
        return Room(int(self.effort.memory * WAITING_SHARE), self.effort.spill)

    @property
    def _shelf_bytes(self) -> int:
        """Bytes of a shelf, whose rows are in memory twice while they are stored."""
        return min(SHELF_BYTES, max(1, self.effort.memory // 4))


def build(
    log: Log, lake: Lake, snapshot: Snapshot, columns: Sequence[str | Sequence[str]], effort: Effort, fpp: float = 0.01
) -> Commit:
    """Fill a filter for each slice and column, in one scan; columns that have some are built anew."""
    return build_by(log, snapshot, columns, _OwnHands(lake, effort, log.store), fpp)


def build_by(
    log: Log, snapshot: Snapshot, columns: Sequence[str | Sequence[str]], hands: Hands, fpp: float = 0.01
) -> Commit:
    """The same by whoever reads and stores; only the commit is made here."""
    paths = list(dict.fromkeys(path_of(column) for column in columns))
    if not paths:
        raise ValueError("name at least one column to index")
    fpp = checked_fpp(fpp)
    fields = fields_of(snapshot.schema, paths)
    newest = log.newest()
    started = dict(newest.blooms) if newest else {}
    tokens = tokens_of(snapshot)
    slices = bindable(snapshot)
    table = TableState.of(snapshot)
    shelves, failed = hands.shelve(slices, dict.fromkeys(paths, fpp))
    if slices and len(failed) == len(slices):
        # An index of nothing is not what was asked for; an update leaves such slices to the next one.
        raise failed[slices[0].location]
    chain = bindings.write(log.store, (), {}, {**tokens, **dict.fromkeys(failed, "")})
    made = {
        path: BloomState(path, field_id_of(fields[path]), fields[path].type, table, fpp, chain, shelves[path])
        for path in paths
    }

    def change(newest: Commit | None, _: int) -> tuple[TableState, Columns, Blooms]:
        blooms = dict(newest.blooms) if newest else {}
        for path in paths:
            if blooms.get(path) != started.get(path):
                raise ConflictError(
                    f"{'.'.join(path)} was indexed by another process during this build; nothing was committed"
                )
        return table, dict(newest.columns) if newest else {}, blooms | made

    done = commit(log, "build bloom", change)
    assert done is not None
    return done


def fields_of(schema: pa.Schema, paths: Sequence[ColumnPath]) -> dict[ColumnPath, pa.Field]:
    """Columns that can have filters: a type that has none is refused before anything is read."""
    fields = {path: leaf_field(schema, path) for path in paths}
    for field in fields.values():
        _core.BloomFilter(num_bytes=32, type=field.type)
    return fields


def update(log: Log, lake: Lake, snapshot: Snapshot, effort: Effort, renewed: Renewed | None = None) -> Commit | None:
    """Bring every Bloom index to a snapshot: new and changed slices are read, others keep their filters."""
    return update_by(log, snapshot, _OwnHands(lake, effort, log.store), renewed)


def update_by(log: Log, snapshot: Snapshot, hands: Hands, renewed: Renewed | None = None) -> Commit | None:
    """The same by whoever reads and stores; None where there is no index at all."""
    table, tokens = TableState.of(snapshot), tokens_of(snapshot)

    def change(newest: Commit | None, _: int) -> tuple[TableState, Columns, Blooms] | None:
        if newest is None or not newest.blooms:
            return None
        blooms = {}
        for state in newest.blooms.values():
            followed = _followed(log.store, hands, snapshot, state, table, tokens, renewed or {})
            if followed is not None:
                blooms[followed.path] = followed
        if blooms == newest.blooms:
            return None
        return table, dict(newest.columns), blooms

    return commit(log, "update bloom", change)


def _followed(
    store: Store,
    hands: Hands,
    snapshot: Snapshot,
    state: BloomState,
    table: TableState,
    tokens: Mapping[Location, str],
    renewed: Renewed,
) -> BloomState | None:
    """A column at a later snapshot; None where the table has it no more."""
    try:
        path, field = current_field(snapshot.schema, state.path, state.field_id)
    except ColumnNotFoundError:
        return None
    if not _is_alike(field.type, state.type):
        # Filters of another kind of values say nothing of these.
        state = replace(state, bindings=(), shelves=())
    before = bindings.read(store, state.bindings) if state.bindings else {}
    changed = [
        piece
        for piece in snapshot.slices
        if tokens.get(piece.location, before.get(piece.location)) != before.get(piece.location)
    ]
    # Those with the same rows as by the token that is bound are bound anew, and keep their filters.
    same = [one for one in changed if before.get(one.location, "") in renewed.get(one.location, ())]
    changed = sorted(set(changed) - set(same), key=lambda piece: piece.location)
    after = {location: before.get(location, "") for location in tokens}
    after |= {piece.location: tokens[piece.location] for piece in same}
    found, failed = hands.shelve(changed, {path: state.fpp})
    after |= {piece.location: tokens[piece.location] for piece in changed} | dict.fromkeys(failed, "")
    shelves = (*state.shelves, *found[path])
    if len(shelves) > MOST_SHELVES and len(shelves) - (ahead := _to_leave(store, shelves, after)) > MOST_SHELVES:
        shelves = (*shelves[:ahead], *hands.reshelve(shelves[ahead:], after))
    return replace(
        state,
        path=path,
        field_id=field_id_of(field),
        type=field.type,
        table=table,
        bindings=bindings.write(store, state.bindings, before, after),
        shelves=shelves,
    )


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of two types are of one kind, so that filters of the one are asked for the other exactly."""
    try:
        return bool(_core.SieveAxis(one).meaning == _core.SieveAxis(other).meaning)
    except UnsupportedError:
        return bool(one == other)


def fill(
    lake: Lake, piece: Slice, rates: Mapping[ColumnPath, float], budget: Budget | None = None
) -> tuple[list[Filled], Exception | None]:
    """Fill a filter of a slice for each column, in one scan; also return why the slice could not be read.

    Filters take their memory from `budget` until they are folded to the size that their values need.
    """
    paths = list(rates)
    location = (piece.partition, piece.group)
    try:
        rows = _expected_rows(lake, piece)
        num_bytes = sum(_core.shelf_num_bytes(rows, fpp) for fpp in rates.values())
        with nullcontext() if budget is None else budget.claim(num_bytes):
            fillings = [Filling(location, rows, rates[path]) for path in paths]
            for batch in lake.read_keys(piece, paths):
                for at, filling in enumerate(fillings):
                    filling.add(batch.column(at))
            return [filling.finish() for filling in fillings], None
    except (ConflictError, FileNotFoundError, UnsupportedError) as error:
        # The file changed or is gone, or this version cannot read it: one slice of many.
        return [Filled(location, None, unknown=True)] * len(paths), error


def _expected_rows(lake: Lake, piece: Slice) -> int:
    """Return how many rows the filters of a slice begin with room for; more rows make them worse, never wrong.

    All small files begin with the same size, so that most end with the same size: a lookup reads one row for each size.
    """
    if piece.num_rows is not None and piece.clean:
        return piece.num_rows
    known = piece.num_rows
    if known is None and (piece.size or 0) >= LARGE_FILE:
        known = lake.count_rows(piece)
    return max(known or 0, SOME_ROWS)


def put(store: Store, filled: Iterable[Placed], shelf_bytes: int) -> tuple[Shelf, ...]:
    """Store filters on new shelves."""
    return tuple(put_shelf(store, *shelf) for shelf in shelve(filled, shelf_bytes))


def put_shelf(store: Store, directory: bytes, rows: bytes) -> Shelf:
    """Store one shelf."""
    stored = Part(unique("shelves", "rows"), len(rows))
    store.put(stored.name, rows)
    return Shelf(Part.put(store, unique("shelves", "shelf"), directory), stored)


def _to_leave(store: Store, shelves: Sequence[Shelf], bound: Mapping[Location, str]) -> int:
    """How many shelves at the front are full of filters that count, so that to write them anew would gain nothing.

    Only those at the front: of two filters of a location the one on the later shelf counts.
    """
    held = [set(_core.Shelf.read(shelf.directory.get(store)).locations) for shelf in shelves]
    for number, (shelf, locations) in enumerate(zip(shelves, held, strict=True)):
        counting = {one for one in locations.difference(*held[number + 1 :]) if Location(*one) in bound}
        if shelf.rows.size < SHELF_BYTES // 2 or 2 * len(counting) < len(locations):
            return number
    return len(shelves)


def live(store: Store, shelves: Sequence[Shelf], bound: Mapping[Location, str]) -> Iterator[Filled]:
    """The filters that still count."""
    last: dict[Location, int] = {}
    opened = []
    for number, shelf in enumerate(shelves):
        directory = _core.Shelf.read(shelf.directory.get(store))
        opened.append(directory)
        last |= {Location(*location): number for location in directory.locations}
    for number, (directory, shelf) in enumerate(zip(opened, shelves, strict=True)):
        for partition, group, bloom, nulls, nans, unknown in directory.unshelve(store.get(shelf.rows.name)):
            location = Location(partition, group)
            if last[location] == number and location in bound:
                yield Filled((partition, group), bloom, nulls, nans, unknown)

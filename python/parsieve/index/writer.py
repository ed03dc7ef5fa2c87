"""New versions of an index from a table: columns built, and brought up to date. Nothing that exists is changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa

from parsieve import _core
from parsieve.errors import ColumnNotFoundError, ConflictError
from parsieve.index import bindings
from parsieve.index.columns import current_field, field_id_of, path_of
from parsieve.index.commit import ColumnState, Commit, DeltaPart, Log, Part, TableState
from parsieve.index.feeder import WAITING_SHARE, Gathered, Progress, gather, merge, threads_of
from parsieve.index.publish import Columns, commit, put_base
from parsieve.index.spill import Room
from parsieve.index.store import Store, unique
from parsieve.index.upkeep import compact
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.lake.leaves import leaf_field

# Deltas are read by everybody who opens the column: at so many, or so many changes, a compaction is due.
MOST_DELTAS = 16
MOST_CHANGES = 1_000_000


@dataclass(frozen=True)
class Effort:
    """What a build may use."""

    memory: int = 1 << 30
    threads: int | None = None
    # A bar on standard error; None: if it is a terminal.
    progress: bool | None = None
    # Where runs go that memory does not hold; None: the system's temporary folder.
    spill: Path | str | None = None
    options: _core.SieveOptions | None = None

    def room(self) -> Room:
        """A budget for what waits."""
        if self.memory < 1 << 20:
            raise ValueError(f"memory is given in bytes, at least 1 MiB, not {self.memory}")
        return Room(int(self.memory * WAITING_SHARE), self.spill)


def tokens_of(snapshot: Snapshot) -> dict[Location, str]:
    """What can be bound: the slices with a token. A location with two slices cannot."""
    found: dict[Location, str] = {}
    twice = set()
    for piece in snapshot.slices:
        if piece.location in found:
            twice.add(piece.location)
        found[piece.location] = piece.token
    return {location: token for location, token in found.items() if token and location not in twice}


def build(log: Log, lake: Lake, snapshot: Snapshot, columns: Sequence[str | Sequence[str]], effort: Effort) -> Commit:
    """Index some columns of a snapshot, in one scan; those that are indexed already are built anew."""
    paths = list(dict.fromkeys(path_of(column) for column in columns))
    if not paths:
        raise ValueError("name at least one column to index")
    fields = {path: leaf_field(snapshot.schema, path) for path in paths}
    axes = {path: _core.SieveAxis(field.type) for path, field in fields.items()}
    newest = log.newest()
    version = newest.version + 1 if newest else 1
    tokens = tokens_of(snapshot)
    slices = indexable(snapshot, tokens)
    table = TableState.of(snapshot)
    with effort.room() as room:
        found = _gather(lake, slices, axes, effort, room, "index")
        chain = bindings.write(log.store, (), {}, readable(tokens, slices, found[paths[0]].failed))
        locations = [piece.location for piece in slices]

        def finish(path: ColumnPath) -> ColumnState:
            gathered = found[path]
            built = merge(gathered, locations, version, room, effort.options)
            base = put_base(log.store, gathered.axis, built, version)
            return ColumnState(path, field_id_of(fields[path]), fields[path].type, table, chain, base)

        with ThreadPoolExecutor(threads_of(effort.threads), "parsieve-index") as pool:
            made = {state.path: state for state in pool.map(finish, paths)}
    return commit_built(log, newest, table, made)


def indexable(snapshot: Snapshot, tokens: Mapping[Location, str]) -> list[Slice]:
    """The slices of a build in order of their locations, which numbers them."""
    return sorted((piece for piece in snapshot.slices if piece.location in tokens), key=lambda piece: piece.location)


def commit_built(log: Log, started: Commit | None, table: TableState, made: Columns) -> Commit:
    """Commit columns that were built on top of a version, unless somebody else indexed one of them since."""
    before = started.columns if started else {}

    def change(newest: Commit | None, _: int) -> tuple[TableState, Columns]:
        columns = dict(newest.columns) if newest else {}
        for path in made:
            if columns.get(path) != before.get(path):
                raise ConflictError(
                    f"{'.'.join(path)} was indexed by somebody else while it was built here; nothing was committed"
                )
        return table, columns | made

    done = commit(log, "build", change)
    assert done is not None
    return done


def readable(tokens: Mapping[Location, str], slices: Sequence[Slice], failed: Iterable[int]) -> dict[Location, str]:
    """The tokens to bind: a slice that could not be read is bound to none, and read again by the next update."""
    return {**tokens, **{slices[number].location: "" for number in failed}}


def _gather(
    lake: Lake,
    slices: Sequence[Slice],
    axes: Mapping[ColumnPath, _core.SieveAxis],
    effort: Effort,
    room: Room,
    label: str,
) -> dict[ColumnPath, Gathered]:
    progress = Progress(f"{label} {', '.join('.'.join(path) for path in axes)}", len(slices), effort.progress)
    gathered = gather(
        lake,
        slices,
        list(axes.items()),
        room,
        memory=effort.memory,
        threads=threads_of(effort.threads),
        advance=progress.advance,
    )
    return dict(zip(axes, gathered, strict=True))


@dataclass
class _Plan:
    """How one column comes to a snapshot."""

    state: ColumnState
    path: ColumnPath
    field_id: int | None
    before: Mapping[Location, str]
    changed: tuple[Slice, ...]
    gone: tuple[Location, ...]


class Counted(Protocol):
    """What was read of one column of some slices, by their numbers."""

    nulls: list[int]
    nans: list[int]
    unread: list[bool]
    failed: dict[int, Exception]


ReadT = TypeVar("ReadT", bound=Counted)
# Numbers of locations with nulls and NaN that came and went, and whether rows were not read.
Side = tuple[int, tuple[int, int], tuple[int, int], bool]


class Hands(Protocol[ReadT]):
    """Who reads the slices of an update, and writes its deltas: this process, or others for it."""

    def read(self, slices: Sequence[Slice], columns: Mapping[ColumnPath, pa.DataType]) -> dict[ColumnPath, ReadT]:
        """Some columns of some slices, in one scan; the number of a location is the place of its slice."""

    def put_delta(
        self,
        type: pa.DataType,
        instant: int,
        locations: Sequence[Location],
        sides: Sequence[Side],
        found: ReadT | None,
    ) -> DeltaPart:
        """Store the delta of one column, which replaces what was said of some locations."""


@dataclass
class _OwnHands:
    lake: Lake
    effort: Effort
    room: Room
    store: Store

    def read(self, slices: Sequence[Slice], columns: Mapping[ColumnPath, pa.DataType]) -> dict[ColumnPath, Gathered]:
        axes = {path: _core.SieveAxis(type) for path, type in columns.items()}
        return _gather(self.lake, slices, axes, self.effort, self.room, "update")

    def put_delta(
        self,
        type: pa.DataType,
        instant: int,
        locations: Sequence[Location],
        sides: Sequence[Side],
        found: Gathered | None,
    ) -> DeltaPart:
        pieces = found.runs.all_pieces() if found is not None else []
        return put_delta(self.store, type, instant, locations, sides, pieces)


def update(log: Log, lake: Lake, snapshot: Snapshot, effort: Effort, compaction: bool = True) -> Commit:
    """Bring every column to a snapshot: read the slices that are new or changed, and forget those that went."""
    with effort.room() as room:
        done, rebuild = follow(log, snapshot, _OwnHands(lake, effort, room, log.store))
    if rebuild:
        done = build(log, lake, snapshot, rebuild, effort)
    due = overgrown(done)
    if compaction and due:
        done = compact(log, due, effort.options)
    return done


def follow(log: Log, snapshot: Snapshot, hands: Hands[ReadT]) -> tuple[Commit, list[ColumnPath]]:
    """Commit deltas that bring every column to a snapshot; and the columns that must be built anew instead."""
    table, tokens = TableState.of(snapshot), tokens_of(snapshot)
    known: dict[_Key, ReadT] = {}
    rebuild: list[ColumnPath] = []

    def change(newest: Commit | None, attempt: int) -> tuple[TableState, Columns] | None:
        if newest is None:
            raise FileNotFoundError(f"{log.store} holds no index; build one first")
        columns: Columns = {}
        plans = []
        rebuild.clear()
        for path, state in newest.columns.items():
            if attempt and snapshot.id is not None and state.table.instant > table.instant:
                # Whoever was faster knew a later snapshot.
                columns[path] = state
                continue
            plan = _planned(log.store, state, snapshot, tokens)
            if isinstance(plan, _Plan):
                plans.append(plan)
            elif plan is not None:
                rebuild.append(plan)
        for scan in _scans(plans):
            columns_read = {plan.path: plan.state.type for plan in scan if _key(plan) not in known}
            if columns_read:
                found = hands.read(scan[0].changed, columns_read)
                known.update({_key(plan): found[plan.path] for plan in scan if plan.path in found})
        for plan in plans:
            read = known.get(_key(plan)) if plan.changed else None
            columns[plan.path] = _followed(log.store, hands, plan, read, table, tokens, newest.version + 1)
        return None if columns == newest.columns and not rebuild else (table, columns)

    done = commit(log, "update", change)
    assert done is not None
    return done, rebuild


def overgrown(version: Commit) -> list[ColumnPath]:
    """The columns whose deltas cost readers more than a compaction costs."""
    return [
        path
        for path, state in version.columns.items()
        if len(state.deltas) > MOST_DELTAS
        or sum(delta.changes for delta in state.deltas) > max(MOST_CHANGES, state.base.pairs // 4)
    ]


_Key = tuple[ColumnPath, tuple[tuple[Location, str], ...]]


def _key(plan: _Plan) -> _Key:
    return plan.path, tuple((piece.location, piece.token) for piece in plan.changed)


def _planned(
    store: Store, state: ColumnState, snapshot: Snapshot, tokens: Mapping[Location, str]
) -> _Plan | ColumnPath | None:
    """The way of a column; its path alone if it must be built anew, None if the table has it no more."""
    try:
        path, field = current_field(snapshot.schema, state.path, state.field_id)
    except ColumnNotFoundError:
        return None
    if _core.SieveAxis(field.type).meaning != _core.SieveAxis(state.type).meaning:
        return path
    before = bindings.read(store, state.bindings)
    changed = [
        piece
        for piece in snapshot.slices
        if tokens.get(piece.location, before.get(piece.location)) != before.get(piece.location)
    ]
    gone = tuple(sorted(location for location in before if location not in tokens))
    changed.sort(key=lambda piece: piece.location)
    return _Plan(state, path, field_id_of(field), before, tuple(changed), gone)


def _scans(plans: Sequence[_Plan]) -> list[list[_Plan]]:
    """Columns that need the same slices share one scan."""
    scans: dict[tuple[tuple[Location, str], ...], list[_Plan]] = {}
    for plan in plans:
        if plan.changed:
            scans.setdefault(_key(plan)[1], []).append(plan)
    return list(scans.values())


def _followed(
    store: Store,
    hands: Hands[ReadT],
    plan: _Plan,
    gathered: ReadT | None,
    table: TableState,
    tokens: Mapping[Location, str],
    instant: int,
) -> ColumnState:
    state = replace(plan.state, path=plan.path, field_id=plan.field_id, table=table)
    if not plan.changed and not plan.gone:
        return state
    locations = [*(piece.location for piece in plan.changed), *plan.gone]
    sides: list[Side] = []
    if gathered is not None:
        tokens = readable(tokens, plan.changed, gathered.failed)
        for number, (nulls, nans, unread) in enumerate(
            zip(gathered.nulls, gathered.nans, gathered.unread, strict=True)
        ):
            if nulls or nans or unread:
                sides.append((number, (nulls, 0), (nans, 0), unread))
    delta = hands.put_delta(plan.state.type, instant, locations, sides, gathered)
    chain = bindings.write(store, state.bindings, plan.before, tokens)
    return replace(state, bindings=chain, deltas=(*state.deltas, delta))


def put_delta(
    store: Store,
    type: pa.DataType,
    instant: int,
    locations: Sequence[Location],
    sides: Sequence[Side],
    pieces: Sequence[bytes],
) -> DeltaPart:
    """Store a delta that replaces what was said of some locations by the rows of some runs."""
    axis = _core.SieveAxis(type)
    data = _core.sieve_delta(
        axis,
        instant=instant,
        locations=[(location.partition, location.group) for location in locations],
        # What was said of any of them before is said no more; a new one has nothing to lose.
        dead=range(len(locations)),
        sides=sides,
        plus=pieces,
        minus=[],
    )
    part = Part(unique("deltas", "delta"), len(data))
    store.put(part.name, data)
    return DeltaPart(instant, part, _core.SieveTimeline(axis, None, [data]).num_changes)

"""New versions of an index from a table: columns built, and brought up to date. Nothing that exists is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

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
    started = dict(newest.columns) if newest else {}
    version = newest.version + 1 if newest else 1
    tokens = tokens_of(snapshot)
    slices = sorted((piece for piece in snapshot.slices if piece.location in tokens), key=lambda piece: piece.location)
    table = TableState.of(snapshot)
    with effort.room() as room:
        found = _gather(lake, slices, axes, effort, room, "index")
        chain = bindings.write(log.store, (), {}, _readable(tokens, slices, found[paths[0]]))
        locations = [piece.location for piece in slices]

        def finish(path: ColumnPath) -> ColumnState:
            gathered = found[path]
            built = merge(gathered, locations, version, room, effort.options)
            base = put_base(log.store, gathered.axis, built, version)
            return ColumnState(path, field_id_of(fields[path]), fields[path].type, table, chain, base)

        with ThreadPoolExecutor(threads_of(effort.threads), "parsieve-index") as pool:
            made = {state.path: state for state in pool.map(finish, paths)}

    def change(newest: Commit | None, _: int) -> tuple[TableState, Columns]:
        columns = dict(newest.columns) if newest else {}
        for path in paths:
            if columns.get(path) != started.get(path):
                raise ConflictError(
                    f"{'.'.join(path)} was indexed by somebody else while it was built here; nothing was committed"
                )
        return table, columns | made

    done = commit(log, "build", change)
    assert done is not None
    return done


def _readable(tokens: Mapping[Location, str], slices: Sequence[Slice], gathered: Gathered) -> dict[Location, str]:
    """The tokens to bind: a slice that could not be read is bound to none, and read again by the next update."""
    return {**tokens, **{slices[number].location: "" for number in gathered.failed}}


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
    axis: _core.SieveAxis
    before: Mapping[Location, str]
    changed: tuple[Slice, ...]
    gone: tuple[Location, ...]


def update(log: Log, lake: Lake, snapshot: Snapshot, effort: Effort, compaction: bool = True) -> Commit:
    """Bring every column to a snapshot: read the slices that are new or changed, and forget those that went."""
    table, tokens = TableState.of(snapshot), tokens_of(snapshot)
    known: dict[tuple[ColumnPath, tuple[tuple[Location, str], ...]], Gathered] = {}
    rebuild: list[ColumnPath] = []
    with effort.room() as room:

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
                _read_scan(lake, scan, effort, room, known)
            for plan in plans:
                gathered = known.get(_key(plan)) if plan.changed else None
                columns[plan.path] = _followed(log.store, plan, gathered, table, tokens, newest.version + 1)
            return None if columns == newest.columns and not rebuild else (table, columns)

        done = commit(log, "update", change)
    assert done is not None
    if rebuild:
        done = build(log, lake, snapshot, rebuild, effort)
    due = [
        path
        for path, state in done.columns.items()
        if len(state.deltas) > MOST_DELTAS
        or sum(delta.changes for delta in state.deltas) > max(MOST_CHANGES, state.base.pairs // 4)
    ]
    if compaction and due:
        done = compact(log, due, effort.options)
    return done


def _key(plan: _Plan) -> tuple[ColumnPath, tuple[tuple[Location, str], ...]]:
    return plan.path, tuple((piece.location, piece.token) for piece in plan.changed)


def _planned(
    store: Store, state: ColumnState, snapshot: Snapshot, tokens: Mapping[Location, str]
) -> _Plan | ColumnPath | None:
    """The way of a column; its path alone if it must be built anew, None if the table has it no more."""
    try:
        path, field = current_field(snapshot.schema, state.path, state.field_id)
    except ColumnNotFoundError:
        return None
    axis = _core.SieveAxis(state.type)
    if _core.SieveAxis(field.type).meaning != axis.meaning:
        return path
    before = bindings.read(store, state.bindings)
    changed = [
        piece
        for piece in snapshot.slices
        if tokens.get(piece.location, before.get(piece.location)) != before.get(piece.location)
    ]
    gone = tuple(sorted(location for location in before if location not in tokens))
    changed.sort(key=lambda piece: piece.location)
    return _Plan(state, path, field_id_of(field), axis, before, tuple(changed), gone)


def _scans(plans: Sequence[_Plan]) -> list[list[_Plan]]:
    """Columns that need the same slices share one scan."""
    scans: dict[tuple[tuple[Location, str], ...], list[_Plan]] = {}
    for plan in plans:
        if plan.changed:
            scans.setdefault(_key(plan)[1], []).append(plan)
    return list(scans.values())


def _read_scan(
    lake: Lake,
    scan: Sequence[_Plan],
    effort: Effort,
    room: Room,
    known: dict[tuple[ColumnPath, tuple[tuple[Location, str], ...]], Gathered],
) -> None:
    axes = {plan.path: plan.axis for plan in scan if _key(plan) not in known}
    if axes:
        found = _gather(lake, scan[0].changed, axes, effort, room, "update")
        known.update({_key(plan): found[plan.path] for plan in scan if plan.path in found})


def _followed(
    store: Store,
    plan: _Plan,
    gathered: Gathered | None,
    table: TableState,
    tokens: Mapping[Location, str],
    instant: int,
) -> ColumnState:
    state = replace(plan.state, path=plan.path, field_id=plan.field_id, table=table)
    if not plan.changed and not plan.gone:
        return state
    locations = [*(piece.location for piece in plan.changed), *plan.gone]
    sides = []
    if gathered is not None:
        tokens = _readable(tokens, plan.changed, gathered)
        for number, (nulls, nans, unread) in enumerate(
            zip(gathered.nulls, gathered.nans, gathered.unread, strict=True)
        ):
            if nulls or nans or unread:
                sides.append((number, (nulls, 0), (nans, 0), unread))
    data = _core.sieve_delta(
        plan.axis,
        instant=instant,
        locations=[(location.partition, location.group) for location in locations],
        # What was said of any of them before is said no more; a new one has nothing to lose.
        dead=range(len(locations)),
        sides=sides,
        plus=gathered.runs.all_pieces() if gathered is not None else [],
        minus=[],
    )
    return with_delta(store, state, plan.axis, data, instant, plan.before, tokens)


def with_delta(
    store: Store,
    state: ColumnState,
    axis: _core.SieveAxis,
    data: bytes,
    instant: int,
    before: Mapping[Location, str],
    tokens: Mapping[Location, str],
) -> ColumnState:
    """A column with one more delta, stored."""
    part = Part.put(store, unique("deltas", "delta"), data)
    delta = DeltaPart(instant, part, _core.SieveTimeline(axis, None, [data]).num_changes)
    chain = bindings.write(store, state.bindings, before, tokens)
    return replace(state, bindings=chain, deltas=(*state.deltas, delta))

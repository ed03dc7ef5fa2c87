"""An index brought to a snapshot of its table: what is new or changed is read, or told row by row; the rest stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from parsieve import _core
from parsieve.errors import ColumnNotFoundError
from parsieve.index import bindings
from parsieve.index.build import Effort, build, gather_columns, readable, tokens_of
from parsieve.index.columns import current_field, field_id_of
from parsieve.index.commit import ColumnState, Commit, DeltaPart, Log, Part, TableState
from parsieve.index.feeder import Gathered
from parsieve.index.publish import Columns, commit
from parsieve.index.spill import Room
from parsieve.index.store import Store, unique
from parsieve.index.upkeep import compact
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.lake.leaves import leaf_of

# Deltas are read by everybody who opens the column: at so many, or so many changes, a compaction is due.
MOST_DELTAS = 16
MOST_CHANGES = 1_000_000


# A change is that much larger in memory than in a run.
CHANGE_COST = 5
# Location and token of slices that are to be read.
_Wanted = tuple[tuple[Location, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """How the rows of one location changed between two of its tokens, from a table that keeps such an account.

    Rows are record batches with the indexed columns of the table's schema; an updated row is deleted and inserted. What
    is deleted narrows answers from the next compaction on, when the exact keys prove that no row is left.
    """

    since: str
    until: str
    inserted: Sequence[pa.RecordBatch] = ()
    deleted: Sequence[pa.RecordBatch] = ()


Differences = Mapping[Location, Difference]


@dataclass
class _Counted:
    """The differences of one location as runs: rows inserted and deleted, with what has no key."""

    plus: list[bytes] = field(default_factory=list)
    minus: list[bytes] = field(default_factory=list)
    # Nulls and NaN, inserted and deleted.
    nulls: tuple[int, int] = (0, 0)
    nans: tuple[int, int] = (0, 0)


@dataclass
class _Plan:
    """How one column comes to a snapshot."""

    state: ColumnState
    path: ColumnPath
    field_id: int | None
    axis: _core.SieveAxis
    before: Mapping[Location, str]
    read: tuple[Slice, ...]
    gone: tuple[Location, ...]
    counted: dict[Location, Difference]

    def wanted(self) -> _Wanted:
        """What has to be read."""
        return tuple((piece.location, piece.token) for piece in self.read)


def update(
    log: Log,
    lake: Lake,
    snapshot: Snapshot,
    effort: Effort,
    differences: Differences | None = None,
    compaction: bool = True,
) -> Commit:
    """Bring every column to a snapshot: read the slices that are new or changed, and forget those that went."""
    table, tokens = TableState.of(snapshot), tokens_of(snapshot)
    known: dict[tuple[ColumnPath, _Wanted], Gathered] = {}
    rebuild: list[ColumnPath] = []
    with effort.room() as room:

        def change(newest: Commit | None, attempt: int) -> tuple[TableState, Columns] | None:
            if newest is None:
                raise FileNotFoundError(f"{log.store} holds no index; build one first")
            columns: Columns = {}
            plans = []
            rebuild.clear()
            chains: dict[tuple[Part, ...], Mapping[Location, str]] = {}
            for path, state in newest.columns.items():
                if attempt and snapshot.id is not None and state.table.instant > table.instant:
                    # Whoever was faster knew a later snapshot.
                    columns[path] = state
                    continue
                if state.bindings not in chains:
                    chains[state.bindings] = bindings.read(log.store, state.bindings)
                plan = _planned(state, snapshot, tokens, chains[state.bindings], differences or {})
                if isinstance(plan, _Plan):
                    plans.append(plan)
                elif plan is not None:
                    rebuild.append(plan)
            _read(lake, plans, effort, room, known)
            for plan in plans:
                gathered = known.get((plan.path, plan.wanted()))
                if gathered is not None and gathered.runs.num_bytes * CHANGE_COST > effort.memory:
                    # So many changes make no delta: a build is an external sort, and holds no more than it may.
                    rebuild.append(plan.path)
                    continue
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
    return compact(log, due) if compaction and due else done


def _planned(
    state: ColumnState,
    snapshot: Snapshot,
    tokens: Mapping[Location, str],
    before: Mapping[Location, str],
    differences: Differences,
) -> _Plan | ColumnPath | None:
    """The way of a column; its path alone if it must be built anew, None if the table has it no more."""
    try:
        path, found = current_field(snapshot.schema, state.path, state.field_id)
    except ColumnNotFoundError:
        return None
    axis = _core.SieveAxis(state.type)
    if _core.SieveAxis(found.type).meaning != axis.meaning:
        return path
    read, counted = [], {}
    for piece in snapshot.slices:
        token, bound = tokens.get(piece.location), before.get(piece.location)
        if token is None or token == bound:
            continue
        known = differences.get(piece.location)
        if known is not None and bound and (known.since, known.until) == (bound, token):
            counted[piece.location] = known
        else:
            read.append(piece)
    read.sort(key=lambda piece: piece.location)
    gone = tuple(sorted(location for location in before if location not in tokens))
    return _Plan(state, path, field_id_of(found), axis, before, tuple(read), gone, counted)


def _read(
    lake: Lake,
    plans: Sequence[_Plan],
    effort: Effort,
    room: Room,
    known: dict[tuple[ColumnPath, _Wanted], Gathered],
) -> None:
    """Read what is not known yet; columns that need the same slices share one scan."""
    scans: dict[_Wanted, list[_Plan]] = {}
    for plan in plans:
        if plan.read and (plan.path, plan.wanted()) not in known:
            scans.setdefault(plan.wanted(), []).append(plan)
    for wanted, scan in scans.items():
        axes = {plan.path: plan.axis for plan in scan}
        found = gather_columns(lake, scan[0].read, axes, effort, room, "update")
        known.update({(path, wanted): gathered for path, gathered in found.items()})


def _followed(
    store: Store,
    plan: _Plan,
    gathered: Gathered | None,
    table: TableState,
    tokens: Mapping[Location, str],
    instant: int,
) -> ColumnState:
    """The column with one more delta and its bindings, stored."""
    state = replace(plan.state, path=plan.path, field_id=plan.field_id, table=table)
    locations = [*(piece.location for piece in plan.read), *plan.gone]
    # What was said of these before is said no more; one that is new has nothing to lose.
    dead = range(len(locations))
    plus, minus, sides = [], [], []
    if gathered is not None:
        tokens = readable(tokens, plan.read, gathered)
        plus += gathered.runs.all_pieces()
        for number, (nulls, nans, unread) in enumerate(
            zip(gathered.nulls, gathered.nans, gathered.unread, strict=True)
        ):
            sides.append((number, (nulls, 0), (nans, 0), unread))
    for location, difference in sorted(plan.counted.items()):
        counted = _counted(plan, difference, len(locations))
        plus += counted.plus
        minus += counted.minus
        sides.append((len(locations), counted.nulls, counted.nans, False))
        locations.append(location)
    if not locations:
        return state
    data = _core.sieve_delta(
        plan.axis,
        instant=instant,
        locations=[(location.partition, location.group) for location in locations],
        dead=dead,
        sides=[side for side in sides if side[1:] != ((0, 0), (0, 0), False)],
        plus=plus,
        minus=minus,
    )
    part = Part.put(store, unique("deltas", "delta"), data)
    delta = DeltaPart(instant, part, _core.SieveTimeline(plan.axis, None, [data]).num_changes)
    chain = bindings.write(store, state.bindings, plan.before, tokens)
    return replace(state, bindings=chain, deltas=(*state.deltas, delta))


def _counted(plan: _Plan, difference: Difference, number: int) -> _Counted:
    counts, runs = [], []
    for batches in (difference.inserted, difference.deleted):
        pairs = _core.SievePairs(plan.axis)
        pushed = [pairs.push(leaf_of(batch, plan.path), number) for batch in batches]
        counts.append((sum(nulls for _, nulls, _ in pushed), sum(nans for _, _, nans in pushed)))
        runs.append(pairs.sort())
    nulls, nans = zip(*counts, strict=True)
    return _Counted(runs[0], runs[1], nulls, nans)

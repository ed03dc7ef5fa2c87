"""An index brought to a snapshot of its table: what is new or changed is read, or told row by row; the rest stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import pyarrow as pa

from parsieve import _core
from parsieve.errors import ColumnNotFoundError, IndexNotFoundError
from parsieve.index.log import bindings
from parsieve.index.log.columns import current_field, field_id_of, has_other_values
from parsieve.index.log.commit import ColumnState, Commit, DeltaPart, Log, Part, TableState
from parsieve.index.log.publish import Columns, commit
from parsieve.index.log.renewals import Renewed
from parsieve.index.scan.runs import Gathered
from parsieve.index.scan.spill import Room
from parsieve.index.sieve.build import Effort, build, gather_columns, readable, tokens_of
from parsieve.index.sieve.compact import compact
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.lake.rows.columns import leaf_of

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


class Counted(Protocol):
    """What was read of one column of some slices, by their numbers."""

    nulls: list[int]
    nans: list[int]
    unread: list[bool]
    failed: dict[int, Exception]


ReadT = TypeVar("ReadT", bound=Counted)


@dataclass(frozen=True)
class Changes:
    """What a delta says of one column: of the first locations anew, of the others how their rows changed."""

    type: pa.DataType
    instant: int
    locations: Sequence[Location]
    num_new: int
    # Number of a location with rows without a key that came and went, and whether rows were not read.
    sides: Sequence[tuple[int, tuple[int, int], tuple[int, int], bool]]
    # Pieces of runs.
    plus: Sequence[bytes]
    minus: Sequence[bytes]

    def put(self, store: Store, read: Sequence[bytes] = ()) -> DeltaPart:
        """Store the delta, with more pieces of what was read of the first locations."""
        axis = _core.SieveAxis(self.type)
        data = _core.sieve_delta(
            axis,
            instant=self.instant,
            locations=[(location.partition, location.group) for location in self.locations],
            # What was said of these before is said no more; one that is new has nothing to lose.
            dead=range(self.num_new),
            sides=[side for side in self.sides if side[1:] != ((0, 0), (0, 0), False)],
            plus=[*self.plus, *read],
            minus=self.minus,
        )
        part = Part.put(store, unique("deltas", "delta"), data)
        return DeltaPart(self.instant, part, _core.SieveTimeline(axis, None, [data]).num_changes)


class Hands(Protocol[ReadT]):
    """Who reads the slices of an update, and stores its deltas: this process, or others for it."""

    def read(self, slices: Sequence[Slice], columns: Mapping[ColumnPath, pa.DataType]) -> dict[ColumnPath, ReadT]:
        """Some columns of some slices, in one scan; the number of a location is the place of its slice."""

    def put(self, changes: Changes, found: ReadT | None) -> DeltaPart | None:
        """Store the delta of one column, with what was found of it; None if it is too much, and a build is due."""


@dataclass
class _OwnHands:
    lake: Lake
    effort: Effort
    room: Room
    store: Store

    def read(self, slices: Sequence[Slice], columns: Mapping[ColumnPath, pa.DataType]) -> dict[ColumnPath, Gathered]:
        axes = {path: _core.SieveAxis(type) for path, type in columns.items()}
        return gather_columns(self.lake, slices, axes, self.effort, self.room, "update")

    def put(self, changes: Changes, found: Gathered | None) -> DeltaPart | None:
        if found is not None and found.runs.num_bytes * CHANGE_COST > self.effort.memory:
            # A build is an external sort, and holds no more than it may.
            return None
        return changes.put(self.store, found.runs.all_pieces() if found is not None else ())


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
    renewed: Renewed | None = None,
) -> Commit:
    """Bring every column to a snapshot: read the slices that are new or changed, and forget those that went.

    A location that had the same rows by the token that is indexed, as `renewed` tells, is bound anew and not read.
    """
    with effort.room() as room:
        done, rebuild = follow(log, snapshot, _OwnHands(lake, effort, room, log.store), differences, renewed)
    if rebuild:
        done = build(log, lake, snapshot, rebuild, effort)
    due = overgrown(done)
    return compact(log, due) if compaction and due else done


def follow(
    log: Log,
    snapshot: Snapshot,
    hands: Hands[ReadT],
    differences: Differences | None = None,
    renewed: Renewed | None = None,
) -> tuple[Commit, list[ColumnPath]]:
    """Commit deltas that bring every column to a snapshot; and the columns that must be built anew instead."""
    table, tokens = TableState.of(snapshot), tokens_of(snapshot)
    known: dict[tuple[ColumnPath, _Wanted], ReadT] = {}
    rebuild: list[ColumnPath] = []

    def change(newest: Commit | None, attempt: int) -> tuple[TableState, Columns] | None:
        if newest is None or newest.is_empty:
            raise IndexNotFoundError(f"{log.store} holds no index; build one first")
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
            plan = _planned(state, snapshot, tokens, chains[state.bindings], differences or {}, renewed or {})
            if isinstance(plan, _Plan):
                plans.append(plan)
            elif plan is not None:
                rebuild.append(plan)
        _read(hands, plans, known)
        for plan in plans:
            found = known.get((plan.path, plan.wanted()))
            followed = _followed(log.store, hands, plan, found, table, tokens, newest.version + 1)
            if followed is None:
                rebuild.append(plan.path)
            else:
                columns[plan.path] = followed
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


def _planned(
    state: ColumnState,
    snapshot: Snapshot,
    tokens: Mapping[Location, str],
    before: Mapping[Location, str],
    differences: Differences,
    renewed: Renewed,
) -> _Plan | ColumnPath | None:
    """The way of a column; its path alone if it must be built anew, None if the table has it no more."""
    try:
        path, found = current_field(snapshot.schema, state.path, state.field_id)
    except ColumnNotFoundError:
        return None
    axis = _core.SieveAxis(state.type)
    if _core.SieveAxis(found.type).meaning != axis.meaning:
        return path
    # A folder has the type of its first file, and who asks of an index for what that type has not must hear of values
    # that were read as this very type. The types of other formats are certain, and nobody asks that of them.
    if snapshot.id is None and has_other_values(found.type, state.type):
        return path
    read, counted = [], {}
    for piece in snapshot.slices:
        token, bound = tokens.get(piece.location), before.get(piece.location)
        if token is None or token == bound or (bound and bound in renewed.get(piece.location, ())):
            continue
        known = differences.get(piece.location)
        if known is not None and bound and (known.since, known.until) == (bound, token):
            counted[piece.location] = known
        else:
            read.append(piece)
    read.sort(key=lambda piece: piece.location)
    gone = tuple(sorted(location for location in before if location not in tokens))
    return _Plan(state, path, field_id_of(found), axis, before, tuple(read), gone, counted)


def _read(hands: Hands[ReadT], plans: Sequence[_Plan], known: dict[tuple[ColumnPath, _Wanted], ReadT]) -> None:
    """Read what is not known yet; columns that need the same slices share one scan."""
    scans: dict[_Wanted, list[_Plan]] = {}
    for plan in plans:
        if plan.read and (plan.path, plan.wanted()) not in known:
            scans.setdefault(plan.wanted(), []).append(plan)
    for wanted, scan in scans.items():
        found = hands.read(scan[0].read, {plan.path: plan.state.type for plan in scan})
        known.update({(path, wanted): read for path, read in found.items()})


def _followed(
    store: Store,
    hands: Hands[ReadT],
    plan: _Plan,
    found: ReadT | None,
    table: TableState,
    tokens: Mapping[Location, str],
    instant: int,
) -> ColumnState | None:
    """The column with one more delta and its bindings, stored; None if it must be built anew."""
    state = replace(plan.state, path=plan.path, field_id=plan.field_id, table=table)
    locations = [*(piece.location for piece in plan.read), *plan.gone]
    num_new = len(locations)
    plus, minus, sides = [], [], []
    if found is not None:
        tokens = readable(tokens, plan.read, found.failed)
        for number, (nulls, nans, unread) in enumerate(zip(found.nulls, found.nans, found.unread, strict=True)):
            sides.append((number, (nulls, 0), (nans, 0), unread))
    for location, difference in sorted(plan.counted.items()):
        counted = _counted(plan, difference, len(locations))
        plus += counted.plus
        minus += counted.minus
        sides.append((len(locations), counted.nulls, counted.nans, False))
        locations.append(location)
    if not locations:
        # Nothing was read: versions with the same rows have other tokens, or none has.
        return replace(state, bindings=bindings.write(store, state.bindings, plan.before, tokens))
    delta = hands.put(Changes(plan.state.type, instant, locations, num_new, sides, plus, minus), found)
    if delta is None:
        return None
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

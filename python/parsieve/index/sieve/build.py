"""Columns of a table indexed: what a build may use, what of the table can be bound, and the scan that updates share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from parsieve import _core
from parsieve.errors import ConflictError
from parsieve.index.log import bindings
from parsieve.index.log.columns import field_id_of, path_of
from parsieve.index.log.commit import ColumnState, Commit, Log, TableState
from parsieve.index.log.publish import Columns, commit, put_base
from parsieve.index.scan.runs import WAITING_SHARE, Gathered, Progress, gather, merge, threads_of
from parsieve.index.scan.spill import Room
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.lake.rows.columns import leaf_field
from parsieve.lake.slices import locations_and_tokens


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
    for location, token in zip(*locations_and_tokens(snapshot.slices), strict=True):
        if location in found:
            twice.add(location)
        found[location] = token
    return {location: token for location, token in found.items() if token and location not in twice}


def bindable(snapshot: Snapshot) -> list[Slice]:
    """The slices that can be bound, in the order of their locations: a location's number is its place here."""
    tokens = tokens_of(snapshot)
    return sorted((piece for piece in snapshot.slices if piece.location in tokens), key=lambda piece: piece.location)


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
    slices = bindable(snapshot)
    table = TableState.of(snapshot)
    with effort.room() as room:
        found = gather_columns(lake, slices, axes, effort, room, "index")
        failed = found[paths[0]].failed
        if slices and len(failed) == len(slices):
            # An index of nothing is not what was asked for.
            raise failed[0]
        chain = bindings.write(log.store, (), {}, readable(tokens, slices, failed))
        locations = [piece.location for piece in slices]

        def finish(path: ColumnPath) -> ColumnState:
            gathered = found[path]
            built = merge(gathered, locations, version, room, effort.memory, effort.options)
            base = put_base(log.store, gathered.axis, built, version)
            return ColumnState(path, field_id_of(fields[path]), fields[path].type, table, chain, base)

        with ThreadPoolExecutor(threads_of(effort.threads), "parsieve-index") as pool:
            made = {state.path: state for state in pool.map(finish, paths)}
    return commit_build(log, table, made, newest.columns if newest else {})


def commit_build(log: Log, table: TableState, made: Columns, started: Mapping[ColumnPath, ColumnState]) -> Commit:
    """Commit columns that were built; `ConflictError` if one of them is not as it was when the build started."""

    def change(newest: Commit | None, _: int) -> tuple[TableState, Columns]:
        columns = dict(newest.columns) if newest else {}
        for path in made:
            if columns.get(path) != started.get(path):
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


def gather_columns(
    lake: Lake,
    slices: Sequence[Slice],
    axes: Mapping[ColumnPath, _core.SieveAxis],
    effort: Effort,
    room: Room,
    label: str,
) -> dict[ColumnPath, Gathered]:
    """Read some columns of some slices in one scan, with a bar."""
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

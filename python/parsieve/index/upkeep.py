"""An index kept in shape: deltas compacted, columns dropped, old versions and what nobody names removed."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence

from parsieve import _core
from parsieve._core import FormatError
from parsieve.errors import ColumnNotFoundError, IndexNotFoundError
from parsieve.index import garbage
from parsieve.index.columns import path_of
from parsieve.index.commit import Base, ColumnState, Commit, Log, TableState, name_of, without
from parsieve.index.feeder import Built
from parsieve.index.publish import Blooms, Columns, commit, put_base
from parsieve.index.spill import Room, Sections
from parsieve.index.store import Store
from parsieve.index.view import ColumnReader

# What a writer that is killed leaves behind is nobody's after a day.
GARBAGE_AGE = dt.timedelta(days=1)
# One read brings the keys of many segments.
READ_AHEAD = 8 << 20
# Bytes of a new base that wait in memory; what is more waits in a temporary folder.
WAITING = 256 << 20


def compact(
    log: Log,
    columns: Sequence[str | Sequence[str]] | None = None,
    options: _core.SieveOptions | None = None,
    make: Callable[[Sequence[ColumnState]], Sequence[Base]] | None = None,
) -> Commit:
    """Make new bases that stand for the old ones and their deltas; equal to a build from scratch, byte for byte.

    `make` makes and stores them, where that is not for this process to do.
    """
    newest = log.newest()
    if newest is None or newest.is_empty:
        raise IndexNotFoundError(f"{log.store} holds no index; build one first")
    paths = [path_of(column) for column in columns] if columns is not None else list(newest.columns)
    for path in paths:
        if path not in {*newest.columns, *newest.blooms}:
            raise ColumnNotFoundError(f"{'.'.join(path)} is not indexed")
    # Filters are put together by updates.
    known = [newest.columns[path] for path in paths if path in newest.columns]
    states = [state for state in known if state.deltas or options is not None]
    bases = [compacted(log.store, state, options) for state in states] if make is None else make(states)
    made = {state.path: (state.base, base) for state, base in zip(states, bases, strict=True)}

    def change(newest: Commit | None, _: int) -> tuple[TableState, Columns] | None:
        if newest is None:
            raise IndexNotFoundError(f"{log.store} holds no index any more")
        columns = dict(newest.columns)
        for path, (old, new) in made.items():
            # Who built or compacted it meanwhile was there first, and nothing is lost.
            if path in columns and columns[path].base == old:
                columns[path] = without(columns[path], new)
        return None if columns == newest.columns else (newest.table, columns)

    done = commit(log, "compact", change)
    assert done is not None
    return done


def compacted(store: Store, state: ColumnState, options: _core.SieveOptions | None) -> Base:
    """One column's new base, stored but not committed."""
    reader = ColumnReader(store, state)
    timeline, bound = reader.timeline, reader.bound
    if timeline is None or reader.doubts:
        found = "; ".join(f"{name}: {why}" for name, why in reader.doubts.items())
        raise FormatError(f"{'.'.join(state.path)} cannot be compacted, build it anew: {found}")
    places = [(location.partition, location.group) for location in sorted(bound)]
    instant = state.deltas[-1].instant if state.deltas else state.base.instant
    with Room(WAITING) as room:
        sections = Sections(room)
        root, _ = timeline.compact(places, _ReadAhead(store, state), sections.add, options)
        size = sections.size()
        return put_base(store, reader.axis, Built(root, sections.finish(), size), instant)


class _ReadAhead:
    """Ranges of segment files that ascend, in few requests."""

    def __init__(self, store: Store, state: ColumnState) -> None:
        self._store = store
        self._files = state.base.files
        self._at = (-1, 0)
        self._data = b""

    def __call__(self, file: int, offset: int, length: int) -> bytes:
        known, start = self._at
        if known != file or not start <= offset <= offset + length <= start + len(self._data):
            if file >= len(self._files) or offset + length > self._files[file].size:
                raise FormatError("the root of a base points past its segments")
            end = min(self._files[file].size, max(offset + length, offset + READ_AHEAD))
            self._data = self._store.get_ranges(self._files[file].name, [(offset, end)])[0]
            self._at = (file, offset)
            start = offset
        return self._data[offset - start : offset - start + length]


def drop(log: Log, columns: Sequence[str | Sequence[str]] | None = None) -> Commit | None:
    """Forget some columns, or all. Their files stay until they are expired."""

    def change(newest: Commit | None, _: int) -> tuple[TableState, Columns, Blooms] | None:
        if newest is None:
            return None
        known = {*newest.columns, *newest.blooms}
        paths = known if columns is None else {path_of(column) for column in columns}
        unknown = paths - known
        if unknown:
            raise ColumnNotFoundError(f"{', '.join('.'.join(path) for path in sorted(unknown))}: not indexed")
        left = {path: state for path, state in newest.columns.items() if path not in paths}
        return newest.table, left, {path: state for path, state in newest.blooms.items() if path not in paths}

    return commit(log, "drop", change)


def expire(
    log: Log, older_than: dt.timedelta | dt.datetime, garbage_age: dt.timedelta = GARBAGE_AGE
) -> tuple[int, int]:
    """Remove versions written before, but never the newest, and files that no version names; how many of each.

    A file without a version may belong to a commit being prepared, so it must be older than `garbage_age`. Whoever
    takes longer than that to commit gets a `ConflictError`.
    """
    if not isinstance(older_than, dt.datetime | dt.timedelta):
        raise TypeError(f"older_than is a timedelta or a datetime, such as timedelta(days=7), not {older_than!r}")
    if isinstance(older_than, dt.datetime) and older_than.tzinfo is None:
        raise ValueError("older_than is a datetime without a zone; give it one, such as datetime.UTC")
    # In seconds: of a million days ago there is no date.
    limit = older_than.timestamp() if isinstance(older_than, dt.datetime) else time.time() - older_than.total_seconds()
    versions = log.stored()
    # The oldest first, so that whatever is left is a whole history.
    expired = [version for version, stored in versions[:-1] if stored.modified < limit]
    expired = expired[: next((at for at, (version, _) in enumerate(versions) if version not in expired), len(expired))]
    for version in expired:
        log.store.delete(name_of(version))
    return len(expired), garbage.collect(log, garbage_age)

"""An index kept in shape: the deltas of updates merged into a new base."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parsieve import _core
from parsieve._core import FormatError
from parsieve.errors import IndexNotFoundError, not_indexed
from parsieve.index.log.columns import path_of
from parsieve.index.log.commit import Base, ColumnState, Commit, Log, TableState, without
from parsieve.index.log.publish import Columns, commit, put_base
from parsieve.index.scan.runs import Built
from parsieve.index.scan.spill import Room, Sections
from parsieve.index.view import ColumnReader
from parsieve.io.store.base import Store

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
    indexed = {*newest.columns, *newest.blooms}
    for path in paths:
        if path not in indexed:
            raise not_indexed(".".join(path), map(".".join, indexed))
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
        root, _ = timeline.compact(places, ReadAhead(store, state), sections.add, options)
        size = sections.size()
        return put_base(store, reader.axis, Built(root, sections.finish(), size), instant)


class ReadAhead:
    """Ranges of segment files that ascend, in few requests."""

    def __init__(self, store: Store, state: ColumnState) -> None:
        self._store = store
        self._files = state.base.files
        self._at = (-1, 0)
        self._data = b""

    def __call__(self, file: int, offset: int, length: int) -> bytes:
        """One range of one file."""
        known, start = self._at
        if known != file or not start <= offset <= offset + length <= start + len(self._data):
            if file >= len(self._files) or offset + length > self._files[file].size:
                raise FormatError("the root of a base points past its segments")
            end = min(self._files[file].size, max(offset + length, offset + READ_AHEAD))
            self._data = self._store.get_ranges(self._files[file].name, [(offset, end)])[0]
            self._at = (file, offset)
            start = offset
        return self._data[offset - start : offset - start + length]

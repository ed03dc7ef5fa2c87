"""Merge the base and the deltas of each column into a new base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parsieve import _core
from parsieve._core import FormatError
from parsieve.errors import IndexNotFoundError, not_indexed
from parsieve.index.build.executor import Executor
from parsieve.index.log.columns import path_of
from parsieve.index.log.commit import Base, ColumnState, Commit, Log, with_base
from parsieve.index.log.publish import Transaction
from parsieve.index.scan.runs import Built
from parsieve.index.scan.spill import Room, Sections
from parsieve.index.sieve.base import put_base
from parsieve.index.sieve.reader import ColumnReader
from parsieve.io.store.base import Store

# How many bytes of a segment file to read in one request: the keys of many segments.
READ_AHEAD = 8 << 20
# How much of a new base to hold in memory. The rest waits in a temporary folder.
WAITING = 256 << 20


def compact(
    log: Log, executor: Executor[Any], columns: Sequence[str | Sequence[str]] | None = None, *, rewrite: bool = False
) -> Commit:
    """Replace the base and the deltas of some columns, or of all, by one base, and commit it.

    The new base has the same bytes as a build from scratch. Columns without deltas are skipped, unless `rewrite` is
    true. Bloom indexes are skipped too, because updates merge their shelves.
    """
    newest = log.newest()
    if newest is None or newest.is_empty:
        raise IndexNotFoundError(f"{log.store} holds no index; build one first")
    paths = [path_of(column) for column in columns] if columns is not None else list(newest.columns)
    indexed = {*newest.columns, *newest.blooms}
    for path in paths:
        if path not in indexed:
            raise not_indexed(".".join(path), map(".".join, indexed))
    states = [newest.columns[path] for path in paths if path in newest.columns]
    states = [state for state in states if state.deltas or rewrite]
    new_bases = list(zip(states, executor.compact(states), strict=True))

    transaction = Transaction(log, "compact")
    while True:
        newest = transaction.begin()
        if newest is None:
            raise IndexNotFoundError(f"{log.store} holds no index any more")
        compacted = dict(newest.columns)
        for state, base in new_bases:
            # If the column was rebuilt or compacted meanwhile, keep that result.
            if state.path in compacted and compacted[state.path].base == state.base:
                compacted[state.path] = with_base(compacted[state.path], base)
        if compacted == newest.columns:
            return newest
        if version := transaction.commit(newest.table, columns=compacted):
            return version


def compact_column(store: Store, state: ColumnState, options: _core.SieveOptions | None) -> Base:
    """Store the new base of one column, without committing it."""
    reader = ColumnReader(store, state)
    timeline, bound = reader.timeline, reader.bound
    if timeline is None or reader.doubts:
        problems = "; ".join(f"{name}: {reason}" for name, reason in reader.doubts.items())
        raise FormatError(f"cannot compact the index of {'.'.join(state.path)}; build it again: {problems}")
    places = [(location.partition, location.group) for location in sorted(bound)]
    instant = state.deltas[-1].instant if state.deltas else state.base.instant
    with Room(WAITING) as room:
        sections = Sections(room)
        root, _ = timeline.compact(places, ReadAhead(store, state), sections.add, options)
        size = sections.size()
        return put_base(store, reader.axis, Built(root, sections.finish(), size), instant)


class ReadAhead:
    """Reads ascending ranges of segment files in a few large requests."""

    def __init__(self, store: Store, state: ColumnState) -> None:
        self._store = store
        self._files = state.base.files
        # The number of the file, and the offset of the data in it.
        self._at = (-1, 0)
        self._data = b""

    def __call__(self, file: int, offset: int, length: int) -> bytes:
        """Read a range of a file."""
        loaded_file, start = self._at
        if loaded_file != file or not start <= offset <= offset + length <= start + len(self._data):
            if file >= len(self._files) or offset + length > self._files[file].size:
                raise FormatError("the root of a base refers to data after the end of its segments")
            end = min(self._files[file].size, max(offset + length, offset + READ_AHEAD))
            self._data = self._store.get_ranges(self._files[file].name, [(offset, end)])[0]
            self._at = (file, offset)
            start = offset
        return self._data[offset - start : offset - start + length]

"""Replace the base and the deltas of each column by a new base.

In format 1, and in format 2 with stored keys, the keys of the index itself are merged. Otherwise the table has the
keys: `reread.py` reads the slices again that a new base needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parsieve import _core
from parsieve._core import FormatError, ParsieveError
from parsieve.errors import ColumnNotFoundError, ConflictError, IndexNotFoundError, not_indexed
from parsieve.index.build.executor import Executor
from parsieve.index.build.lost import why_lost
from parsieve.index.build.target import Target
from parsieve.index.build.units import units_of
from parsieve.index.log import bindings
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.columns import path_of
from parsieve.index.log.commit import Base, ColumnState, Commit, with_base
from parsieve.index.log.log import Log
from parsieve.index.log.parts import Part
from parsieve.index.log.publish import Transaction
from parsieve.index.scan.runs import BuiltColumn
from parsieve.index.scan.spill import Room, Sections
from parsieve.index.sieve.base import put_base
from parsieve.index.sieve.reader import ColumnReader
from parsieve.index.sieve.reread import Masks, masks_of
from parsieve.io.store.base import Store
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.observe.logs import INDEX
from parsieve.predicate.expressions.expression import index_name

# How many bytes of a segment file to read in one request: the keys of many segments.
READ_AHEAD = 8 << 20
# How much of a new base to hold in memory. The rest waits in a temporary folder.
WAITING = 256 << 20
# If this share of the entries is masked, everything is read again.
MOST_MASKED = 0.25


@dataclass(frozen=True)
class CompactedColumn:
    """A column with its new base."""

    state: ColumnState
    base: Base
    # The bindings of the state, and the new bindings if the slices of the base have new ids.
    bound: Bindings | None = None
    renumbered: Bindings | None = None
    # Locations that could not be read again. Plans keep them until an update reads them.
    lost: frozenset[Location] = frozenset()


def compact(
    log: Log,
    executor: Executor[Any],
    columns: Sequence[str | Sequence[str]] | None = None,
    lake: Lake | None = None,
    snapshot: Snapshot | None = None,
    *,
    rewrite: bool = False,
    purge: bool = False,
) -> Commit:
    """Replace the base and the deltas of some columns, or of all, by one base, and commit it.

    A column without deltas and without masked slices is skipped, unless `rewrite` or `purge` is true. With either, a
    new base in format 2 has nothing of the old one: it is read from the table, and has the same bytes as a new build.
    Bloom and text indexes are skipped too, because updates merge their shelves. If `columns` is None, indexes in
    format 2 are also skipped if the table no longer has their column. With `purge`, such an index raises
    `ColumnNotFoundError` instead, because it would keep its traces of deleted rows.
    """
    newest = log.newest()
    if newest is None or newest.is_empty:
        raise IndexNotFoundError(f"{log.store} holds no index; build one first")
    if snapshot is not None:
        newest = newest.named(snapshot.schema)
    paths = [path_of(column) for column in columns] if columns is not None else list(newest.columns)
    indexed = newest.indexed
    for path in paths:
        if path not in indexed:
            raise not_indexed(index_name(path), map(index_name, indexed))
    states = [newest.columns[path] for path in paths if path in newest.columns]
    in_format_1 = [state for state in states if state.layout is None and (state.deltas or rewrite)]
    compacted = [
        CompactedColumn(state, base) for state, base in zip(in_format_1, executor.compact(in_format_1), strict=True)
    ]
    in_format_2 = [state for state in states if state.layout is not None]
    if in_format_2:
        with executor:
            table = _Table(log.store, executor, lake, snapshot)
            if columns is None and snapshot is not None and not purge:
                in_format_2 = _without_dropped(in_format_2, snapshot)
            compacted += table.compact(in_format_2, rewrite=rewrite, purge=purge)
    return _commit(log, compacted, must_replace=purge)


def _without_dropped(states: Sequence[ColumnState], snapshot: Snapshot) -> list[ColumnState]:
    """Return the states of the columns that the table still has, and log the others."""
    kept = []
    for state in states:
        reason = why_lost(snapshot.schema, state)
        if reason is None:
            kept.append(state)
        else:
            INDEX.warning("%s, so its index was not compacted; call update_index()", reason)
    return kept


def _commit(log: Log, compacted: Sequence[CompactedColumn], *, must_replace: bool) -> Commit:
    transaction = Transaction(log, "compact")
    while True:
        newest = transaction.begin()
        if newest is None:
            raise IndexNotFoundError(f"{log.store} no longer holds an index")
        columns = dict(newest.columns)
        for column in compacted:
            # The version may have another name of the column.
            current = next((state for state in columns.values() if state.base == column.state.base), None)
            after = None if current is None else _replaced(log.store, current, column)
            if after is not None:
                columns[after.path] = after
            elif must_replace:
                raise ConflictError(
                    f"the index of {'.'.join(column.state.path)} was changed by another process during this "
                    "compaction, so nothing was committed; try again"
                )
        if columns == newest.columns:
            return newest
        if version := transaction.commit(newest.table, columns=columns):
            return version


def _replaced(store: Store, current: ColumnState, column: CompactedColumn) -> ColumnState | None:
    """Return the current state of a column with the new base; None if another process has changed it too much.

    The deltas of later updates stay, unless slices have new ids, which these deltas do not know.
    """
    if column.renumbered is not None:
        if current.deltas != column.state.deltas or current.bindings != column.state.bindings:
            return None
        chain = bindings.write(store, (), bindings.NOTHING, column.renumbered)
        return with_base(current, column.base, chain)
    if not column.lost:
        return with_base(current, column.base)
    assert column.bound is not None
    bound = bindings.read(store, current.bindings)
    # The new base lacks the keys of these ids. An update may have given one of them a new token meanwhile.
    lost = {location for location in column.lost if bound.row(location)[1] == column.bound.row(location)[1]}
    return with_base(current, column.base, bindings.write(store, current.bindings, bound, bound.without(lost)))


class _Table:
    """Compacts columns in format 2."""

    def __init__(self, store: Store, executor: Executor[Any], lake: Lake | None, snapshot: Snapshot | None) -> None:
        self._store = store
        self._executor = executor
        self._lake = lake
        self._target = None if snapshot is None else Target.of(snapshot)

    def compact(self, states: Sequence[ColumnState], *, rewrite: bool, purge: bool) -> list[CompactedColumn]:
        """Store the new bases of some columns, without committing them."""
        compacted: list[CompactedColumn] = []
        # Columns to read completely, with their bindings.
        all_again: list[tuple[ColumnState, Bindings]] = []
        for state in states:
            reader = ColumnReader(self._store, state)
            bound = reader.bindings
            # Without bindings, a new base would cover nothing.
            if reader.doubts.keys() & {"bindings", *(part.name for part in state.bindings)}:
                raise _unreadable(reader)
            masks = None if purge or rewrite else masks_of(reader, bound)
            if masks is None:
                all_again.append((state, bound))
                continue
            if not (state.deltas or masks.masked):
                continue
            new = self._compact_column(reader, bound, masks)
            if new is None:
                all_again.append((state, bound))
            else:
                compacted.append(new)
        groups: dict[tuple[Part, ...], list[tuple[ColumnState, Bindings]]] = {}
        for state, bound in all_again:
            groups.setdefault(state.bindings, []).append((state, bound))
        for group in groups.values():
            compacted += self._read_all([state for state, _ in group], group[0][1])
        return compacted

    def _compact_column(self, reader: ColumnReader, bound: Bindings, masks: Masks) -> CompactedColumn | None:
        """Compact a column without reading everything; None if that is not worth it."""
        state = reader.state
        assert state.layout is not None
        if state.layout.keep_keys:
            try:
                return CompactedColumn(state, compact_keys(self._store, reader, masks))
            except (ParsieveError, FileNotFoundError) as error:
                if self._lake is None:
                    raise _unreadable(reader, str(error)) from error
                name = index_name(state.path)
                INDEX.warning("the stored keys of %s cannot be read, so compaction reads the table: %s", name, error)
                return None
        if masks.share >= MOST_MASKED:
            return None
        slices = self._readable(state, bound)
        assert bound.ids is not None
        by_id = {bound.ids[location]: file_slice for location, file_slice in slices.items()}
        lake, path = self._opened(state)
        new = self._executor.compact_units(lake, path, reader, masks, by_id)
        if new is None:
            return None
        base, unread = new
        lost = frozenset(location for location, slice_id in bound.ids.items() if slice_id in unread)
        return CompactedColumn(state, base, bound, lost=lost)

    def _read_all(self, states: Sequence[ColumnState], bound: Bindings) -> list[CompactedColumn]:
        """Build the bases of columns with the same bindings as new builds would, in one scan."""
        readable = self._readable(states[0], bound)
        slices = list(readable.values())
        current = {state.path: self._opened(state) for state in states}
        lake = next(lake for lake, _ in current.values())
        types = {path: state.type for state in states for _, path in [current[state.path]]}
        layouts = {path: state.layout for state in states for _, path in [current[state.path]]}
        kinds = {path: layout.unit for path, layout in layouts.items() if layout is not None}
        units = units_of(lake, slices, kinds, self._executor)
        rows = self._executor.read_rows(lake, slices, types, units)
        failed = {slices[number].location for number in next(iter(rows.values())).failed}
        locations = list(readable)
        instant = {state.path: instant_of(state) for state in states}
        compacted = []
        for state in states:
            _, path = current[state.path]
            bases = self._executor.build_bases({path: rows[path]}, units, layouts, locations, instant[state.path])
            tokens = {location: "" if location in failed else bound.tokens[location] for location in locations}
            fresh = Bindings.fresh(locations, tokens)
            compacted.append(CompactedColumn(state, bases[path], bound, renumbered=fresh))
        return compacted

    def _readable(self, state: ColumnState, bound: Bindings) -> dict[Location, Slice]:
        """Return the slices that the table still has in the version that the index covers, sorted by location."""
        self._opened(state)
        assert self._target is not None
        tokens = self._target.tokens
        same = {location for location, token in bound.tokens.items() if token and tokens.get(location) == token}
        return {file_slice.location: file_slice for file_slice in self._target.slices_at(same)}

    def _opened(self, state: ColumnState) -> tuple[Lake, ColumnPath]:
        """Return the table, and the current path of a column."""
        name = index_name(state.path)
        if self._lake is None or self._target is None:
            raise ValueError(f"compacting the index of {name} reads the table; pass the lake and a snapshot of it")
        column = self._target.find_column(state)
        if column is None:
            raise ColumnNotFoundError(f"{why_lost(self._target.snapshot.schema, state)}; call update_index() first")
        return self._lake, column[0]


def compact_column(store: Store, state: ColumnState, options: _core.SieveOptions | None) -> Base:
    """Store the new base of one column in format 1, without committing it."""
    reader = ColumnReader(store, state)
    timeline, bound = reader.timeline, reader.bound
    if timeline is None or reader.doubts:
        raise _unreadable(reader)
    assert isinstance(timeline, _core.SieveTimeline)
    places = [(location.partition, location.group) for location in sorted(bound)]
    with Room(WAITING) as room:
        sections = Sections(room)
        try:
            root, _ = timeline.compact(places, ReadAhead(store, state), sections.add, options)
        except (ParsieveError, FileNotFoundError) as error:
            raise _unreadable(reader, str(error)) from error
        size = sections.size()
        return put_base(store, reader.axis, BuiltColumn(root, sections.finish(), size), instant_of(state))


def compact_keys(store: Store, reader: ColumnReader, masks: Masks) -> Base:
    """Store the new base of one column in format 2 that has its keys, without committing it."""
    state, timeline = reader.state, masks.timeline
    with Room(WAITING) as room:
        sections = Sections(room)
        root, pages, _ = timeline.compact(
            ReadAhead(store, state),
            sections.add,
            masked=masks.masked,
            file=0,
            pages_file=1,
            # No file of the old base stays.
            files=[0] * len(state.base.files),
            rebuilt=range(len(timeline.segments())),
        )
        size = sections.size()
        built = BuiltColumn(root, sections.finish(), size, pages)
        return put_base(store, reader.axis, built, instant_of(state))


def instant_of(state: ColumnState) -> int:
    """Return the instant of a base that contains all deltas of a column."""
    return state.deltas[-1].instant if state.deltas else state.base.instant


def _unreadable(reader: ColumnReader, problem: str | None = None) -> FormatError:
    problems = problem or "; ".join(f"{name}: {reason}" for name, reason in reader.doubts.items())
    return FormatError(f"cannot compact the index of {'.'.join(reader.state.path)}; build it again: {problems}")


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

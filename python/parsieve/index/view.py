"""One version of an index, asked: which locations can match, with no more reads than the question needs.

Whatever cannot be read or understood keeps the locations that it could speak of, and says so in `doubts`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from parsieve import _core
from parsieve._core import ParsieveError
from parsieve.errors import not_indexed
from parsieve.index.bloom.reader import BloomReader
from parsieve.index.log import bindings
from parsieve.index.log.commit import BloomState, BrokenPartError, ColumnState, Commit, Part, TableState
from parsieve.index.sieve.query import Query
from parsieve.io.sources import REQUESTS_AT_ONCE
from parsieve.io.store.base import Store
from parsieve.lake.base import ColumnPath, Location, Slice

# Segments that an open column keeps before it begins anew.
CACHE_BYTES = 64 << 20


class ColumnReader:
    """One column of a version: its root and deltas read once, segments as they are needed. Threads may share it."""

    # What makes a part useless for good. What the disk or the network says may pass: it is raised, and tried again.
    useless: ClassVar[tuple[type[Exception], ...]] = (ParsieveError,)

    def __init__(self, store: Store, state: ColumnState) -> None:
        self.store = store
        self.state = state
        # Parts that could not be used, by name, and why.
        self.doubts: dict[str, str] = {}
        # A part that a version names is gone: somebody expired the version.
        self.gone = False
        self._lock = threading.Lock()
        self._loaded = 0
        self._numbered: tuple[Sequence[Slice], pa.Array] | None = None

    @cached_property
    def axis(self) -> _core.SieveAxis:
        """How its values become keys."""
        return _core.SieveAxis(self.state.type)

    @cached_property
    def bound(self) -> Mapping[Location, str]:
        """The version of each location that it speaks of; none where that cannot be read."""
        try:
            return bindings.read(self.store, self.state.bindings)
        except self.useless as error:
            self._doubt("bindings", error)
            return {}

    @cached_property
    def _parts(self) -> tuple[bytes, list[bytes]] | None:
        parts = [self.state.base.root, *(delta.file for delta in self.state.deltas)]

        def get(part: Part) -> bytes | None:
            try:
                return part.get(self.store)
            except self.useless as error:
                self._doubt(part.name, error)
                return None

        with ThreadPoolExecutor(min(REQUESTS_AT_ONCE, len(parts)), "parsieve-read") as pool:
            found = list(pool.map(get, parts))
        present = [one for one in found if one is not None]
        return (present[0], present[1:]) if len(present) == len(parts) else None

    def _open(self) -> _core.SieveTimeline | None:
        if self._parts is None:
            return None
        root, deltas = self._parts
        try:
            return _core.SieveTimeline(self.axis, root, deltas)
        except (ParsieveError, ValueError) as error:
            # They are what was written, so a newer version wrote them, or they contradict each other.
            self._doubt(self.state.base.root.name, error)
        return None

    @cached_property
    def timeline(self) -> _core.SieveTimeline | None:
        """The base and its deltas; None where they cannot be used."""
        return self._open()

    @cached_property
    def waste_per_key(self) -> float | None:
        """Mean locations that an answer for one key, or an interval from key to key, names in vain; None if unknown."""
        report = None if self.timeline is None else self.timeline.report([])
        return None if report is None else float(report["waste_per_key"])

    @cached_property
    def numbers(self) -> dict[Location, int]:
        """The number of each location in answers."""
        if self.timeline is None:
            return {}
        places = self.timeline.locations()
        return {Location(partition, group): number for number, (partition, group) in enumerate(places)}

    def ask(self, query: Query) -> pa.Array | None:
        """The numbers of the locations that can match; None for all."""
        timeline = self.timeline
        if timeline is None:
            return None
        try:
            asked = query.on(self.axis)
        except (TypeError, ParsieveError) as error:
            # A literal of another kind: what it equals is not for the index to say.
            self.doubts[f"a question to {'.'.join(self.state.path)}"] = str(error)
            return None
        needs = timeline.needs(asked)
        if needs:
            self._load(timeline, needs)
        answer = timeline.answer(asked)
        if self._loaded > CACHE_BYTES:
            with self._lock:
                fresh = self._open()
                if fresh is not None:
                    # Locations keep their numbers: they follow from the same parts.
                    self.__dict__["timeline"] = fresh
                self._loaded = 0
        return answer

    def _load(self, timeline: _core.SieveTimeline, needs: Sequence[tuple[int, int, int, int]]) -> None:
        by_file: dict[int, list[tuple[int, int, int]]] = {}
        for segment, file, offset, length in needs:
            by_file.setdefault(file, []).append((segment, offset, offset + length))
        for file, wanted in by_file.items():
            data: list[bytes] = [b""] * len(wanted)
            name = f"segment file {file}"
            try:
                part = self.state.base.files[file]
                name = part.name
                # A damaged root may point anywhere; nothing past the end of the file is asked for.
                inside = [(start, end) for _, start, end in wanted if end <= part.size]
                found = iter(self.store.get_ranges(part.name, inside) if inside else [])
                data = [next(found) if end <= part.size else b"" for _, _, end in wanted]
            except (FileNotFoundError, IndexError) as error:
                self._doubt(name, error)
            for (segment, _, _), piece in zip(wanted, data, strict=True):
                try:
                    timeline.load(segment, piece)
                except ParsieveError as error:
                    self._doubt(f"{name}, segment {segment}", error)
                self._loaded += len(piece)

    def _doubt(self, name: str, error: Exception) -> None:
        if isinstance(error, BrokenPartError):
            self.gone |= error.gone
            self.doubts[error.name] = error.why
        elif isinstance(error, FileNotFoundError):
            self.gone = True
            self.doubts[name] = "it is gone"
        elif isinstance(error, OSError):
            self.doubts[name] = f"it cannot be read: {error}"
        else:
            self.doubts[name] = str(error)

    def numbered(self, slices: Sequence[Slice]) -> pa.Array:
        """The number of each slice, null where the index does not speak of this very version of it."""
        last = self._numbered
        if last is not None and last[0] is slices:
            return last[1]
        bound, numbers = self.bound, self.numbers
        found = [
            numbers.get(piece.location) if piece.token and bound.get(piece.location) == piece.token else None
            for piece in slices
        ]
        array = pa.array(found, pa.uint32())
        if isinstance(slices, tuple):
            self._numbered = (slices, array)
        return array


class View:
    """A version of an index. It never changes: what it says of tokens and of answers belongs together."""

    def __init__(self, store: Store, commit: Commit, newer: Callable[[], View | None] | None = None) -> None:
        self.store = store
        self.commit = commit
        self._newer = newer
        self._readers = {path: ColumnReader(store, state) for path, state in commit.columns.items()}
        self._blooms = {path: BloomReader(store, state) for path, state in commit.blooms.items()}

    def __repr__(self) -> str:
        """Show the version and its columns."""
        kinds = {path: ["sieve"] for path in self.commit.columns}
        for path in self.commit.blooms:
            kinds.setdefault(path, []).append("bloom")
        columns = ", ".join(f"{'.'.join(path)}: {' and '.join(found)}" for path, found in sorted(kinds.items()))
        return f"<parsieve.index.View version {self.version}, {columns or 'no columns'}>"

    @property
    def version(self) -> int:
        """Its number."""
        return self.commit.version

    @property
    def table(self) -> TableState:
        """The table's snapshot that it was made for."""
        return self.commit.table

    @property
    def columns(self) -> Mapping[ColumnPath, ColumnState]:
        """The columns that it knows."""
        return self.commit.columns

    @property
    def doubts(self) -> dict[str, str]:
        """Parts that could not be used so far, and why. What they speak of is kept."""
        readers: list[ColumnReader | BloomReader] = [*self._readers.values(), *self._blooms.values()]
        return {name: why for reader in readers for name, why in reader.doubts.items()}

    def find(self, column: str | Sequence[str], field_id: int | None = None) -> ColumnPath | None:
        """The column's path in this version: by the field's id, or by name where neither knows one."""
        return _find(self.columns, column, field_id)

    def bloom(self, column: str | Sequence[str], field_id: int | None = None) -> BloomReader | None:
        """The Bloom index of a column, found as `find` finds one; None where it has none."""
        path = _find(self.commit.blooms, column, field_id)
        return None if path is None else self._blooms[path]

    def reader(self, column: str | Sequence[str]) -> ColumnReader:
        """A column, opened."""
        path = tuple(column.split(".")) if isinstance(column, str) else tuple(column)
        reader = self._readers.get(path)
        if reader is None:
            raise not_indexed(".".join(path), map(".".join, self.columns))
        return reader

    def token(self, location: Location, column: str | Sequence[str] | None = None) -> str | None:
        """The version of a location that a column speaks of; without a column, the one that all of them speak of."""
        readers = [self.reader(column)] if column is not None else list(self._readers.values())
        tokens = {reader.bound.get(location) for reader in readers}
        return tokens.pop() if len(tokens) == 1 else None

    def lookup(self, column: str | Sequence[str], query: Query) -> set[Location]:
        """The locations that can match, of those that the column speaks of. All others must be kept."""
        reader = self.reader(column)
        answer = reader.ask(query)
        if answer is None:
            return set(reader.bound)
        kept = set(answer.to_pylist())
        numbers = reader.numbers
        return {location for location in reader.bound if numbers.get(location, -1) in kept or location not in numbers}

    def may_match(self, column: str | Sequence[str], query: Query, slices: Sequence[Slice]) -> pa.BooleanArray:
        """Whether each slice must be read: false only where this very version of it holds no matching row.

        Where files of this version are gone, the newest version is asked instead.
        """
        reader = self.reader(column)
        answer = reader.ask(query)
        numbers = reader.numbered(slices)
        if reader.gone and self._newer is not None:
            newer = self._newer()
            path = None if newer is None else newer.find(reader.state.path, reader.state.field_id)
            if newer is not None and newer.version > self.version and path is not None:
                return newer.may_match(path, query, slices)
        if answer is None:
            return pa.array([True] * len(slices), pa.bool_())
        return pc.or_(pc.is_null(numbers), pc.is_in(numbers, value_set=answer))


def _find(
    states: Mapping[ColumnPath, ColumnState | BloomState], column: str | Sequence[str], field_id: int | None
) -> ColumnPath | None:
    path = tuple(column.split(".")) if isinstance(column, str) else tuple(column)
    if field_id is not None:
        return next((known for known, state in states.items() if state.field_id == field_id), None)
    found = states.get(path)
    # Without ids a table knows no column that was given one: it may be another one of the same name.
    return path if found is not None and found.field_id is None else None

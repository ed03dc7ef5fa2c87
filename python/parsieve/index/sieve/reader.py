"""Read the Sieve index of one column in one version, by ranges.

A part that cannot be read makes the answer larger, never smaller: the locations that it covers are kept.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from parsieve import _core
from parsieve._core import ParsieveError
from parsieve.index.log import bindings
from parsieve.index.log.commit import BrokenPartError, ColumnState, Part
from parsieve.index.sieve.query import Query
from parsieve.io.parallel import map_in_threads
from parsieve.io.sources import REQUESTS_AT_ONCE
from parsieve.io.store.base import Store
from parsieve.lake.base import Location, Slice
from parsieve.lake.slices import Slices, locations_and_tokens

# How many bytes of segments to cache for a column before discarding all of them.
CACHE_BYTES = 64 << 20


class ColumnReader:
    """The Sieve index of one column. Reads the root and deltas once, segments on demand. Threads may share it."""

    # Errors that mark a part as unusable for good. Other errors may be temporary: they are raised, and the next query
    # tries again.
    permanent_errors: ClassVar[tuple[type[Exception], ...]] = (ParsieveError,)

    def __init__(self, store: Store, state: ColumnState) -> None:
        self.store = store
        self.state = state
        # Why parts cannot be used, by name.
        self.doubts: dict[str, str] = {}
        # Whether a file of this version is missing, because the version was expired.
        self.gone = False
        self._lock = threading.Lock()
        self._loaded = 0
        self._numbered: tuple[Sequence[Slice], pa.Array] | None = None

    @cached_property
    def axis(self) -> _core.SieveAxis:
        """Return the encoding of values as keys."""
        return _core.SieveAxis(self.state.type)

    @cached_property
    def bound(self) -> Mapping[Location, str]:
        """Return the token of each location that the index covers; none if the bindings cannot be read."""
        try:
            return bindings.read(self.store, self.state.bindings)
        except self.permanent_errors as error:
            self._doubt("bindings", error)
            return {}

    @cached_property
    def _root_and_deltas(self) -> tuple[bytes, list[bytes]] | None:
        parts = [self.state.base.root, *(delta.file for delta in self.state.deltas)]

        def get(part: Part) -> bytes | None:
            try:
                return part.get(self.store)
            except self.permanent_errors as error:
                self._doubt(part.name, error)
                return None

        contents = list(map_in_threads(get, parts, REQUESTS_AT_ONCE, "parsieve-read"))
        readable = [content for content in contents if content is not None]
        return (readable[0], readable[1:]) if len(readable) == len(parts) else None

    def _open(self) -> _core.SieveTimeline | None:
        if self._root_and_deltas is None:
            return None
        root, deltas = self._root_and_deltas
        try:
            return _core.SieveTimeline(self.axis, root, deltas)
        except (ParsieveError, ValueError) as error:
            # Their checksums are right, so a newer version of the package wrote them, or they contradict each other.
            self._doubt(self.state.base.root.name, error)
        return None

    @cached_property
    def timeline(self) -> _core.SieveTimeline | None:
        """Return the base with its deltas, or None if they cannot be used."""
        return self._open()

    @cached_property
    def waste_per_key(self) -> float | None:
        """Return the mean number of false positives for one key, or a short interval; None if unknown."""
        report = None if self.timeline is None else self.timeline.report([])
        return None if report is None else float(report["waste_per_key"])

    @cached_property
    def numbers(self) -> dict[Location, int]:
        """Return the number of each location in answers."""
        if self.timeline is None:
            return {}
        places = self.timeline.locations()
        return {Location(partition, group): number for number, (partition, group) in enumerate(places)}

    def ask(self, query: Query) -> pa.Array | None:
        """Return the numbers of the locations that may match, or None for all locations."""
        timeline = self.timeline
        if timeline is None:
            return None
        try:
            encoded = query.on(self.axis)
        except (TypeError, ParsieveError) as error:
            # The literal has another type than the column, so the index cannot answer.
            self.doubts[f"a question to {'.'.join(self.state.path)}"] = str(error)
            return None
        needs = timeline.needs(encoded)
        if needs:
            self._load(timeline, needs)
        answer = timeline.answer(encoded)
        if self._loaded > CACHE_BYTES:
            with self._lock:
                emptied = self._open()
                if emptied is not None:
                    # Locations keep their numbers, because these follow from the same root and deltas.
                    self.__dict__["timeline"] = emptied
                self._loaded = 0
        return answer

    @property
    def has_ranges(self) -> bool:
        """Return whether answers name units, which are ranges of rows. In format 1, they name locations."""
        return False

    def unit_ranges(self, ids: pa.UInt32Array) -> list[tuple[list[int], list[tuple[int, int, int]]] | None]:
        """Return for each slice id the rows of its row groups, and its units; None if they are unknown.

        A unit has the number of its row group, its first row in the file, and its number of rows.
        """
        return [None] * len(ids)

    def _load(self, timeline: _core.SieveTimeline, needs: Sequence[tuple[int, int, int, int]]) -> None:
        by_file: dict[int, list[tuple[int, int, int]]] = {}
        for segment, file, offset, length in needs:
            by_file.setdefault(file, []).append((segment, offset, offset + length))
        for file, segments in by_file.items():
            data: list[bytes] = [b""] * len(segments)
            name = f"segment file {file}"
            try:
                part = self.state.base.files[file]
                name = part.name
                # A damaged root may point anywhere. Do not read past the end of the file.
                inside = [(start, end) for _, start, end in segments if end <= part.size]
                ranges = iter(self.store.get_ranges(part.name, inside) if inside else [])
                data = [next(ranges) if end <= part.size else b"" for _, _, end in segments]
            except (FileNotFoundError, IndexError) as error:
                self._doubt(name, error)
            for (segment, _, _), content in zip(segments, data, strict=True):
                try:
                    timeline.load(segment, content)
                except ParsieveError as error:
                    self._doubt(f"{name}, segment {segment}", error)
                self._loaded += len(content)

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
        """Return the number of each slice, or null if the index does not cover the current version of the slice.

        A plan passes the same sequence of slices many times, so the last answer is kept.
        """
        last = self._numbered
        if last is not None and last[0] is slices:
            return last[1]
        bound, numbers = self.bound, self.numbers
        number_of_slices = [
            numbers.get(location) if token and bound.get(location) == token else None
            for location, token in zip(*locations_and_tokens(Slices.of(slices)), strict=True)
        ]
        array = pa.array(number_of_slices, pa.uint32())
        if isinstance(slices, Slices):
            # Any other sequence may change later.
            self._numbered = (slices, array)
        return array

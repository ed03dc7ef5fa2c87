"""Read the Sieve index of one column in one version, by ranges.

A part that cannot be read makes the answer larger, never smaller: the locations that it covers are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from parsieve import _core
from parsieve._core import FormatError, ParsieveError
from parsieve.index.log import bindings
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.commit import ColumnState
from parsieve.index.log.parts import BrokenPartError, Part, doubt_of
from parsieve.index.sieve.query import Query
from parsieve.io.parallel import map_in_threads
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.io.store.base import Store
from parsieve.lake.base import Location, Slice
from parsieve.lake.slices import Slices, locations_and_tokens
from parsieve.sharing import Lock, cached_property

# How many bytes of segments to cache for a column before discarding all of them.
CACHE_BYTES = 64 << 20
# The unit of an answer that keeps all units of a slice.
WHOLE_SLICE = 2**32 - 1

Timeline: TypeAlias = "_core.SieveTimeline | _core.SieveUnitTimeline"
PartKind = Literal["segment", "units"]
PART_NAMES: Mapping[PartKind, str] = {"segment": "segment", "units": "unit page"}
# The kind and number of a part; its file, offset and length.
Need = tuple[PartKind, int, int, int, int]
# The rows of each row group; then for each unit its row group, its first row in the file, and its number of rows.
UnitRanges = tuple[list[int], list[tuple[int, int, int]]]

# The least and greatest key of a unit, as bytes that sort like the keys; whether they are exact; the numbers of keys,
# nulls and NaNs; and whether there may be other rows.
UnitStatistics = tuple[bytes | None, bytes | None, bool, int, int, int, bool]


class Answer(NamedTuple):
    """The slices and units that may match a query, sorted. The arrays have one entry for each unit."""

    # The number of the slice, as in `ColumnReader.numbered`.
    ids: pa.UInt32Array
    # The number of the unit within the slice; `WHOLE_SLICE` if all its units may match.
    units: pa.UInt32Array


def load_part(timeline: Timeline, part: PartKind, number: int, data: bytes) -> None:
    """Load a segment or a unit page. Raises `FormatError` if it is damaged."""
    if isinstance(timeline, _core.SieveTimeline):
        timeline.load(number, data)
    else:
        timeline.load(part, number, data)


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
        self._lock = Lock()
        self._loaded = 0
        self._numbered: tuple[Sequence[Slice], pa.Array] | None = None

    @cached_property
    def axis(self) -> _core.SieveAxis:
        """Return the encoding of values as keys."""
        return _core.SieveAxis(self.state.type)

    @cached_property
    def bindings(self) -> Bindings:
        """Return the tokens and ids that the index covers; none if they cannot be read."""
        try:
            bound = bindings.read(self.store, self.state.bindings)
            if (bound.ids is None) == (self.state.layout is None):
                return bound
            raise FormatError("the format versions of its bindings and of the column differ")
        except self.permanent_errors as error:
            self._doubt("bindings", error)
            return bindings.NOTHING

    @property
    def bound(self) -> Mapping[Location, str]:
        """Return the token of each location that the index covers; none if the bindings cannot be read."""
        return self.bindings.tokens

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

    def _open(self) -> Timeline | None:
        if self._root_and_deltas is None:
            return None
        root, deltas = self._root_and_deltas
        try:
            if self.state.layout is not None:
                return _core.SieveTimeline.open2(self.axis, root, deltas)
            return _core.SieveTimeline(self.axis, root, deltas)
        except (ParsieveError, ValueError) as error:
            # Their checksums are right, so a newer version of the package wrote them, or they contradict each other.
            self._doubt(self.state.base.root.name, error)
        return None

    @cached_property
    def timeline(self) -> Timeline | None:
        """Return the base with its deltas, or None if they cannot be used."""
        return self._open()

    @cached_property
    def waste_per_key(self) -> float | None:
        """Return the mean number of false positives for one key, or a short interval; None if unknown."""
        report = None if self.timeline is None else self.timeline.report([])
        return None if report is None else float(report["waste_per_key"])

    @cached_property
    def numbers(self) -> Mapping[Location, int]:
        """Return the number of each location in answers: its id, or in format 1 its position in the index."""
        timeline = self.timeline
        if timeline is None:
            return {}
        if isinstance(timeline, _core.SieveTimeline):
            places = timeline.locations()
            return {Location(partition, group): number for number, (partition, group) in enumerate(places)}
        return self.bindings.ids or {}

    def find_units(self, query: Query) -> Answer | None:
        """Return the slices and units that may match, or None for all of them."""
        timeline = self.timeline
        if timeline is None:
            return None
        try:
            encoded = query.on(self.axis)
        except (TypeError, ParsieveError):
            # The literal has another type than the column, so the index cannot answer.
            return None
        answer: Answer | None = None
        if isinstance(timeline, _core.SieveTimeline):
            self._load(timeline, [("segment", *need) for need in timeline.needs(encoded)])
            numbers = timeline.answer(encoded)
            if numbers is not None:
                answer = Answer(numbers, pa.array([WHOLE_SLICE] * len(numbers), pa.uint32()))
        else:
            while needs := timeline.needs(encoded):
                self._load(timeline, needs)
            both = timeline.answer2(encoded)
            answer = None if both is None else Answer(*both)
        self._limit_cache()
        return answer

    def refusal(self, query: Query) -> str | None:
        """Return why a query cannot be answered although no part is damaged; None if it can."""
        try:
            query.on(self.axis)
        except (TypeError, ParsieveError) as error:
            return str(error)
        return None

    @property
    def has_ranges(self) -> bool:
        """Return whether answers name units that may be smaller than slices."""
        return self.state.layout is not None and self.state.layout.unit != "file"

    def unit_ranges(self, ids: pa.UInt32Array) -> list[UnitRanges | None]:
        """Return for each id the rows of each row group, and the row group and the rows of each unit.

        The entry is None if the ranges of a slice are unknown.
        """
        timeline = self.timeline
        if timeline is None or isinstance(timeline, _core.SieveTimeline):
            return [None] * len(ids)
        while needs := timeline.needs_units(ids):
            self._load(timeline, needs)
        ranges = timeline.unit_ranges(ids)
        self._limit_cache()
        return ranges

    def unit_columns(self, ids: pa.UInt32Array) -> Sequence[pa.Int64Array]:
        """Return the row groups and the units of slices as columns.

        For each id the number of its row groups and the number of its units; then the rows of all row groups, and the
        first row and the number of rows of all units. A slice with unknown ranges has neither row groups nor units.
        """
        timeline = self.timeline
        if timeline is None or isinstance(timeline, _core.SieveTimeline):
            nothing = pa.array([0] * len(ids), pa.int64())
            return [nothing, nothing, *[pa.array([], pa.int64())] * 3]
        while needs := timeline.needs_units(ids):
            self._load(timeline, needs)
        columns = timeline.unit_columns(ids)
        self._limit_cache()
        return columns

    def unit_statistics(self, ids: pa.UInt32Array) -> list[list[UnitStatistics] | None]:
        """Return for each id the statistics of its units, or None if they are unknown."""
        timeline = self.timeline
        if timeline is None or isinstance(timeline, _core.SieveTimeline):
            return [None] * len(ids)
        while needs := timeline.needs_units(ids):
            self._load(timeline, needs)
        statistics = timeline.unit_statistics(ids)
        self._limit_cache()
        return statistics

    def load_all_units(self) -> None:
        """Load all unit pages, and record the damaged ones."""
        timeline = self.timeline
        if isinstance(timeline, _core.SieveUnitTimeline):
            while needs := timeline.needs_units():
                self._load(timeline, needs)

    def _limit_cache(self) -> None:
        """Forget the loaded parts if they take too much memory."""
        if self._loaded > CACHE_BYTES:
            with self._lock:
                emptied = self._open()
                if emptied is not None:
                    # Slices keep their numbers, because these follow from the same root and deltas.
                    self.__dict__["timeline"] = emptied
                self._loaded = 0

    def _load(self, timeline: Timeline, needs: Sequence[Need]) -> None:
        by_file: dict[int, list[Need]] = {}
        for need in needs:
            by_file.setdefault(need[2], []).append(need)
        for file, parts in by_file.items():
            data: list[bytes] = [b""] * len(parts)
            name = f"segment file {file}"
            is_missing = False
            try:
                stored = self.state.base.files[file]
                name = stored.name
                # A damaged root may point anywhere. Do not read past the end of the file.
                spans = [(offset, offset + length) for *_, offset, length in parts]
                inside = [(start, end) for start, end in spans if end <= stored.size]
                ranges = iter(self.store.get_ranges(stored.name, inside) if inside else [])
                data = [next(ranges) if end <= stored.size else b"" for _, end in spans]
            except (FileNotFoundError, IndexError) as error:
                is_missing = True
                self._doubt(name, error)
            for (part, number, *_), content in zip(parts, data, strict=True):
                try:
                    load_part(timeline, part, number, content)
                except ParsieveError as error:
                    # Without any bytes, the checksum of a part does not match either, but that is not the problem.
                    if not is_missing:
                        self._doubt(f"{name}, {PART_NAMES[part]} {number}", error)
                self._loaded += len(content)

    def _doubt(self, name: str, error: Exception) -> None:
        if isinstance(error, FileNotFoundError) or (isinstance(error, BrokenPartError) and error.gone):
            self.gone = True
        part, reason = doubt_of(name, error)
        self.doubts[part] = reason

    def numbered(self, slices: Sequence[Slice]) -> pa.Array:
        """Return the number of each slice, or null if the index does not cover the current version of the slice.

        A plan passes the same sequence of slices many times, so the last answer is kept.
        """
        last = self._numbered
        if last is not None and last[0] is slices:
            return last[1]
        columns, timeline = self.bindings.columns, self.timeline
        if columns is None or columns.ids is None or timeline is None:
            array = self._numbered_by_objects(slices)
        else:
            array = columns.ids.take(columns.positions(Slices.of(slices))).cast(pa.uint32())
        if isinstance(slices, Slices):
            # Any other sequence may change later.
            self._numbered = (slices, array)
        return array

    def _numbered_by_objects(self, slices: Sequence[Slice]) -> pa.UInt32Array:
        bound, numbers = self.bound, self.numbers
        number_of_slices = [
            numbers.get(location) if token and bound.get(location) == token else None
            for location, token in zip(*locations_and_tokens(Slices.of(slices)), strict=True)
        ]
        return pa.array(number_of_slices, pa.uint32())

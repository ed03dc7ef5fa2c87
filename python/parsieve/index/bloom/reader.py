"""Read the Bloom index of one column in one version, by ranges.

A part that cannot be read never makes an answer exclude a location.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import ParsieveError
from parsieve.index.bloom.shelf import ShelfReader
from parsieve.index.log import bindings
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.commit import BloomState
from parsieve.index.log.parts import BrokenPartError, Part, Shelf, doubt_of
from parsieve.index.scan.units import WHOLE, UnitLayout
from parsieve.io.parallel import map_in_threads
from parsieve.io.ranges import RangeReader
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.io.sources import Source
from parsieve.io.store.base import Store
from parsieve.lake.base import Location, Slice
from parsieve.lake.slices import Slices, locations_and_tokens
from parsieve.sharing import Lock, cached_property


class KeptUnits(NamedTuple):
    """The units of a location that may match."""

    layout: UnitLayout
    units: Sequence[int]


class _Stored(Source):
    """A file of a store, read by ranges. The store counts the requests."""

    concurrent = True

    def __init__(self, store: Store, part: Part) -> None:
        self.gap = store.gap
        self._store = store
        self._part = part

    def size(self) -> int:
        return self._part.size

    def read(self, start: int, end: int) -> bytes:
        data = self._store.get_ranges(self._part.name, [(start, end)])[0]
        if not data:
            raise BrokenPartError(self._store, self._part.name, "it is shorter than when it was written")
        return data


class BloomReader:
    """The Bloom index of one column in one version. Threads may share it."""

    # Errors that mark a part as unusable for good. Other errors may be temporary: they are raised, and the next query
    # tries again.
    permanent_errors: ClassVar[tuple[type[Exception], ...]] = (ParsieveError, FileNotFoundError)

    def __init__(self, store: Store, state: BloomState) -> None:
        self.store = store
        self.state = state
        # Why parts cannot be used, by name. The locations that they cover are kept.
        self.doubts: dict[str, str] = {}
        self._lock = Lock()
        self._shelves: list[ShelfReader | None] | None = None

    @cached_property
    def _bindings(self) -> Bindings:
        try:
            return bindings.read(self.store, self.state.bindings)
        except self.permanent_errors as error:
            self._doubt("bindings", error)
            return bindings.NOTHING

    def _doubt(self, name: str, error: Exception) -> None:
        part, reason = doubt_of(name, error)
        self.doubts[part] = reason

    @property
    def bound(self) -> Mapping[Location, str]:
        """Return the token of each location that the index covers; none if the bindings cannot be read."""
        return self._bindings.tokens

    def _open_shelves(self) -> list[ShelfReader | None]:
        with self._lock:
            if self._shelves is None:
                opened = map_in_threads(self._open, self.state.shelves, REQUESTS_AT_ONCE, "parsieve-read")
                self._shelves = list(opened)
            return self._shelves

    def _open(self, shelf: Shelf) -> ShelfReader | None:
        try:
            return ShelfReader(shelf.directory.get(self.store), RangeReader(_Stored(self.store, shelf.rows)))
        except self.permanent_errors as error:
            self._doubt(shelf.directory.name, error)
            return None

    def units_with(self, values: Any) -> dict[Location, KeptUnits]:
        """Return, for each indexed location, the units that may hold a row with one of the values.

        A location without an entry may hold such a row in any unit.
        """
        shelves = [shelf for shelf in self._open_shelves() if shelf is not None]
        if len(shelves) < len(self.state.shelves):
            # The missing shelf may have newer filters of any location.
            return {}
        answers = map_in_threads(lambda shelf: self._ask(shelf, values), shelves, REQUESTS_AT_ONCE, "parsieve-read")
        kept: dict[Location, KeptUnits] = {}
        for shelf, units in zip(shelves, answers, strict=True):
            places = [Location(*place) for place in shelf.locations]
            if units is None:
                kept |= {place: KeptUnits(WHOLE, [0]) for place in places}
            else:
                kept |= zip(places, map(KeptUnits, shelf.layouts, units), strict=True)
        return kept

    def excluded(self, values: Any) -> set[Location]:
        """Return the locations whose indexed version holds no row with one of the values."""
        return {location for location, kept in self.units_with(values).items() if not kept.units}

    def _ask(self, shelf: ShelfReader, values: Any) -> list[Sequence[int]] | None:
        """Return, for each location on a shelf, the units that may match, or None if the filters cannot be read."""
        try:
            units = shelf.units_with_each(self._groups(values))
        except self.permanent_errors as error:
            self._doubt("rows of a shelf", error)
            return None
        if shelf.damaged:
            self.doubts["rows of a shelf"] = f"{shelf.damaged} of them are damaged"
        return units

    def _groups(self, values: Any) -> Sequence[Any]:
        """Return groups of values. A matching row has one value of each group."""
        return [values]

    def known(self, slices: Sequence[Slice]) -> pa.BooleanArray:
        """Return for each slice whether the index has a filter for its current version."""
        bound, columns = self.bound, self._bindings.columns
        if columns is not None:
            return columns.positions(Slices.of(slices)).is_valid()
        pairs = zip(*locations_and_tokens(Slices.of(slices)), strict=True)
        return pa.array([bool(token) and bound.get(location) == token for location, token in pairs], pa.bool_())

    def may_match(self, values: Any, slices: Sequence[Slice]) -> pa.BooleanArray:
        """Return for each slice whether it may match. False means that its current version holds none of the values."""
        return self.with_units(self.units_with(values), slices)

    def with_units(self, kept: Mapping[Location, KeptUnits], slices: Sequence[Slice]) -> pa.BooleanArray:
        """Return for each slice whether it may match, after an answer of `units_with`."""
        excluded = {location for location, of_location in kept.items() if not of_location.units}
        locations, _ = locations_and_tokens(Slices.of(slices))
        is_excluded = pa.array([location in excluded for location in locations], pa.bool_())
        return pc.invert(pc.and_(self.known(slices), is_excluded))

"""The Bloom index of one column in one version, asked by ranges; what cannot be read keeps what it could speak of."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import ParsieveError
from parsieve.index.bloom.shelf import ShelfReader
from parsieve.index.log import bindings
from parsieve.index.log.commit import BloomState, BrokenPartError, Part, Shelf
from parsieve.io.ranges import RangeReader
from parsieve.io.sources import REQUESTS_AT_ONCE, Source
from parsieve.io.store.base import Store
from parsieve.lake.base import Location, Slice


class _Stored(Source):
    """A file of a store, read by ranges; the store counts them."""

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
            raise BrokenPartError(self._store, self._part.name, "it is shorter than what was written")
        return data


class BloomReader:
    """The Bloom index of one column in one version. Threads may share it."""

    # What makes a part useless for good. What the disk or the network says may pass: it is raised, and tried again.
    useless: ClassVar[tuple[type[Exception], ...]] = (ParsieveError, FileNotFoundError)

    def __init__(self, store: Store, state: BloomState) -> None:
        self.store = store
        self.state = state
        # Parts that could not be used, by name, and why. What they speak of is kept.
        self.doubts: dict[str, str] = {}
        self._lock = threading.Lock()
        self._shelves: list[ShelfReader | None] | None = None

    @cached_property
    def bound(self) -> Mapping[Location, str]:
        """The version of each location that it speaks of; none where that cannot be read."""
        try:
            return bindings.read(self.store, self.state.bindings)
        except self.useless as error:
            self.doubts["bindings"] = str(error)
            return {}

    def _opened(self) -> list[ShelfReader | None]:
        with self._lock:
            if self._shelves is None:
                with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
                    self._shelves = list(pool.map(self._open, self.state.shelves))
            return self._shelves

    def _open(self, shelf: Shelf) -> ShelfReader | None:
        try:
            return ShelfReader(shelf.directory.get(self.store), RangeReader(_Stored(self.store, shelf.rows)))
        except self.useless as error:
            self.doubts[shelf.directory.name] = str(error)
            return None

    def excluded(self, values: pa.Array) -> set[Location]:
        """The locations that certainly hold no row with one of the values, in the versions that are bound."""
        shelves = self._opened()
        if None in shelves:
            # Nobody can tell whose filters it held, and newer ones would come before the others.
            return set()
        verdicts: dict[Location, bool] = {}
        with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
            asked = pool.map(lambda shelf: self._ask(shelf, values), shelves)
            for shelf, may in zip(shelves, asked, strict=True):
                assert shelf is not None
                verdicts |= {Location(*one): may is None or one in may for one in shelf.locations}
        return {location for location, may in verdicts.items() if not may}

    def _ask(self, shelf: ShelfReader | None, values: pa.Array) -> set[tuple[str, str]] | None:
        assert shelf is not None
        try:
            may = shelf.might_contain(values)
        except self.useless as error:
            self.doubts["rows of a shelf"] = str(error)
            return None
        if shelf.damaged:
            self.doubts["rows of a shelf"] = f"{shelf.damaged} of them are damaged"
        return may

    def known(self, slices: Sequence[Slice]) -> pa.BooleanArray:
        """Whether there is a filter of this very version of each slice."""
        bound = self.bound
        return pa.array([bool(one.token) and bound.get(one.location) == one.token for one in slices], pa.bool_())

    def may_match(self, values: pa.Array, slices: Sequence[Slice]) -> pa.BooleanArray:
        """Whether each slice must be read: false only where this very version of it holds none of the values."""
        excluded = self.excluded(values)
        said_no = pa.array([one.location in excluded for one in slices], pa.bool_())
        return pc.invert(pc.and_(self.known(slices), said_no))

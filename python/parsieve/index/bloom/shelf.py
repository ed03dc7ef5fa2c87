"""The Bloom index of a table: a filter for each location, on shelves of which a point reads one row for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from parsieve import _core
from parsieve.io.ranges import RangeReader

Location = tuple[str, str]

# Bytes of filters on one shelf: all of them are in memory at once while it is written, and a lookup reads each shelf.
SHELF_BYTES = 256 << 20
# Bytes of a filter's block.
BLOCK = 32


@dataclass(frozen=True, slots=True)
class Filled:
    """The keys of one location as a filter: what a shelf takes."""

    location: Location
    # None where no row has a value.
    filter: _core.BloomFilter | None
    nulls: bool = False
    nans: bool = False
    # Rows that could not be read: the location is kept whatever is asked.
    unknown: bool = False

    @property
    def column_type(self) -> str | None:
        """Physical type and meaning of its values; None where it has none."""
        return None if self.filter is None else self.filter.column_type

    @property
    def num_bytes(self) -> int:
        """The size of its filter."""
        return 0 if self.filter is None else self.filter.num_bytes


class Filling:
    """The filter of one location's keys, filled in one pass."""

    def __init__(self, location: Location, num_rows: int, fpp: float = 0.01) -> None:
        """Begin with a filter that is large enough for `num_rows`; more rows make it worse, never wrong."""
        self._location = location
        self._num_rows = num_rows
        self._fpp = fpp
        self._filter: _core.BloomFilter | None = None
        self._nulls = self._nans = False

    def add(self, keys: pa.Array) -> None:
        """Take in the keys of some rows."""
        self._nulls |= keys.null_count > 0
        if keys.null_count == len(keys):
            return
        if pa.types.is_floating(keys.type) and not self._nans:
            self._nans = bool(pc.any(pc.is_nan(keys)).as_py())
        if self._filter is None:
            num_bytes = _core.shelf_num_bytes(self._num_rows, self._fpp)
            self._filter = _core.BloomFilter(num_bytes=num_bytes, type=keys.type)
        self._filter.insert(keys)

    def finish(self) -> Filled:
        """Return the filter, halved as often as it keeps its rate."""
        filled, self._filter = self._filter, None
        return Filled(self._location, None if filled is None else _halved(filled, self._fpp), self._nulls, self._nans)


def _halved(filled: _core.BloomFilter, fpp: float) -> _core.BloomFilter:
    """The smallest half of a half that keeps the rate. All shelf sizes halve into shelf sizes, down to four blocks.

    One step makes it: intermediate sizes would leave the memory of the process full of holes.
    """
    blocks = filled.num_blocks
    small = filled.folded(fpp)
    if small.num_blocks in (1, 2) and blocks > small.num_blocks:
        small = filled.folded(factor=max(1, blocks // 4))
    return small


def fill(location: Location, keys: Iterable[pa.Array], num_rows: int, fpp: float = 0.01) -> Filled:
    """The filter of a location's keys."""
    filling = Filling(location, num_rows, fpp)
    for array in keys:
        filling.add(array)
    return filling.finish()


class Shelved(Protocol):
    """What decides on which shelf a location goes."""

    @property
    def column_type(self) -> str | None:
        """Physical type and meaning of its values; None where it has none."""

    @property
    def num_bytes(self) -> int:
        """The size of its filter."""


class Placed(Shelved, Protocol):
    """A location with its filter, which may be loaded each time it is asked for."""

    @property
    def location(self) -> Location:
        """Partition and group."""

    @property
    def filter(self) -> _core.BloomFilter | None:
        """Its filter; None where it has no value."""

    @property
    def nulls(self) -> bool:
        """Whether some rows have no value."""

    @property
    def nans(self) -> bool:
        """Whether some rows are not a number."""

    @property
    def unknown(self) -> bool:
        """Whether some rows could not be read."""


ShelvedT = TypeVar("ShelvedT", bound=Shelved)


def on_shelves(filled: Iterable[ShelvedT], shelf_bytes: int = SHELF_BYTES) -> Iterator[tuple[str, list[ShelvedT]]]:
    """Group locations into shelves of one column type, each of which is full except for the last of its type.

    Filters of different types (the column was widened meanwhile) go on different shelves.
    """
    open_shelves: dict[str, list[ShelvedT]] = {}
    sizes: dict[str, int] = {}
    empty: list[ShelvedT] = []
    for one in filled:
        if one.column_type is None:
            empty.append(one)
            continue
        open_shelves.setdefault(one.column_type, []).append(one)
        sizes[one.column_type] = sizes.get(one.column_type, 0) + one.num_bytes
        if sizes[one.column_type] >= shelf_bytes:
            del sizes[one.column_type]
            yield one.column_type, open_shelves.pop(one.column_type)
    for column_type, shelf in open_shelves.items():
        yield column_type, shelf + empty
        empty = []
    if empty:
        # No location has a value, so any type says so.
        yield "INT32 integer", empty


def shelve(filled: Iterable[Placed], shelf_bytes: int = SHELF_BYTES) -> Iterator[tuple[bytes, bytes]]:
    """Yield the directory and the rows of each shelf."""
    for column_type, shelf in on_shelves(filled, shelf_bytes):
        yield arranged(column_type, shelf)


def arranged(column_type: str, shelf: Iterable[Placed]) -> tuple[bytes, bytes]:
    """Return the directory and the rows of one shelf. Besides the rows, one filter is loaded at a time."""
    places = list(shelf)
    locations = [
        (*one.location, one.num_bytes // BLOCK if one.column_type else None, one.nulls, one.nans, one.unknown)
        for one in places
    ]
    arrangement = _core.ShelfArrangement(column_type, locations)
    for number, one in enumerate(places):
        if (filter := one.filter) is not None:
            arrangement.place(number, filter)
    directory, rows = arrangement.finish()
    return directory.to_bytes(), rows


class ShelfReader:
    """One shelf, asked by ranges of its rows. Threads may share it."""

    def __init__(self, directory: bytes, rows: Any) -> None:
        """Read a directory; `rows` is any source of `RangeReader`, or a reader."""
        self._shelf = _core.Shelf.read(directory)
        self._rows = rows if isinstance(rows, RangeReader) else RangeReader(rows)
        self.locations = self._shelf.locations
        self.num_bytes = self._shelf.num_bytes
        # Rows whose checksum was wrong so far; they kept their locations.
        self.damaged = 0

    @property
    def column_type(self) -> str:
        """Physical type and meaning of the values."""
        return self._shelf.column_type

    def might_contain(self, values: Any) -> set[Location]:
        """The locations that may hold a row with one of the values; a value without an exact form is in all of them."""
        probe = self._shelf.probe(values)
        fetched = _core.Fetched()
        while True:
            needed, answer = self._shelf.might_contain(probe, fetched)
            if answer is not None:
                may, damaged = answer
                self.damaged += damaged
                return {location for location, kept in zip(self.locations, may, strict=True) if kept}
            self._rows.fetch(needed, fetched)

    def null_locations(self) -> set[Location]:
        """The locations that may hold a row without a value."""
        flags = zip(self.locations, self._shelf.flags, strict=True)
        return {location for location, (nulls, unknown) in flags if nulls or unknown}

    @property
    def bytes_fetched(self) -> int:
        """Bytes of rows read so far."""
        return self._rows.bytes_fetched

    @property
    def requests(self) -> int:
        """Reads of rows so far."""
        return self._rows.requests

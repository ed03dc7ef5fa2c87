"""Shelves: Bloom filters of many locations, arranged so that a lookup of one key reads one row for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from parsieve import _core
from parsieve.io.ranges import RangeReader
from parsieve.predicate.elements import flat

Location = tuple[str, str]

# Bytes of filters on one shelf. A build holds them all in memory, and a lookup sends a request to each shelf.
SHELF_BYTES = 256 << 20
# Bytes of a block of a filter.
BLOCK = 32


@dataclass(frozen=True, slots=True)
class Filled:
    """The filter of one location."""

    location: Location
    # None if no row has a value.
    filter: _core.BloomFilter | None
    nulls: bool = False
    nans: bool = False
    # Whether some rows could not be read. Every query keeps such a location.
    unknown: bool = False

    @property
    def column_type(self) -> str | None:
        """Return the physical type and meaning of the values; None if there are none."""
        return None if self.filter is None else self.filter.column_type

    @property
    def num_bytes(self) -> int:
        """Return the size of the filter."""
        return 0 if self.filter is None else self.filter.num_bytes


class Filling:
    """Fills the filter of one location in one pass."""

    def __init__(self, location: Location, num_values: int, fpp: float = 0.01) -> None:
        """Start with a filter for `num_values`. More values cause more false positives, but no wrong answer."""
        self._location = location
        self._num_values = num_values
        self._fpp = fpp
        self._filter: _core.BloomFilter | None = None
        self._nulls = self._nans = False

    def add(self, keys: pa.Array) -> None:
        """Add the keys of some rows, which may be lists of keys."""
        keys = flat(keys)
        self._nulls |= keys.null_count > 0
        if keys.null_count == len(keys):
            return
        if pa.types.is_floating(keys.type) and not self._nans:
            self._nans = bool(pc.any(pc.is_nan(keys)).as_py())
        if self._filter is None:
            num_bytes = _core.shelf_num_bytes(self._num_values, self._fpp)
            self._filter = _core.BloomFilter(num_bytes=num_bytes, type=self._filter_type(keys))
        self._insert(self._filter, keys)

    def _filter_type(self, keys: pa.Array) -> pa.DataType:
        """Return the type of the values in the filter."""
        return keys.type

    def _insert(self, filter: _core.BloomFilter, keys: pa.Array) -> None:
        """Insert the values of some rows."""
        filter.insert(keys)

    def finish(self) -> Filled:
        """Return the filter, folded to the smallest size that keeps the false positive rate."""
        filled, self._filter = self._filter, None
        return Filled(self._location, None if filled is None else _folded(filled, self._fpp), self._nulls, self._nans)


def _folded(filled: _core.BloomFilter, fpp: float) -> _core.BloomFilter:
    """Fold a filter to the smallest shelf size that keeps the rate, but not below four blocks.

    Half of a shelf size is a shelf size too. Folding in one step avoids fragmenting the memory with intermediate sizes.
    """
    blocks = filled.num_blocks
    folded = filled.folded(fpp)
    if folded.num_blocks in (1, 2) and blocks > folded.num_blocks:
        folded = filled.folded(factor=max(1, blocks // 4))
    return folded


class Shelved(Protocol):
    """The properties that decide on which shelf a location goes."""

    @property
    def column_type(self) -> str | None:
        """Return the physical type and meaning of the values; None if there are none."""

    @property
    def num_bytes(self) -> int:
        """Return the size of the filter."""


class Placed(Shelved, Protocol):
    """A location with its filter, which may be loaded at each access."""

    @property
    def location(self) -> Location:
        """Return the partition and the group."""

    @property
    def filter(self) -> _core.BloomFilter | None:
        """Return the filter; None if no row has a value."""

    @property
    def nulls(self) -> bool:
        """Return whether some rows have no value."""

    @property
    def nans(self) -> bool:
        """Return whether some rows are NaN."""

    @property
    def unknown(self) -> bool:
        """Return whether some rows could not be read."""


def filter_of(data: bytes, column_type: str | None) -> _core.BloomFilter:
    """Decode a filter that `to_bytes` encoded."""
    return _core.BloomFilter._restore(data, column_type)


ShelvedT = TypeVar("ShelvedT", bound=Shelved)


def on_shelves(filled: Iterable[ShelvedT], shelf_bytes: int = SHELF_BYTES) -> Iterator[tuple[str, list[ShelvedT]]]:
    """Group locations into shelves. All shelves are full, except for the last one of each column type.

    Filters of different types go on different shelves. Files may have different types if the column was widened.
    """
    open_shelves: dict[str, list[ShelvedT]] = {}
    sizes: dict[str, int] = {}
    empty: list[ShelvedT] = []
    for location in filled:
        column_type = location.column_type
        if column_type is None:
            empty.append(location)
            continue
        open_shelves.setdefault(column_type, []).append(location)
        sizes[column_type] = sizes.get(column_type, 0) + location.num_bytes
        if sizes[column_type] >= shelf_bytes:
            del sizes[column_type]
            yield column_type, open_shelves.pop(column_type)
    for column_type, shelf in open_shelves.items():
        yield column_type, shelf + empty
        empty = []
    if empty:
        # No location has a value, so any type will do.
        yield "INT32 integer", empty


def shelve(filled: Iterable[Placed], shelf_bytes: int = SHELF_BYTES) -> Iterator[tuple[bytes, bytes]]:
    """Yield the directory and the rows of each shelf."""
    for column_type, shelf in on_shelves(filled, shelf_bytes):
        yield arranged(column_type, shelf)


def arranged(column_type: str, shelf: Iterable[Placed]) -> tuple[bytes, bytes]:
    """Return the directory and the rows of one shelf. Only one filter at a time is loaded in addition to the rows."""
    placed = list(shelf)
    locations = [
        (*entry.location, entry.num_bytes // BLOCK if entry.column_type else None, *_flags(entry)) for entry in placed
    ]
    arrangement = _core.ShelfArrangement(column_type, locations)
    for number, entry in enumerate(placed):
        if (filter := entry.filter) is not None:
            arrangement.place(number, filter)
    directory, rows = arrangement.finish()
    return directory.to_bytes(), rows


def _flags(entry: Placed) -> tuple[bool, bool, bool]:
    return entry.nulls, entry.nans, entry.unknown


class ShelfReader:
    """A shelf whose rows are read by ranges. Threads may share it."""

    def __init__(self, directory: bytes, rows: Any) -> None:
        """Decode a directory. `rows` is a `RangeReader` or any source that it accepts."""
        self._shelf = _core.Shelf.read(directory)
        self._rows = rows if isinstance(rows, RangeReader) else RangeReader(rows)
        self.locations = self._shelf.locations
        self.num_bytes = self._shelf.num_bytes
        # How many rows had a wrong checksum so far. They keep their locations.
        self.damaged = 0

    @property
    def column_type(self) -> str:
        """Return the physical type and meaning of the values."""
        return self._shelf.column_type

    def might_contain(self, values: Any) -> set[Location]:
        """Return the locations that may hold one of the values.

        Every location may hold a value that the column type cannot represent.
        """
        return self.might_contain_each([values])

    def might_contain_each(self, groups: Sequence[Any]) -> set[Location]:
        """Return the locations that may hold one of the values of each group. All groups are read together."""
        probes = [self._shelf.probe(values) for values in groups]
        fetched = _core.Fetched()
        while True:
            answers = [self._shelf.might_contain(probe, fetched) for probe in probes]
            needed = sorted({span for spans, answer in answers if answer is None for span in spans})
            if not needed:
                break
            self._rows.fetch(needed, fetched)
        matching = set(self.locations)
        for _, answer in answers:
            assert answer is not None
            may_match, damaged = answer
            self.damaged += damaged
            matching &= {location for location, matches in zip(self.locations, may_match, strict=True) if matches}
        return matching

    @property
    def bytes_fetched(self) -> int:
        """Return how many bytes of rows were read so far."""
        return self._rows.bytes_fetched

    @property
    def requests(self) -> int:
        """Return how many reads of rows were made so far."""
        return self._rows.requests

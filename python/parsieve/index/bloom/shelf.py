"""Shelves: Bloom filters of many locations, arranged so that a lookup of one key reads one row for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from parsieve import _core
from parsieve.index.scan.units import WHOLE, UnitLayout, UnitNumbers
from parsieve.io.ranges import RangeReader
from parsieve.predicate.elements import flat

Location = tuple[str, str]

# Bytes of filters on one shelf. A build holds them all in memory, and a lookup sends a request to each shelf.
SHELF_BYTES = 256 << 20
# Bytes of a block of a filter.
BLOCK = 32


@dataclass(frozen=True, slots=True)
class Filled:
    """The filters of one location: one for each of its units."""

    location: Location
    # None for a unit in which no row has a value.
    filters: tuple[_core.BloomFilter | None, ...] = (None,)
    nulls: bool = False
    nans: bool = False
    # Whether some rows could not be read. Every query keeps such a location.
    unknown: bool = False
    layout: UnitLayout = WHOLE

    @property
    def column_type(self) -> str | None:
        """Return the physical type and meaning of the values; None if there are none."""
        return next((bloom.column_type for bloom in self.filters if bloom is not None), None)

    @property
    def blocks(self) -> tuple[int | None, ...]:
        """Return the number of blocks of each filter."""
        return tuple(None if bloom is None else bloom.num_blocks for bloom in self.filters)


class Filling:
    """Fills the filter of one unit in one pass."""

    def __init__(self, num_values: int, fpp: float = 0.01) -> None:
        """Start with a filter for `num_values`. More values cause more false positives, but no wrong answer."""
        self._num_values = num_values
        self._fpp = fpp
        self._filter: _core.BloomFilter | None = None
        self.nulls = self.nans = False

    def add(self, keys: pa.Array) -> None:
        """Add the keys of some rows, which may be lists of keys."""
        keys = flat(keys)
        self.nulls |= keys.null_count > 0
        if keys.null_count == len(keys):
            return
        if pa.types.is_floating(keys.type) and not self.nans:
            self.nans = bool(pc.any(pc.is_nan(keys)).as_py())
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

    def finish(self) -> _core.BloomFilter | None:
        """Return the filter, folded to the smallest size that keeps the rate; None if there are no values."""
        filled, self._filter = self._filter, None
        return None if filled is None else _folded(filled, self._fpp)


class LocationFilling:
    """Fills the filters of one location, whose rows arrive in the order of its file.

    At most one filter is not folded yet.
    """

    def __init__(
        self,
        location: Location,
        layout: UnitLayout,
        num_values: Callable[[float], int],
        fpp: float,
        kind: type[Filling],
    ) -> None:
        """`num_values` returns the number of values to expect in a share of the location's rows."""
        if layout.rows_per_unit == 0:
            # The file has too many row groups to tell them apart.
            layout = WHOLE
        self._location = location
        self._layout = layout
        self._num_values = num_values
        self._fpp = fpp
        self._new = partial(kind, fpp=fpp)
        self._cutter = UnitNumbers([layout]).cutter(0)
        self._shares = layout.shares()
        self._filters: list[_core.BloomFilter | None] = []
        self._filling = self._new(num_values(self._shares[0]))
        self._nulls = self._nans = False

    @property
    def num_bytes(self) -> int:
        """Return the size of the largest filter before it is folded."""
        return _core.shelf_num_bytes(self._num_values(max(self._shares)), self._fpp)

    def add(self, keys: pa.Array) -> None:
        """Add the keys of the next rows, which may be lists of keys."""
        for unit, start, stop in self._cutter.cut(len(keys)):
            self._finish_units_before(unit)
            self._filling.add(keys.slice(start, stop - start))

    def finish(self) -> Filled:
        """Return the filters. Raises `ConflictError` if the file has fewer rows than its row groups had."""
        self._cutter.finish()
        self._finish_units_before(len(self._shares))
        filters = tuple(self._filters)
        if all(bloom is None for bloom in filters):
            return Filled(self._location, nulls=self._nulls)
        return Filled(self._location, filters, self._nulls, self._nans, layout=self._layout)

    def _finish_units_before(self, unit: int) -> None:
        while len(self._filters) < unit:
            self._filters.append(self._filling.finish())
            self._nulls |= self._filling.nulls
            self._nans |= self._filling.nans
            following = len(self._filters)
            if following < len(self._shares):
                self._filling = self._new(self._num_values(self._shares[following]))


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
    def blocks(self) -> tuple[int | None, ...]:
        """Return the number of blocks of the filter of each unit; None if a unit has no values."""


class Placed(Shelved, Protocol):
    """A location with its filters, which may be loaded at each access."""

    @property
    def location(self) -> Location:
        """Return the partition and the group."""

    @property
    def filters(self) -> Sequence[_core.BloomFilter | None]:
        """Return the filter of each unit; None if no row of a unit has a value."""

    @property
    def layout(self) -> UnitLayout:
        """Return how the location is divided into units."""

    @property
    def nulls(self) -> bool:
        """Return whether some rows have no value."""

    @property
    def nans(self) -> bool:
        """Return whether some rows are NaN."""

    @property
    def unknown(self) -> bool:
        """Return whether some rows could not be read."""


def bytes_of(filters: Sequence[_core.BloomFilter | None]) -> tuple[bytes, tuple[int, ...]]:
    """Encode the filters of a location. Also return the length of each, which is 0 for a unit without a filter."""
    encoded = [b"" if bloom is None else bloom.to_bytes() for bloom in filters]
    return b"".join(encoded), tuple(map(len, encoded))


def filters_of(data: bytes, lengths: Sequence[int], column_type: str | None) -> tuple[_core.BloomFilter | None, ...]:
    """Decode the filters that `bytes_of` encoded."""
    ends = accumulate(lengths)
    return tuple(
        _core.BloomFilter._restore(data[end - length : end], column_type) if length else None
        for length, end in zip(lengths, ends, strict=True)
    )


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
        sizes[column_type] = sizes.get(column_type, 0) + BLOCK * sum(filter(None, location.blocks))
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
    """Return the directory and the rows of one shelf. Only one location at a time is loaded in addition to the rows."""
    placed = list(shelf)
    locations = [
        (*entry.location, entry.blocks, entry.nulls, entry.nans, entry.unknown, _division(entry.layout))
        for entry in placed
    ]
    arrangement = _core.ShelfArrangement(column_type, locations)
    number = 0
    for entry in placed:
        for bloom in entry.filters:
            if bloom is not None:
                arrangement.place(number, bloom)
            number += 1
    directory, rows = arrangement.finish()
    return directory.to_bytes(), rows


def _division(layout: UnitLayout) -> tuple[Sequence[int], int]:
    return layout.row_groups, layout.rows_per_unit or 0


def unshelve(directory: _core.Shelf, rows: bytes) -> Iterator[Filled]:
    """Yield the locations of a shelf with their filters."""
    for partition, group, filters, nulls, nans, unknown, division in directory.unshelve(rows):
        yield Filled((partition, group), tuple(filters), nulls, nans, unknown, _layout_of(division))


def _layout_of(division: tuple[Sequence[int], int]) -> UnitLayout:
    """Return the layout of a location of a shelf."""
    row_groups, rows_per_unit = division
    return UnitLayout(tuple(row_groups), rows_per_unit or None) if row_groups else WHOLE


class ShelfReader:
    """A shelf whose rows are read by ranges. Threads may share it."""

    def __init__(self, directory: bytes, rows: Any) -> None:
        """Decode a directory. `rows` is a `RangeReader` or any source that it accepts."""
        self._shelf = _core.Shelf.read(directory)
        self._rows = rows if isinstance(rows, RangeReader) else RangeReader(rows)
        self.locations = self._shelf.locations
        # How each location is divided into units.
        self.layouts = [_layout_of(division) for division in self._shelf.divisions]
        self._num_units = sum(layout.num_units for layout in self.layouts)
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
        """Return the locations with a unit that may hold one of the values of each group."""
        units = self.units_with_each(groups)
        return {location for location, kept in zip(self.locations, units, strict=True) if kept}

    def units_with_each(self, groups: Sequence[Any]) -> list[Sequence[int]]:
        """Return, for each location, the units that may hold one of the values of each group.

        The rows of all groups are read together.
        """
        probes = [self._shelf.probe(values) for values in groups]
        fetched = _core.Fetched()
        while True:
            answers = [self._shelf.might_contain(probe, fetched) for probe in probes]
            needed = sorted({span for spans, answer in answers if answer is None for span in spans})
            if not needed:
                break
            self._rows.fetch(needed, fetched)
        kept = [(0, self._num_units)]
        for _, answer in answers:
            assert answer is not None
            may_match, damaged = answer
            self.damaged += damaged
            kept = _in_both(kept, may_match)
        return _by_location(kept, self.layouts)

    @property
    def bytes_fetched(self) -> int:
        """Return how many bytes of rows were read so far."""
        return self._rows.bytes_fetched

    @property
    def requests(self) -> int:
        """Return how many reads of rows were made so far."""
        return self._rows.requests


# Ranges of units: the first one, and the one after the last. They ascend and do not overlap. A short directory may
# claim millions of units, so nothing here has an entry for each unit.
_Ranges = Sequence[tuple[int, int]]


def _in_both(these: _Ranges, those: _Ranges) -> list[tuple[int, int]]:
    """Return the units that are in both lists of ranges."""
    both: list[tuple[int, int]] = []
    at = other = 0
    while at < len(these) and other < len(those):
        (start, end), (other_start, other_end) = these[at], those[other]
        if max(start, other_start) < min(end, other_end):
            both.append((max(start, other_start), min(end, other_end)))
        if end <= other_end:
            at += 1
        else:
            other += 1
    return both


def _by_location(ranges: _Ranges, layouts: Sequence[UnitLayout]) -> list[Sequence[int]]:
    """Return the units of each location, counted from its first one."""
    units: list[Sequence[int]] = []
    first = at = 0
    for layout in layouts:
        after = first + layout.num_units
        pieces: list[range] = []
        while at < len(ranges) and ranges[at][0] < after:
            start, end = ranges[at]
            pieces.append(range(max(start, first) - first, min(end, after) - first))
            if end > after:
                # The range continues in the next location.
                break
            at += 1
        units.append(pieces[0] if len(pieces) == 1 else [unit for piece in pieces for unit in piece])
        first = after
    return units

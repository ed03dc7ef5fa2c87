"""Compact a column in format 2 without stored keys: keep segments that no change touches, and read the others again.

```text
masked and changed slices, keys of deltas ── touched segments ── slices with units in them ── read again ─┐
                                             the other segments ────────────────────────── kept unchanged ─┴─ new base
```

The new base numbers the units of the old base and of its deltas, masked ones included, because kept segments contain
these numbers. Only a base that is read completely gets rid of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parsieve import _core
from parsieve._core import ParsieveError
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.commit import Base
from parsieve.index.scan.runs import Gathered, KeptSegments, merge
from parsieve.index.scan.spill import Room
from parsieve.index.scan.units import UnitCutter, UnitNumbers
from parsieve.index.sieve.base import put_base
from parsieve.index.sieve.reader import ColumnReader

if TYPE_CHECKING:
    from parsieve.lake.base import Slice


# How many segments to read with one call.
LOADED_TOGETHER = 1024
# This many bytes of removed segments may always stay in the files of kept ones.
SMALL_BYTES = 16 << 10


@dataclass(frozen=True)
class Masks:
    """The slices of an index that no location has any more."""

    # With all unit pages loaded.
    timeline: _core.SieveUnitTimeline
    masked: Sequence[int]
    # The share of the entries that belong to masked slices.
    share: float


def masks_of(reader: ColumnReader, bound: Bindings) -> Masks | None:
    """Return the masked slices of a column; None if its root, a delta or a unit page is damaged."""
    timeline = reader.timeline
    if timeline is None:
        return None
    assert isinstance(timeline, _core.SieveUnitTimeline)
    reader.load_all_units()
    if reader.doubts:
        return None
    live = set(bound.live_ids())
    masked = [slice_id for slice_id in timeline.slices() if slice_id not in live]
    return Masks(timeline, masked, timeline.masked_share(masked))


class _PlacedUnits(UnitNumbers):
    """The numbers of the units of some slices among all units of a base."""

    def __init__(self, units: _core.SieveUnits, ids: Sequence[int]) -> None:
        super().__init__([])
        self._units = units
        self._positions = [_position(units, slice_id) for slice_id in ids]

    def __len__(self) -> int:
        """Return the number of all units of the base."""
        return self._units.num_units

    def of(self, position: int) -> range:
        """Return the numbers of the units of the slice at a position."""
        at = self._positions[position]
        first = self._units.first(at)
        return range(first, first + self._units.count(at))

    def cutter(self, position: int) -> UnitCutter:
        """Return what assigns the rows of the slice at a position to its units."""
        ranges = self._units.ranges(self._positions[position])
        return UnitCutter(self.of(position), [first + rows for _, first, rows in ranges])


def _position(units: _core.SieveUnits, slice_id: int) -> int:
    position = units.position(slice_id)
    assert position is not None
    return position


# Reads slices, whose rows get the numbers of their units.
ReadSlices = Callable[[Sequence["Slice"], UnitNumbers], Gathered]


def compact_units(
    reader: ColumnReader, masks: Masks, slices: Mapping[int, Slice], read: ReadSlices, *, room: Room, memory: int
) -> tuple[Base, set[int]] | None:
    """Store a new base. Also return the ids of slices that could not be read again.

    `slices` has the slices that can be read, by id. Return None if all slices must be read again: if a segment is
    damaged, or if the kept segments would be less than half of their files.
    """
    timeline, state = masks.timeline, reader.state
    if not _load_segments(reader, timeline):
        return None
    changed = timeline.changed
    rebuilt, again = timeline.touched(masks.masked, changed)
    removed = set(rebuilt)
    entries = timeline.segments()
    kept_bytes = Counter[int]()
    for number, (file, _, length, *_) in enumerate(entries):
        if number not in removed:
            kept_bytes[file] += length
    used = sorted(kept_bytes)
    unused_bytes = sum(state.base.files[file].size for file in used) - kept_bytes.total()
    if unused_bytes > kept_bytes.total() + SMALL_BYTES:
        return None
    unread = {slice_id for slice_id in again if slice_id not in slices}
    masked = sorted({*masks.masked, *unread})
    ids = [slice_id for slice_id in again if slice_id in slices]
    units = timeline.units()
    numbers = _PlacedUnits(units, ids)
    gathered = read([slices[slice_id] for slice_id in ids], numbers)
    gathered.runs.add(timeline.delta_keys(masked, changed))
    _complete(gathered, timeline.sides(masked), numbers, len(ids))
    unread |= {ids[position] for position in gathered.failed}

    files = [used.index(file) if file in used else 0 for file in range(len(state.base.files))]
    kept_files = tuple(state.base.files[file] for file in used)
    kept = KeptSegments(timeline, rebuilt, files, len(kept_files), masked, changed)
    instant = state.deltas[-1].instant if state.deltas else state.base.instant
    built = merge(gathered, units, instant, room, memory=memory, options=timeline.options, kept=kept)
    return put_base(reader.store, reader.axis, built, instant, kept_files), unread


def _load_segments(reader: ColumnReader, timeline: _core.SieveUnitTimeline) -> bool:
    """Load all segments; return False if one is damaged or missing."""
    segments = list(enumerate(timeline.segments()))
    for start in range(0, len(segments), LOADED_TOGETHER):
        by_file: dict[int, list[tuple[int, int, int]]] = {}
        for number, (file, offset, length, *_) in segments[start : start + LOADED_TOGETHER]:
            by_file.setdefault(file, []).append((number, offset, offset + length))
        for file, entries in by_file.items():
            try:
                part = reader.state.base.files[file]
                data = reader.store.get_ranges(part.name, [(begin, end) for _, begin, end in entries])
                for (number, *_), content in zip(entries, data, strict=True):
                    timeline.load("segment", number, content)
            except (ParsieveError, FileNotFoundError, IndexError):
                return False
    return True


def _complete(
    gathered: Gathered, sides: Sequence[tuple[int, int, bool]], numbers: UnitNumbers, num_slices: int
) -> None:
    """Set the rows without a key of the units that were not read again."""
    read = {unit for position in range(num_slices) for unit in numbers.of(position)}
    for unit, (nulls, nans, unread) in enumerate(sides):
        if unit not in read:
            gathered.nulls[unit], gathered.nans[unit], gathered.unread[unit] = nulls, nans, unread

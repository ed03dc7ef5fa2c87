"""Merge shelves of a Bloom index, and remove filters that are no longer live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from parsieve import _core
from parsieve.index.bloom.shelf import Filled, unshelve
from parsieve.index.log.parts import Shelf
from parsieve.io.store.base import Store
from parsieve.lake.base import Location


def full_shelves(store: Store, shelves: Sequence[Shelf], tokens: Mapping[Location, str], size: int) -> int:
    """Return how many shelves at the start are full of live filters, so that merging them gains nothing.

    Merged shelves have `size` bytes, and shelves with half of that are almost full.
    Only the shelves at the start can stay unmerged: if two shelves have a filter of the same location, the later one
    counts, so merged shelves must come last.
    """
    locations_of = [set(_core.Shelf.read(shelf.directory.get(store)).locations) for shelf in shelves]
    for number, (shelf, locations) in enumerate(zip(shelves, locations_of, strict=True)):
        superseded = set().union(*locations_of[number + 1 :])
        live = [location for location in locations - superseded if Location(*location) in tokens]
        if shelf.rows.size < size // 2 or 2 * len(live) < len(locations):
            return number
    return len(shelves)


def live_filters(store: Store, shelves: Sequence[Shelf], tokens: Mapping[Location, str]) -> Iterator[Filled]:
    """Yield the live filters: the last one of each of these locations."""
    last_shelf: dict[Location, int] = {}
    directories = []
    for number, shelf in enumerate(shelves):
        directory = _core.Shelf.read(shelf.directory.get(store))
        directories.append(directory)
        last_shelf |= {Location(*location): number for location in directory.locations}
    for number, (directory, shelf) in enumerate(zip(directories, shelves, strict=True)):
        for filled in unshelve(directory, store.get(shelf.rows.name)):
            location = Location(*filled.location)
            if last_shelf[location] == number and location in tokens:
                yield filled

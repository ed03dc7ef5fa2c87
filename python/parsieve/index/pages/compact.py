"""Merge the parts of a map of pages, and remove the maps of slices that are no longer live."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from parsieve._core import Fetched, FileMap, FormatError, PageMap
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.commit import MapState
from parsieve.index.log.parts import MapPart
from parsieve.index.pages.build import SLICES_PER_PART, WINDOW, put_in_parts, put_maps
from parsieve.index.pages.reader import MapReader
from parsieve.io.store.base import Store
from parsieve.lake.base import Location

# A reader opens the parts of all slices that it reads, so merge the small parts if there are more than these.
MAX_PARTS = 8


def renumber_maps(
    store: Store, state: MapState, bound: Bindings, *, spill: str | None = None
) -> tuple[tuple[MapPart, ...], Bindings]:
    """Store the maps of all locations again, in their order and with ids from 0 on, as a new build does.

    No file of the table is read. A location whose map is damaged gets no token, so that the next update reads its file.
    """
    reader = MapReader(store, state, bound)
    locations = sorted(bound.tokens)
    damaged: set[Location] = set()

    def maps(start: int, end: int) -> Iterator[FileMap | None]:
        for first in range(start, end, WINDOW):
            window = locations[first : min(first + WINDOW, end)]
            for location, file_map in zip(window, reader.maps_at(window), strict=True):
                if file_map is None and reader.is_damaged_at(location):
                    damaged.add(location)
                yield file_map

    parts = tuple(put_in_parts(store, locations, maps, spill=spill).parts)
    tokens = {location: "" if location in damaged else token for location, token in bound.tokens.items()}
    return parts, Bindings.fresh(locations, tokens)


def merge_maps(
    store: Store, parts: Sequence[MapPart], live: Collection[int], *, spill: str | None = None
) -> tuple[MapPart, ...]:
    """Return the parts, merged if there are too many small ones.

    `live` are the ids of the slices that are still needed. No slice gets another id, and no file of the table is read.
    A part that cannot be read loses its maps.
    """
    small = [part for part in parts if part.num_slices < SLICES_PER_PART // 2]
    if len(small) <= MAX_PARTS:
        return tuple(parts)
    merged: list[MapPart] = []
    run: list[MapPart] = []
    for part in sorted(parts, key=lambda part: part.first_id):
        # Ids may be missing between two parts, and count as slices without a map.
        if run and part.first_id + part.num_slices - run[0].first_id > SLICES_PER_PART:
            merged.append(_merge(store, run, live, spill))
            run = []
        run.append(part)
    if run:
        merged.append(_merge(store, run, live, spill))
    return tuple(merged)


def _merge(store: Store, run: Sequence[MapPart], live: Collection[int], spill: str | None) -> MapPart:
    if len(run) == 1:
        return run[0]
    part, _ = put_maps(store, _maps(store, run, live), run[0].first_id, spill=spill)
    return part


def _maps(store: Store, run: Sequence[MapPart], live: Collection[int]) -> Iterator[FileMap | None]:
    next_id = run[0].first_id
    for part in run:
        yield from [None] * (part.first_id - next_id)
        yield from _maps_of(store, part, live)
        next_id = part.first_id + part.num_slices


def _maps_of(store: Store, part: MapPart, live: Collection[int]) -> Iterator[FileMap | None]:
    try:
        opened, fetched = PageMap(part.directory.get(store)), Fetched()
        if part.blocks is not None:
            fetched.insert(0, store.get(part.blocks.name))
    except (FormatError, FileNotFoundError):
        yield from [None] * part.num_slices
        return
    for number in range(part.num_slices):
        yield _map_of(opened, fetched, number) if part.first_id + number in live else None


def _map_of(opened: PageMap, fetched: Fetched, number: int) -> FileMap | None:
    try:
        _, answer = opened.file(number, fetched)
    except FormatError:
        return None
    return None if answer is None else answer[0]

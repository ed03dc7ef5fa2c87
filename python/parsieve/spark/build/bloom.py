"""Tasks that build a Bloom index on Spark's executors.

```text
slices ── fill filters ── files in the store ── assign filters to shelves ── arrange ── shelves
          one task for several slices           driver, by their sizes       one task for each shelf
```

The driver receives some hundred bytes for each slice and column, but no keys and no filters. The shelves
have the same bytes as in a local build.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from parsieve.index.bloom.compact import live_filters
from parsieve.index.bloom.fill import FOLDER, put_filters, put_shelf
from parsieve.index.bloom.shelf import Filled, arranged, bytes_of, filters_of, on_shelves
from parsieve.index.log.commit import Content
from parsieve.index.log.parts import Shelf
from parsieve.index.scan.units import UnitLayout
from parsieve.index.text.fill import fill_content
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import ColumnPath, Lake, Location, Slice

# How many bytes of filters an executor holds before it writes them to a file.
FILE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class StoredFilters:
    """The filters of a slice in a file of the store. The name of the file is empty if the slice has none."""

    location: tuple[str, str]
    column_type: str | None
    # The size of the bits of each filter. In the file, a filter also has a header.
    blocks: tuple[int | None, ...]
    nulls: bool
    nans: bool
    unknown: bool
    layout: UnitLayout
    lengths: tuple[int, ...]
    name: str = ""
    start: int = 0

    @property
    def end(self) -> int:
        """Return the position after the last filter."""
        return self.start + sum(self.lengths)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one slice: the number and size of its filters, or why it could not be read."""

    file_slice: Slice
    filters: int
    num_bytes: int
    seconds: float
    error: Exception | None


@dataclass(frozen=True)
class FillTask:
    """Slices to fill filters for."""

    store: Store
    lake: Lake
    slices: Sequence[Slice]
    rates: Mapping[ColumnPath, float]
    content: Content
    # How each column divides the slices into units; empty if each slice is one unit.
    units: Mapping[ColumnPath, Sequence[UnitLayout]]


@dataclass(frozen=True)
class FilledSlice:
    """The filters of a slice, in the order of the columns."""

    filters: list[StoredFilters]
    seconds: float
    error: Exception | None


def fill_filters(task: FillTask) -> list[FilledSlice]:
    """Fill the filters of some slices, on an executor, and write them to files of limited size."""
    slices: list[FilledSlice] = []
    waiting = bytearray()
    name = unique(FOLDER, "filters")
    for number, file_slice in enumerate(task.slices):
        started = time.monotonic()
        layouts = {path: of_slices[number] for path, of_slices in task.units.items()}
        filters, error = fill_content(task.lake, file_slice, task.rates, content=task.content, layouts=layouts)
        stored = []
        for filled in filters:
            data, lengths = bytes_of(filled.filters)
            place = (name, len(waiting)) if data else ("", 0)
            waiting += data
            of_slice = (filled.location, filled.column_type, filled.blocks, filled.nulls, filled.nans, filled.unknown)
            stored.append(StoredFilters(*of_slice, filled.layout, lengths, *place))
        slices.append(FilledSlice(stored, time.monotonic() - started, error))
        if len(waiting) >= FILE_BYTES:
            task.store.put(name, bytes(waiting))
            waiting, name = bytearray(), unique(FOLDER, "filters")
    if waiting:
        task.store.put(name, bytes(waiting))
    return slices


@dataclass(frozen=True)
class ShelfTask:
    """The filters of a shelf."""

    store: Store
    column_type: str
    filters: tuple[StoredFilters, ...]


def shelf_tasks(
    store: Store, slices: Sequence[FilledSlice], paths: Sequence[ColumnPath], shelf_bytes: int
) -> list[tuple[ColumnPath, ShelfTask]]:
    """Return the shelves of each column. Only the last shelves are smaller than `shelf_bytes`."""
    return [
        (path, ShelfTask(store, column_type, tuple(filters)))
        for at, path in enumerate(paths)
        for column_type, filters in on_shelves((filled.filters[at] for filled in slices), shelf_bytes)
    ]


def arrange_shelf(task: ShelfTask) -> Shelf:
    """Store a shelf, on an executor."""
    return put_shelf(task.store, *arranged(task.column_type, _read_filters(task.store, task.filters)))


def _read_filters(store: Store, filters: Sequence[StoredFilters]) -> Iterator[Filled]:
    """Yield the filters in order. Neighboring filters of a file are read together."""
    files: dict[str, list[StoredFilters]] = {}
    for stored in filters:
        if stored.name:
            files.setdefault(stored.name, []).append(stored)
    data: dict[tuple[str, int], bytes] = {}
    for name, in_file in files.items():
        contents = store.get_ranges(name, [(stored.start, stored.end) for stored in in_file])
        data |= {(name, stored.start): content for stored, content in zip(in_file, contents, strict=True)}
    for stored in filters:
        content = data.pop((stored.name, stored.start)) if stored.name else b""
        of_slice = filters_of(content, stored.lengths, stored.column_type)
        yield Filled(stored.location, of_slice, stored.nulls, stored.nans, stored.unknown, stored.layout)


@dataclass(frozen=True)
class MergeTask:
    """Shelves to merge."""

    store: Store
    shelves: Sequence[Shelf]
    tokens: Mapping[Location, str]
    shelf_bytes: int


def merge_shelves(task: MergeTask) -> tuple[Shelf, ...]:
    """Store the live filters on fewer shelves, on an executor."""
    return put_filters(task.store, live_filters(task.store, task.shelves, task.tokens), task.shelf_bytes)

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
from parsieve.index.bloom.fill import FOLDER, fill, put_filters, put_shelf
from parsieve.index.bloom.shelf import Filled, arranged, filter_of, on_shelves
from parsieve.index.log.parts import Shelf
from parsieve.index.text.fill import fill_texts
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import ColumnPath, Lake, Location, Slice

# How many bytes of filters an executor holds before it writes them to a file.
FILE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class StoredFilter:
    """The filter of a slice in a file of the store. The name of the file is empty if the slice has no filter."""

    location: tuple[str, str]
    column_type: str | None
    # The size of the bits. In the file, the filter also has a header.
    num_bytes: int
    nulls: bool
    nans: bool
    unknown: bool
    name: str = ""
    start: int = 0
    end: int = 0


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
    # Whether the filters have the trigrams of texts instead of values.
    texts: bool = False


@dataclass(frozen=True)
class FilledSlice:
    """The filters of a slice, in the order of the columns."""

    filters: list[StoredFilter]
    seconds: float
    error: Exception | None


def fill_filters(task: FillTask) -> list[FilledSlice]:
    """Fill the filters of some slices, on an executor, and write them to files of limited size."""
    slices: list[FilledSlice] = []
    waiting = bytearray()
    name = unique(FOLDER, "filters")
    fill_slice = fill_texts if task.texts else fill
    for file_slice in task.slices:
        started = time.monotonic()
        filters, error = fill_slice(task.lake, file_slice, task.rates)
        stored = []
        for filled in filters:
            start = len(waiting)
            if filled.filter is not None:
                waiting += filled.filter.to_bytes()
            place = (name, start, len(waiting)) if filled.filter is not None else ("", 0, 0)
            flags = (filled.nulls, filled.nans, filled.unknown)
            stored.append(StoredFilter(filled.location, filled.column_type, filled.num_bytes, *flags, *place))
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
    filters: tuple[StoredFilter, ...]


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


def _read_filters(store: Store, filters: Sequence[StoredFilter]) -> Iterator[Filled]:
    """Yield the filters in order. Neighboring filters of a file are read together."""
    files: dict[str, list[StoredFilter]] = {}
    for stored in filters:
        if stored.name:
            files.setdefault(stored.name, []).append(stored)
    data: dict[tuple[str, int], bytes] = {}
    for name, in_file in files.items():
        contents = store.get_ranges(name, [(stored.start, stored.end) for stored in in_file])
        data |= {(name, stored.start): content for stored, content in zip(in_file, contents, strict=True)}
    for stored in filters:
        bloom = filter_of(data.pop((stored.name, stored.start)), stored.column_type) if stored.name else None
        yield Filled(stored.location, bloom, stored.nulls, stored.nans, stored.unknown)


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

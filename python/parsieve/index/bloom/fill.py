"""Fill the Bloom filters of a slice, and store filters on shelves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial

from parsieve._core import UnsupportedError
from parsieve.errors import ConflictError
from parsieve.index.bloom.shelf import Filled, Filling, LocationFilling, Placed, shelve
from parsieve.index.bloom.waiting import Budget
from parsieve.index.log.parts import Part, Shelf
from parsieve.index.scan.units import WHOLE, UnitLayout
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import ColumnPath, Lake, Slice

# The folder of shelves in a store. Garbage collection looks for unreferenced files here.
FOLDER = "shelves"
# How many rows to expect if the number of rows is unknown.
DEFAULT_ROWS = 1_000_000
# Larger files may well have more rows than that, so read the number of rows from their footers.
LARGE_FILE = 1 << 20


def fill(
    lake: Lake,
    file_slice: Slice,
    rates: Mapping[ColumnPath, float],
    budget: Budget | None = None,
    *,
    layouts: Mapping[ColumnPath, UnitLayout] | None = None,
    kind: type[Filling] = Filling,
    num_values: Callable[[float], int] | None = None,
) -> tuple[list[Filled], Exception | None]:
    """Fill the filters of a slice for each column in one scan. Also return why the slice could not be read.

    `rates` are the false positive rates, and `layouts` divide the slice into units; without them, it is one unit. The
    filters claim their memory from `budget` until they are folded to the size that their values need. They start with a
    size for the number of values that `num_values` returns for a share of the rows. By default, this is the number of
    rows.
    """
    paths = list(rates)
    location = (file_slice.partition, file_slice.group)
    try:
        expected = num_values or partial(_share_of, _expected_rows(lake, file_slice))
        fillings = [
            LocationFilling(location, (layouts or {}).get(path, WHOLE), expected, rates[path], kind) for path in paths
        ]
        num_bytes = sum(column.num_bytes for column in fillings)
        with nullcontext() if budget is None else budget.claim(num_bytes):
            for batch in lake.read_keys(file_slice, paths):
                for at, column in enumerate(fillings):
                    column.add(batch.column(at))
            return [column.finish() for column in fillings], None
    except (ConflictError, FileNotFoundError, UnsupportedError) as error:
        # The file was changed or removed, or is not supported. The other slices are not affected.
        lake.leave_out(file_slice, error)
        return [Filled(location, unknown=True)] * len(paths), error


def _expected_rows(lake: Lake, file_slice: Slice) -> int:
    """Return the number of rows to size the filters for. More rows cause more false positives, but no wrong answer.

    Small files start with the same size, so most filters end with the same size. A lookup reads one row per size.
    """
    if file_slice.num_rows is not None and file_slice.clean:
        return file_slice.num_rows
    num_rows = file_slice.num_rows
    if num_rows is None and (file_slice.size or 0) >= LARGE_FILE:
        num_rows = lake.count_rows(file_slice)
    return max(num_rows or 0, DEFAULT_ROWS)


def _share_of(num_rows: int, share: float) -> int:
    return math.ceil(num_rows * share)


def put_filters(store: Store, filters: Iterable[Placed], shelf_bytes: int) -> tuple[Shelf, ...]:
    """Store filters on new shelves."""
    return tuple(put_shelf(store, *shelf) for shelf in shelve(filters, shelf_bytes))


def put_shelf(store: Store, directory: bytes, rows: bytes) -> Shelf:
    """Store one shelf."""
    part = Part(unique(FOLDER, "rows"), len(rows))
    store.put(part.name, rows)
    return Shelf(Part.put(store, unique(FOLDER, "shelf"), directory), part)

"""The Bloom filters of an index looked at: whether each shelf is whole, and each row of the table is in its filter."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from parsieve import _core
from parsieve._core import ParsieveError
from parsieve.index.bloom.reader import BloomReader
from parsieve.index.findings import UNREAD, Lie, current_rows, name_of, out_of_reach
from parsieve.index.log.commit import BloomState
from parsieve.io.store.base import Store
from parsieve.lake.base import Lake, Location, Snapshot

# A filter, and whether rows were not read.
_Shelved = tuple[_core.BloomFilter | None, bool]


class _Inspected(BloomReader):
    """A reader that names what cannot be read, for whatever reason, and counts on no second time."""

    useless = (ParsieveError, OSError)


def verify(store: Store, state: BloomState, lake: Lake | None, snapshot: Snapshot | None) -> list[Lie]:
    """Every shelf of a column read and checked; with a lake, every value of the versions that are bound."""
    reader = _Inspected(store, state)
    path = reader.state.path
    lies: list[Lie] = []
    filters: dict[Location, _Shelved] = {}
    for shelf in reader.state.shelves:
        name = shelf.directory.name
        try:
            directory = _core.Shelf.read(shelf.directory.get(reader.store))
            name = shelf.rows.name
            for partition, group, held, _, _, unread in directory.unshelve(reader.store.get(name)):
                filters[Location(partition, group)] = (held, unread)
        except OSError as error:
            lies.append(Lie(path, name, out_of_reach(error), loses_rows=False))
        except ParsieveError as error:
            lies.append(Lie(path, name, str(error), loses_rows=False))
    bound = reader.bound
    lies += [Lie(path, name, why, loses_rows=False) for name, why in reader.doubts.items()]
    if not lies and lake is not None and snapshot is not None:
        for piece, rows in current_rows(reader.state, bound, lake, snapshot):
            held, unread = filters.get(piece.location, (None, True))
            try:
                problem = None if unread else _missing(held, rows)
            except (ParsieveError, OSError) as error:
                lies.append(Lie(path, name_of(piece.location), UNREAD.format(error), loses_rows=False))
                continue
            if problem is not None:
                lies.append(Lie(path, name_of(piece.location), problem, loses_rows=True))
    return lies


def _missing(held: _core.BloomFilter | None, rows: Iterator[pa.Array]) -> str | None:
    for array in rows:
        # NaN is in every filter, and null in none.
        present = array.drop_null()
        if held is None:
            if len(present):
                return "it has values, and its filter says that there are none"
        elif not pc.all(held.check(present), min_count=0).as_py():
            return "a value of its rows is not in its filter"
    return None

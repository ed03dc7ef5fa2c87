"""Check the Bloom index or the text index of a column: read every shelf, and look up every value of the table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from parsieve import _core
from parsieve._core import ParsieveError
from parsieve.index.bloom.reader import BloomReader
from parsieve.index.findings import UNREADABLE_ROWS, IndexProblem, current_rows, name_of, reason_of
from parsieve.index.log.commit import TEXT_FORM, BloomState, TextState
from parsieve.io.store.base import Store
from parsieve.lake.base import Lake, Location, Snapshot
from parsieve.predicate.elements import flat


class _InspectedColumn(BloomReader):
    """A reader that records every error, even a temporary one."""

    permanent_errors = (ParsieveError, OSError)


def verify(store: Store, state: BloomState, lake: Lake | None, snapshot: Snapshot | None) -> list[IndexProblem]:
    """Read every shelf of a column. With a lake, also look up every value of the slices that the index covers."""
    reader = _InspectedColumn(store, state)
    path = state.path
    problems: list[IndexProblem] = []
    # The filter of each location, and whether the filter does not cover all rows.
    filters: dict[Location, tuple[_core.BloomFilter | None, bool]] = {}
    for shelf in state.shelves:
        name = shelf.directory.name
        try:
            directory = _core.Shelf.read(shelf.directory.get(store))
            name = shelf.rows.name
            for partition, group, bloom, _, _, unread in directory.unshelve(store.get(name)):
                filters[Location(partition, group)] = (bloom, unread)
        except OSError as error:
            problems.append(IndexProblem(path, name, reason_of(error), loses_rows=False))
        except ParsieveError as error:
            problems.append(IndexProblem(path, name, str(error), loses_rows=False))
    bound = reader.bound
    problems += [IndexProblem(path, name, reason, loses_rows=False) for name, reason in reader.doubts.items()]
    is_text = isinstance(state, TextState)
    if isinstance(state, TextState) and state.form != TEXT_FORM:
        unknown = f"it has trigrams of form {state.form}, which this parsieve cannot check; use a newer parsieve"
        problems.append(IndexProblem(path, "text index", unknown, loses_rows=False))
    if not problems and lake is not None and snapshot is not None:
        for file_slice, rows in current_rows(state, bound, lake, snapshot):
            bloom, unread = filters.get(file_slice.location, (None, True))
            try:
                problem = None if unread else _missing_value(bloom, rows, is_text)
            except (ParsieveError, OSError) as error:
                problem = UNREADABLE_ROWS.format(error)
                problems.append(IndexProblem(path, name_of(file_slice.location), problem, loses_rows=False))
                continue
            if problem is not None:
                problems.append(IndexProblem(path, name_of(file_slice.location), problem, loses_rows=True))
    return problems


def _missing_value(bloom: _core.BloomFilter | None, rows: Iterator[pa.Array], is_text: bool) -> str | None:
    for array in rows:
        # Filters contain NaN, but not nulls.
        values = flat(array).drop_null()
        if bloom is None:
            if len(values):
                return "it has values, but the index has no filter for it"
        elif is_text:
            if not _core.contains_trigrams(bloom, values):
                return "a text of its rows is not in its filter"
        elif not pc.all(bloom.check(values), min_count=0).as_py():
            return "a value of its rows is not in its filter"
    return None

"""Check the Bloom index or the text index of a column: read every shelf, and look up every value of the table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from parsieve import _core
from parsieve._core import ParsieveError
from parsieve.index.bloom.reader import BloomReader
from parsieve.index.bloom.shelf import Filled, unshelve
from parsieve.index.findings import CHANGED, UNREADABLE_ROWS, IndexProblem, current_rows, name_of, read_rest
from parsieve.index.log.commit import TEXT_FORM, BloomState, Content, TextState
from parsieve.index.log.parts import doubt_of
from parsieve.index.scan.units import UnitNumbers
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
    shelved: dict[Location, Filled] = {}
    for shelf in state.shelves:
        name = shelf.directory.name
        try:
            directory = _core.Shelf.read(shelf.directory.get(store))
            name = shelf.rows.name
            shelved |= {Location(*filled.location): filled for filled in unshelve(directory, store.get(name))}
        except (OSError, ParsieveError) as error:
            problems.append(IndexProblem(path, *doubt_of(name, error), loses_rows=False))
    bound = reader.bound
    problems += [IndexProblem(path, name, reason, loses_rows=False) for name, reason in reader.doubts.items()]
    content: Content = state.content if isinstance(state, TextState) else "values"
    if isinstance(state, TextState) and state.form != TEXT_FORM:
        unknown = f"it has {content} of form {state.form}, which this parsieve cannot check; use a newer parsieve"
        problems.append(IndexProblem(path, "text index", unknown, loses_rows=False))
    if not problems and lake is not None and snapshot is not None:
        for file_slice, rows in current_rows(state, bound, lake, snapshot):
            filled = shelved.get(file_slice.location)
            if filled is None or filled.unknown:
                continue
            try:
                problem = _missing_value(filled, rows, content)
                read_rest(rows)
            except CHANGED:
                continue
            except (ParsieveError, OSError) as error:
                problem = UNREADABLE_ROWS.format(error)
                problems.append(IndexProblem(path, name_of(file_slice.location), problem, loses_rows=False))
                continue
            except TypeError:
                # Values of the new type have other bytes, so plans keep all units of these filters.
                problem = "its filters are for an earlier type of the column; build the index again"
                problems.append(IndexProblem(path, name_of(file_slice.location), problem, loses_rows=False))
                continue
            if problem is not None:
                problems.append(IndexProblem(path, name_of(file_slice.location), problem, loses_rows=True))
    return problems


def _missing_value(filled: Filled, rows: Iterator[pa.Array], content: Content) -> str | None:
    cutter = UnitNumbers([filled.layout]).cutter(0)
    for array in rows:
        for unit, start, stop in cutter.cut(len(array)):
            # Filters contain NaN, but not nulls.
            values = flat(array.slice(start, stop - start)).drop_null()
            bloom = filled.filters[unit]
            if bloom is None:
                if len(values):
                    return "it has values, but the index has no filter for it"
            elif not _contains(bloom, values, content):
                return f"{'a value' if content == 'values' else 'a text'} of its rows is not in its filter"
    return None


def _contains(bloom: _core.BloomFilter, values: pa.Array, content: Content) -> bool:
    if content == "trigrams":
        return _core.contains_trigrams(bloom, values)
    if content == "words":
        return _core.contains_words(bloom, values)
    return bool(pc.all(bloom.check(values), min_count=0).as_py())

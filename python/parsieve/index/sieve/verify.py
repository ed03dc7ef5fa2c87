"""Check the Sieve index of a column: read every part, and look up every row of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from parsieve import _core
from parsieve._core import ParsieveError
from parsieve.index.findings import CHANGED, UNREADABLE_ROWS, IndexProblem, current_rows, name_of, read_rest, reason_of
from parsieve.index.log.commit import ColumnState
from parsieve.index.scan.units import UnitCutter
from parsieve.index.sieve.query import is_nan, is_null
from parsieve.index.sieve.reader import PART_NAMES, WHOLE_SLICE, ColumnReader, PartKind, Timeline, load_part
from parsieve.io.store.base import Store
from parsieve.lake.base import Lake, Snapshot
from parsieve.predicate.elements import flat

# Check the keys of a slice in parts of this many bytes.
PAIRS_BYTES = 64 << 20


class InspectedColumn(ColumnReader):
    """A reader that records every error, even a temporary one."""

    permanent_errors = (ParsieveError, OSError)


def verify(store: Store, state: ColumnState, lake: Lake | None, snapshot: Snapshot | None) -> list[IndexProblem]:
    """Read every part of a column. With a lake, also look up every row of the slices that the index covers."""
    # A new reader, so that nothing comes from a cache.
    reader = InspectedColumn(store, state)
    problems: list[IndexProblem] = []
    timeline = reader.timeline
    if timeline is not None and reader.bound is not None:
        problems += _damaged_parts(reader, timeline)
    problems += [IndexProblem(state.path, name, reason, loses_rows=False) for name, reason in reader.doubts.items()]
    if timeline is not None and lake is not None and snapshot is not None:
        problems += _lost_rows(reader, timeline, lake, snapshot)
    return problems


def _damaged_parts(reader: InspectedColumn, timeline: Timeline) -> list[IndexProblem]:
    """Read and check each segment, its keys, and each unit page. They stay loaded."""
    problems = []
    path, files = reader.state.path, reader.state.base.files
    missing: set[int] = set()
    for kind, part, number, start, size, check in _parts(timeline):
        name = files[number].name if number < len(files) else f"segment file {number}"
        try:
            if number not in missing:
                check(reader.store.get_ranges(files[number].name, [(start, start + size)])[0])
        except OSError as error:
            # Report the file once, not each of its parts.
            missing.add(number)
            problems.append(IndexProblem(path, name, reason_of(error), loses_rows=False))
        except (ParsieveError, IndexError) as error:
            problems.append(IndexProblem(path, f"{name}, {PART_NAMES[kind]} {part}", str(error), loses_rows=False))
    return problems


def _parts(timeline: Timeline) -> Iterator[tuple[PartKind, int, int, int, int, Callable[[bytes], None]]]:
    """Yield the kind and number of each part, its file, offset and length, and a function that checks its bytes."""
    for segment, (file, offset, length, keys_file, keys_offset, keys_length) in enumerate(timeline.segments()):
        yield "segment", segment, file, offset, length, partial(load_part, timeline, "segment", segment)
        if keys_length:
            yield "segment", segment, keys_file, keys_offset, keys_length, timeline.check_keys
    if isinstance(timeline, _core.SieveUnitTimeline):
        for kind, page, file, offset, length in timeline.needs_units():
            yield kind, page, file, offset, length, partial(load_part, timeline, kind, page)


def _lost_rows(reader: InspectedColumn, timeline: Timeline, lake: Lake, snapshot: Snapshot) -> Iterator[IndexProblem]:
    path = reader.state.path
    for file_slice, rows in current_rows(reader.state, reader.bound, lake, snapshot):
        number = reader.numbers.get(file_slice.location)
        if number is None:
            continue
        lookup = _Lookup(reader, timeline, number)
        pairs = _core.SievePairs(reader.axis)
        problem: str | None = None
        try:
            for values in rows:
                try:
                    lookup.push(pairs, values)
                except TypeError:
                    break
                if pairs.num_bytes > PAIRS_BYTES:
                    problem = problem or lookup.missing_key(pairs)
            read_rest(rows)
        except CHANGED:
            continue
        except (ParsieveError, OSError) as error:
            yield IndexProblem(path, name_of(file_slice.location), UNREADABLE_ROWS.format(error), loses_rows=False)
            continue
        problem = problem or lookup.missing_key(pairs) or lookup.missing_side()
        if problem is not None:
            yield IndexProblem(path, name_of(file_slice.location), problem, loses_rows=True)


class _Lookup:
    """Looks the rows of one slice up, by unit."""

    def __init__(self, reader: InspectedColumn, timeline: Timeline, number: int) -> None:
        self._reader = reader
        self._timeline = timeline
        self._number = number
        [ranges] = reader.unit_ranges(pa.array([number], pa.uint32()))
        units = [] if ranges is None else ranges[1]
        self._cutter = UnitCutter(range(max(1, len(units))), [first + rows for _, first, rows in units])
        # The units with nulls, and the units with NaN.
        self._nulls: set[int] = set()
        self._nans: set[int] = set()

    def push(self, pairs: _core.SievePairs, values: pa.Array) -> None:
        """Collect the keys of the next rows of the slice."""
        for unit, start, stop in self._cutter.cut(len(values)):
            _, nulls, nans = pairs.push(flat(values.slice(start, stop - start)), unit)
            self._nulls |= {unit} if nulls else set()
            self._nans |= {unit} if nans else set()

    def missing_key(self, pairs: _core.SievePairs) -> str | None:
        """Look the collected keys up. Describe the problem if one is not found."""
        is_missing = any(self._timeline.missing(block, self._number) is not None for block in pairs.sort())
        return "some of its rows are not found by their keys" if is_missing else None

    def missing_side(self) -> str | None:
        """Look the rows without a key up. Describe the rows that are not found."""
        for units, query, kind in [(self._nulls, is_null(), "nulls"), (self._nans, is_nan(), "NaN")]:
            answer = self._reader.find_units(query) if units else None
            if answer is None:
                continue
            rows = zip(answer.ids.to_pylist(), answer.units.to_pylist(), strict=True)
            kept = {unit for slice_id, unit in rows if slice_id == self._number}
            if WHOLE_SLICE not in kept and not units <= kept:
                return f"its {kind} are not found"
        return None

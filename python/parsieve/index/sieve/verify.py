"""Check the Sieve index of a column: read every part, and look up every row of the table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from parsieve import _core
from parsieve._core import ParsieveError
from parsieve.index.findings import UNREADABLE_ROWS, IndexProblem, current_rows, name_of, reason_of
from parsieve.index.log.commit import ColumnState
from parsieve.index.sieve.query import is_nan, is_null
from parsieve.index.sieve.reader import ColumnReader
from parsieve.io.store.base import Store
from parsieve.lake.base import Lake, Snapshot

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
        problems += _damaged_segments(reader, timeline)
    problems += [IndexProblem(state.path, name, reason, loses_rows=False) for name, reason in reader.doubts.items()]
    if timeline is not None and lake is not None and snapshot is not None:
        problems += _lost_rows(reader, timeline, lake, snapshot)
    return problems


def _damaged_segments(reader: InspectedColumn, timeline: _core.SieveTimeline) -> list[IndexProblem]:
    problems = []
    path, files = reader.state.path, reader.state.base.files
    missing: set[int] = set()
    for segment, (file, offset, length, keys_file, keys_offset, keys_length) in enumerate(timeline.segments()):
        for number, start, size, check in (
            (file, offset, length, partial(timeline.load, segment)),
            (keys_file, keys_offset, keys_length, timeline.check_keys),
        ):
            name = files[number].name if number < len(files) else f"segment file {number}"
            try:
                if number not in missing:
                    check(reader.store.get_ranges(files[number].name, [(start, start + size)])[0])
            except OSError as error:
                # Report the file once, not each of its segments.
                missing.add(number)
                problems.append(IndexProblem(path, name, reason_of(error), loses_rows=False))
            except (ParsieveError, IndexError) as error:
                problems.append(IndexProblem(path, f"{name}, segment {segment}", str(error), loses_rows=False))
    return problems


def _lost_rows(
    reader: InspectedColumn, timeline: _core.SieveTimeline, lake: Lake, snapshot: Snapshot
) -> Iterator[IndexProblem]:
    path = reader.state.path
    for file_slice, rows in current_rows(reader.state, reader.bound, lake, snapshot):
        number = reader.numbers.get(file_slice.location)
        if number is None:
            continue
        pairs = _core.SievePairs(reader.axis)
        nulls = nans = 0
        problem: str | None = None
        try:
            for values in rows:
                try:
                    _, more_nulls, more_nans = pairs.push(values, 0)
                except TypeError:
                    break
                nulls, nans = nulls + more_nulls, nans + more_nans
                if pairs.num_bytes > PAIRS_BYTES:
                    problem = problem or _missing_key(timeline, pairs, number)
        except (ParsieveError, OSError) as error:
            yield IndexProblem(path, name_of(file_slice.location), UNREADABLE_ROWS.format(error), loses_rows=False)
            continue
        problem = problem or _missing_key(timeline, pairs, number)
        for count, query, kind in [(nulls, is_null(), "nulls"), (nans, is_nan(), "NaN")]:
            answer = timeline.answer(query.on(reader.axis)) if count else None
            if answer is not None and number not in answer.to_pylist():
                problem = problem or f"its {kind} are not found"
        if problem is not None:
            yield IndexProblem(path, name_of(file_slice.location), problem, loses_rows=True)


def _missing_key(timeline: _core.SieveTimeline, pairs: _core.SievePairs, number: int) -> str | None:
    for block in pairs.sort():
        key = timeline.missing(block, number)
        if key is not None:
            return f"its rows with key {key} are not found"
    return None

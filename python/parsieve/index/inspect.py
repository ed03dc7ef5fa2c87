"""An index looked at: what it costs and wastes, and whether every part of it is whole and true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from parsieve import _core
from parsieve._core import ParsieveError
from parsieve.index.bloom import verify as inspect_bloom
from parsieve.index.findings import UNREAD, IndexProblem, Lie, current_rows, name_of, out_of_reach
from parsieve.index.sieve.compact import ReadAhead
from parsieve.index.sieve.query import is_nan, is_null
from parsieve.index.sizes import stored_bytes
from parsieve.index.view import ColumnReader, View
from parsieve.lake.base import ColumnPath, Lake, Snapshot

__all__ = ["IndexProblem", "IndexStats", "Lie", "Stats", "stats", "verify"]

# Rows of a slice that are checked at once.
PAIRS_BYTES = 64 << 20
# How many bytes of keys to read at most, to count keys and rows after updates.
MOST_COUNTED = 64 << 20
# Segments that are read to judge answers to keys that are not there.
SAMPLED_SEGMENTS = 64


@dataclass(frozen=True, slots=True)
class IndexStats:
    """The size and precision of the index of one column, from `Table.index_stats`."""

    path: ColumnPath
    locations: int
    # Where an index of more than `MOST_COUNTED` bytes was updated, those of its base, without the `changes`.
    keys: int
    rows: int
    segments: int
    # Bytes of all files of this column's index including its Bloom filters, and bytes of the filters alone.
    stored_bytes: int
    bloom_bytes: int
    # What lookups read, what compaction reads, and what every reader reads once.
    lookup_bytes: int
    keys_bytes: int
    root_bytes: int
    delta_bytes: int
    deltas: int
    changes: int
    bindings_bytes: int
    bits_per_row: float
    # Mean locations read in vain for a key that exists, or an interval from key to key; and their share of all.
    waste_per_key: float
    waste_share: float
    # Mean locations read for a key that does not exist but lies inside a segment, of those that were sampled; with a
    # Bloom index of the same column, by both.
    reads_of_absent_keys: float
    largest_lookup: int


# The name of 0.1.0.
Stats = IndexStats


class _Inspected(ColumnReader):
    """A reader that names each part which cannot be read, for whatever reason, and counts on no second time."""

    useless = (ParsieveError, OSError)


def stats(view: View, column: str | Sequence[str]) -> Stats:
    """What a column costs and wastes; some of its segments are read for it."""
    reader = _Inspected(view.store, view.reader(column).state)
    state, timeline, bound = reader.state, reader.timeline, reader.bound
    if timeline is None or reader.doubts:
        raise _unreadable(reader)
    entries = timeline.segments()
    step = max(1, len(entries) // SAMPLED_SEGMENTS)
    try:
        report = timeline.report(list(_lookups(reader, range(0, len(entries), step))))
    except (ParsieveError, OSError) as error:
        reader.doubts["a segment"] = str(error)
        raise _unreadable(reader) from error
    assert report is not None
    keys, rows = _counts(reader, timeline, report)
    bloom = view.commit.blooms.get(state.path)
    return Stats(
        path=state.path,
        locations=len(bound),
        keys=keys,
        rows=rows,
        segments=report["segments"],
        stored_bytes=stored_bytes(view.commit, [state.path]),
        bloom_bytes=0 if bloom is None else sum(one.directory.size + one.rows.size for one in bloom.shelves),
        lookup_bytes=report["lookup_bytes"],
        keys_bytes=report["keys_bytes"],
        root_bytes=report["root_bytes"],
        delta_bytes=sum(delta.file.size for delta in state.deltas),
        deltas=len(state.deltas),
        changes=timeline.num_changes,
        bindings_bytes=sum(part.size for part in state.bindings),
        bits_per_row=report["bits_per_row"],
        waste_per_key=report["waste_per_key"],
        waste_share=report["error"],
        reads_of_absent_keys=report["reads_of_absent_keys"] * (1 if bloom is None else bloom.fpp),
        largest_lookup=report["largest_lookup"],
    )


def _counts(reader: _Inspected, timeline: _core.SieveTimeline, report: Mapping[str, int]) -> tuple[int, int]:
    """Keys and rows with the changes since the base, as a compaction counts them; of a large index, of the base."""
    state = reader.state
    changed = sum(delta.file.size for delta in state.deltas)
    if not changed or report["keys_bytes"] + changed > MOST_COUNTED:
        return report["keys"], report["rows"]
    places = [(location.partition, location.group) for location in sorted(reader.bound)]
    root, _ = timeline.compact(places, ReadAhead(reader.store, state), lambda _: None)
    counted = _core.SieveTimeline(reader.axis, root, []).report([])
    assert counted is not None
    return counted["keys"], counted["rows"]


def _unreadable(reader: ColumnReader) -> ParsieveError:
    found = "; ".join(f"{name}: {why}" for name, why in reader.doubts.items())
    return ParsieveError(
        f"the index of {'.'.join(reader.state.path)} in {reader.store} cannot be read: {found}. verify_index() tells "
        "all that is wrong; build_index() makes it anew"
    )


def _lookups(reader: ColumnReader, segments: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    timeline = reader.timeline
    entries = timeline.segments() if timeline is not None else []
    by_file: dict[int, list[int]] = {}
    for segment in segments:
        by_file.setdefault(entries[segment][0], []).append(segment)
    for file, numbers in by_file.items():
        ranges = [(entries[number][1], entries[number][1] + entries[number][2]) for number in numbers]
        yield from zip(numbers, reader.store.get_ranges(reader.state.base.files[file].name, ranges), strict=True)


def verify(view: View, lake: Lake | None, snapshot: Snapshot | None) -> list[Lie]:
    """Every part of a version read and checked; with a lake, every row of the slices that it speaks of looked for."""
    lies: list[Lie] = []
    for path, state in view.columns.items():
        # A reader of its own: nothing that was read before counts.
        reader = _Inspected(view.store, state)
        timeline = reader.timeline
        if timeline is not None and reader.bound is not None:
            lies += _damaged_segments(path, reader, timeline)
        lies += [Lie(path, name, why, loses_rows=False) for name, why in reader.doubts.items()]
        if timeline is not None and lake is not None and snapshot is not None:
            lies += _false_answers(path, reader, timeline, lake, snapshot)
    for bloom in view.commit.blooms.values():
        lies += inspect_bloom.verify(view.store, bloom, lake, snapshot)
    return lies


def _damaged_segments(path: ColumnPath, reader: ColumnReader, timeline: _core.SieveTimeline) -> list[Lie]:
    lies = []
    files = reader.state.base.files
    lost: set[int] = set()
    for segment, (file, offset, length, keys_file, keys_offset, keys_length) in enumerate(timeline.segments()):
        for number, start, size, check in (
            (file, offset, length, partial(timeline.load, segment)),
            (keys_file, keys_offset, keys_length, timeline.check_keys),
        ):
            name = files[number].name if number < len(files) else f"segment file {number}"
            try:
                if number not in lost:
                    check(reader.store.get_ranges(files[number].name, [(start, start + size)])[0])
            except OSError as error:
                # Whatever else lies in that file is as much out of reach.
                lost.add(number)
                lies.append(Lie(path, name, out_of_reach(error), loses_rows=False))
            except (ParsieveError, IndexError) as error:
                lies.append(Lie(path, f"{name}, segment {segment}", str(error), loses_rows=False))
    return lies


def _false_answers(
    path: ColumnPath, reader: ColumnReader, timeline: _core.SieveTimeline, lake: Lake, snapshot: Snapshot
) -> Iterator[Lie]:
    for piece, rows in current_rows(reader.state, reader.bound, lake, snapshot):
        number = reader.numbers.get(piece.location)
        if number is None:
            continue
        pairs = _core.SievePairs(reader.axis)
        nulls = nans = 0
        lie: str | None = None
        try:
            for values in rows:
                try:
                    _, more_nulls, more_nans = pairs.push(values, 0)
                except TypeError:
                    break
                nulls, nans = nulls + more_nulls, nans + more_nans
                if pairs.num_bytes > PAIRS_BYTES:
                    lie = lie or _missing(timeline, pairs, number)
        except (ParsieveError, OSError) as error:
            yield Lie(path, name_of(piece.location), UNREAD.format(error), loses_rows=False)
            continue
        lie = lie or _missing(timeline, pairs, number)
        for count, query, what in [(nulls, is_null(), "nulls"), (nans, is_nan(), "NaN")]:
            answer = timeline.answer(query.on(reader.axis)) if count else None
            if answer is not None and number not in answer.to_pylist():
                lie = lie or f"its {what} are not found"
        if lie is not None:
            yield Lie(path, name_of(piece.location), lie, loses_rows=True)


def _missing(timeline: _core.SieveTimeline, pairs: _core.SievePairs, number: int) -> str | None:
    for data in pairs.sort():
        key = timeline.missing(data, number)
        if key is not None:
            return f"its rows with key {key} are not found"
    return None

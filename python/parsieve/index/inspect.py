"""Inspect an index: its size and precision, and whether its parts are complete and correct."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from parsieve import _core
from parsieve._core import ParsieveError
from parsieve.index.bloom import verify as bloom
from parsieve.index.build.lost import find_column, new_type
from parsieve.index.findings import IndexProblem, Lie
from parsieve.index.log.commit import BloomState
from parsieve.index.pages import verify as pages
from parsieve.index.sieve import verify as sieve
from parsieve.index.sieve.compact import ReadAhead
from parsieve.index.sieve.reader import Timeline
from parsieve.index.sizes import pages_bytes, stored_bytes
from parsieve.index.view import View
from parsieve.lake.base import ColumnPath, Lake, Snapshot

__all__ = ["IndexProblem", "IndexStats", "Lie", "Stats", "stats", "verify"]

# How many bytes of keys to read at most to count keys and rows after updates.
MAX_COUNTED = 64 << 20
# How many segments to read to estimate false positives for keys that do not exist.
SAMPLED_SEGMENTS = 64


@dataclass(frozen=True, slots=True)
class IndexStats:
    """The size and precision of the index of one column, from `Table.index_stats`."""

    path: ColumnPath
    locations: int
    # Distinct keys and rows. If an index in format 1 of more than 64 MiB was updated, these are numbers of its base,
    # without the `changes`. In format 2, only `keys` ignores the changes.
    keys: int
    rows: int
    segments: int
    # Bytes of all files of this column's index including its Bloom filters and texts, and bytes of the Bloom filters.
    stored_bytes: int
    bloom_bytes: int
    # Bytes that lookups read, that compactions read, and that every reader reads once.
    lookup_bytes: int
    keys_bytes: int
    root_bytes: int
    delta_bytes: int
    deltas: int
    changes: int
    bindings_bytes: int
    bits_per_row: float
    # Mean false positives for a key that exists, or an interval between two neighboring keys; and their share of all
    # locations.
    waste_per_key: float
    waste_share: float
    # Mean false positives for a key that does not exist, but is within the keys of a sampled segment. If the column has
    # a Bloom index, this is for both together.
    reads_of_absent_keys: float
    largest_lookup: int
    # The units of answers: files, or in format 2 also row groups or ranges of rows. `units` is their number in the
    # base, including units of files that are gone.
    format: int = 1
    unit: str = "file"
    units: int = 0
    # Bytes of the text indexes of the column, which are part of `stored_bytes`.
    text_bytes: int = 0
    # Bytes of the map of pages, which belongs to the whole index and is not part of `stored_bytes`.
    pages_bytes: int = 0


# The name in version 0.1.0.
Stats = IndexStats


def stats(view: View, column: str | Sequence[str]) -> IndexStats:
    """Return the size and precision of a column's index. Reads a sample of its segments."""
    reader = sieve.InspectedColumn(view.store, view.reader(column).state)
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
    bloom_state = view.commit.blooms.get(state.path)
    text_states = [text for text in view.commit.texts.values() if text.path == state.path]
    return IndexStats(
        path=state.path,
        locations=len(bound),
        keys=keys,
        rows=rows,
        segments=report["segments"],
        stored_bytes=stored_bytes(view.commit, [state.path]),
        bloom_bytes=_filter_bytes(bloom_state),
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
        reads_of_absent_keys=report["reads_of_absent_keys"] * (1 if bloom_state is None else bloom_state.fpp),
        largest_lookup=report["largest_lookup"],
        format=state.format,
        unit="file" if state.layout is None else state.layout.unit,
        units=report["locations"],
        pages_bytes=pages_bytes(view.commit),
        text_bytes=sum(map(_filter_bytes, text_states)),
    )


def _filter_bytes(state: BloomState | None) -> int:
    shelves = () if state is None else state.shelves
    return sum(shelf.directory.size + shelf.rows.size for shelf in shelves)


def _counts(reader: sieve.InspectedColumn, timeline: Timeline, report: Mapping[str, int]) -> tuple[int, int]:
    """Count keys and rows including the changes, as a compaction would. Ignore the changes of a large index."""
    state = reader.state
    changed = sum(delta.file.size for delta in state.deltas)
    if not isinstance(timeline, _core.SieveTimeline):
        # Only the table has the keys. The rows of masked slices do not count.
        return report["keys"], _live_rows(reader, timeline)
    if not changed or report["keys_bytes"] + changed > MAX_COUNTED:
        return report["keys"], report["rows"]
    places = [(location.partition, location.group) for location in sorted(reader.bound)]
    root, _ = timeline.compact(places, ReadAhead(reader.store, state), lambda _: None)
    counted = _core.SieveTimeline(reader.axis, root, []).report([])
    assert counted is not None
    return counted["keys"], counted["rows"]


def _live_rows(reader: sieve.InspectedColumn, timeline: _core.SieveUnitTimeline) -> int:
    """Count the rows of the slices that the index covers."""
    reader.load_all_units()
    ids = pa.array(reader.bindings.live_ids(), pa.uint32())
    units = [unit for known in timeline.unit_statistics(ids) for unit in known or []]
    return sum(rows + nulls + nans for _, _, _, nulls, nans, rows, _ in units)


def _unreadable(reader: sieve.InspectedColumn) -> ParsieveError:
    problems = "; ".join(f"{name}: {reason}" for name, reason in reader.doubts.items())
    return ParsieveError(
        f"the index of {'.'.join(reader.state.path)} in {reader.store} cannot be read: {problems}. Call verify_index() "
        "to list all problems, and build_index() to build it again"
    )


def _lookups(reader: sieve.InspectedColumn, segments: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    timeline = reader.timeline
    entries = timeline.segments() if timeline is not None else []
    by_file: dict[int, list[int]] = {}
    for segment in segments:
        by_file.setdefault(entries[segment][0], []).append(segment)
    for file, numbers in by_file.items():
        ranges = [(entries[number][1], entries[number][1] + entries[number][2]) for number in numbers]
        yield from zip(numbers, reader.store.get_ranges(reader.state.base.files[file].name, ranges), strict=True)


def verify(view: View, lake: Lake | None, snapshot: Snapshot | None) -> list[IndexProblem]:
    """Read and check every part of a version. With a lake, also look up every row of the slices that it covers."""
    problems: list[IndexProblem] = []
    commit = view.commit if snapshot is None else view.commit.named(snapshot.schema)
    for state in commit.columns.values():
        problems += sieve.verify(view.store, state, lake, snapshot)
    for bloom_state in (*commit.blooms.values(), *commit.texts.values()):
        problems += bloom.verify(view.store, bloom_state, lake, snapshot)
    if snapshot is not None:
        problems += [
            IndexProblem(state.path, "type of the column", f"{now}; update_index() drops this index", loses_rows=False)
            for state in commit.states
            if find_column(snapshot.schema, state) is None and (now := new_type(snapshot.schema, state)) is not None
        ]
    if view.commit.pages is not None:
        problems += pages.verify(view.store, view.commit.pages, lake, snapshot)
    return problems

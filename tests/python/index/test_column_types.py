"""Runs, segments and timelines of every orderable type return the same answers as a scan of the rows."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parsieve import UnsupportedError, _core
from parsieve.index.scan.runs import Gathered, merge
from parsieve.index.scan.spill import Room, Runs
from parsieve.lake.base import Location

NUM_LOCATIONS = 5
PLACES = [("", f"file-{number}") for number in range(NUM_LOCATIONS)]
START = dt.datetime(2026, 1, 1)

TYPES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
    "int8": (pa.int8(), lambda r: r.randrange(-128, 128)),
    "int32": (pa.int32(), lambda r: r.randrange(-50, 50)),
    "int64": (pa.int64(), lambda r: r.choice([-(2**63), 2**63 - 1, 0, r.randrange(-40, 40)])),
    "uint8": (pa.uint8(), lambda r: r.randrange(256)),
    "uint64": (pa.uint64(), lambda r: r.choice([2**64 - 1, 0, r.randrange(100)])),
    "float16": (pa.float16(), lambda r: r.choice([0.0, -0.0, 1.5, -2.25, float("inf"), float("nan")])),
    "float32": (pa.float32(), lambda r: r.choice([0.0, -0.0, 0.1, -1e30, float("nan"), r.random()])),
    "float64": (pa.float64(), lambda r: r.choice([0.0, -0.0, 5e-324, 1e300, float("nan"), r.random() - 0.5])),
    "date32": (pa.date32(), lambda r: START.date() + dt.timedelta(days=r.randrange(-60, 60))),
    "date64": (pa.date64(), lambda r: START.date() + dt.timedelta(days=r.randrange(-60, 60))),
    "time32": (pa.time32("ms"), lambda r: dt.time(r.randrange(24), r.randrange(60))),
    "time64": (pa.time64("us"), lambda r: dt.time(r.randrange(24), 5, 6, r.randrange(90))),
    "timestamp": (pa.timestamp("us"), lambda r: START + dt.timedelta(minutes=r.randrange(-90, 90))),
    "instant": (pa.timestamp("ns", "UTC"), lambda r: START + dt.timedelta(minutes=r.randrange(-90, 90))),
    "duration": (pa.duration("s"), lambda r: dt.timedelta(seconds=r.randrange(-90, 90))),
    "decimal32": (pa.decimal32(7, 2), lambda r: Decimal(r.randrange(-500, 500)) / 100),
    "decimal64": (pa.decimal64(15, 2), lambda r: Decimal(r.randrange(-500, 500)) / 100),
    "decimal": (pa.decimal128(10, 2), lambda r: Decimal(r.randrange(-500, 500)) / 100),
    "wide decimal": (pa.decimal128(38, 0), lambda r: Decimal(r.choice([10**37, -(10**37), r.randrange(99)]))),
    "string": (pa.string(), lambda r: "".join(r.choice("ab\1") for _ in range(1 + r.randrange(5)))),
    "large string": (pa.large_string(), lambda r: "prefix-" + r.choice("abcé")),
    "view": (pa.string_view(), lambda r: "a longer string than a view holds " * r.randrange(3)),
    "binary": (pa.binary(), lambda r: bytes(r.randrange(1, 4) for _ in range(r.randrange(5)))),
    "fixed": (pa.binary(3), lambda r: bytes(r.randrange(3) for _ in range(3))),
    "uuid": (pa.binary(16), lambda r: uuid.UUID(int=r.randrange(60) << 100).bytes),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), lambda r: r.choice("abcdef")),
}

Rows = list[tuple[Any, int]]


def build(
    axis: _core.SieveAxis, columns: Sequence[tuple[pa.Array, int]], runs: int = 2, **options: Any
) -> tuple[bytes, bytes]:
    """Build an index of columns from several runs, and return its root and file."""
    sides = [[0, 0] for _ in range(NUM_LOCATIONS)]
    gathered = [_core.SievePairs(axis) for _ in range(runs)]
    for number, (column, location) in enumerate(columns):
        rows, nulls, nans = gathered[number % runs].push(column, location)
        assert rows == len(column)
        sides[location][0] += nulls
        sides[location][1] += nans
    feeds = [iter(pairs.sort()) for pairs in gathered]
    sieve = _core.SieveBuild(axis, NUM_LOCATIONS, num_runs=runs, options=_core.SieveOptions(**options))
    lookups, keys = b"", b""
    while (hungry := sieve.step()) is not None:
        sieve.feed(hungry, next(feeds[hungry], None))
        more = sieve.take()
        lookups, keys = lookups + more[0], keys + more[1]
    root, more = sieve.finish(1, PLACES, [(nulls, nans, False) for nulls, nans in sides])
    return root, lookups + more[0] + keys + more[1]


def locations_of(timeline: _core.SieveTimeline, file: bytes, query: _core.SieveQuery) -> set[int] | None:
    for segment, number, offset, length in timeline.needs(query):
        assert number == 0
        timeline.load(segment, file[offset : offset + length])
    assert timeline.needs(query) == []
    answer = timeline.answer(query)
    return None if answer is None else set(answer.to_pylist())


def is_nan(value: Any) -> bool:
    return bool(value != value)


@pytest.mark.parametrize("name", TYPES)
def test_every_type_returns_the_locations_of_matching_rows(name: str) -> None:
    data_type, make_value = TYPES[name]
    r = random.Random(name)
    columns = []
    rows: Rows = []
    for number in range(9):
        location = number % NUM_LOCATIONS
        values = [None if r.random() < 0.1 and location != 3 else make_value(r) for _ in range(r.randrange(1, 12))]
        column = pa.array(values, data_type)
        rows += [(value, location) for value in column.to_pylist()]
        columns.append((column, location))
    plain = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    axis = _core.SieveAxis(data_type)
    root, file = build(axis, columns)
    timeline = _core.SieveTimeline(axis, root, [])
    assert timeline.locations() == PLACES

    def array_of(value: Any) -> pa.Array:
        return pa.array([value], plain)

    non_null = [(value, location) for value, location in rows if value is not None and not is_nan(value)]
    values = [value for value, _ in non_null]
    q = _core.SieveQuery
    for value in values:
        assert locations_of(timeline, file, q.points(axis, array_of(value))) == {
            location for other, location in non_null if other == value
        }
    expected = {location for value, location in non_null if value in values[:5]}
    assert locations_of(timeline, file, q.points(axis, pa.array([*values[:5], None], plain))) == expected
    nans = {location for value, location in rows if value is not None and is_nan(value)}
    above = nans if pa.types.is_floating(plain) else set()
    for _ in range(30):
        low, high = r.choice(values), r.choice(values)
        at_least = {location for value, location in non_null if value >= low}
        at_most = {location for value, location in non_null if value <= high}
        inside = {location for value, location in non_null if low <= value <= high}
        assert locations_of(timeline, file, q.between(axis, array_of(low), array_of(high))) == inside
        assert locations_of(timeline, file, q.between(axis, array_of(low))) == at_least | above
        assert locations_of(timeline, file, q.between(axis, None, array_of(high))) == at_most
        strict = locations_of(
            timeline, file, q.between(axis, array_of(low), array_of(high), low_strict=True, high_strict=True)
        )
        assert strict is not None
        assert {location for value, location in non_null if low < value < high} <= strict <= inside
    assert locations_of(timeline, file, q.null(axis)) == {location for value, location in rows if value is None}
    assert locations_of(timeline, file, q.not_null(axis)) == {location for value, location in rows if value is not None}
    assert locations_of(timeline, file, q.nan(axis)) == nans
    if nans:
        assert locations_of(timeline, file, q.points(axis, array_of(float("nan")))) == nans
        assert locations_of(timeline, file, q.between(axis, array_of(float("nan")))) is None
    if axis.has_prefixes:
        first: Any = values[0]
        prefix = first[:2]
        raw = prefix if isinstance(prefix, bytes) else prefix.encode()
        truth = {location for value, location in rows if value is not None and value.startswith(prefix)}
        assert locations_of(timeline, file, q.prefix(axis, raw)) == truth
    # The number of runs does not change a byte.
    assert build(axis, columns, runs=1) == (root, file)
    for location in range(NUM_LOCATIONS):
        pairs = _core.SievePairs(axis)
        for column, column_location in columns:
            if column_location == location:
                pairs.push(column, 0)
        for run in pairs.sort():
            assert timeline.missing(run, location) is None


def test_strings_that_end_with_zero_bytes_are_found() -> None:
    axis = _core.SieveAxis(pa.string())
    texts = ["", "\0", "\0\0", "a", "a\0", "a\0b", "a" * 2000, "a" * 2000 + "b"]
    root, file = build(axis, [(pa.array([text]), number % NUM_LOCATIONS) for number, text in enumerate(texts)])
    timeline = _core.SieveTimeline(axis, root, [])
    for number, text in enumerate(texts):
        literal = pa.array([text])
        for query in [_core.SieveQuery.points(axis, literal), _core.SieveQuery.between(axis, literal, literal)]:
            assert number % NUM_LOCATIONS in (locations_of(timeline, file, query) or set())


def test_strict_bounds_are_exact_on_exact_axes() -> None:
    axis = _core.SieveAxis(pa.int32())
    root, file = build(
        axis, [(pa.array([1], pa.int32()), 0), (pa.array([2], pa.int32()), 1), (pa.array([3], pa.int32()), 2)]
    )
    timeline = _core.SieveTimeline(axis, root, [])
    low, high = pa.array([1], pa.int32()), pa.array([3], pa.int32())
    inside = _core.SieveQuery.between(axis, low, high, low_strict=True, high_strict=True)
    assert locations_of(timeline, file, inside) == {1}
    assert locations_of(timeline, file, _core.SieveQuery.between(axis, low, low_strict=True)) == {1, 2}
    assert locations_of(timeline, file, _core.SieveQuery.between(axis, None, high, high_strict=True)) == {0, 1}
    assert locations_of(timeline, file, _core.SieveQuery.between(axis, high, low)) == set()


def test_a_list_column_finds_elements_but_cannot_answer_null_tests() -> None:
    data_type = pa.list_(pa.int64())
    axis = _core.SieveAxis(data_type)
    assert axis.repeated
    root, file = build(axis, [(pa.array([[1, 2], None, []], data_type), 0), (pa.array([[3, None]], data_type), 1)])
    timeline = _core.SieveTimeline(axis, root, [])
    assert locations_of(timeline, file, _core.SieveQuery.points(axis, pa.array([3]))) == {1}
    assert locations_of(timeline, file, _core.SieveQuery.null(axis)) is None
    assert locations_of(timeline, file, _core.SieveQuery.not_null(axis)) is None


def test_other_units_and_types_without_order_are_rejected() -> None:
    axis = _core.SieveAxis(pa.timestamp("us"))
    assert axis.meaning == "local time in us"
    with pytest.raises(TypeError, match="instant in us"):
        _core.SieveQuery.points(axis, pa.array([0], pa.timestamp("us", "UTC")))
    for data_type in [
        pa.null(),
        pa.decimal256(50, 2),
        pa.month_day_nano_interval(),
        pa.struct([("a", pa.int8()), ("b", pa.int8())]),
    ]:
        with pytest.raises(UnsupportedError, match="cannot be indexed"):
            _core.SieveAxis(data_type)
    with pytest.raises(TypeError, match="no prefixes"):
        _core.SieveQuery.prefix(axis, b"a")


def test_a_build_in_shares_makes_the_same_segments() -> None:
    r = random.Random(5)
    axis = _core.SieveAxis(pa.string())
    options = _core.SieveOptions(max_records=300, max_weight=200)
    rows = sorted((f"key-{r.randrange(2000):05}", r.randrange(NUM_LOCATIONS)) for _ in range(3000))
    sides = [(0, 0, False)] * NUM_LOCATIONS

    def columns(rows: Rows) -> tuple[pa.Array, pa.Array, pa.Array]:
        keys, places = [key for key, _ in rows], [place for _, place in rows]
        return pa.array(keys, pa.string()), pa.array(places, pa.uint32()), pa.array([1] * len(rows), pa.uint64())

    full = _core.SieveBuild(axis, NUM_LOCATIONS, options=options)
    full.push(*columns(rows))
    root, sections = full.finish(4, PLACES, sides)
    expected = _core.SieveTimeline(axis, root, [])
    file = b"".join(sections)
    for cuts in [[], ["key-00700"], ["key-00001", "key-00500", "key-01200"]]:
        files, shares = [], []
        for number, (low, high) in enumerate(zip(["", *cuts], [*cuts, "~"], strict=True)):
            part = _core.SieveBuild(axis, NUM_LOCATIONS, options=options, partition=True, file=number)
            part.push(*columns([row for row in rows if low <= row[0] < high]))
            lookups, keys = part.take()
            share, more = part.finish_share()
            shares.append(share)
            files.append(lookups + more[0] + keys + more[1])
        joined, border = _core.join_sieve_shares(
            axis, shares, instant=4, locations=PLACES, sides=sides, options=options, file=len(files)
        )
        files.append(border)
        timeline = _core.SieveTimeline(axis, joined, [])
        assert len(timeline.segments()) == len(expected.segments()) > 3
        for ours, theirs in zip(timeline.segments(), expected.segments(), strict=True):
            for field in (0, 3):
                ranges = (
                    slice(ours[field + 1], ours[field + 1] + ours[field + 2]),
                    slice(theirs[field + 1], theirs[field + 1] + theirs[field + 2]),
                )
                assert files[ours[field]][ranges[0]] == file[ranges[1]]


def test_a_compaction_of_deltas_equals_a_rebuild() -> None:
    axis = _core.SieveAxis(pa.int64())
    before = [(pa.array([1, 2, None]), 0), (pa.array([2, 3]), 1), (pa.array([9]), 2)]
    root, file = build(axis, before)
    pairs = _core.SievePairs(axis)
    pairs.push(pa.array([5, 5, 3]), 0)
    pairs.push(pa.array([7]), 1)
    delta = _core.sieve_delta(
        axis, instant=2, locations=[PLACES[1], PLACES[3], PLACES[2]], dead=[0, 2], sides=[(1, (2, 0), (0, 0), False)],
        plus=pairs.sort(), minus=[],
    )  # fmt: skip
    timeline = _core.SieveTimeline(axis, root, [delta])
    after = [(pa.array([1, 2, None]), 0), (pa.array([5, 5, 3]), 1), (pa.array([7, None, None]), 3)]

    def check(timeline: _core.SieveTimeline, file: bytes) -> None:
        for value in range(12):
            truth = {location for column, location in after if value in column.to_pylist()}
            locations = locations_of(timeline, file, _core.SieveQuery.points(axis, pa.array([value])))
            # A missing key may return the locations of the keys around it.
            assert locations == truth if truth else locations is not None
        assert locations_of(timeline, file, _core.SieveQuery.null(axis)) == {0, 3}
        assert locations_of(timeline, file, _core.SieveQuery.between(axis, pa.array([5]))) == {1, 3}

    check(timeline, file)
    assert timeline.num_changes == 3

    def read(number: int, offset: int, length: int) -> bytes:
        assert number == 0
        return file[offset : offset + length]

    halves: tuple[list[bytes], list[bytes]] = ([], [])

    def write(sections: tuple[bytes, bytes]) -> None:
        for half, section in zip(halves, sections, strict=True):
            half.append(section)

    new_root, unmatched = timeline.compact(PLACES, read, write)
    new_file = b"".join([*halves[0], *halves[1]])
    assert unmatched == 0
    check(_core.SieveTimeline(axis, new_root, []), new_file)
    rebuilt_root, rebuilt_file = build(axis, after)
    assert new_file == rebuilt_file
    # Only the instants and the checksums differ.
    assert new_root[:6] + new_root[14:-4] == rebuilt_root[:6] + rebuilt_root[14:-4]

    def fails(*_: object) -> bytes:
        raise FileNotFoundError("gone")

    with pytest.raises(FileNotFoundError, match="gone"):
        timeline.compact(PLACES, fails, write)
    with pytest.raises(FileNotFoundError, match="gone"):
        timeline.compact(PLACES, read, fails)


def test_the_report_counts_keys_rows_and_bytes() -> None:
    axis = _core.SieveAxis(pa.int64())
    root, file = build(axis, [(pa.array(range(100)), 0), (pa.array(range(50, 150)), 1)])
    timeline = _core.SieveTimeline(axis, root, [])
    loaded = [(number, file[part[1] : part[1] + part[2]]) for number, part in enumerate(timeline.segments())]
    report = timeline.report(loaded)
    assert report is not None
    assert (report["keys"], report["rows"], report["pairs"], report["locations"]) == (150, 200, 200, NUM_LOCATIONS)
    assert report["waste_per_key"] == 0.0
    assert report["lookup_bytes"] + report["keys_bytes"] == len(file)
    assert report["reads_of_absent_keys"] > 0


def test_many_runs_are_merged_in_several_passes(tmp_path: Path) -> None:
    axis = _core.SieveAxis(pa.string())
    r = random.Random(8)
    columns = [
        (pa.array([f"k{r.randrange(500):03}" for _ in range(40)]), number % NUM_LOCATIONS) for number in range(100)
    ]
    with Room(0, tmp_path) as room:
        runs = Runs(room)
        for column, location in columns:
            pairs = _core.SievePairs(axis)
            pairs.push(column, location)
            runs.add(pairs.sort())
        assert len(runs) == 100
        none = [0] * NUM_LOCATIONS
        gathered = Gathered(axis, runs, none, none, [False] * NUM_LOCATIONS)
        locations = [Location(*place) for place in PLACES]
        # With so little memory, eight runs are merged at a time: 100 runs become 13, then 2.
        built = merge(gathered, locations, 1, room, memory=1)
        assert room.spilled_bytes > 3 * built.file_size
        assert not isinstance(built.file, bytes)
        data = b"".join(path.read_bytes() for path in built.file)
        assert len(data) == built.file_size
    assert (built.root, data) == build(axis, columns)
    assert list(tmp_path.iterdir()) == []

"""Columns of every orderable type through runs, segments and timelines, against what a dictionary of rows says."""

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
    """Root and file of columns of locations, as so many runs."""
    sides = [[0, 0] for _ in range(NUM_LOCATIONS)]
    gathered = [_core.SievePairs(axis) for _ in range(runs)]
    for at, (column, location) in enumerate(columns):
        rows, nulls, nans = gathered[at % runs].push(column, location)
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


def ask(timeline: _core.SieveTimeline, file: bytes, query: _core.SieveQuery) -> set[int] | None:
    for segment, number, offset, length in timeline.needs(query):
        assert number == 0
        timeline.load(segment, file[offset : offset + length])
    assert timeline.needs(query) == []
    answer = timeline.answer(query)
    return None if answer is None else set(answer.to_pylist())


def is_nan(value: Any) -> bool:
    return bool(value != value)


@pytest.mark.parametrize("name", TYPES)
def test_every_type_answers_as_the_rows_do(name: str) -> None:
    kind, make = TYPES[name]
    r = random.Random(name)
    columns = []
    rows: Rows = []
    for at in range(9):
        location = at % NUM_LOCATIONS
        values = [None if r.random() < 0.1 and location != 3 else make(r) for _ in range(r.randrange(1, 12))]
        column = pa.array(values, kind)
        rows += [(value, location) for value in column.to_pylist()]
        columns.append((column, location))
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    axis = _core.SieveAxis(kind)
    root, file = build(axis, columns)
    timeline = _core.SieveTimeline(axis, root, [])
    assert timeline.locations() == PLACES

    def one(value: Any) -> pa.Array:
        return pa.array([value], plain)

    held = [(value, location) for value, location in rows if value is not None and not is_nan(value)]
    values = [value for value, _ in held]
    q = _core.SieveQuery
    for value in values:
        assert ask(timeline, file, q.points(axis, one(value))) == {
            location for other, location in held if other == value
        }
    some = {location for value, location in held if value in values[:5]}
    assert ask(timeline, file, q.points(axis, pa.array([*values[:5], None], plain))) == some
    nans = {location for value, location in rows if value is not None and is_nan(value)}
    above = nans if pa.types.is_floating(plain) else set()
    for _ in range(30):
        low, high = r.choice(values), r.choice(values)
        at_least = {location for value, location in held if value >= low}
        at_most = {location for value, location in held if value <= high}
        inside = {location for value, location in held if low <= value <= high}
        assert ask(timeline, file, q.between(axis, one(low), one(high))) == inside
        assert ask(timeline, file, q.between(axis, one(low))) == at_least | above
        assert ask(timeline, file, q.between(axis, None, one(high))) == at_most
        strict = ask(timeline, file, q.between(axis, one(low), one(high), low_strict=True, high_strict=True))
        assert strict is not None
        assert {location for value, location in held if low < value < high} <= strict <= inside
    assert ask(timeline, file, q.null(axis)) == {location for value, location in rows if value is None}
    assert ask(timeline, file, q.not_null(axis)) == {location for value, location in rows if value is not None}
    assert ask(timeline, file, q.nan(axis)) == nans
    if nans:
        assert ask(timeline, file, q.points(axis, one(float("nan")))) == nans
        assert ask(timeline, file, q.between(axis, one(float("nan")))) is None
    if axis.has_prefixes:
        first: Any = values[0]
        prefix = first[:2]
        raw = prefix if isinstance(prefix, bytes) else prefix.encode()
        truth = {location for value, location in rows if value is not None and value.startswith(prefix)}
        assert ask(timeline, file, q.prefix(axis, raw)) == truth
    # I5: the number of runs does not change a byte.
    assert build(axis, columns, runs=1) == (root, file)
    for location in range(NUM_LOCATIONS):
        pairs = _core.SievePairs(axis)
        for column, of in columns:
            if of == location:
                pairs.push(column, 0)
        for piece in pairs.sort():
            assert timeline.missing(piece, location) is None


def test_zero_bytes_at_the_end_of_a_string_lose_nothing() -> None:
    axis = _core.SieveAxis(pa.string())
    texts = ["", "\0", "\0\0", "a", "a\0", "a\0b", "a" * 2000, "a" * 2000 + "b"]
    root, file = build(axis, [(pa.array([text]), at % NUM_LOCATIONS) for at, text in enumerate(texts)])
    timeline = _core.SieveTimeline(axis, root, [])
    for at, text in enumerate(texts):
        one = pa.array([text])
        for query in [_core.SieveQuery.points(axis, one), _core.SieveQuery.between(axis, one, one)]:
            assert at % NUM_LOCATIONS in (ask(timeline, file, query) or set())


def test_strict_bounds_are_exact_on_exact_axes() -> None:
    axis = _core.SieveAxis(pa.int32())
    root, file = build(
        axis, [(pa.array([1], pa.int32()), 0), (pa.array([2], pa.int32()), 1), (pa.array([3], pa.int32()), 2)]
    )
    timeline = _core.SieveTimeline(axis, root, [])
    low, high = pa.array([1], pa.int32()), pa.array([3], pa.int32())
    inside = _core.SieveQuery.between(axis, low, high, low_strict=True, high_strict=True)
    assert ask(timeline, file, inside) == {1}
    assert ask(timeline, file, _core.SieveQuery.between(axis, low, low_strict=True)) == {1, 2}
    assert ask(timeline, file, _core.SieveQuery.between(axis, None, high, high_strict=True)) == {0, 1}
    assert ask(timeline, file, _core.SieveQuery.between(axis, high, low)) == set()


def test_a_list_answers_for_its_elements_and_not_for_its_row() -> None:
    kind = pa.list_(pa.int64())
    axis = _core.SieveAxis(kind)
    assert axis.repeated
    root, file = build(axis, [(pa.array([[1, 2], None, []], kind), 0), (pa.array([[3, None]], kind), 1)])
    timeline = _core.SieveTimeline(axis, root, [])
    assert ask(timeline, file, _core.SieveQuery.points(axis, pa.array([3]))) == {1}
    assert ask(timeline, file, _core.SieveQuery.null(axis)) is None
    assert ask(timeline, file, _core.SieveQuery.not_null(axis)) is None


def test_other_units_and_types_without_order_are_refused() -> None:
    axis = _core.SieveAxis(pa.timestamp("us"))
    assert axis.meaning == "local time in us"
    with pytest.raises(TypeError, match="instant in us"):
        _core.SieveQuery.points(axis, pa.array([0], pa.timestamp("us", "UTC")))
    for kind in [
        pa.null(),
        pa.decimal256(50, 2),
        pa.month_day_nano_interval(),
        pa.struct([("a", pa.int8()), ("b", pa.int8())]),
    ]:
        with pytest.raises(UnsupportedError, match="cannot be indexed"):
            _core.SieveAxis(kind)
    with pytest.raises(TypeError, match="no prefixes"):
        _core.SieveQuery.prefix(axis, b"a")


def test_partitions_and_their_shares_make_the_same_segments() -> None:
    r = random.Random(5)
    axis = _core.SieveAxis(pa.string())
    options = _core.SieveOptions(max_records=300, max_weight=200)
    rows = sorted((f"key-{r.randrange(2000):05}", r.randrange(NUM_LOCATIONS)) for _ in range(3000))
    sides = [(0, 0, False)] * NUM_LOCATIONS

    def columns(rows: Rows) -> tuple[pa.Array, pa.Array, pa.Array]:
        keys, places = [key for key, _ in rows], [place for _, place in rows]
        return pa.array(keys, pa.string()), pa.array(places, pa.uint32()), pa.array([1] * len(rows), pa.uint64())

    whole = _core.SieveBuild(axis, NUM_LOCATIONS, options=options)
    whole.push(*columns(rows))
    root, sections = whole.finish(4, PLACES, sides)
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
        found = _core.SieveTimeline(axis, joined, [])
        assert len(found.segments()) == len(expected.segments()) > 3
        for ours, theirs in zip(found.segments(), expected.segments(), strict=True):
            for at in (0, 3):
                ranges = (
                    slice(ours[at + 1], ours[at + 1] + ours[at + 2]),
                    slice(theirs[at + 1], theirs[at + 1] + theirs[at + 2]),
                )
                assert files[ours[at]][ranges[0]] == file[ranges[1]]


def test_deltas_lie_over_the_base_and_compact_to_what_a_rebuild_makes() -> None:
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
            found = ask(timeline, file, _core.SieveQuery.points(axis, pa.array([value])))
            # A key that nobody has may read the run around it.
            assert found == truth if truth else found is not None
        assert ask(timeline, file, _core.SieveQuery.null(axis)) == {0, 3}
        assert ask(timeline, file, _core.SieveQuery.between(axis, pa.array([5]))) == {1, 3}

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
    # The instants differ, and they alone.
    assert new_root[:6] + new_root[14:-4] == rebuilt_root[:6] + rebuilt_root[14:-4]

    def fails(*_: object) -> bytes:
        raise FileNotFoundError("gone")

    with pytest.raises(FileNotFoundError, match="gone"):
        timeline.compact(PLACES, fails, write)
    with pytest.raises(FileNotFoundError, match="gone"):
        timeline.compact(PLACES, read, fails)


def test_the_report_adds_up() -> None:
    axis = _core.SieveAxis(pa.int64())
    root, file = build(axis, [(pa.array(range(100)), 0), (pa.array(range(50, 150)), 1)])
    timeline = _core.SieveTimeline(axis, root, [])
    loaded = [(at, file[of[1] : of[1] + of[2]]) for at, of in enumerate(timeline.segments())]
    report = timeline.report(loaded)
    assert report is not None
    assert (report["keys"], report["rows"], report["pairs"], report["locations"]) == (150, 200, 200, NUM_LOCATIONS)
    assert report["waste_per_key"] == 0.0
    assert report["lookup_bytes"] + report["keys_bytes"] == len(file)
    assert report["reads_of_absent_keys"] > 0


def test_i5_many_runs_are_merged_to_fewer_first(tmp_path: Path) -> None:
    axis = _core.SieveAxis(pa.string())
    r = random.Random(8)
    columns = [(pa.array([f"k{r.randrange(500):03}" for _ in range(40)]), at % NUM_LOCATIONS) for at in range(100)]
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
        # So little memory that eight runs are merged at a time: a hundred, thirteen, two.
        built = merge(gathered, locations, 1, room, memory=1)
        assert room.spilled_bytes > 3 * built.file_size
        assert not isinstance(built.file, bytes)
        data = b"".join(path.read_bytes() for path in built.file)
        assert len(data) == built.file_size
    assert (built.root, data) == build(axis, columns)
    assert list(tmp_path.iterdir()) == []

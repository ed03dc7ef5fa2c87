"""Shelves of filters lose no location of a value, and a point lookup reads one row for all locations."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.models import oracle

import parsieve as ps
from parsieve import _core
from parsieve.index.bloom.shelf import Filled, Filling, Location, LocationFilling, ShelfReader, shelve
from parsieve.index.scan.units import UnitLayout


def fill(location: Location, keys: list[pa.Array], num_rows: int, fpp: float = 0.01) -> Filled:
    filling = LocationFilling(location, UnitLayout(), lambda share: math.ceil(num_rows * share), fpp, Filling)
    for array in keys:
        filling.add(array)
    return filling.finish()


def shelf_of(columns: list[pa.Array], **options: Any) -> list[ShelfReader]:
    filled = [fill(("day=1", f"f{number}"), [column], len(column), **options) for number, column in enumerate(columns)]
    return [ShelfReader(directory, rows) for directory, rows in shelve(filled)]


def matching_groups(shelves: list[ShelfReader], values: Any) -> set[str]:
    return {group for shelf in shelves for _, group in shelf.might_contain(values)}


@pytest.mark.parametrize("data_type", oracle.TYPES, ids=oracle.name)
def test_every_value_of_every_type_is_found(data_type: pa.DataType) -> None:
    if pa.types.is_boolean(data_type):
        pytest.skip("a BOOLEAN has no filter")
    column = oracle.array_of(data_type, oracle.raws(data_type, 300))
    columns = [column.slice(start, 60) for start in range(0, 300, 60)]
    shelves = shelf_of(columns)
    for number, part in enumerate(columns):
        for row in range(5):
            if part[row].is_valid:
                assert f"f{number}" in matching_groups(shelves, part.slice(row, 1))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.one_of(st.none(), st.integers(0, 200)), max_size=50), max_size=12), st.integers(0, 200))
def test_no_location_of_a_value_is_lost(columns: list[list[int | None]], value: int) -> None:
    arrays = [pa.array(column, pa.int32()) for column in columns]
    stored = list(shelve(fill(("", f"f{number}"), [array], len(array)) for number, array in enumerate(arrays)))
    groups = matching_groups([ShelfReader(directory, rows) for directory, rows in stored], [value])
    directories = [_core.Shelf.read(directory) for directory, _ in stored]
    flags = [pair for shelf in directories for pair in zip(shelf.locations, shelf.flags, strict=True)]
    nulls = {group for (_, group), (has_nulls, _) in flags if has_nulls}
    for number, column in enumerate(columns):
        assert f"f{number}" in groups or value not in column
        assert (f"f{number}" in nulls) == (None in column)


def test_a_point_reads_one_row_for_all_locations() -> None:
    shelves = shelf_of([pa.array(range(number, 100_000, 200)) for number in range(200)])
    assert len(shelves) == 1
    groups = matching_groups(shelves, [4_217])
    assert "f17" in groups
    assert len(groups) < 20
    assert (shelves[0].requests, shelves[0].bytes_fetched) == (1, 200 * 32 + 4)


def test_more_rows_than_expected_cause_no_false_negative() -> None:
    filled = fill(("", "f"), [pa.array(range(10_000))], num_rows=10)
    ((directory, rows),) = shelve([filled])
    reader = ShelfReader(directory, rows)
    assert all(reader.might_contain([value]) for value in range(0, 10_000, 97))


def test_filters_meet_their_rate_and_shrink_to_their_values() -> None:
    few = fill(("", "f"), [pa.array([1, 2, 3] * 10_000)], num_rows=30_000)
    many = fill(("", "f"), [pa.array(range(30_000))], num_rows=30_000)
    [small], [large] = few.filters, many.filters
    assert small is not None
    assert large is not None
    assert small.num_blocks <= 8
    assert 0.002 < large.estimated_fpp <= 0.01


def test_locations_with_nan_or_unread_values_are_kept() -> None:
    column = pa.array([1.0, math.nan])
    filled = [fill(("", "nan"), [column], 2), fill(("", "none"), [pa.array([], pa.float64())], 0)]
    filled += [Filled(("", "unread"), unknown=True), fill(("", "zero"), [pa.array([-0.0])], 1)]
    shelves = [ShelfReader(directory, rows) for directory, rows in shelve(filled)]
    assert matching_groups(shelves, [7.0]) == {"nan", "unread"}
    assert matching_groups(shelves, [0.0]) == {"nan", "unread", "zero"}
    assert matching_groups(shelves, [math.nan]) >= {"nan", "unread", "zero"}


def test_literals_are_converted_exactly_or_keep_all_locations() -> None:
    moments = pa.array([dt.datetime(2026, 1, 1, 12)], pa.timestamp("ms"))
    shelves = shelf_of([moments, pa.array([dt.datetime(1999, 1, 1)], pa.timestamp("ms"))])
    assert matching_groups(shelves, pa.array([dt.datetime(2026, 1, 1, 12)], pa.timestamp("ns"))) == {"f0"}
    assert matching_groups(shelves, pa.array([1], pa.timestamp("ns"))) == {"f0", "f1"}
    assert matching_groups(shelves, ["text"]) == {"f0", "f1"}
    prices = shelf_of([pa.array([Decimal("1.50")]), pa.array([Decimal("2.25")])])
    assert matching_groups(prices, [Decimal("1.5")]) == {"f0"}


def test_a_widened_column_has_a_shelf_for_each_type() -> None:
    shelves = shelf_of([pa.array([5], pa.int32()), pa.array([5], pa.int64()), pa.array([6], pa.int64())])
    assert [shelf.column_type for shelf in shelves] == ["INT32 integer", "INT64 integer"]
    assert matching_groups(shelves, [5]) == {"f0", "f1"}
    # The int64 filter excludes the literal. The int32 filter may keep it, although no int32 is this large.
    assert "f2" not in matching_groups(shelves, [1 << 40])


def test_shelves_have_a_maximum_size() -> None:
    columns = [pa.array(range(number * 1000, number * 1000 + 1000)) for number in range(8)]
    filled = [fill(("", f"f{number}"), [column], 1000) for number, column in enumerate(columns)]
    [bloom] = filled[0].filters
    assert bloom is not None
    shelves = [ShelfReader(*parts) for parts in shelve(filled, shelf_bytes=2 * bloom.num_bytes)]
    assert [len(shelf.locations) for shelf in shelves] == [2, 2, 2, 2]
    assert "f3" in matching_groups(shelves, [3_500])


def test_a_damaged_row_keeps_its_locations_and_a_damaged_directory_fails() -> None:
    ((directory, rows),) = shelve([fill(("", f"f{number}"), [pa.array([number])], 1) for number in range(3)])
    damaged = bytearray(rows)
    damaged[:] = bytes(len(rows))
    reader = ShelfReader(directory, bytes(damaged))
    assert reader.might_contain([1]) == {("", "f0"), ("", "f1"), ("", "f2")}
    assert reader.damaged == 1
    with pytest.raises(ps.FormatError, match="checksum"):
        ShelfReader(directory[:-1] + b"\0", rows)
    with pytest.raises(ps.UnsupportedError, match="version 1"):
        ShelfReader(b"BlS9" + directory[4:], rows)


def varint(number: int) -> bytes:
    head, rest = number & 127, number >> 7
    return bytes([head | 128]) + varint(rest) if rest else bytes([head])


def crc32c(data: bytes) -> int:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    value = 0xFFFFFFFF
    for byte in data:
        value = (value >> 8) ^ table[(value ^ byte) & 255]
    return value ^ 0xFFFFFFFF


def claiming(locations: int, flags: int) -> bytes:
    """Return a directory of locations with 8,192 units each, of which only the second location has filters."""
    text = b"INT64 integer"
    body = b"BlS2" + varint(len(text)) + text + varint(locations)
    for number in range(locations):
        group = str(number).encode()
        body += b"\0" + varint(len(group)) + group + bytes([flags]) + varint(1) + varint(8192 * 50_000) + varint(50_000)
    # One class of filters with one block: for the units 8,192 and 8,195.
    body += varint(1) + varint(1) + varint(2) + varint(8192) + varint(2)
    return body + crc32c(body).to_bytes(4, "little")


@pytest.mark.parametrize("flags", [0, 4])
def test_claimed_units_take_no_work(flags: int) -> None:
    directory = claiming(8192, flags)
    assert len(directory) < 200_000
    # The checksum of the row is wrong, which keeps both units.
    reader = ShelfReader(directory, bytes(2 * 32 + 4))
    units = reader.units_with_each([[7], [8]])
    assert (len(units), reader.damaged) == (8192, 2)
    whole = range(8192)
    if flags:
        assert all(of_location == whole for of_location in units)
    else:
        assert units[1] == [0, 3]
        assert not any(of_location for number, of_location in enumerate(units) if number != 1)
    # No list with an entry for each unit was made.
    assert sum(len(of_location) for of_location in units if isinstance(of_location, list)) <= 2
    assert len(reader.might_contain(["no number"])) == 8192
    with pytest.raises(ps.FormatError, match="number of units"):
        _core.Shelf.read(directory).unshelve(bytes(2 * 32 + 4))


def test_the_units_of_a_group_of_values_are_those_of_all_its_values() -> None:
    layout = UnitLayout((1,) * 40)
    filled = []
    for number in range(3):
        filling = LocationFilling(("", str(number)), layout, lambda share: 1, 1e-6, Filling)
        for row in range(40):
            filling.add(pa.array([[row % 2, row % 3, 100 + row // 10]]))
        filled.append(filling.finish())
    ((directory, rows),) = shelve(filled)
    reader = ShelfReader(directory, rows)
    for groups in ([[1]], [[0], [2]], [[1], [101, 103]], [[2], [100], [7]], [[0, 1]], []):
        expected = [
            row
            for row in range(40)
            if all({row % 2, row % 3, 100 + row // 10}.intersection(values) for values in groups)
        ]
        assert [list(units) for units in reader.units_with_each(groups)] == [expected] * 3

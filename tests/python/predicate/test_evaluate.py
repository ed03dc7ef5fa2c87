"""A predicate that is evaluated on arrays matches the same rows as pyarrow's own filter."""

from __future__ import annotations

import datetime as dt
import functools
import math
import random
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from support.predicates import SQL, TABLE
from support.rows.conditions import COMPARISONS

from parsieve._core import UnsupportedError, ValueSet
from parsieve.predicate import normalize, parse
from parsieve.predicate.evaluate import conditions_of
from parsieve.predicate.expr import Always, Column, In, Not
from parsieve.predicate.render import to_pyarrow


def rows_by_conditions(table: pa.Table, where: Any) -> list[int]:
    [batch] = table.to_batches()
    masks = [condition.evaluate(batch) for condition in conditions_of(parse(where, table.schema))]
    mask = functools.reduce(pc.and_kleene, masks)
    rows: list[int] = pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()
    return rows


@given(SQL)
@settings(deadline=None, max_examples=300)
def test_conditions_match_the_same_rows_as_an_expression(text: str) -> None:
    expr = parse(text, TABLE.schema)
    expected = TABLE.filter(to_pyarrow(expr))["row"].to_pylist()
    assert rows_by_conditions(TABLE, text) == expected


def test_conditions_refer_to_different_columns() -> None:
    expr = parse("i > 1 AND s = 'a' AND i < 7 AND (i = 5 OR s = 'b')", TABLE.schema)
    conditions = conditions_of(expr)
    assert [condition.names for condition in conditions] == [("i",), ("s",), ("i", "s")]
    assert [condition.tests_equality for condition in conditions] == [False, True, False]


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        (pa.float16(), [0.0, -0.0, 1.5, None, float("nan")], "x = 0"),
        (pa.float16(), [0.0, -0.0, 1.5, None, float("nan")], "x IN (1.5, 0)"),
        (pa.decimal32(5, 2), [1, 2, None], "x IN (1, 2)"),
        (pa.decimal64(12, 2), [1, 2, None], "x IN (1, 3)"),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None], "x = 'a'"),
        (pa.dictionary(pa.int8(), pa.int64()), [1, 2, None], "x <> 1 OR x IN (1, 3)"),
        (pa.date64(), [dt.date(2020, 1, 1), dt.date(2020, 1, 2), None], "x = DATE '2020-01-02'"),
        (pa.date64(), [dt.date(2020, 1, 1), dt.date(2020, 1, 2), None], "x > '2020-01-01 12:00:00'"),
        (pa.binary(2), [b"ab", b"cd", None], "x = X'6162'"),
        (pa.large_string(), ["a", "ab", None], "x LIKE 'a%'"),
    ],
)
def test_types_that_pyarrow_cannot_compare_directly(kind: pa.DataType, values: list[object], text: str) -> None:
    table = pa.table({"row": range(len(values)), "x": pa.array(values, kind)})
    expr = parse(text, table.schema)
    if isinstance(normalize(expr), Always):
        pytest.skip("the predicate is a constant for this type")
    matches = rows_by_conditions(table, text)
    assert matches == table.filter(to_pyarrow(expr))["row"].to_pylist()
    assert 0 < len(matches) < len(values)


@pytest.mark.parametrize(
    ("text", "expected"), [("t < '2300-01-01'", [0, 1]), ("t > '2300-01-01'", []), ("t > '1600-01-01'", [0, 1])]
)
def test_literals_beyond_the_times_of_a_type(text: str, expected: list[int]) -> None:
    times = pa.array([-(2**63) + 1, 2**63 - 1, None], pa.int64()).cast(pa.timestamp("ns"))
    assert rows_by_conditions(pa.table({"row": range(3), "t": times}), text) == expected


FIRST_DAY, LAST_DAY = -(2**31), 2**31 - 1


@pytest.mark.parametrize(
    ("operator", "day", "expected"),
    [
        ("<", LAST_DAY + 1, [0, 1]),
        (">", LAST_DAY + 1, []),
        ("=", LAST_DAY + 1, []),
        ("=", LAST_DAY, [1]),
        ("<", LAST_DAY, [0]),
        ("=", FIRST_DAY, [0]),
        (">", FIRST_DAY, [1]),
        ("=", FIRST_DAY - 1, []),
        ("<", FIRST_DAY - 1, []),
        (">", FIRST_DAY - 1, [0, 1]),
    ],
)
def test_times_beyond_the_dates_of_a_type(operator: str, day: int, expected: list[int]) -> None:
    dates = pa.array([FIRST_DAY, LAST_DAY, None], pa.int32()).cast(pa.date32())
    table = pa.table({"row": range(3), "d": dates})
    assert rows_by_conditions(table, [("d", operator, pa.scalar(day * 86_400, pa.timestamp("s")))]) == expected


@pytest.mark.parametrize("value", [sign * value for value in (1e-50, 1 - 1e-9, 1 + 1e-9) for sign in (1, -1)])
def test_doubles_between_two_neighbors_among_the_floats(value: float) -> None:
    positive = [0.0, 2.0**-149, 1 - 2.0**-23, 1 - 2.0**-24, 1.0, 1 + 2.0**-23, 1 + 2.0**-22]
    floats = [*positive, *(-number for number in positive)]
    table = pa.table({"row": range(len(floats)), "x": pa.array(floats, pa.float32())})
    for symbol, compare in COMPARISONS.items():
        expected = [row for row, number in enumerate(floats) if compare(number, value)]
        assert rows_by_conditions(table, f"x {symbol} {value!r}") == expected, symbol


def test_values_of_extension_types_are_compared_by_their_storage() -> None:
    """pyarrow has no comparison of UUIDs."""
    uuids = [uuid.UUID(int=number) for number in (5, 6)]
    column = pa.array([value.bytes for value in uuids] + [None], pa.binary(16)).cast(pa.uuid())
    table = pa.table({"row": range(3), "x": column})
    assert rows_by_conditions(table, f"x = '{uuids[1]}'") == [1]
    assert rows_by_conditions(table, f"x > '{uuids[0]}' OR x IS NULL") == [1, 2]


LISTED: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "integer": (pa.int64(), lambda number: number * 2**33),
    "short": (pa.int16(), lambda number: number),
    "unsigned": (pa.uint64(), lambda number: 2**64 - 1 - number),
    "text": (pa.string(), str),
    "large text": (pa.large_string(), str),
    "binary": (pa.binary(), lambda number: b"\xff" + bytes([number % 256])),
    "fixed": (pa.binary(16), lambda number: number.to_bytes(16, "big")),
    "float": (pa.float64(), lambda number: number + 0.5),
    "narrow float": (pa.float32(), lambda number: number + 0.5),
    "half float": (pa.float16(), lambda number: number + 0.5),
    "decimal": (pa.decimal128(20, 2), lambda number: Decimal(number) / 4),
    "wide decimal": (pa.decimal256(60, 2), lambda number: Decimal(number) * 10**40),
    "narrow decimal": (pa.decimal64(12, 2), lambda number: Decimal(number) / 4),
    "date": (pa.date32(), lambda number: dt.date(2000, 1, 1) + dt.timedelta(number)),
    "time": (pa.time32("s"), lambda number: dt.time(number // 60, number % 60)),
    "instant": (pa.timestamp("us", "UTC"), lambda number: dt.datetime(2000, 1, 1, 0, 0, 0, number, dt.UTC)),
}


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("count", [2, 300])
@pytest.mark.parametrize("is_negated", [False, True])
def test_long_lists_of_values(name: str, count: int, is_negated: bool) -> None:
    """Lists of many values are looked up in a set. The result is the same as with Python's `in`."""
    kind, make = LISTED[name]
    rng = random.Random(count)
    members = [make(number) for number in rng.sample(range(600), count)]
    listed = In(Column(("x",), kind), pa.array(members, kind))
    [condition] = conditions_of(Not(listed) if is_negated else listed)
    for size in (0, 1, 50, 2_000):
        values = [None if rng.random() < 0.1 else make(rng.randrange(600)) for _ in range(size + 3)]
        batch = pa.record_batch({"x": pa.array(values, kind)}).slice(3)
        expected = [value is not None and (value in members) != is_negated for value in values[3:]]
        assert [bool(is_found) for is_found in condition.evaluate(batch).to_pylist()] == expected


def test_long_lists_of_text_that_is_not_utf8() -> None:
    text = pa.array([b"\xff", b"a", None]).view(pa.string())
    listed = In(Column(("x",), pa.string()), pa.array([str(number) for number in range(100)] + ["a"]))
    [condition] = conditions_of(listed)
    assert condition.evaluate(pa.record_batch({"x": text})).to_pylist() == [False, True, False]


def test_a_set_has_one_zero_and_one_nan() -> None:
    values = ValueSet(pa.array([0.0, math.nan, None, 1.5]))
    probed = pa.array([-0.0, 0.0, -math.nan, 1.5, None, 2.5])
    assert values.contains(probed).to_pylist() == [True, True, True, True, False, False]


def test_a_set_looks_up_the_entries_of_a_dictionary() -> None:
    values = ValueSet(pa.array(["a", "b"]))
    assert values.contains(pa.array(["a", "x", None, "b"]).dictionary_encode()).to_pylist() == [
        True,
        False,
        False,
        True,
    ]


def test_a_set_refuses_arrays_of_another_type() -> None:
    with pytest.raises(UnsupportedError, match="values of another type"):
        ValueSet(pa.array([1, 2])).contains(pa.array([1.0]))
    with pytest.raises(UnsupportedError):
        ValueSet(pa.array([True]))
    with pytest.raises(TypeError):
        ValueSet([1, 2])

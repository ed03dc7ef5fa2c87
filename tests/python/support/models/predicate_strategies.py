"""Strategies for random tables with edge cases of each type, and for random predicates on them."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa

from parsieve.predicate import Always, And, Expr, IsNull, Not, Or
from parsieve.predicate.builder import Builder, Operand, python_value
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.messages import NotUnderstoodError
from parsieve.predicate.text.like import Wildcard, normal_form

UTC = dt.UTC
FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.5, 0.1, 5e-324, 1.0, 2.0]
INTS = [0, 1, -1, 2, 100, 127, -128, 255]
DECIMALS = [Decimal(text) for text in ("0", "1.50", "-1.50", "0.01", "99999999.99", "-99999999.99", "1")]
DATES = [dt.date(1970, 1, 1), dt.date(2026, 1, 31), dt.date(1969, 12, 31), dt.date(1582, 10, 4), dt.date(9999, 12, 31)]
MOMENTS = [dt.datetime(2026, 1, 31, 12), dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(1970, 1, 1)]
TEXTS = ["", "a", "ab", "abc", "b", "é", "\U0001f600", "it's", "a%", "\\", "a\0b"]
BYTES = [b"", b"\0", b"a", b"ab", b"\xff", b"\xff\xff", b"'", b"a\0"]

# For each column: its type, values for rows and literals, and more values for literals only.
COLUMNS: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "i1": (pa.int8(), [0, 1, -1, 2, 100, 127, -128], [1.5, 128, -129, 1e30, Decimal("1.5"), math.inf]),
    "u1": (pa.uint8(), [0, 1, 2, 100, 255], [-1, 256, 0.5]),
    "i4": (pa.int32(), [*INTS, 2**31 - 1, -(2**31)], [2**31, 1.5, -0.5]),
    "i8": (pa.int64(), [*INTS, 2**63 - 1, -(2**63), 2**53 + 1], [2**63, float(2**53), 1e300]),
    "u8": (pa.uint64(), [0, 1, 2**64 - 1, 2**63], [-1, 2**64, 0.5]),
    "f8": (pa.float64(), FLOATS, [Decimal("0.1"), 10**400, 2**53 + 1, 1]),
    "f4": (pa.float32(), [float(np.float32(value)) for value in FLOATS], [0.1, 1e39, -1e39, 1]),
    "d": (pa.decimal128(10, 2), DECIMALS, [Decimal("0.005"), 10**9, 1, 1.5, Decimal("-1e12")]),
    "day": (pa.date32(), DATES, [*MOMENTS, "2026-01-31"]),
    "t": (pa.timestamp("us"), MOMENTS, [*DATES[:4], "2026-01-31 12:00:00.0000005", "1960-01-01"]),
    "ms": (pa.timestamp("ms"), MOMENTS, [*DATES[:4], "2026-01-31 12:00:00.0005"]),
    "ns": (pa.timestamp("ns"), MOMENTS, ["2026-01-31 12:00:00.0000000005", DATES[4]]),
    "tz": (pa.timestamp("us", "UTC"), [value.replace(tzinfo=UTC) for value in MOMENTS], ["2026-01-31T13:00:00+01:00"]),
    "clock": (pa.time64("us"), [dt.time(0), dt.time(12, 30), dt.time(23, 59, 59, 999999)], ["12:30:00.0000005"]),
    "s": (pa.string(), TEXTS, ["ac", "z"]),
    "bin": (pa.binary(), BYTES, [b"z"]),
    "flag": (pa.bool_(), [True, False], []),
}
OPERATORS = ["=", "!=", "<", "<=", ">", ">="]
SCHEMA = pa.schema(
    {name: column[0] for name, column in COLUMNS.items()} | {"st": pa.struct({"x": pa.int32(), "y z": pa.string()})}
)
NAMES, BUILD = ColumnNames(SCHEMA), Builder()


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    size = draw(st.integers(0, 12))
    arrays = [
        pa.array(draw(st.lists(st.sampled_from([None, *values]), min_size=size, max_size=size)), kind)
        for kind, values, _ in COLUMNS.values()
    ]
    structs = [None, {"x": 1, "y z": "a"}, {"x": None, "y z": "it's"}, {"x": 2, "y z": None}]
    arrays.append(
        pa.array(draw(st.lists(st.sampled_from(structs), min_size=size, max_size=size)), SCHEMA.field("st").type)
    )
    return pa.table(arrays, schema=SCHEMA)


@st.composite
def leaves(draw: st.DrawFn) -> Expr:
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([Always(True), Always(False), Always(None)]))
    name = draw(st.sampled_from([*COLUMNS, "st.x", "st.y z"]))
    operand = Operand(NAMES.find([name]))
    nested: dict[str, tuple[list[Any], list[Any]]] = {"st.x": ([1, 2, 3], [1.5]), "st.y z": (["a", "it's", "b"], [""])}
    values, more = nested.get(name) or COLUMNS[name][1:]
    pool = st.sampled_from([python_value(value) for value in [None, *values, *more]])
    form = draw(st.sampled_from(["compare", "compare", "in", "null", "prefix", "like"]))
    try:
        if form == "null":
            return IsNull(operand.column)
        if form == "in":
            return BUILD.contains(operand, draw(st.lists(pool, max_size=4)))
        if form == "like" and name in ("s", "st.y z"):
            tokens = draw(st.lists(st.sampled_from(["%", "_", "a", "b", "é", "it", "'", "\\", "!", "a\0"]), max_size=4))
            pattern = normal_form([Wildcard(token) if token in ("%", "_") else token for token in tokens])
            return BUILD.like(operand, pattern, ignore_case=draw(st.booleans()))
        if form == "prefix" and name in ("s", "st.y z"):
            return BUILD.starts_with(operand, draw(st.sampled_from(["", "a", "it", "é", "a\0"])))
        if form == "prefix" and name == "bin":
            return BUILD.starts_with(operand, draw(st.sampled_from([b"", b"a", b"\xff", b"a\0"])))
        return BUILD.compare(operand, draw(st.sampled_from(OPERATORS)), draw(pool))
    except NotUnderstoodError:
        return IsNull(operand.column)


PREDICATES = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(lambda parts: And(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: Or(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=5,
)

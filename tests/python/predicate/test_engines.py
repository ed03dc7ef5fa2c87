"""Every engine returns the rows of the reference, for random predicates on random tables."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from support.models.predicate_reference import rows
from support.models.predicate_strategies import BUILD, OPERATORS, PREDICATES, tables
from support.predicates import ATOMS, TABLE

import parsieve as ps
from parsieve.predicate import Column, Compare, Expr, Literal, Not, normalize, parse, unknowns
from parsieve.predicate.builder import Operand
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.expr import Operator
from parsieve.predicate.render import to_duckdb, to_polars, to_pyarrow


@settings(deadline=None, max_examples=150)
@given(tables(), PREDICATES)
def test_every_engine_returns_the_rows_of_the_reference(table: pa.Table, expr: Expr) -> None:
    expected = rows(expr, table)
    assert rows(normalize(expr), table) == expected
    assert in_pyarrow(expr, table) == expected
    assert in_polars(expr, table) == expected
    # Values that DuckDB cannot represent raise, and plans filter these rows before they reach DuckDB.
    with contextlib.suppress(ps.UnsupportedError):
        assert in_duckdb(expr, table) == expected


# DuckDB has no such function, so ATOMS does not contain it.
WORD_TESTS = ["has_token(s, 'ab')", "has_token(s, 'it')"]


@pytest.mark.parametrize("is_dictionary", [False, True])
@pytest.mark.parametrize("text", [*ATOMS.strip().replace("\n", "|").split("|"), *WORD_TESTS])
def test_each_form_of_sql_returns_the_same_rows_in_every_engine(text: str, is_dictionary: bool) -> None:
    table = TABLE.drop_columns(["row"])
    if is_dictionary:
        table = table.set_column(table.column_names.index("s"), "s", table["s"].dictionary_encode())
    for expr in (normalize(parse(text, table.schema)), normalize(parse(f"NOT ({text})", table.schema))):
        assert not unknowns(expr)
        expected = rows(expr, table)
        assert in_pyarrow(expr, table) == in_polars(expr, table) == in_duckdb(expr, table) == expected


def test_timestamps_that_are_infinite_in_duckdb_raise() -> None:
    for unit in ("us", "ns"):
        column = pa.array([2**63 - 1, -(2**63) + 1, 0], pa.int64()).cast(pa.timestamp(unit))
        with pytest.raises(ps.UnsupportedError, match="DuckDB cannot hold"):
            to_duckdb(Compare(Column(("t",), column.type), "<=", Literal(column[0])))


def test_the_greatest_finite_nanoseconds_are_exact_in_duckdb() -> None:
    column = pa.array([2**63 - 2, -(2**63) + 2, 0], pa.int64()).cast(pa.timestamp("ns"))
    for row, moment in enumerate(column):
        expr = Compare(Column(("t",), column.type), "=", Literal(moment))
        assert in_duckdb(expr, pa.table({"t": column})) == [row]


def test_dates_without_a_calendar_year_in_python_are_exact_in_duckdb() -> None:
    days = pa.array([-1_000_000, 0, 3_000_000], pa.int32()).cast(pa.date32())
    for row, day in enumerate(days):
        expr = Compare(Column(("d",), days.type), "=", Literal(day))
        assert in_duckdb(expr, pa.table({"d": days})) == [row]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_of_both_widths_are_exact_in_every_engine(kind: pa.DataType) -> None:
    table = pa.table({"d": pa.array([0, 1, None, 20_000], pa.int32()).cast(pa.date32()).cast(kind)})
    expected_rows: dict[Operator, list[int]] = {"<=": [0, 1], "=": [1], ">": [3]}
    for op, expected in expected_rows.items():
        expr = Compare(Column(("d",), kind), op, Literal(table["d"][1]))
        assert in_pyarrow(expr, table) == in_polars(expr, table) == in_duckdb(expr, table) == expected, op


def in_pyarrow(expr: Expr, table: pa.Table) -> list[int]:
    numbered = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    numbers: list[int] = ds.dataset(numbered).to_table(filter=to_pyarrow(expr))["row"].to_pylist()
    return numbers


def in_polars(expr: Expr, table: pa.Table) -> list[int]:
    frame = pl.DataFrame(pl.from_arrow(table)).with_row_index("row")
    return frame.filter(to_polars(expr))["row"].to_list()


def in_duckdb(expr: Expr, table: pa.Table) -> list[int]:
    numbered = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'America/New_York'")
        con.register("numbered", numbered)
        # DuckDB pushes filters down into registered Arrow tables, but not into its own tables. Test both.
        con.execute("CREATE TABLE own AS SELECT * FROM numbered")
        text = to_duckdb(expr)
        pushed = con.execute(f"SELECT row FROM numbered WHERE {text} ORDER BY row").fetchall()
        own = con.execute(f"SELECT row FROM own WHERE {text} ORDER BY row").fetchall()
        assert pushed == own
    return [row for (row,) in own]


@pytest.mark.parametrize("op", OPERATORS)
def test_nan_compares_alike_in_every_engine(op: Any) -> None:
    table = pa.table({"f8": pa.array([1.0, math.nan, None, -math.inf, math.inf, -0.0, 0.0])})
    operand = Operand(ColumnNames(table.schema).find(["f8"]))
    for value in (1.0, 0.0, -0.0, math.nan, math.inf):
        expr = BUILD.compare(operand, op, value)
        expected = rows(expr, table)
        assert in_pyarrow(expr, table) == in_polars(expr, table) == in_duckdb(expr, table) == expected, value


@pytest.mark.parametrize("prefix", [b"", b"a", b"ab", b"a\xff", b"\xff", b"\xff\xff", b"\0"])
def test_prefixes_of_bytes_are_exact_in_every_engine(prefix: bytes) -> None:
    """DuckDB has no function for them, so they become an interval."""
    values = [
        b"",
        b"\0",
        b"`",
        b"a",
        b"a\0",
        b"ab",
        b"abc",
        b"ac",
        b"a\xff",
        b"a\xff\xff",
        b"b",
        b"b\0",
        b"c",
        b"\xff",
        b"\xff\xff\0",
    ]
    table = pa.table({"b": pa.array([*values, None], pa.binary())})
    expr = BUILD.starts_with(Operand(ColumnNames(table.schema).find(["b"])), prefix)
    expected = [row for row, value in enumerate(values) if value.startswith(prefix)]
    assert in_pyarrow(expr, table) == in_polars(expr, table) == in_duckdb(expr, table) == expected
    others = [row for row in range(len(values)) if row not in expected]
    assert in_pyarrow(Not(expr), table) == in_polars(Not(expr), table) == in_duckdb(Not(expr), table) == others


@pytest.mark.parametrize("text", ["a", "b", "x"])
def test_dictionaries_of_text_are_compared_as_text_in_every_engine(text: str) -> None:
    table = pa.table({"s": pa.array(["b", "a", None, "c", "a"]).dictionary_encode()})
    expr = BUILD.compare(Operand(ColumnNames(table.schema).find(["s"])), "<=", text)
    expected = [row for row, value in enumerate(table["s"].to_pylist()) if value is not None and value <= text]
    assert in_pyarrow(expr, table) == in_polars(expr, table) == in_duckdb(expr, table) == expected

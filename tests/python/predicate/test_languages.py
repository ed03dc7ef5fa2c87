"""Predicates in each language match the same rows as in their own engine."""

from __future__ import annotations

import datetime as dt
import math
import warnings
from decimal import Decimal
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from support.models.predicate_reference import rows
from support.predicates import ATOMS, SQL, TABLE

import parsieve as ps
import parsieve.predicate.render
from parsieve.predicate import normalize, parse, unknowns

UTC = dt.UTC
C, F = pl.col, pc.field


def by_duckdb(text: str) -> list[int]:
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'Asia/Tokyo'")
        con.execute('CREATE TABLE own AS SELECT * FROM "TABLE"')
        return [row for (row,) in con.execute(f"SELECT row FROM own WHERE {text} ORDER BY row").fetchall()]


@pytest.mark.parametrize("text", ATOMS.strip().replace("\n", "|").split("|"))
def test_each_form_of_sql_matches_the_same_rows_as_in_duckdb(text: str) -> None:
    expr = parse(text, TABLE.schema)
    assert not unknowns(expr)
    assert rows(expr, TABLE) == by_duckdb(text)
    negated = parse(f"NOT ({text})", TABLE.schema)
    assert rows(negated, TABLE) == rows(normalize(negated), TABLE) == by_duckdb(f"NOT ({text})")


@settings(deadline=None, max_examples=150)
@given(SQL)
def test_random_sql_matches_the_same_rows_as_in_duckdb(text: str) -> None:
    assert rows(normalize(parse(text, TABLE.schema)), TABLE) == by_duckdb(text)


EXPRESSIONS = [
    F("i") == 1,
    F("u") > 1.5,
    pc.scalar(1) < F("i"),
    F("i").isin([1, 2]),
    F("i").isin([1, None]),
    pc.is_in(F("i"), value_set=pa.array([1, None], pa.int32()), skip_nulls=True),
    F("i").is_null(),
    F("f").is_null(nan_is_null=True),
    F("i").is_valid(),
    F("i") == pa.scalar(None, pa.int32()),
    F("i").cast(pa.int64()) == 5,
    F("i") == pc.scalar(5).cast(pa.int32()),
    *(op(F("f"), value) for op in (pc.equal, pc.not_equal, pc.less, pc.less_equal) for value in (0.0, 1.5, math.nan)),
    *(op(F("f"), value) for op in (pc.greater, pc.greater_equal) for value in (0.0, 1.5, math.nan, math.inf)),
    pc.is_nan(F("f")),
    F("f").isin([math.nan, 1.5]),
    F("g") <= 1.5,
    pc.starts_with(F("s"), "a"),
    pc.match_like(F("s"), "a%"),
    pc.match_like(F("s"), "ab"),
    pc.match_like(F("s"), "%b"),
    pc.match_like(F("s"), "_b%"),
    pc.match_like(F("s"), "a%c"),
    pc.match_like(F("s"), "%B%", ignore_case=True),
    pc.match_substring(F("s"), "b"),
    pc.match_substring(F("s"), "B", ignore_case=True),
    pc.match_substring(F("s"), "'"),
    pc.match_substring(F("s"), ""),
    pc.ends_with(F("s"), "b"),
    pc.ends_with(F("s"), ""),
    F("s").isin(["a", None]),
    F("s") >= "ab",
    F("d") == Decimal("1.5"),
    F("d") < Decimal("1.505"),
    F("day") > dt.date(2026, 1, 2),
    F("t") >= dt.datetime(2026, 1, 2, 2),
    F("t") == pa.scalar(10**18, pa.timestamp("ns")),
    F("z") < dt.datetime(2026, 1, 3, tzinfo=UTC),
    F("z") < dt.datetime(2026, 1, 3, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    F("b"),
    pc.floor_temporal(F("t"), unit="hour") == dt.datetime(2026, 1, 2, 2),
    pc.floor_temporal(F("t"), unit="week") >= dt.datetime(2026, 1, 5),
    pc.floor_temporal(F("day"), unit="quarter") < dt.date(2026, 1, 1),
    pc.floor_temporal(F("z"), unit="month") == dt.datetime(2026, 1, 1, tzinfo=UTC),
    pc.year(F("t")) == 2026,
    pc.year(F("z")) != 2026,
    F("z").cast(pa.date32()) == dt.date(2026, 1, 2),
    F("b") == pc.scalar(True),
    pc.scalar(True),
    F("st", "x") == 1,
    F("st", "x").is_null(),
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
@pytest.mark.parametrize("form", ["itself", "not", "and", "or"])
def test_a_pyarrow_expression_matches_the_same_rows_as_in_pyarrow(expression: pc.Expression, form: str) -> None:
    made = {
        "itself": expression,
        "not": ~expression,
        "and": ~(expression & (F("u") < 4)),
        "or": ~(expression | (F("u") == 3)),
    }[form]
    expected = ds.dataset(TABLE).to_table(filter=made)["row"].to_pylist()
    expr = parse(made, TABLE.schema)
    assert not unknowns(expr)
    assert rows(expr, TABLE) == expected


FRAME_EXPRESSIONS = [
    C("i") == 1,
    C("i") > 1.5,
    pl.lit(1) < C("i"),
    C("i").is_in([1, 2]),
    C("i").is_in([1, None]),
    C("i").is_in([1, None], nulls_equal=True),
    C("i").is_in([]),
    C("i").is_in([], nulls_equal=True),
    C("i").is_null(),
    C("i").is_not_null(),
    C("i").eq_missing(None),
    C("i").ne_missing(1),
    C("i").is_between(1, 5),
    C("i").is_between(1, 5, closed="none"),
    C("i") == pl.lit(1) + 4,
    C("f") > 1.5,
    C("t").dt.truncate("1h") == dt.datetime(2026, 1, 2, 2),
    C("t").dt.truncate("1w") > dt.datetime(2025, 12, 29),
    C("day").dt.truncate("1q") < dt.date(2026, 1, 1),
    C("z").dt.truncate("1mo") == dt.datetime(2026, 1, 1, tzinfo=UTC),
    C("t").dt.date() == dt.date(2026, 1, 2),
    C("z").dt.date().is_in([dt.date(2026, 1, 2), dt.date(2026, 1, 3)]),
    C("t").dt.year() == 2026,
    C("f").is_nan(),
    C("f").is_not_nan(),
    C("f") != 0.0,
    C("s").str.starts_with("a"),
    C("s").str.ends_with("b"),
    C("s").str.ends_with(""),
    C("s").str.contains("b", literal=True),
    C("s").str.contains("%", literal=True),
    C("s").str.contains("", literal=True),
    C("s").is_in(["a", "ä"]),
    C("d") == Decimal("1.50"),
    C("day") > dt.date(2026, 1, 2),
    C("t") >= dt.datetime(2026, 1, 2, 2),
    C("z") < dt.datetime(2026, 1, 3, tzinfo=UTC),
    C("b"),
    C("b") & C("s").is_null(),
    C("b") | (C("i") == 1),
    C("st").struct.field("x") == 1,
    pl.lit(True),
]


@pytest.mark.parametrize("expression", FRAME_EXPRESSIONS, ids=str)
@pytest.mark.parametrize("negated", [False, True])
def test_a_polars_expression_matches_the_same_rows_as_in_polars(expression: pl.Expr, negated: bool) -> None:
    made = ~expression if negated else expression
    expected = pl.DataFrame(pl.from_arrow(TABLE)).filter(made)["row"].to_list()
    expr = parse(made, TABLE.schema)
    assert not unknowns(expr)
    assert rows(expr, TABLE) == expected


def test_reading_a_polars_expression_gives_no_warning() -> None:
    """Polars warns about this list when it computes the value."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parse(C("b") == pl.lit(1).is_in(pl.Series([1, 2])), TABLE.schema)
    assert not caught


@pytest.mark.parametrize(
    "where",
    [
        [("i", "=", 1)],
        [("i", "==", 1), ("s", "=", "a")],
        [[("i", "=", 1)], [("f", ">", 1.0)]],
        [("i", "in", [1, 2])],
        [("i", "in", {1, None})],
        [("i", "not in", (1, 2))],
        [("f", "!=", 0.0)],
        [("f", "not in", [math.nan])],
        [("f", ">=", math.nan)],
        [("day", "<", dt.date(2026, 1, 3))],
        [("d", "=", Decimal("1.5"))],
        [("z", ">", dt.datetime(2026, 1, 3, tzinfo=UTC))],
        [("row", "in", [])],
    ],
    ids=str,
)
def test_tuples_match_the_same_rows_as_in_pyarrow(where: Any) -> None:
    expected = ds.dataset(TABLE).to_table(filter=pq.filters_to_expression(where))["row"].to_pylist()
    assert rows(parse(where, TABLE.schema), TABLE) == expected
    if len(where) == 1 and isinstance(where[0], tuple):
        assert rows(parse(where[0], TABLE.schema), TABLE) == expected


def test_no_tuples_match_all_rows() -> None:
    assert rows(parse([], TABLE.schema), TABLE) == TABLE["row"].to_pylist()


UNKNOWN = [
    "i + 1 = 2",
    "i = u",
    "s ILIKE 'i%'",
    "s ILIKE 'a_'",
    "s ILIKE 'ä%'",
    "regexp_matches(s, 'abc')",
    "regexp_matches(s, 'abc', 'i')",
    "s RLIKE 'ab.*'",
    "regexp_full_match(s, 'ab.*')",
    "i LIKE '%1%'",
    "i LIKE '%'",
    "contains(i, '1')",
    "contains(s, 1)",
    "abs(i) = 1",
    "i IN (SELECT 1)",
    "i BETWEEN SYMMETRIC 5 AND 1",
    "s = 1",
    "CAST(f AS BIGINT) = 1",
    "TRY_CAST(s AS INT) = 1",
    "s LIKE 'a\\%'",
    "z > '2026-01-01'",
    "t > '2026-01-01 00:00:00Z'",
    "CAST(z AS DATE) = '2026-01-01'",
    "i = ANY(ARRAY[1, 2])",
    "st = 1",
    "day = '2026-02-30'",
    "CASE WHEN b THEN TRUE ELSE FALSE END",
    "s COLLATE nocase = 'A'",
    "i = 1 IS TRUE",
    "count(i) OVER () = 1",
    "i ^ 2 = 4",
    "b = 1",
    "f = 1 AND i & 1",
    "s SIMILAR TO 'a'",
    "s GLOB 'a*'",
    "(i, u) = (1, 1)",
    "(i, u) IN ((1, 1))",
    "EXISTS (SELECT 1)",
]


@pytest.mark.parametrize("text", UNKNOWN)
def test_unsupported_sql_becomes_unknown_parts_that_cannot_be_rendered(text: str) -> None:
    expr = parse(text, TABLE.schema)
    assert unknowns(expr)
    assert all(part.reason for part in unknowns(expr))
    for render in (ps.predicate.render.to_pyarrow, ps.predicate.render.to_polars, ps.predicate.render.to_duckdb):
        with pytest.raises(ps.UnsupportedError, match="not understood"):
            render(expr)


@pytest.mark.parametrize(
    "expression",
    [
        F("i") + 1 == 2,
        pc.and_(F("b"), F("b")),
        F(1) == 2,
        F("i") == F("u"),
        pc.match_like(F("s"), "%a\\%b"),
        F("d") == 0.1,
    ],
    ids=str,
)
def test_unsupported_pyarrow_expressions_have_unknown_parts(expression: pc.Expression) -> None:
    assert unknowns(parse(expression, TABLE.schema))


@pytest.mark.parametrize(
    "expression",
    [C("f") == math.nan, C("f") < math.inf, C("i") + 1 == 2, C("i") == C("u"), C("i").map_batches(abs) == 1],
    ids=["nan", "inf", "sum", "columns", "python"],
)
def test_unsupported_polars_expressions_have_unknown_parts(expression: pl.Expr) -> None:
    assert unknowns(parse(expression, TABLE.schema))


def test_an_unknown_column_raises_even_in_an_unsupported_predicate() -> None:
    for where in ("nope = 1", "abs(nope) = 1", "i = nope", "st.nope = 1", F("nope") + 1 == 2, C("nope").abs() == 1):
        with pytest.raises(ps.ColumnNotFoundError, match="nope"):
            parse(where, TABLE.schema)
    with pytest.raises(ps.ColumnNotFoundError):
        parse([("nope", "=", 1)], TABLE.schema)
    with pytest.raises(ps.ColumnNotFoundError):
        parse('"I" = 1', TABLE.schema)


@pytest.mark.parametrize(
    "text", ["", "SELECT 1", "i = 1; i = 2", "i = ", "((i = 1)", "i = 1 x", "b XOR b", "DROP TABLE a", "i = 1L"]
)
def test_invalid_sql_raises(text: str) -> None:
    with pytest.raises(ValueError, match="not a valid SQL condition"):
        parse(text, TABLE.schema)


def test_wide_predicates_are_parsed_and_deep_predicates_raise() -> None:
    wide = " OR ".join(f"i = {number}" for number in range(3000))
    assert rows(parse(wide, TABLE.schema), TABLE) == [0, 1, 2, 6, 7]
    with pytest.raises(ValueError, match="deep"):
        parse("NOT (i = 2 OR " * 5000 + "i = 1" + ")" * 5000, TABLE.schema)


def test_names_may_have_dots_quotes_and_capitals() -> None:
    schema = pa.schema(
        {"a.b": pa.int32(), "A": pa.struct({"c d": pa.int32()}), "x": pa.int32(), "X": pa.int32(), 'q"q': pa.int8()}
    )
    for text, path in {
        '"a.b" = 1': ("a.b",),
        "a.b = 1": ("a.b",),
        'a."c d" = 1': ("A", "c d"),
        "`A`.`c d` = 1": ("A", "c d"),
        "x = 1": ("x",),
        "X = 1": ("X",),
        '"q""q" = 1': ('q"q',),
    }.items():
        columns = ps.predicate.columns(parse(text, schema))
        assert [column.path for column in columns] == [path], text
    # As in the engines, a dot between names separates a struct from its field, and a dot in a name belongs to it.
    both = pa.schema({"a.b": pa.int32(), "a": pa.struct({"b": pa.int32()})})
    for where in ("a.b = 1", '"a"."b" = 1', F("a", "b") == 1, C("a").struct.field("b") == 1, [(("a", "b"), "=", 1)]):
        assert [column.path for column in ps.predicate.columns(parse(where, both))] == [("a", "b")], where
    for where in ('"a.b" = 1', F("a.b") == 1, C("a.b") == 1, [("a.b", "=", 1)]):
        assert [column.path for column in ps.predicate.columns(parse(where, both))] == [("a.b",)], where
    assert [column.path for column in ps.predicate.columns(parse("a.B = 1", both))] == [("a", "b")]
    # DuckDB ignores case, and would find the other column.
    for where in ("a.b = 1", '"A.b" = 1'):
        with pytest.raises(ps.ColumnNotFoundError, match="several"):
            parse(where, pa.schema({"a.b": pa.int32(), "A": pa.struct({"b": pa.int32()})}))
    # A typed predicate keeps its column.
    with pytest.raises(ps.ColumnNotFoundError, match=r'no column "a\.b"; a\.b is another column'):
        parse(parse("a.b = 1", pa.schema({"a.b": pa.int32()})), pa.schema({"a": pa.struct({"b": pa.int32()})}))
    with pytest.raises(ps.ColumnNotFoundError, match="several"):
        parse("ab = 1", pa.schema({"aB": pa.int32(), "Ab": pa.int32()}))


def test_timezone_applies_to_times_without_a_zone() -> None:
    def moment(text: str, zone: str) -> str:
        return str(parse(f"z = '{text}'", TABLE.schema, timezone=zone))

    assert moment("2026-01-01", "Europe/Madrid") == "z = 2025-12-31 23:00:00.000000Z"
    assert moment("2026-07-01 12:00:00", "Europe/Madrid") == "z = 2026-07-01 10:00:00.000000Z"
    assert moment("2026-07-01 12:00:00.5", "+05:30") == "z = 2026-07-01 06:30:00.500000Z"
    # Times with a zone are not converted.
    assert moment("2026-07-01 12:00:00Z", "Europe/Madrid") == "z = 2026-07-01 12:00:00.000000Z"
    # A column of another zone has the local time of that zone.
    hour_east = pa.schema({"z": pa.timestamp("us", "+01:00")})
    assert str(parse("z = '2026-07-01 12:00:00Z'", hour_east)) == "z = 2026-07-01 13:00:00.000000+0100"
    # Local times that occur twice or never.
    for text in ("2026-10-25 02:30:00", "2026-03-29 02:30:00"):
        assert "twice or never" in unknowns(parse(f"z = '{text}'", TABLE.schema, timezone="Europe/Madrid"))[0].reason
    with pytest.raises(ValueError, match="unknown time zone"):
        parse("z = '2026-01-01'", TABLE.schema, timezone="Nowhere/Land")


def test_keys_of_a_semi_join_become_values_of_the_column() -> None:
    keys = {"i": pa.array([1, None, 2**40, 5], pa.int64()), "s": pa.chunked_array([["a"], ["it's", "a"]])}
    assert rows(ps.predicate.parse_keys(keys, TABLE.schema), TABLE) == [1, 6]
    assert rows(ps.predicate.parse_keys({"f": pl.Series([math.nan, 0.0])}, TABLE.schema), TABLE) == [0, 1, 2]
    assert rows(ps.predicate.parse_keys({"i": pa.array([], pa.int8())}, TABLE.schema), TABLE) == []
    with pytest.raises(TypeError, match="key type string does not match column"):
        ps.predicate.parse_keys({"i": ["text"]}, TABLE.schema)
    # pyarrow would drop the zone.
    with pytest.raises(TypeError, match="times of day with a time zone"):
        ps.predicate.parse_keys({"t": [dt.time(1), dt.time(1, tzinfo=dt.UTC)]}, pa.schema({"t": pa.time64("us")}))
    objects = pd.Series([dt.time(1, tzinfo=dt.UTC)], dtype=object)
    with pytest.raises(TypeError, match="times of day with a time zone"):
        ps.predicate.parse_keys({"t": objects}, pa.schema({"t": pa.time64("us")}))
    with pytest.raises(ps.ColumnNotFoundError):
        ps.predicate.parse_keys({"nope": [1]}, TABLE.schema)


@pytest.mark.parametrize(
    ("cast", "keeps_values"),
    [
        *(("i8 AS DECIMAL(3, 0)", True), ("i8 AS DECIMAL(2, 0)", False), ("i8 AS UTINYINT", False)),
        *(("u8 AS SMALLINT", True), ("u8 AS TINYINT", False), ("i8 AS SMALLINT", True), ("i8 AS TINYINT", True)),
        *(("i32 AS DECIMAL(12, 2)", True), ("i32 AS DECIMAL(11, 2)", False), ("i32 AS SMALLINT", False)),
        *(("i32 AS DECIMAL(10)", True), ("i32 AS DECIMAL(9)", False), ("i32 AS DECIMAL", True)),
        *(("i32 AS DOUBLE", True), ("i32 AS FLOAT", False), ("i64 AS DOUBLE", False), ("i8 AS FLOAT", True)),
        *(("f32 AS DOUBLE", True), ("f64 AS FLOAT", False), ("f64 AS DOUBLE", True), ("f64 AS BIGINT", False)),
        *(("d AS DECIMAL(12, 4)", True), ("d AS DECIMAL(11, 4)", False), ("d AS DECIMAL(12, 1)", False)),
        *(("day AS TIMESTAMP", True), ("day AS TIMESTAMPTZ", False), ("ms AS TIMESTAMP", True)),
        *(("ns AS TIMESTAMP", False), ("us AS TIMESTAMPTZ", False)),
    ],
)
def test_only_casts_that_keep_all_values_exclude_files(cast: str, keeps_values: bool) -> None:
    types = {"i8": pa.int8(), "u8": pa.uint8(), "i32": pa.int32(), "i64": pa.int64(), "f32": pa.float32()}
    types |= {"f64": pa.float64(), "d": pa.decimal128(10, 2), "day": pa.date32()}
    schema = pa.schema(types | {unit: pa.timestamp(unit) for unit in ("ms", "us", "ns")})
    value = "'2026-01-01'" if pa.types.is_temporal(schema.field(cast.split()[0]).type) else "1"
    assert bool(unknowns(parse(f"CAST({cast}) = {value}", schema))) != keeps_values


def test_a_wide_cast_takes_values_that_the_column_cannot_hold() -> None:
    """Without the cast, pyarrow rounds the doubles to floats, but it does not change the integers."""
    values = {"i": pa.array([5, 2**40]), "g": pa.array([0.1, 0.5])}
    for name, wide in values.items():
        assert bool(unknowns(parse(F(name).isin(wide), TABLE.schema))) == (name == "g")
        expr = parse(F(name).cast(wide.type).isin(wide), TABLE.schema)
        assert not unknowns(expr)
        expected = TABLE.filter(F(name).cast(wide.type).isin(wide))["row"].to_pylist()
        assert rows(expr, TABLE) == expected


def test_casts_to_half_floats_may_change_values() -> None:
    assert unknowns(parse(F("i").cast(pa.float16()) == 1, TABLE.schema))

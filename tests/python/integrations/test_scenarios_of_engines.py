"""The scenarios in which DuckDB, DataFusion and Polars test datasets of pyarrow, on a table of parsieve."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

Make = Callable[[Any], Any]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a function that writes rows to a table of several files, and returns its dataset."""
    made: list[Path] = []

    def write(rows: Any) -> Any:
        table = rows if isinstance(rows, pa.Table) else pa.table(rows)
        folder = tmp_path / f"{len(made)}"
        made.append(folder)
        folder.mkdir()
        half = (table.num_rows + 1) // 2
        for number, part in enumerate((table.slice(0, half), table.slice(half))):
            pq.write_table(part, folder / f"{number}.parquet", row_group_size=100)
        return ps.open_table(folder).dataset()

    return write


@pytest.fixture
def con() -> Any:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET threads = 2")
    return connection


def _load(con: Any, make: Make, query: str) -> None:
    """Register the rows of a query as the table `ours`, and keep them as the table `own` of DuckDB."""
    con.execute(f"CREATE OR REPLACE TABLE own AS {query}")
    con.register("ours", make(con.table("own").to_arrow_table()))


def _same(con: Any, query: str) -> list[Any]:
    """Ask both tables. NaN is compared by its text."""
    actual, expected = (con.sql(query.format(name)).fetchall() for name in ("ours", "own"))
    assert repr(actual) == repr(expected), query
    return list(actual)


# DuckDB: comparisons of each type

TYPES = {
    "TINYINT": ("1", "10", "100"),
    "SMALLINT": ("1", "10", "100"),
    "INTEGER": ("1", "10", "100"),
    "BIGINT": ("1", "10", "100"),
    "UTINYINT": ("1", "10", "100"),
    "USMALLINT": ("1", "10", "100"),
    "UINTEGER": ("1", "10", "100"),
    "UBIGINT": ("1", "10", "100"),
    "HUGEINT": ("1", "10", "100"),
    "FLOAT": ("1.0", "10.0", "100.0"),
    "DOUBLE": ("1.0", "10.0", "100.0"),
    "DECIMAL(4,1)": ("1.0", "10.0", "100.0"),
    "DECIMAL(9,1)": ("1.0", "10.0", "100.0"),
    "DECIMAL(18,4)": ("1.0", "10.0", "100.0"),
    "DECIMAL(30,12)": ("1.0", "10.0", "100.0"),
    "VARCHAR": ("'1'", "'10'", "'100'"),
    "BLOB": (r"'\x01'", r"'\x02'", r"'\x03'"),
    "DATE": ("'2000-01-01'", "'2000-10-01'", "'2010-01-01'"),
    "TIME": ("'00:01:00'", "'00:10:00'", "'01:00:00'"),
    "TIMESTAMP": ("'2008-01-01 00:00:01'", "'2010-01-01 10:00:01'", "'2020-03-01 10:00:01'"),
    "TIMESTAMP_S": ("'2008-01-01 00:00:01'", "'2010-01-01 10:00:01'", "'2020-03-01 10:00:01'"),
    "TIMESTAMP_MS": ("'2008-01-01 00:00:01'", "'2010-01-01 10:00:01'", "'2020-03-01 10:00:01'"),
    "TIMESTAMPTZ": ("'2008-01-01 00:00:01'", "'2010-01-01 10:00:01'", "'2020-03-01 10:00:01'"),
}
CONDITIONS = {
    "a = {low}": 1,
    "a != {low}": 2,
    "a > {low}": 2,
    "a >= {mid}": 2,
    "a < {mid}": 1,
    "a <= {mid}": 2,
    "a IS NULL": 1,
    "a IS NOT NULL": 3,
    "a = {mid} AND b = {low}": 0,
    "a = {high} AND b = {mid} AND c = {high}": 1,
    "a = {high} OR b = {low}": 2,
    "a IN ({low}, {high})": 2,
    "a NOT IN ({low}, {high})": 1,
    "a BETWEEN {low} AND {mid}": 2,
    "NOT (a > {mid} OR b = {low})": 1,
}


@pytest.mark.parametrize("kind", TYPES)
def test_duckdb_comparisons(con: Any, make: Make, kind: str) -> None:
    low, mid, high = TYPES[kind]
    columns = ", ".join(f"{name}::{kind} AS {name}" for name in "abc")
    rows = f"({low}, {low}, {low}), ({mid}, {mid}, {mid}), ({high}, {mid}, {high}), (NULL, NULL, NULL)"
    _load(con, make, f"SELECT {columns} FROM (VALUES {rows}) t(a, b, c)")
    for condition, count in CONDITIONS.items():
        where = condition.format(low=low, mid=mid, high=high)
        assert _same(con, f"SELECT count(*) FROM {{}} WHERE {where}") == [(count,)]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_duckdb_limits_of_integers(con: Any, make: Make, bits: int) -> None:
    for kind, most in ((f"int{bits}", 2 ** (bits - 1) - 1), (f"uint{bits}", 2**bits - 1)):
        con.register("ours", make({"i": pa.array([most], getattr(pa, kind)())}))
        assert con.sql("SELECT * FROM ours WHERE i > 0").fetchall() == [(most,)]
        for operator, value in ((">", 0), ("=", most)):
            assert con.execute(f"SELECT * FROM ours WHERE i {operator} ?", (value,)).fetchall() == [(most,)]


# DuckDB: forms of conditions


@pytest.mark.parametrize(
    ("values", "conditions"),
    [
        (
            "(1, 1, 1), (10, 10, 10), (100, 10, 100), (NULL, NULL, NULL)",
            [
                "a = 1 OR a = 10",
                "a = 1 OR (a > 3 AND a < 5)",
                "a = 1 OR a > 3 OR a < 5",
                "a != 1 OR a > 3 OR a < 2",
                "a = 1 OR b = 2 AND (a > 3 OR b < 5)",
                "a IS DISTINCT FROM NULL OR a = 5",
                "a IS NOT DISTINCT FROM NULL OR a = 1",
                "a % 2 = 0",
                "a = (SELECT max(b) FROM {})",
            ],
        ),
        (
            "('1', '1', '1'), ('10', '10', '10'), ('100', '10', '100'), (NULL, NULL, NULL)",
            [
                "a >= '1' OR a <= '10'",
                "a IS NULL OR a = '1'",
                "a IS NOT NULL OR a = '1'",
                "a = '1' OR a LIKE '10%'",
                "a LIKE '10%'",
                "a LIKE '100'",
                "length(a) = 3",
            ],
        ),
        (
            "(TRUE, TRUE, 1), (TRUE, FALSE, 1), (FALSE, TRUE, 1), (NULL, NULL, NULL)",
            ["a = TRUE", "a", "NOT a", "a IS NULL", "a IS NOT NULL", "a = TRUE AND b = TRUE", "a = TRUE OR b = TRUE"],
        ),
        (
            "(TIMESTAMP '2024-01-01', 1, 1), (TIMESTAMP '2024-01-01 23:59:59', 2, 2), (TIMESTAMP '2024-01-02', 3, 3)",
            ["CAST(a AS DATE) = DATE '2024-01-01'", "CAST(a AS DATE) > DATE '2024-01-01'"],
        ),
    ],
    ids=["numbers", "text", "booleans", "dates"],
)
def test_duckdb_forms_of_conditions(con: Any, make: Make, values: str, conditions: list[str]) -> None:
    _load(con, make, f"SELECT * FROM (VALUES {values}) t(a, b, c)")
    for condition in conditions:
        _same(con, f"SELECT * FROM {{0}} WHERE {condition.replace('{}', '{0}')} ORDER BY ALL")
        # Columns that only the condition needs.
        _same(con, f"SELECT c FROM {{0}} WHERE {condition.replace('{}', '{0}')} ORDER BY ALL")


def test_duckdb_lists_of_values(con: Any, make: Make) -> None:
    rows = "SELECT i, CASE WHEN i % 3 > 0 THEN i END AS a, 's' || i AS s, i / 4 AS f FROM range(1000) t(i)"
    _load(con, make, rows)
    long = ", ".join(map(str, range(0, 5000, 2)))
    for condition in (
        "a = ANY([1, 998])",
        f"a IN ({long})",
        f"a NOT IN ({long})",
        "a IN (1, 4)",
        "a IN (1, 4, NULL)",
        "a NOT IN (1, 4, NULL)",
        "s IN ('s7', 's900', 'x')",
        "f IN (2.5, 4.0)",
        "a NOT IN (1, 5, 100)",
    ):
        _same(con, f"SELECT * FROM {{}} WHERE {condition} ORDER BY i")


@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
def test_duckdb_nan_is_the_greatest_number(con: Any, make: Make, operator: str) -> None:
    values = "('inf'), ('nan'), ('0.34234'), ('34234234.00005'), ('-nan'), ('-inf'), (NULL)"
    for kind in ("DOUBLE", "FLOAT"):
        _load(con, make, f"SELECT a::{kind} AS a FROM (VALUES {values}) t(a)")
        for constant in ("'NaN'::FLOAT", "'NaN'::DOUBLE", "4.0", "'inf'::DOUBLE", "0.34234::FLOAT"):
            _same(con, f"SELECT a FROM {{}} WHERE a {operator} {constant} ORDER BY a")
            _same(con, f"SELECT a FROM {{}} WHERE NOT (a {operator} {constant}) ORDER BY a")


def test_duckdb_fields_of_structs(con: Any, make: Make) -> None:
    values = (
        "({'a': {'b': 1, 'c': false}, 'd': {'e': 2, 'f': 'foo'}}), (NULL), "
        "({'a': {'b': 3, 'c': true}, 'd': {'e': 4, 'f': 'bar'}}), "
        "({'a': {'b': NULL, 'c': true}, 'd': {'e': 5, 'f': 'qux'}}), ({'a': NULL, 'd': NULL})"
    )
    _load(con, make, f"SELECT * FROM (VALUES {values}) t(s)")
    for condition in (
        "s.a.b < 2",
        "s.a.c = true AND s.d.e = 5",
        "s.d.f = 'bar'",
        "s.a.b IS NULL",
        "s.a IS NULL",
        "s.d.e IN (2, 5)",
        "s.a.b = 1 OR s.a.b = 3",
        "NOT (s.a.b < 2)",
        "s IS NULL",
    ):
        _same(con, f"SELECT s.d.e FROM {{}} WHERE {condition} ORDER BY ALL")


def test_duckdb_filters_that_change_while_a_query_runs(con: Any, make: Make) -> None:
    _load(con, make, "SELECT CASE WHEN i % 7 > 0 THEN i * 37 % 101 END AS a, i FROM range(300) t(i)")
    _same(con, "SELECT a FROM {} ORDER BY a LIMIT 11")
    _same(con, "SELECT a FROM {} ORDER BY a ASC NULLS FIRST LIMIT 50")
    _same(con, "SELECT a FROM {} WHERE i > 20 ORDER BY a DESC NULLS LAST LIMIT 3")
    con.execute("CREATE TABLE keys AS SELECT i * 2 AS a FROM range(20) t(i)")
    for join in ("JOIN keys USING (a)", "LEFT JOIN keys USING (a)", "SEMI JOIN keys USING (a)"):
        _same(con, f"SELECT count(*), sum(i) FROM {{}} {join}")
    _same(con, "SELECT count(*) FROM {0} x, {0} y WHERE x.a = y.i")
    _same(con, "SELECT count(*) FROM {} WHERE a IN (SELECT a FROM keys WHERE a > 8)")


def test_duckdb_types_without_filters_in_pyarrow(con: Any, make: Make) -> None:
    views = {"s": pa.array(["abc", "efg"], pa.string_view()), "b": pa.array([b"abc", b"efg"], pa.binary_view())}
    con.register("ours", make(views))
    assert con.sql("SELECT s FROM ours WHERE s = 'abc'").fetchall() == [("abc",)]
    assert con.sql("SELECT b FROM ours WHERE b = 'abc'::BLOB").fetchall() == [(b"abc",)]
    assert con.sql("SELECT s FROM ours WHERE s > 'abc' AND b = 'efg'::BLOB").fetchall() == [("efg",)]


def test_duckdb_parameters(con: Any, make: Make) -> None:
    moment = dt.datetime(2023, 8, 29, 1, tzinfo=dt.UTC)
    con.register("ours", make({"ts": pa.array([moment] * 3, pa.timestamp("ns", "UTC")), "value": [1, 2, 3]}))
    rows = con.execute("SELECT value FROM ours WHERE ts = ? AND value > ?", (moment, 1)).fetchall()
    assert rows == [(2,), (3,)]


@pytest.mark.parametrize("threads", [1, 4])
def test_duckdb_parallel_scans(con: Any, make: Make, threads: int) -> None:
    con.execute(f"PRAGMA threads={threads}; PRAGMA verify_parallelism")
    dataset = make({"id": range(3000), "name": [f"n{row % 7}" for row in range(3000)]})
    relation = con.from_arrow(dataset)
    assert relation.filter("name = 'n3' AND id > 1000").aggregate("count(*)").fetchall() == [(286,)]
    con.register("ours", dataset)
    reader = con.sql("SELECT * FROM ours ORDER BY id").to_arrow_reader(2048)
    assert reader.read_all()["id"].to_pylist() == list(range(3000))
    # A result that is not read to its end.
    with con.cursor() as cursor:
        cursor.register("ours", dataset)
        assert len(cursor.execute("SELECT id FROM ours WHERE id >= 0").fetchmany(2)) == 2
    assert con.sql("SELECT b.id FROM ours a JOIN ours b ON a.id = b.id + 1 WHERE a.id = 8").fetchall() == [(7,)]


# DataFusion


@pytest.fixture
def context() -> Any:
    return datafusion.SessionContext()


def _answer(context: Any, query: str) -> dict[str, list[Any]]:
    return dict(context.sql(query).to_pydict())


def test_datafusion_queries(context: Any, make: Make) -> None:
    rows = {"a": [1, 2, 3], "b": [4, 5, 6], "c": [7, None, 9], "s": ["x", None, "z"]}
    context.register_dataset("t", make(rows))
    assert context.catalog().schema().names() == {"t"}
    assert context.table("t").count() == 3
    queries = {
        "SELECT a + b AS r FROM t ORDER BY r": [5, 7, 9],
        "SELECT count(*) AS r FROM t": [3],
        "SELECT count(a) AS r FROM t WHERE a > 5": [0],
        "SELECT a AS r FROM t WHERE a BETWEEN 2 AND 3 AND b > 5": [3],
        "SELECT a AS r FROM t WHERE c IS NULL": [2],
        "SELECT a AS r FROM t WHERE c IS NOT NULL ORDER BY a": [1, 3],
        "SELECT a AS r FROM t WHERE a IN (3, 1, 8) ORDER BY a": [1, 3],
        "SELECT a AS r FROM t WHERE a NOT IN (3, 1)": [2],
        "SELECT a AS r FROM t WHERE s = 'z'": [3],
        "SELECT a AS r FROM t WHERE NOT (a = 1 OR s = 'z')": [],
        "SELECT a AS r FROM t WHERE c = 7 OR b = 5 ORDER BY a": [1, 2],
        "SELECT a AS r FROM t ORDER BY a DESC LIMIT 1": [3],
        "SELECT x.a AS r FROM t x JOIN t y ON x.a = y.b - 3 WHERE y.c = 9": [3],
    }
    for query, expected in queries.items():
        assert _answer(context, query).get("r", []) == expected, query


@pytest.mark.parametrize(
    ("type_", "values", "literal"),
    [
        (pa.date32(), [dt.date(2020, 1, 1), dt.date(2021, 1, 1)], "DATE '2021-01-01'"),
        (pa.timestamp("us"), [dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)], "TIMESTAMP '2021-01-01'"),
        (pa.float64(), [0.5, math.inf], "CAST('Infinity' AS DOUBLE)"),
        (pa.decimal128(9, 2), [1, 2], "2"),
        (pa.int8(), [1, 127], "127"),
        (pa.bool_(), [False, True], "TRUE"),
        (pa.large_string(), ["", "é"], "'é'"),
        (pa.binary(), [b"", b"\xff"], "X'ff'"),
    ],
    ids=str,
)
def test_datafusion_types(context: Any, make: Make, type_: pa.DataType, values: list[Any], literal: str) -> None:
    rows = pa.table({"n": [0, 1, 2], "c": pa.array([*values, None], type_)})
    context.register_dataset("ours", make(rows))
    context.register_record_batches("memory", [rows.to_batches()])
    for condition in (f"c = {literal}", f"c <> {literal}", f"c < {literal}", "c IS NULL", f"c IN ({literal})"):
        answers = [
            _answer(context, f"SELECT n FROM {name} WHERE {condition} ORDER BY n") for name in ("ours", "memory")
        ]
        assert answers[0].get("n", []) == answers[1].get("n", []), condition


def test_datafusion_nested_fields(context: Any, make: Make) -> None:
    context.register_dataset("t", make({"s": [{"a": 1, "b": 4}, {"a": 3, "b": 6}, None]}))
    field = datafusion.col("s")["b"]
    frame = context.table("t").filter(field > datafusion.lit(5)).select(field.alias("r"))
    assert frame.to_pydict() == {"r": [6]}


# Polars


POLARS = pl.DataFrame(
    {
        "bools": [False, True, False, None],
        "ints": [1, 2, 3, 4],
        "nulls": [1, None, 3, None],
        "floats": [1.0, 2.5, None, -3.0],
        "text": ["foo", "bar", None, "ba"],
        "date": [dt.date(1970, 1, 1), dt.date(1973, 8, 17), dt.date(1973, 5, 19), None],
        "datetime": [dt.datetime(1970, 1, 1, 0, 0, second, 341234) for second in (12, 13, 14, 15)],
        "zoned": [dt.datetime(2026, 1, 1, hour, tzinfo=dt.UTC) for hour in range(4)],
        "time": [dt.time(0, 0, 0, micro) for micro in (0, 100, 200, 300)],
    }
)
COL = pl.col
FILTERS: list[Any] = [
    COL("bools"),
    ~COL("bools"),
    COL("nulls").is_null(),
    COL("nulls").is_not_null(),
    COL("nulls").is_not_null() == COL("bools"),
    COL("ints") == 10,
    COL("ints") != 10,
    *(COL("ints").is_between(1, 3, closed=closed) for closed in ("both", "left", "right", "none")),
    COL("floats").sum().over("date") == 1.0,
    COL("date") < dt.date(1972, 1, 1),
    COL("datetime") > dt.datetime(1970, 1, 1, 0, 0, 13),
    COL("zoned") >= dt.datetime(2026, 1, 1, 2, tzinfo=dt.UTC),
    COL("time") >= dt.time(microsecond=100),
    COL("ints").is_in([1, 3, 20]),
    COL("ints").is_in(list(range(120))),
    COL("nulls").is_in([1, None]),
    COL("text").is_in([]),
    COL("text").is_in(["foo", "ba"]),
    COL("text").str.starts_with("ba"),
    COL("date").is_in([dt.date(1973, 8, 17), dt.date(1973, 5, 19)]),
    COL("datetime").is_in([dt.datetime(1970, 1, 1, 0, 0, 12, 341234)]),
    pl.Series([True, False, True, False]),
    COL("bools") & COL("ints").is_in([1, 2]),
    (COL("ints") > 1) & (COL("ints") * COL("floats") > 4),
    (COL("ints") > 2) | (COL("text") == "foo"),
    COL("floats").is_nan() | (COL("floats") < 0),
]


@pytest.mark.parametrize("filter_", FILTERS, ids=lambda filter_: str(filter_).replace("\n", " ")[:60])
def test_polars_filters(make: Make, filter_: Any) -> None:
    lazy = pl.scan_pyarrow_dataset(make(POLARS.to_arrow(compat_level=pl.CompatLevel.oldest())))
    queries: list[Callable[[pl.LazyFrame], pl.LazyFrame]] = [
        lambda frame: frame.filter(filter_),
        lambda frame: frame.filter(filter_).select("ints", "date"),
        lambda frame: frame.filter(filter_).select(pl.len()),
        lambda frame: frame.filter(filter_).head(1),
        lambda frame: frame.head(3).filter(COL("ints") > 0),
    ]
    for query in queries:
        assert query(lazy).collect().equals(query(POLARS.lazy()).collect())


@pytest.mark.parametrize("options", [{}, {"batch_size": 2}, {"allow_pyarrow_filter": False}])
def test_polars_options(make: Make, options: dict[str, Any]) -> None:
    lazy = pl.scan_pyarrow_dataset(make(POLARS.to_arrow(compat_level=pl.CompatLevel.oldest())), **options)
    assert lazy.collect().equals(POLARS)
    assert lazy.filter(COL("ints") > 2).collect().equals(POLARS.filter(COL("ints") > 2))
    assert lazy.select("text").slice(1, 2).collect().equals(POLARS.select("text").slice(1, 2))
    assert pl.collect_all([lazy.filter(COL("ints") == 1), lazy.tail(1)])[1].equals(POLARS.tail(1))
    assert lazy.clear().collect_schema() == POLARS.schema


def test_polars_copies_of_a_query(make: Make) -> None:
    lazy = pl.scan_pyarrow_dataset(make({"a": [1, 2, 3]})).filter(COL("a") > 1)
    assert pl.LazyFrame.deserialize(lazy.serialize()).collect()["a"].to_list() == [2, 3]

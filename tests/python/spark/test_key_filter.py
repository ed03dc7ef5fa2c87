"""A Bloom filter of the keys of a DataFrame keeps every row of another DataFrame that joins them."""

from __future__ import annotations

import datetime as dt
import doctest
import inspect
import pickle
from collections.abc import Iterator
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest

import parsieve as ps
import parsieve.spark as pss
from parsieve.spark.join import key_filter
from parsieve.spark.runtime import versions

DataFrame = pytest.importorskip("pyspark.sql", reason="pip install 'parsieve[spark]'").DataFrame
pytestmark = pytest.mark.spark

NAN, FAR = float("nan"), 2**53
# Values as keys, the type of the keys, values as rows, the type of the rows.
CASES: dict[str, tuple[list[Any], str, list[Any], str]] = {
    "int in bigint": ([1, -7, 2**31 - 1], "int", [1, -7, 2**31 - 1, 2**40, None, *range(100, 900)], "bigint"),
    "bigint in int": ([1, 2**40, -(2**31), None], "bigint", [1, -(2**31), None, *range(100, 900)], "int"),
    "tinyint": ([-128, 127, 0], "tinyint", [-128, 127, 0, 2**33, *range(1000, 1900)], "bigint"),
    # In a column with nulls, pandas would round these to doubles.
    "far numbers": (
        [FAR + 1, -FAR - 3, 2**63 - 1],
        "bigint",
        [None, FAR, FAR + 1, FAR + 2, -FAR - 3, 2**63 - 1, -(2**63), *range(800)],
        "bigint",
    ),
    "real": ([0.5, -0.0, NAN], "float", [0.5, 0.0, NAN, None, 1e300, *(n + 0.1 for n in range(800))], "double"),
    "reals": ([1e300, 0.1, 0.0], "double", [-0.0, NAN, None, 0.25, *(n + 0.5 for n in range(800))], "float"),
    "string": (
        ["", "ü", "\U0001f409", "a", None],
        "string",
        ["", "ü", "\U0001f409", None, *(f"x{n}" for n in range(800))],
        "string",
    ),
    "binary": ([b"", b"\xff"], "binary", [b"", b"\xff", None, *(b"%d" % n for n in range(800))], "binary"),
    "decimal": (
        [Decimal("1.10"), Decimal("-99999999999999999999999999999999.99")],
        "decimal(34,2)",
        [Decimal("1.10"), None, *(Decimal(n) / 4 for n in range(80, 880))],
        "decimal(9,2)",
    ),
    "date": (
        [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)],
        "date",
        [
            dt.date(1, 1, 1),
            dt.date(9999, 12, 31),
            dt.date(1969, 12, 31),
            None,
            *(dt.date(2000, 1, 1) + dt.timedelta(n) for n in range(800)),
        ],
        "date",
    ),
}


def test_all_matches_are_kept_and_most_other_rows_dropped(spark: Any) -> None:
    """Compare with Spark's own join, for all kinds of values in one query, to save time."""
    from pyspark.sql.functions import lit

    joins, prunes = [], []
    for name, (keys, key_type, values, row_type) in CASES.items():
        wanted = spark.createDataFrame([(value,) for value in keys], f"k {key_type}").coalesce(1)
        rows = spark.createDataFrame(list(enumerate(values)), f"at int, k {row_type}").coalesce(1)
        filter = pss.filter_of(wanted, "k", 0.001, ndv=len(keys))
        joins.append(rows.join(wanted, "k", "left_semi").select(lit(name).alias("name"), "at"))
        prunes.append(pss.keep_matching(rows, "k", filter).select(lit(name).alias("name"), "at"))
    joined = {(row.name, row.at) for row in reduce(DataFrame.union, joins).collect()}
    kept = {(row.name, row.at) for row in reduce(DataFrame.union, prunes).collect()}
    assert joined - kept == set()
    for name in CASES:
        least = 1 if name in ("reals", "decimal") else 2
        assert len([one for one in joined if one[0] == name]) >= least, name
        assert len([one for one in kept - joined if one[0] == name]) < 30, name


def test_timestamps_far_from_today_are_kept(spark: Any) -> None:
    """Check timestamps beyond the range of pandas, in several time zones of the session."""
    micros = [-62135596800000000, 253402300799999999, 0, -1, 1]
    keys = spark.createDataFrame([(one,) for one in micros], "m bigint").selectExpr("timestamp_micros(m) AS k")
    rows = spark.range(0, 10**15, 10**12).selectExpr("timestamp_micros(id + 5) AS k").union(keys)
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        filter = pss.filter_of(keys, "k", fpp=0.001)
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
        kept = pss.keep_matching(rows, "k", filter).selectExpr("unix_micros(k) AS m").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert {row.m for row in kept} >= set(micros)
    assert len(kept) < 30


def test_the_filter_equals_the_one_of_one_process(spark: Any) -> None:
    """Many chunks come from many partitions, some of them empty, and no bit is lost."""
    frame = spark.range(0, 200_000, 2, 7).union(spark.range(0, 100, 1, 2)).where("id != 4")
    filter = pss.filter_of(frame, "id", ndv=100_000)
    local = ps.BloomFilter(100_000, 0.01, type=pa.int64())
    assert local.num_bytes > 4 * key_filter.CHUNK
    local.insert(pa.array([key for key in (*range(0, 200_000, 2), *range(100)) if key != 4]))
    assert filter == local
    guessed = pss.filter_of(frame, "id")
    assert local.num_bytes / 2 < guessed.num_bytes < local.num_bytes * 2
    assert guessed.check(pa.array(range(6, 200_000, 2))).true_count == 99_997
    assert guessed.check(pa.array(range(1_000_001, 1_020_001))).true_count < 400
    small = pss.filter_of(spark.range(9000), "id", ndv=100_000, max_bytes=5000)
    assert small.num_bytes <= 5000
    assert small.check(pa.array(range(9000))).true_count == 9000


def test_empty_dataframes_have_filters(spark: Any) -> None:
    nothing = pss.filter_of(spark.sql("SELECT CAST(NULL AS INT) AS k FROM range(5)"), "k")
    assert nothing.estimated_ndv == 0
    rows = pss.keep_matching(spark.range(5), "id", nothing)
    assert rows.union(pss.keep_matching(spark.range(0), "id", nothing)).collect() == []


def test_filters_work_on_executors(spark: Any) -> None:
    """Filters are pickled: for an Arrow function, which gets nulls, for a plain one, and as a broadcast."""
    from pyspark.sql.functions import udf

    filter = pss.filter_of(spark.range(0, 1000, 10).selectExpr("named_struct('x', id) AS s"), "s.x")
    assert pickle.loads(pickle.dumps(filter)) == filter
    shared = spark.sparkContext.broadcast(filter)

    def kept(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch.filter(shared.value.check(batch.column(0)).fill_null(False))

    rows = spark.range(1000)
    in_arrow = {row.id for row in rows.mapInArrow(kept, "id long").collect()}
    one_by_one = {row.id for row in rows.where(udf(lambda key: filter.might_contain(key), "boolean")("id")).collect()}
    by_us = {row.id for row in pss.keep_matching(rows, "id", filter).collect()}
    assert set(range(0, 1000, 10)) <= in_arrow == one_by_one == by_us
    assert len(by_us) < 150
    nested = rows.selectExpr("named_struct('x', CAST(id AS INT)) AS s")
    assert {row.s.x for row in pss.keep_matching(nested, "s.x", filter).collect()} == by_us


def test_types_without_an_exact_comparison_are_refused(spark: Any) -> None:
    numbers = pss.filter_of(spark.range(3), "id")
    for other in ("CAST(id AS STRING)", "CAST(id AS DOUBLE)", "CAST(id AS TIMESTAMP)"):
        with pytest.raises(ps.UnsupportedError, match="column k"):
            pss.keep_matching(spark.range(3).selectExpr(f"{other} AS k"), "k", numbers)
    for unfit in ("id > 1", "array(id)", "named_struct('x', id)"):
        with pytest.raises(ps.UnsupportedError, match="no Bloom filter"):
            pss.filter_of(spark.range(3).selectExpr(f"{unfit} AS k"), "k")
    local = spark.sql("SELECT TIMESTAMP_NTZ '2026-01-01 00:00:00' AS k")
    with pytest.raises(ps.UnsupportedError, match="mapInArrow"):
        pss.keep_matching(local, "k", ps.BloomFilter(ndv=1, type=pa.timestamp("us")))
    with pytest.raises(ValueError, match="type"):
        pss.keep_matching(spark.range(3), "id", ps.BloomFilter(ndv=10))
    with pytest.raises(ValueError, match="fpp"):
        pss.filter_of(spark.range(3), "id", fpp=1.0)
    if versions.installed().line >= (4, 0):
        with pytest.raises(ps.UnsupportedError, match="collate"):
            pss.filter_of(spark.sql("SELECT 'a' COLLATE UTF8_LCASE AS k"), "k")
    # A filter of a narrower type: values that it cannot represent are kept, with the rest of their batch.
    narrow = ps.BloomFilter(10, 0.001, type=pa.int32())
    narrow.insert(pa.array([5], pa.int32()))
    kept = {
        row.id for row in pss.keep_matching(spark.range(0, 2**40, 2**37).union(spark.range(10)), "id", narrow).collect()
    }
    assert 5 in kept


@pytest.mark.parametrize("name", ["filter_of", "keep_matching"])
def test_the_docstring_examples_run(spark: Any, name: str) -> None:
    text = inspect.getdoc(getattr(pss, name)) or ""
    test = doctest.DocTestParser().get_doctest(text, {"spark": spark}, name, None, None)
    said: list[str] = []
    result = doctest.DocTestRunner().run(test, out=said.append)
    assert result.attempted > 2
    assert result.failed == 0, "".join(said)

"""`pss.semi_join` returns the rows of Spark's own semi-join, and reads fewer files."""

from __future__ import annotations

import doctest
import inspect
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from support.spark_tables import SparkTable, ids, ids_and_files, needs, wait_until_old

import parsieve as ps
import parsieve.spark as pss
from parsieve.spark.join import semi_join

DataFrame = pytest.importorskip("pyspark.sql", reason="pip install 'parsieve[spark]'").DataFrame
pytestmark = pytest.mark.spark

ROWS = (
    "SELECT id, CAST(id * 617 % 1000 AS INT) AS k, CONCAT('n', id % 40) AS s, CAST(id / 4 AS FLOAT) AS f, "
    "IF(id % 3 = 0, DOUBLE('NaN'), IF(id % 7 = 0, -0.0D, id / 8)) AS x, CAST(id / 4 AS DECIMAL(9, 2)) AS e, "
    "date_add(DATE '2026-01-01', CAST(id % 90 AS INT)) AS d, timestamp_micros(id * 3600000001) AS t, "
    "IF(id % 5 = 0, NULL, id % 11) AS z, CAST(CONCAT('b', id % 30) AS BINARY) AS b, "
    "CONCAT('0', id) AS digits FROM range(0, 400, 1, 8)"
)
# Columns, keys as Spark writes them, their type on the right.
CASES: dict[str, tuple[str, list[str], str]] = {
    "duplicates, nulls, other width": ("k", ["617", "617", "NULL", "234", "-5", "1099511627776"], "bigint"),
    "nulls on both sides": ("z", ["NULL", "3", "NULL"], "bigint"),
    "nothing but nulls": ("z", ["NULL", "NULL"], "bigint"),
    "nothing": ("k", [], "int"),
    "narrower": ("id", ["3", "127", "-128"], "tinyint"),
    "text": ("s", ["'n7'", "'n39'", "'ü'", "''", "NULL"], "string"),
    "zeros and NaN": ("x", ["0", "'NaN'", "1.25"], "double"),
    "without NaN": ("x", ["0", "1.25"], "double"),
    "a double that is no float": ("f", ["0.25D", "0.1D", "7.75D"], "double"),
    "decimals": ("e", ["1.25", "12345678901.25", "NULL"], "decimal(20,2)"),
    "decimals of another scale": ("e", ["1.2500", "1.2501"], "decimal(20,4)"),
    "days": ("d", ["'2026-01-07'", "'0001-01-01'", "NULL"], "date"),
    "bytes": ("b", ["X'6237'", "X'FF'", "NULL"], "binary"),
    "text beside numbers": ("k", ["'617'", "' 234'", "NULL"], "string"),
    "numbers beside text": ("digits", ["7", "NULL"], "int"),
}
# The other ways are checked with a few kinds of values only.
SEVERAL = ["duplicates, nulls, other width", "nulls on both sides", "zeros and NaN", "text", "days"]


def keys(spark: Any, column: str, values: list[str], kind: str) -> Any:
    """Return a DataFrame without a file."""
    rows = ", ".join(f"(CAST({value} AS {kind}))" for value in values or ["NULL"])
    frame = spark.sql(f"SELECT * FROM VALUES {rows} AS keys({column})")
    return frame if values else frame.where("false")


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight files. By min/max statistics, each of them may contain any `k`."""
    path = tmp_path_factory.mktemp("joined") / "a table"
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    spark.sql(ROWS).write.parquet(str(path))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    wait_until_old(path)
    ps.open_table(path).build_index(["id", "k", "s", "x", "e", "d", "t", "z", "b"], kind="sieve", progress=False)
    return path


def check(spark: Any, left: Any, whole: Any, right: Any, on: Any, **more: Any) -> int:
    """Check the rows against Spark's own join. Return how many files were opened."""
    found, opened = ids_and_files(pss.semi_join(left, right, on, **more))
    assert found == ids(whole.join(right, on, "left_semi"))
    return opened


def test_timestamps_without_a_zone_are_keys(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "local times"
    # One of these times does not exist in some zones.
    start = "TIMESTAMP_NTZ '2026-03-08 00:30:00'"
    rows = spark.sql(f"SELECT id, {start} + make_dt_interval(0, CAST(id AS INT)) AS n FROM range(0, 40, 1, 4)")
    rows.write.parquet(str(folder))
    wait_until_old(folder)
    pss.build_index(spark, str(folder), "n")
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        for more in ("NULL", "TIMESTAMP_NTZ '+12000-01-01 00:00:00'"):
            wanted = spark.sql(f"SELECT * FROM VALUES (TIMESTAMP_NTZ '2026-03-08 02:30:00'), ({more}) AS keys(n)")
            found, files = ids_and_files(pss.semi_join(str(folder), wanted, "n"))
            assert found == [2]
            assert files == (1 if more == "NULL" else 4)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.parametrize("way", ["values", "values and filter", "interval and filter"])
def test_rows_equal_those_of_sparks_join(spark: Any, folder: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check all kinds of values in one query, to save time."""
    from pyspark.sql.functions import lit

    if way != "values":
        monkeypatch.setattr(semi_join, "FEW", 0)
    most = 0 if way.startswith("interval") else 1000
    whole = spark.read.parquet(str(folder))
    found, expected = [], []
    for name in CASES if way == "values" else SEVERAL:
        right = keys(spark, *CASES[name])
        column = CASES[name][0]
        found.append(pss.semi_join(folder, right, column, most_keys=most).select(lit(name), "id"))
        expected.append(whole.join(right, column, "left_semi").select(lit(name), "id"))
    ours, theirs = (sorted(tuple(row) for row in reduce(DataFrame.union, one).collect()) for one in (found, expected))
    assert ours == theirs
    assert {name for name, _ in theirs} == {
        name for name in (CASES if way == "values" else SEVERAL) if not name.startswith("nothing")
    }
    opened = ids_and_files(pss.semi_join(folder, keys(spark, *CASES[SEVERAL[0]]), "k", most_keys=most))[1]
    assert opened == 8 if most == 0 else opened < 4


def test_timestamps_match_in_any_time_zone(spark: Any, folder: Path) -> None:
    """Check keys far from today, and local times that the session's time zone has twice."""
    whole = spark.read.parquet(str(folder))
    micros = [5 * 3600000001, 17 * 3600000001, -62135596800000000, 253402300799999999, 1761440400000000]
    right = spark.createDataFrame([(one,) for one in micros], "m bigint").selectExpr("timestamp_micros(m) AS t")
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        assert check(spark, folder, whole, right, "t") <= 8
        near = spark.createDataFrame([(micros[0],)], "m bigint").selectExpr("timestamp_micros(m) AS t")
        assert check(spark, folder, whole, near, "t") == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_joins_take_several_columns_dataframes_and_conditions(spark: Any, folder: Path) -> None:
    whole = spark.read.parquet(str(folder))
    right = spark.sql(
        "SELECT CAST(id * 617 % 1000 AS INT) AS k, CONCAT('n', id % 40) AS s FROM VALUES 5, 60, 61 AS t(id)"
    )
    assert check(spark, folder, whole, right, ["k", "s"]) < 8
    assert check(spark, folder, whole.where("id < 50"), right, "k", where="id < 50") == 1
    # In DataFrames of plain folders, every condition that reaches the scan skips files.
    assert check(spark, pss.read(spark, folder), whole, right, "k") < 8
    assert check(spark, whole.where("id % 2 = 1"), whole.where("id % 2 = 1"), right, ["s", "k"]) > 0
    assert pss.semi_join(folder, right, "k").columns == whole.join(right, "k", "left_semi").columns
    with pytest.raises(ValueError, match="table itself"):
        pss.semi_join(whole, right, "k", where="id = 1")
    with pytest.raises(ValueError, match="at least one column"):
        pss.semi_join(whole, right, [])
    with pytest.raises(ValueError, match="fpp"):
        pss.semi_join(whole, right, "k", fpp=2)
    with pytest.raises(ValueError, match="most_keys"):
        pss.semi_join(whole, right, "k", most_keys=-1)


def test_text_that_is_not_utf8_matches(spark: Any, tmp_path: Path) -> None:
    """Spark can represent such text, but Python would get other text."""
    frame = spark.sql("SELECT id, CAST(IF(id = 3, X'61FF', CAST(id AS BINARY)) AS STRING) AS s FROM range(0, 8, 1, 4)")
    frame.write.parquet(str(tmp_path / "t"))
    right = spark.sql("SELECT CAST(X'61FF' AS STRING) AS s")
    assert ids(pss.semi_join(tmp_path / "t", right, "s")) == ids(frame.join(right, "s", "left_semi"))


@pytest.mark.parametrize("kind", ["delta", "iceberg", "hudi_mor"])
def test_lake_tables_are_joined_with_few_files(
    spark: Any, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check deletes and logs, now and as of an earlier state, with an outdated index."""
    needs(kind)
    made = SparkTable(spark, kind, f"joined_{kind}", tmp_path / "t")
    made.insert(0, 40, files=4)
    table = ps.open_table(made.folder)
    first = table.opened.lake.snapshot().id
    table.build_index(["id", "name"], kind="sieve", progress=False)
    made.update("name = 'new'", "id IN (4, 31)")
    right = keys(spark, "name", ["'new'", "'n14'", "NULL", "'none'"], "string")
    check(spark, made.folder, made.whole(), right, "name")
    monkeypatch.setattr(semi_join, "FEW", 0)
    check(spark, table, made.whole(first), right, "name", as_of=first)
    table.update_index(progress=False)
    opened = check(spark, table, made.whole(), right, "name")
    assert opened <= len(table.plan("name IN ('new', 'n14')").kept) < len(table.plan().kept) or kind == "hudi_mor"
    made.drop()


def test_many_keys_skip_files_without_a_list_of_literals(spark: Any, folder: Path) -> None:
    """There are more keys than fit into a condition of Spark, so the index looks up the values."""
    whole = spark.read.parquet(str(folder))
    # All keys of the first file, and a thousand that do not exist.
    of_one = spark.range(50).selectExpr("CAST(id * 617 % 1000 AS INT) AS k")
    right = of_one.union(spark.range(2000, 3000).selectExpr("CAST(id AS INT) AS k"))
    assert check(spark, folder, whole, right, "k") == 1
    assert check(spark, folder, whole, right, "k", most_keys=100) == 8


def test_many_keys_of_a_column_with_a_dot_in_its_name(spark: Any, tmp_path: Path) -> None:
    rows = spark.range(0, 2000, 1, 2).selectExpr("id", "id AS `a.b`")
    rows.write.parquet(str(tmp_path / "t"))
    right = spark.range(0, 2400, 2).selectExpr("id AS `a.b`")
    check(spark, tmp_path / "t", rows, right, "a.b")


def test_the_docstring_example_runs(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parsieve.lake.storage.listing.TICK_NS", 0)
    monkeypatch.setattr("parsieve.lake.storage.listing.COARSE_NS", 0)
    text = inspect.getdoc(pss.semi_join) or ""
    test = doctest.DocTestParser().get_doctest(text, {"spark": spark}, "semi_join", None, None)
    said: list[str] = []
    result = doctest.DocTestRunner().run(test, out=said.append)
    assert result.attempted > 3
    assert result.failed == 0, "".join(said)

"""Some columns have other values in Spark than in parsieve. Conditions on them skip nothing that Spark selects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.spark_tables import ids, needs, wait_until_old

import parsieve as ps
import parsieve.spark as pss

pytest.importorskip("pyspark.sql", reason="pip install 'parsieve[spark]'")
pytestmark = pytest.mark.spark


@pytest.fixture
def drop_later(spark: Any) -> Iterator[Callable[[str], str]]:
    """Return a function that returns the name of a table, and drops the table after the test."""
    names: list[str] = []

    def name_table(name: str) -> str:
        names.append(name)
        return name

    yield name_table
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@contextmanager
def settings(spark: Any, values: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def first_ids(frame: Any) -> list[int]:
    return [row.id for row in frame.collect()]


def test_char_columns_of_delta(spark: Any, tmp_path: Path, drop_later: Callable[[str], str]) -> None:
    """Delta stores the values without spaces, and Spark adds them."""
    needs("delta")
    name = drop_later("padded")
    columns = "id INT, c CHAR(5), v VARCHAR(5), s STRUCT<a: CHAR(5)>, l ARRAY<CHAR(5)>"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING delta LOCATION '{tmp_path}/t'")
    values = "id, concat('ab', id), concat('ab', id), named_struct('a', concat('x', id)), array(concat('y', id))"
    spark.sql(f"INSERT INTO {name} SELECT {values} FROM (SELECT CAST(id AS INT) AS id FROM range(0, 4, 1, 4))")
    whole = spark.table(name)
    for where in ("c = 'ab1'", "c = 'ab1  '", "c IN ('ab1', 'ab2')", "s.a = 'x1   '", "array_contains(l, 'y1   ')"):
        expected = ids(whole.where(where))
        assert expected
        assert ids(pss.read(spark, name, where)) == expected, where
    assert ids(pss.read(spark, name, "v = 'ab1'")) == [1]
    assert first_ids(pss.read(spark, name, "c <> 'ab0'", order_by="c", limit=2)) == [1, 2]
    right = spark.sql("SELECT 'ab1  ' AS c")
    assert ids(pss.semi_join(name, right, "c")) == ids(whole.join(right, "c", "left_semi")) == [1]
    with pytest.raises(ps.UnsupportedError, match=r"column c of type string is char\(5\) to Spark"):
        pss.read(spark, name, [("c", "=", "ab1")])


def test_semi_joins_of_char_columns(spark: Any, tmp_path: Path, drop_later: Callable[[str], str]) -> None:
    """Spark's join adds spaces to the shorter values, so their bytes differ from those of the keys."""
    short, long = drop_later("short_texts"), drop_later("long_texts")
    spark.sql(f"CREATE TABLE {short} (id INT, c CHAR(5)) USING parquet LOCATION '{tmp_path}/short'")
    spark.sql(f"INSERT INTO {short} VALUES (1, 'ab1')")
    spark.sql(f"CREATE TABLE {long} (c CHAR(8)) USING parquet LOCATION '{tmp_path}/long'")
    spark.sql(f"INSERT INTO {long} SELECT concat('ab', id) FROM range(900)")
    for left in (short, spark.table(short)):
        assert ids(pss.semi_join(left, spark.table(long), "c")) == [1]


def test_partitions_of_the_catalog(spark: Any, tmp_path: Path, drop_later: Callable[[str], str]) -> None:
    """The catalog may give a folder another value than its name says, and have folders elsewhere."""
    name, folder, other = drop_later("catalog_partitions"), tmp_path / "t", tmp_path / "elsewhere"
    rows = spark.range(100, 200).selectExpr("id", "CAST(id % 3 AS INT) AS part")
    rows.coalesce(1).write.partitionBy("part").parquet(str(folder))
    spark.range(0, 50, 1, 1).write.parquet(str(other))
    spark.sql(f"CREATE TABLE {name} (id BIGINT, part INT) USING parquet PARTITIONED BY (part) LOCATION '{folder}'")
    spark.sql(f"ALTER TABLE {name} ADD PARTITION (part = 0)")
    spark.sql(f"ALTER TABLE {name} ADD PARTITION (part = 5) LOCATION '{folder}/part=1'")
    wait_until_old(tmp_path)
    whole = spark.table(name)
    for where in ("part = 5", "id = 151 AND part = 5", "part = 1", "part > 0 AND id < 110"):
        assert ids(pss.read(spark, name, where)) == ids(whole.where(where)), where
        assert ids(pss.read(spark, name).where(where)) == ids(whole.where(where)), where
    assert len(ids(whole.where("part = 5"))) == 34
    # Spark evaluates a condition of parsieve with its own values, too.
    assert ids(pss.read(spark, name, [("part", "=", 5)])) == ids(whole.where("part = 5"))
    assert ids(pss.semi_join(name, spark.sql("SELECT 5 AS part"), "part")) == ids(whole.where("part = 5"))
    # The catalog lacks the folder of `part = 2`.
    assert first_ids(pss.read(spark, name, order_by="id", limit=3)) == [100, 102, 103]
    spark.sql(f"ALTER TABLE {name} ADD PARTITION (part = 7) LOCATION '{other}'")
    assert first_ids(pss.read(spark, name, order_by="id", limit=3)) == [0, 1, 2]
    best = pss.read(spark, name, order_by="part", descending=True, limit=2)
    assert [row.part for row in best.collect()] == [7, 7]


def test_folders_that_are_no_partitions(spark: Any, tmp_path: Path, drop_later: Callable[[str], str]) -> None:
    name = drop_later("nested_folders")
    for part in (1, 2):
        folder = tmp_path / f"part={part}"
        folder.mkdir()
        rows = pa.table({"id": [part], "part": pa.array([100 * part], pa.int32())})
        pq.write_table(rows, folder / "0.parquet")
    wait_until_old(tmp_path)
    options = f"OPTIONS (recursiveFileLookup 'true', path '{tmp_path}')"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, part INT) USING parquet {options}")
    assert ids(pss.read(spark, name, "part = 100")) == ids(spark.table(name).where("part = 100")) == [1]


def test_columns_with_a_default(spark: Any, tmp_path: Path, drop_later: Callable[[str], str]) -> None:
    """Spark reads the default from files without the column. An index has nulls for them."""
    name, folder = drop_later("with_default"), tmp_path / "t"
    spark.sql(f"CREATE TABLE {name} (id BIGINT) USING parquet LOCATION '{folder}'")
    spark.sql(f"INSERT INTO {name} SELECT id FROM range(0, 10, 1, 1)")
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (x INT DEFAULT 42)")
    spark.sql(f"INSERT INTO {name} SELECT id, CAST(id AS INT) FROM range(10, 20, 1, 1)")
    for path in list(folder.glob("part-*")):
        # The first file defines the columns for parsieve.
        is_new = "x" in pq.read_schema(path).names
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        path.rename(path.with_name(f"{0 if is_new else 1}.parquet"))
    spark.sql(f"REFRESH TABLE {name}")
    wait_until_old(folder)
    pss.build_index(spark, name, "x", kind="sieve")
    for table, whole in ((name, spark.table(name)), (str(folder), spark.read.parquet(str(folder)))):
        for where in ("x = 42", "x IS NOT NULL", "x <> 15", "x = 15"):
            assert ids(pss.read(spark, table, where)) == ids(whole.where(where)), where
            assert ids(pss.read(spark, table).where(where)) == ids(whole.where(where)), where
        assert len(ids(whole.where("x = 42"))) == 10
    assert ids(pss.semi_join(name, spark.sql("SELECT 42 AS x"), "x")) == list(range(10))
    best = pss.read(spark, name, order_by="x", descending=True, limit=2)
    assert [row.x for row in best.collect()] == [42, 42]


def test_folders_with_escaped_characters(spark: Any, tmp_path: Path) -> None:
    """pyarrow escapes the bytes of `é`. Spark reads each of them as a character."""
    rows = pa.table({"id": [1, 2, 3], "name": ["é", "z", "a b"]})
    pq.write_to_dataset(rows, tmp_path, partition_cols=["name"])
    wait_until_old(tmp_path)
    whole = spark.read.parquet(str(tmp_path))
    for where in ("name <> 'é'", "name = 'Ã©'", "length(name) = 2", "name = 'a b'", "name > 'a'"):
        assert ids(pss.read(spark, str(tmp_path), where)) == ids(whole.where(where)), where
    expected = first_ids(whole.orderBy("name").limit(2))
    assert first_ids(pss.read(spark, str(tmp_path), order_by="name", limit=2)) == expected


def test_local_times_as_partitions_of_delta(spark: Any, tmp_path: Path, drop_later: Callable[[str], str]) -> None:
    needs("delta")
    name = drop_later("local_partitions")
    local = {
        "spark.sql.session.timeZone": "America/Los_Angeles",
        "spark.databricks.delta.write.utcTimestampPartitionValues": "false",
    }
    with settings(spark, local):
        columns = "(id INT, ts TIMESTAMP)"
        spark.sql(f"CREATE TABLE {name} {columns} USING delta PARTITIONED BY (ts) LOCATION '{tmp_path}/t'")
        spark.sql(f"INSERT INTO {name} VALUES (1, '2026-01-01 00:00:00'), (5, '2025-12-31 00:00:00')")
        where = "ts <= TIMESTAMP'2026-01-01 04:00:00Z'"
        assert first_ids(pss.read(spark, name, order_by="ts", limit=1)) == [5]
        assert first_ids(pss.read(spark, name, where, order_by="id", limit=1)) == [5]
        assert ids(pss.read(spark, name, where)) == [5]


def test_columns_that_spark_finds_by_their_ids(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    for number, name in enumerate(("id", "renamed")):
        schema = StructType([StructField(name, LongType(), True, {"parquet.field.id": 1})])
        frame = spark.createDataFrame([(number * 6 + 1,), (number * 6 + 2,)], schema)
        frame.coalesce(1).write.parquet(str(tmp_path / "parts" / str(number)))
        (part,) = (tmp_path / "parts" / str(number)).glob("part-*")
        (tmp_path / "t").mkdir(exist_ok=True)
        part.rename(tmp_path / "t" / f"{number}.parquet")
    folder = str(tmp_path / "t")
    wait_until_old(folder)
    pss.build_index(spark, folder, "id")
    with settings(spark, {"spark.sql.parquet.fieldId.read.enabled": "true"}):
        whole = spark.read.parquet(folder)
        for where in ("id = 7", "id > 1"):
            assert ids(pss.read(spark, folder, where)) == ids(whole.where(where)), where
        assert ids(whole) == [1, 2, 7, 8]
        assert first_ids(pss.read(spark, folder, order_by="id", descending=True, limit=2)) == [8, 7]


def test_integers_with_more_bits_than_in_the_catalog(
    spark: Any, tmp_path: Path, drop_later: Callable[[str], str]
) -> None:
    """Spark reads the lower bits of each number."""
    name = drop_later("narrow_integers")
    pq.write_table(pa.table({"id": [1, 2], "x": pa.array([4000, 40000], pa.int32())}), tmp_path / "0.parquet")
    spark.sql(f"CREATE TABLE {name} (id BIGINT, x SMALLINT) USING parquet LOCATION '{tmp_path}'")
    wait_until_old(tmp_path)
    with settings(spark, {"spark.sql.parquet.filterPushdown": "false"}):
        for where in ("x < 0", "x = -25536"):
            assert ids(pss.read(spark, name, where)) == ids(spark.table(name).where(where)) == [2], where


def test_a_plan_does_not_lose_values_that_the_type_of_the_table_cannot_represent(spark: Any, tmp_path: Path) -> None:
    """Spark alone finds no row, because no 32-bit integer has this value."""
    pq.write_table(pa.table({"x": pa.array([1], pa.int32()), "y": [7]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"x": pa.array([2**40], pa.int64()), "y": [8]}), tmp_path / "1.parquet")
    table = ps.open_table(tmp_path)
    for where in (f"x = {2**40}", f"NOT (x <> {2**40})", f"x = {2**40} OR y = 8", f"x = {2**40} OR y = 7"):
        with pytest.raises(ps.UnsupportedError, match=r"1\.parquet, column x: a file holds int64"):
            table.plan(where).to_spark(spark)
    (tmp_path / "1.parquet").unlink()
    assert ps.open_table(tmp_path).plan(f"x = {2**40} OR y = 7").to_spark(spark).count() == 1


def test_a_plan_does_not_lose_elements_that_the_type_of_the_table_cannot_represent(spark: Any, tmp_path: Path) -> None:
    for number, (value, kind) in enumerate([(1, pa.int32()), (2**40, pa.int64())]):
        columns = {
            "l": pa.array([[value]], pa.list_(kind)),
            "m": pa.array([[("a", value)]], pa.map_(pa.string(), kind)),
        }
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    table = ps.open_table(tmp_path)
    for where in (f"array_contains(l, {2**40})", f"m['a'] = {2**40}"):
        with pytest.raises(ps.UnsupportedError, match=r"1\.parquet, column .: a file holds "):
            table.plan(where).to_spark(spark).collect()
    (tmp_path / "1.parquet").unlink()
    assert ps.open_table(tmp_path).plan(f"array_contains(l, {2**40})").to_spark(spark).count() == 0


@pytest.mark.parametrize("wrong", [None, "orders"])
def test_errors_name_what_is_not_a_session(wrong: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "0.parquet")
    for work in (
        lambda: pss.read(wrong, str(tmp_path)),
        lambda: pss.build_index(wrong, str(tmp_path), "x"),
        lambda: pss.add_filters(wrong, str(tmp_path), columns=["x"]),
        lambda: ps.open_table(tmp_path).plan("x = 1").to_spark(wrong),
    ):
        with pytest.raises(TypeError, match=f"spark must be a SparkSession, not {wrong!r}"):
            work()

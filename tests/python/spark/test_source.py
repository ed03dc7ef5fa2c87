"""`spark.read.format("parsieve")` gives the rows of a full read, whatever Spark pushes down, and opens fewer files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from spark_tables import SparkTable, ids, needs, selected

import parsieve as ps
import parsieve.spark as pss
from parsieve.spark import versions

pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")
pytestmark = pytest.mark.spark

CONDITIONS = [
    "id = 7",
    "id IN (1, 55, 1000)",
    "id > 50 AND part = 1",
    "name LIKE 'n4%'",
    "name NOT LIKE 'n4%' AND id < 20",
    "price > 90",
    "price = double('NaN')",
    "price IS NULL",
    "NOT (id = 7) AND id < 9",
    "cost <= 1.25",
    "day = DATE '2026-01-07'",
    "flag",
    "NOT flag AND id < 9",
    "at < TIMESTAMP '1970-01-01 10:00:00'",
    "id = 3 OR name = 'n7'",
    "id <=> 4",
    "upper(name) = 'N14'",
]


@pytest.fixture
def pushing(spark: Any) -> Iterator[None]:
    if versions.installed().line < (4, 1):
        pytest.skip("conditions are handed over since PySpark 4.1")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    pss.register(spark)
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_rows_are_those_of_a_full_read(spark: Any, pushing: None, tmp_path: Path, kind: str) -> None:
    needs(kind)
    made = SparkTable(spark, kind, f"source_{kind}", tmp_path / "a table")
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    made.insert(0, 80)
    spark.conf.set("spark.sql.parquet.outputTimestampType", before)
    time.sleep(0.1)
    first = ps.open_table(made.folder)._lake.snapshot().id
    ps.open_table(made.folder).build_index(["id", "name"], kind="sieve", progress=False)
    made.delete("id = 7")
    made.update("name = 'new'", "id = 14")
    frame = spark.read.format("parsieve").load(made.folder)
    whole = made.whole()
    assert [(one.name, one.dataType) for one in frame.schema] == [(one.name, one.dataType) for one in whole.schema]
    assert sorted(map(str, frame.collect())) == sorted(map(str, whole.collect()))
    for where in CONDITIONS if kind == "parquet" else CONDITIONS[:4]:
        assert ids(frame.where(where)) == ids(whole.where(where)), where
    if kind != "parquet":
        then = spark.read.format("parsieve").option("as_of", str(first)).load(made.folder)
        assert ids(then.where("id = 7")) == [7]
    made.drop()


def test_what_is_skipped_is_not_opened(spark: Any, pushing: None, tmp_path: Path) -> None:
    spark.sql(selected(0, 80, 0, 8)).drop("part", "at").write.parquet(str(tmp_path / "t"))
    time.sleep(0.1)
    table = ps.open_table(tmp_path / "t")
    table.build_index("id", kind="sieve", progress=False)
    kept = table.plan("id = 33").files
    for file in (tmp_path / "t").glob("*.parquet"):
        if str(file) not in kept:
            data = file.read_bytes()
            footer = int.from_bytes(data[-8:-4], "little") + 8
            file.write_bytes(b"PAR1" + b"damaged!" * 10_000)
            file.write_bytes(file.read_bytes()[: len(data) - footer].ljust(len(data) - footer, b"x") + data[-footer:])
    frame = spark.read.format("parsieve").load(str(tmp_path / "t"))
    assert [row.name for row in frame.where("id = 33").collect()] == ["n31"]
    with pytest.raises(Exception, match=r"(?i)parquet|corrupt|thrift|page"):
        frame.collect()


def test_without_a_path(spark: Any, pushing: None) -> None:
    with pytest.raises(Exception, match="say which table"):
        spark.read.format("parsieve").load()


def test_older_sessions_say_what_is_missing(spark: Any) -> None:
    if versions.installed().line >= (4, 0):
        pytest.skip("there is no such thing as a data source in Python before PySpark 4")
    with pytest.raises(ps.UnsupportedError, match="PySpark 4"):
        pss.register(spark)

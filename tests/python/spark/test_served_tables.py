"""Spark's own Iceberg scans, planned by `parsieve serve`, return the rows of a full scan and open fewer files."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.serving import running
from support.spark_tables import needs

import parsieve as ps
from parsieve.server.app import local_app
from parsieve.server.settings import Limits
from parsieve.server.sql_catalog import LocalCatalog

pytestmark = pytest.mark.spark
_FILES = 8


@pytest.fixture(scope="module")
def served(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return Spark with the catalog `served`, and the tables in it: without deletes, with them, and with vectors."""
    from pyiceberg.catalog.sql import SqlCatalog

    needs("iceberg")
    folder = tmp_path_factory.mktemp("served")
    catalog = SqlCatalog("sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
    catalog.create_namespace("shop")
    for name, version in (("plain", 2), ("deletes", 2), ("vectors", 3)):
        _write(spark, name, version)
        catalog.register_table(("shop", name), _metadata(spark, name))
        ps.open_table(catalog.load_table(("shop", name))).build_index("id", progress=False)
    with running(local_app(LocalCatalog(catalog), Limits(page_size=3))) as uri:
        spark.conf.set("spark.sql.catalog.served", "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set("spark.sql.catalog.served.type", "rest")
        spark.conf.set("spark.sql.catalog.served.uri", uri)
        spark.conf.set("spark.sql.catalog.served.cache-enabled", "false")
        yield spark
    catalog.close()


def _write(spark: Any, name: str, version: int) -> None:
    """Write a table whose files all have nearly the same smallest and largest id."""
    spark.sql(
        f"CREATE TABLE iceberg.shop.{name} (id BIGINT, day DATE, at TIMESTAMP, price DECIMAL(9, 2), f FLOAT) "
        f"USING iceberg TBLPROPERTIES ('format-version' = '{version}', "
        "'write.delete.mode' = 'merge-on-read', 'write.distribution-mode' = 'none')"
    )
    spark.sql(
        f"INSERT INTO iceberg.shop.{name} SELECT /*+ REPARTITION({_FILES}, id) */ id, "
        "date_add(DATE '2026-01-01', CAST(id % 40 AS INT)), timestamp_micros(id * 3600000001), "
        "CAST(id / 4 AS DECIMAL(9, 2)), IF(id % 9 = 0, NULL, CAST(id / 10 AS FLOAT)) FROM range(6000)"
    )
    if name != "plain":
        spark.sql(f"DELETE FROM iceberg.shop.{name} WHERE id % 7 = 0")


def _metadata(spark: Any, name: str) -> str:
    rows = spark.sql(f"SELECT file FROM iceberg.shop.{name}.metadata_log_entries ORDER BY timestamp").collect()
    return str(rows[-1].file)


def _rows(spark: Any, table: str, where: str) -> list[Any]:
    return sorted(map(tuple, spark.sql(f"SELECT * FROM {table} WHERE {where}").collect()))


def _conditions(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    leaves: list[Callable[[], str]] = [
        lambda: f"id = {rng.randrange(6500)}",
        lambda: f"id IN ({rng.randrange(6000)}, {rng.randrange(6000)}, 99999)",
        lambda: f"id BETWEEN {(low := rng.randrange(6000))} AND {low + 20}",
        lambda: f"day = DATE '2026-01-{rng.randrange(1, 30):02}'",
        lambda: f"at < timestamp_micros({rng.randrange(6000)} * 3600000001)",
        lambda: f"price = {rng.randrange(6000) / 4}",
        lambda: f"f = CAST({rng.randrange(6000) / 10} AS FLOAT)",
        lambda: "f IS NULL",
        lambda: f"NOT (id > {rng.randrange(6000)})",
        lambda: f"f != CAST({rng.randrange(600)} AS FLOAT)",
    ]
    conditions = [leaf() for leaf in leaves]
    while len(conditions) < count:
        left, right = rng.choice(leaves)(), rng.choice(leaves)()
        conditions.append(f"({left}) {rng.choice(['AND', 'OR', 'AND NOT'])} ({right})")
    return conditions


@pytest.mark.parametrize("name", ["plain", "deletes", "vectors"])
def test_rows_are_those_of_a_full_scan(served: Any, name: str) -> None:
    for condition in _conditions(7, 14):
        expected = _rows(served, f"iceberg.shop.{name}", condition)
        assert _rows(served, f"served.shop.{name}", condition) == expected, condition


def test_spark_opens_only_the_planned_files(served: Any, spark: Any) -> None:
    """All files may hold the id by their statistics, so Spark itself opens all of them."""
    before = ps.metrics()
    assert [row.id for row in served.sql("SELECT id FROM served.shop.plain WHERE id = 3001").collect()] == [3001]
    planned = ps.metrics() - before
    assert planned.plans > 0
    assert (planned.files_kept / planned.plans, planned.files_skipped / planned.plans) == (1, _FILES - 1)
    _hide_other_files(spark, 3001)
    assert served.sql("SELECT count(*) AS n FROM served.shop.plain WHERE id = 3001").collect()[0].n == 1
    with pytest.raises(Exception, match="parquet"):
        spark.sql("SELECT sum(f) FROM iceberg.shop.plain WHERE id = 3001 OR id = 3002").collect()


def _hide_other_files(spark: Any, number: int) -> None:
    """Remove the data files without an id, to show that nothing opens them."""
    keep = spark.sql(f"SELECT _file FROM iceberg.shop.plain WHERE id = {number}").collect()[0]._file
    for row in spark.sql("SELECT file_path FROM iceberg.shop.plain.files").collect():
        if row.file_path != keep:
            Path(row.file_path.removeprefix("file:")).unlink()

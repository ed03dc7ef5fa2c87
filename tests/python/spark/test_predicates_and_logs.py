"""Predicates as SQL of Spark, and plans of Hudi tables with logs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.models.plan_truth import check_plans, random_predicate
from support.models.predicate_reference import rows
from support.models.predicate_strategies import COLUMNS, SCHEMA

import parsieve as ps
from parsieve.predicate import parse
from parsieve.predicate.render import to_spark
from parsieve.spark.runtime import versions

pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")]

# Spark has no type for times of day, and no nanoseconds.
NOT_IN_SPARK = ["clock", "ns"]


def test_predicates_as_spark_sql_select_the_right_rows(spark: Any, tmp_path: Path) -> None:
    random_ = random.Random(7)
    arrays = [
        pa.array([random_.choice([None, *values]) for _ in range(60)], kind) for kind, values, _ in COLUMNS.values()
    ]
    structs = [None, {"x": 1, "y z": "a"}, {"x": None, "y z": "it's"}, {"x": 2, "y z": None}]
    arrays.append(pa.array([random_.choice(structs) for _ in range(60)], SCHEMA.field("st").type))
    table = pa.table(arrays, schema=SCHEMA).drop(NOT_IN_SPARK).append_column("row", pa.array(range(60), pa.int64()))
    pq.write_table(table, tmp_path / "part.parquet", row_group_size=7)
    asked = [random_predicate(random_, table) for _ in range(80)]
    asked += [parse(f"f8 {op} 'NaN'", table.schema) for op in ("=", "!=", "<", "<=", ">", ">=")]
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        # Spark rejects dates before 1582 in files of unknown writers.
        frame = spark.read.option("datetimeRebaseMode", "CORRECTED").parquet(str(tmp_path))
        answers = frame.selectExpr("row", *(f"({to_spark(expr)}) AS c{n}" for n, expr in enumerate(asked))).collect()
        for number, expr in enumerate(asked):
            found = sorted(answer["row"] for answer in answers if answer[f"c{number}"])
            assert found == rows(expr, table), to_spark(expr)
        for expr in asked[:12]:
            # Here, Spark itself prunes.
            found = sorted(row["row"] for row in frame.where(to_spark(expr)).select("row").collect())
            assert found == rows(expr, table), to_spark(expr)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def hudi_write(frame: Any, folder: Path, operation: str, kind: str, **more: Any) -> None:
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "version",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.metadata.index.column.stats.enable": "false",
        **{f"hoodie.{one}.shuffle.parallelism": "1" for one in ("insert", "upsert", "delete", "bulkinsert")},
        **{"hoodie." + name.replace("__", "."): str(value) for name, value in more.items()},
    }
    frame.coalesce(1).write.format("hudi").options(**options).mode("append").save(str(folder))


@pytest.mark.parametrize("kind", ["MERGE_ON_READ", pytest.param("COPY_ON_WRITE", marks=pytest.mark.slow)])
def test_statistics_of_base_files_do_not_hide_rows_of_logs(spark: Any, tmp_path: Path, kind: str) -> None:
    """An upsert writes values outside of the base file's minimum and maximum. The index is updated later."""
    if "hudi" not in versions.installed().jars:
        pytest.skip("no jars of hudi for this PySpark")
    folder, random_ = tmp_path / "t", random.Random(3)

    def some(first: int, last: int, price: str, version: int) -> Any:
        return spark.sql(
            f"SELECT id, id % 2 AS part, {price} AS price, concat('n', id) AS name, {version} AS version "
            f"FROM range({first}, {last})"
        )

    def now() -> pa.Table:
        """Return the rows in an order that does not depend on the names of files, which are random."""
        return table.plan().to_arrow().sort_by("id")

    hudi_write(some(0, 40, "id * 10", 0), folder, "bulk_insert", kind)
    table = ps.open_table(folder)
    table.build_index(["price", "name"], progress=False)
    assert table.plan("price = 9999").kept == []
    hudi_write(some(4, 8, "9999", 1), folder, "upsert", kind)
    for row_groups in (None, True, False):
        plan = table.plan("price = 9999", row_groups=row_groups)
        assert sorted(plan.to_arrow()["id"].to_pylist()) == [4, 5, 6, 7]
        assert sorted(plan.to_polars().collect()["id"]) == [4, 5, 6, 7]
    check_plans(table, now(), random_, 4)
    table.update_index(progress=False)
    hudi_write(some(0, 4, "id", 2), folder, "delete", kind)
    compact = {"compact__inline": "true"} if kind == "MERGE_ON_READ" else {}
    hudi_write(some(10, 14, "-1", 2), folder, "upsert", kind, **compact)
    check_plans(table, now(), random_, 4)
    table.update_index(progress=False)
    check_plans(table, now(), random_, 4)
    assert sorted(table.plan("price = -1").to_arrow()["id"].to_pylist()) == [10, 11, 12, 13]
    assert table.plan("id < 4").to_arrow().num_rows == 0
    assert table.verify_index() == []


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_spark_reads_both_zeros_of_a_plan(spark: Any, tmp_path: Path, kind: pa.DataType) -> None:
    # Spark skips row groups by their dictionaries, which distinguish the zeros.
    for number, values in enumerate(([0.0, 2.0], [-0.0, 2.0], [-0.0, -1.0], [1.0, None])):
        columns = {"row": [2 * number, 2 * number + 1], "x": pa.array(values, kind)}
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    table = ps.open_table(tmp_path)

    def found(plan: ps.Plan) -> list[int]:
        return sorted(row.row for row in plan.to_spark(spark).select("row").collect())

    for zero in (0.0, -0.0):
        assert found(table.plan(keys={"x": pa.array([zero], kind)})) == [0, 2, 4]
        assert found(table.plan([("x", "=", zero)])) == [0, 2, 4]
        assert found(table.plan([("x", ">=", zero)])) == [0, 1, 2, 3, 4, 6]
        assert found(table.plan([("x", "<=", zero)])) == [0, 2, 4, 5]
        assert found(table.plan([("x", "!=", zero)])) == [1, 3, 5, 6]

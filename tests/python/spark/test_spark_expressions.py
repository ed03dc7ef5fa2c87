"""Spark builds the same indexes of expressions, and plans keep the rows that Spark finds for conditions on them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import expressions
from support.spark_tables import KINDS, SparkTable, ids, needs, settled

import parsieve as ps
import parsieve.spark as pss

pytestmark = pytest.mark.spark


def check_conditions(spark: Any, folder: Path, seed: str, count: int) -> int:
    """Compare plans with the rows that Spark finds, and return how many files they skip."""
    source = random.Random(seed)
    expressions.write_table(source, folder)
    table = settled(ps.open_table(folder))
    pss.build_index(spark, table, list(expressions.INDEXED))
    frame = spark.read.parquet(str(folder))
    skipped = 0
    for _ in range(count):
        condition = expressions.random_condition(source)
        rows = {row.id for row in frame.where(condition.engines["spark"]).select("id").collect()}
        plan = table.plan(condition.sql, on_unknown="error")
        assert rows <= expressions.kept_ids(plan, folder), condition.sql
        skipped += len(plan.skipped)
    return skipped


def test_the_index_of_an_expression_is_the_same_as_locally(spark: Any, tmp_path: Path) -> None:
    expressions.write_table(random.Random("expressions on Spark"), tmp_path / "t")
    local = settled(ps.open_table(tmp_path / "t", index_location=tmp_path / "local"))
    distributed = settled(ps.open_table(tmp_path / "t", index_location=tmp_path / "spark"))
    local.build_index(list(expressions.INDEXED), progress=False)
    pss.build_index(spark, distributed, list(expressions.INDEXED))
    stored = [
        sorted(path.read_bytes() for path in (tmp_path / name / "segments").iterdir()) for name in ("local", "spark")
    ]
    assert stored[0] == stored[1]


def test_spark_reads_the_rows_of_a_condition_on_an_expression(spark: Any, tmp_path: Path) -> None:
    rows = expressions.write_table(random.Random("rows of expressions on Spark"), tmp_path / "t")
    table = settled(ps.open_table(tmp_path / "t"))
    pss.build_index(spark, table, "lower(email)")
    word = next(text for text in rows["email"].to_pylist() if text and text.isascii())
    frame = pss.read(spark, table).where(f"lower(email) = '{word.lower()}'")
    expected = [
        row
        for row, text in zip(rows["id"].to_pylist(), rows["email"].to_pylist(), strict=True)
        if text is not None and text.lower() == word.lower()
    ]
    assert sorted(row.id for row in frame.select("id").collect()) == sorted(expected)


def test_scans_of_spark_skip_files_by_expressions(spark: Any, tmp_path: Path) -> None:
    for part in range(4):
        numbers = range(part * 20, part * 20 + 20)
        columns = {
            "id": numbers,
            "email": [f"U{number}@X.com" for number in numbers],
            "number": [str(number) for number in numbers],
            "payload": [f'{{"user": {{"id": "u{number}"}}}}' for number in numbers],
        }
        pq.write_table(pa.table(columns), tmp_path / f"{part}.parquet")
    table = settled(ps.open_table(tmp_path))
    table.build_index([*expressions.INDEXED[:3], "json_extract_string(payload, '$.user.id')", "number, id"])
    frame, pruned = spark.read.parquet(str(tmp_path)), pss.read(spark, table)
    for condition in (
        "lower(email) = 'u21@x.com'",
        "upper(email) IN ('U21@X.COM', 'U22@X.COM')",
        "CAST(number AS BIGINT) BETWEEN 25 AND 27",
        "get_json_object(payload, '$.user.id') = 'u33'",
        "number = '30' AND id > 25",
    ):
        query = pruned.where(condition)
        assert ids(query) == ids(frame.where(condition)), condition
        scan = pss.last_scan(query)
        assert scan is not None
        assert scan.files_kept == 1, condition


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_kind_of_table_while_it_changes(spark: Any, tmp_path: Path, kind: str) -> None:
    needs(kind)
    made = SparkTable(spark, kind, f"expressions_{kind}", tmp_path / "t")

    def check() -> int:
        skipped = []
        for condition in ("upper(name) = 'N14'", "upper(name) IS NULL", "name = 'n14' AND id BETWEEN 0 AND 30"):
            expected = ids(made.whole().where(condition))
            assert ids(pss.read(spark, table, condition)) == expected, condition
            plan = table.plan(condition, on_unknown="error")
            assert sorted(plan.to_arrow(["id"])["id"].to_pylist()) == expected, condition
            skipped.append(len(plan.skipped))
        return skipped[0]

    made.insert(0, 40, files=4)
    table = settled(ps.open_table(made.folder))
    pss.build_index(spark, table, ["upper(name)", "name, id"])
    assert check()
    made.update("name = 'N14'", "id IN (4, 31)")
    made.delete("id = 2 OR id BETWEEN 20 AND 24")
    check()
    settled(table).update_index(progress=False)
    check()
    made.insert(40, 80, 1)
    check()
    pss.update_index(spark, settled(table), compaction=False)
    assert check()
    table.compact_index()
    assert check()
    assert not [problem for problem in table.verify_index() if problem.loses_rows]
    made.drop()


def test_a_column_of_delta_is_renamed_and_widened(spark: Any, tmp_path: Path) -> None:
    needs("delta")
    name = f"delta.`{tmp_path / 't'}`"
    spark.sql(
        f"CREATE TABLE {name} (id INT, email STRING, tenant STRING) USING delta TBLPROPERTIES "
        "('delta.columnMapping.mode' = 'name')"
    )
    for part in range(3):
        values = "CAST(id AS INT) AS id, concat('U', id, '@x.com') AS email, concat('t', id % 3) AS tenant"
        spark.sql(f"INSERT INTO {name} SELECT {values} FROM range({part * 20}, {part * 20 + 20}, 1, 1)")
    table = ps.open_table(tmp_path / "t")
    table.build_index(["lower(email)", "tenant, id"], progress=False)
    assert len(table.plan("lower(email) = 'u7@x.com'").files) == 1
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN email TO address")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN email STRING")
    spark.sql(f"INSERT INTO {name} VALUES (90, 'U90@x.com', 't0', 'U7@x.com')")
    for _ in range(2):
        for condition, expected in (
            ("lower(address) = 'u7@x.com'", [7]),
            ("lower(email) = 'u7@x.com'", [90]),
            ("lower(email) IS NULL AND id < 2", [0, 1]),
            ("tenant = 't0' AND id BETWEEN 87 AND 95", [90]),
        ):
            assert sorted(table.plan(condition).to_arrow(["id"])["id"].to_pylist()) == expected, condition
            assert ids(pss.read(spark, table, condition)) == expected, condition
        table.update_index(progress=False)


def test_plans_keep_the_rows_that_spark_finds(spark: Any, tmp_path: Path) -> None:
    assert check_conditions(spark, tmp_path / "t", "1", 20)


@pytest.mark.slow
def test_plans_keep_the_rows_that_spark_finds_for_many_conditions(spark: Any, tmp_path: Path) -> None:
    assert sum(check_conditions(spark, tmp_path / f"t{seed}", f"{seed}", 50) for seed in range(10))

"""Spark builds the same indexes of expressions, and plans keep the rows that Spark finds for conditions on them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support import expressions
from support.spark_tables import settled

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


def test_plans_keep_the_rows_that_spark_finds(spark: Any, tmp_path: Path) -> None:
    assert check_conditions(spark, tmp_path / "t", "1", 20)


@pytest.mark.slow
def test_plans_keep_the_rows_that_spark_finds_for_many_conditions(spark: Any, tmp_path: Path) -> None:
    assert sum(check_conditions(spark, tmp_path / f"t{seed}", f"{seed}", 50) for seed in range(10))

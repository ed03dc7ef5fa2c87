"""Spark builds the same indexes of lists and maps, and returns the rows of conditions on their elements."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from support import lists
from support.spark_tables import settled

import parsieve as ps
import parsieve.spark as pss
from parsieve.predicate import parse
from parsieve.predicate.render import to_spark

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", ["sieve", "bloom"])
def test_the_index_of_a_list_is_the_same_as_locally(spark: Any, tmp_path: Path, kind: str) -> None:
    lists.write_table(random.Random(f"lists on Spark {kind}"), tmp_path / "t")
    local = settled(ps.open_table(tmp_path / "t", index_location=tmp_path / "local"))
    distributed = settled(ps.open_table(tmp_path / "t", index_location=tmp_path / "spark"))
    local.build_index(["tags", "box.tags", "labels.key"], kind, progress=False)
    pss.build_index(spark, distributed, ["tags", "box.tags", "labels.key"], kind)
    folder = "segments" if kind == "sieve" else "shelves"
    stored = [sorted(path.read_bytes() for path in (tmp_path / name / folder).iterdir()) for name in ("local", "spark")]
    assert stored[0] == stored[1]
    assert distributed.index_kinds() == dict.fromkeys(["tags.element", "box.tags.element", "labels.key"], kind)


def test_spark_returns_the_same_rows(spark: Any, tmp_path: Path) -> None:
    source = random.Random("rows of lists on Spark")
    rows = lists.write_table(source, tmp_path / "t")
    table = settled(ps.open_table(tmp_path / "t"))
    table.build_index(["tags", "labels.key"])
    frame = spark.read.parquet(str(tmp_path / "t"))
    for _ in range(25):
        condition = lists.random_condition(source)
        expected = [row["id"] for row in rows if condition.truth(row) is True]
        written = to_spark(parse(condition.sql, table.schema))
        assert sorted(row.id for row in frame.where(written).select("id").collect()) == expected, written


def test_conditions_of_spark_skip_files(spark: Any, tmp_path: Path) -> None:
    source = random.Random("conditions of Spark on lists")
    rows = lists.write_table(source, tmp_path / "t")
    table = settled(ps.open_table(tmp_path / "t"))
    table.build_index(["tags", "labels.key"])
    conditions = [lists.random_condition(source) for _ in range(60)]
    # Spark has no function for lists that contain all values, and its NOT differs for lists with nulls.
    chosen = [condition for condition in conditions if not re.search("NOT|list_has_all", condition.sql)][:10]
    skipped = 0
    for condition in chosen:
        sql = re.sub(r"\[([^']*?|'[^\]]*,.*?)\]", r"array(\1)", condition.sql)
        sql = re.sub("list_has_any|array_has_any", "arrays_overlap", sql)
        sql = re.sub("list_contains|list_has", "array_contains", sql)
        frame = pss.read(spark, table, sql)
        found = sorted(row.id for row in frame.select("id").collect())
        assert found == [row["id"] for row in rows if condition.truth(row) is True], sql
        skipped += len(table.plan(sql, on_unknown="error").skipped)
    assert skipped > 0

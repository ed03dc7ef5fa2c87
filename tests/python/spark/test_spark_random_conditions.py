"""Spark finds the same rows of random conditions and keys with parsieve as without, whatever index a table has."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import lists, texts
from support.programs import key_differences
from support.spark_tables import ids, settled

import parsieve as ps
import parsieve.spark as pss

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# Each test has as many conditions, and runs for this many tables.
PER_TABLE = 50
TABLES = pytest.mark.parametrize("number", range(10))
# Types of keys that Spark has.
KEYS = [kind for kind in key_differences.MAKERS if not (pa.types.is_uint64(kind) or pa.types.is_time(kind))]


def spark_sql_of_texts(condition: str) -> str:
    """Return a condition on texts as Spark writes it."""
    condition = condition.replace("starts_with(", "startswith(").replace("ends_with(", "endswith(")
    # A backslash in a regular expression needs no escape in a raw literal.
    other = r"[\x00-/:-@\[-`{-\x7f]"
    return re.sub(r"has_token\(s, '([^']*)'\)", lambda match: f"s RLIKE r'(^|{other}){match[1]}({other}|$)'", condition)


def random_text_condition(source: random.Random) -> str:
    """Return a condition on texts; some are regular expressions, which the generator for other engines lacks."""
    if source.random() < 0.2:
        text = source.choice(["error", "time-out", "GET", "id=", "x7", "0a9f", "us.r-", "^user", "(id|x7)=", "a_b$"])
        return f"s RLIKE '{text}'"
    return texts.random_condition(source)


@TABLES
def test_rows_of_conditions_on_texts(spark: Any, tmp_path: Path, number: int) -> None:
    skipped = 0
    source, folder = random.Random(f"texts on Spark {number}"), tmp_path / "t"
    folder.mkdir()
    history = texts.History(folder, source)
    for part in range(5):
        history.write(f"f{part}.parquet")
    table = settled(ps.open_table(folder))
    for kind in source.choice((["text"], ["words"], ["text", "words"], ["text", "sieve"])):
        pss.build_index(spark, table, "s", kind, unit=source.choice(("file", "row_group", "rows")))
    frame = spark.read.parquet(str(folder))
    for _ in range(PER_TABLE):
        condition = random_text_condition(source)
        written = spark_sql_of_texts(condition)
        expected = ids(frame.where(written))
        assert ids(pss.read(spark, table, written)) == expected, written
        # Of a regular expression, only the fixed text is used, so a plan cannot read the rows.
        plan = table.plan(condition, on_unknown="ignore")
        kept = history.kept(plan)
        assert set(expected) <= kept, condition
        if "RLIKE" not in condition:
            assert ids(plan.to_spark(spark)) == expected, condition
        skipped += history.next_id - len(kept)
    assert skipped


def spark_sql_of_lists(condition: str) -> str:
    """Return a condition on lists and maps as Spark writes it. Spark has no function for lists that hold all values."""

    def each_value(match: re.Match[str]) -> str:
        values = re.findall(r"CAST\([^)]*\)|'[^']*'|\d+", match[2])
        return "(" + " AND ".join(f"array_contains({match[1]}, {value})" for value in values) + ")"

    condition = re.sub(r"list_has_all\(([\w.]+), \[([^\]]*)\]\)", each_value, condition)
    condition = re.sub(r"(?:list|array)_has_any\(([\w.]+), \[([^\]]*)\]\)", r"arrays_overlap(\1, array(\2))", condition)
    return re.sub("list_contains|list_has", "array_contains", condition)


@TABLES
def test_rows_of_conditions_on_lists_and_maps(spark: Any, tmp_path: Path, number: int) -> None:
    skipped = 0
    columns = ("tags", "numbers", "ratios", "box.tags", "labels.key", "labels.value")
    source, folder = random.Random(f"lists on Spark {number}"), tmp_path / "t"
    rows = lists.write_table(source, folder)
    table = settled(ps.open_table(folder))
    chosen = source.sample(columns, source.randrange(1, len(columns)))
    pss.build_index(spark, table, chosen, source.choice(("sieve", "bloom", "both")))
    frame = spark.read.parquet(str(folder))
    for _ in range(PER_TABLE):
        condition = lists.random_condition(source)
        written = spark_sql_of_lists(condition.sql)
        expected = ids(frame.where(written))
        assert ids(pss.read(spark, table, written)) == expected, written
        # Spark has other rows for negations: of lists with nulls, and of lists with another zero.
        matching = [row["id"] for row in rows if condition.truth(row) is True]
        plan = table.plan(condition.sql, on_unknown="error")
        assert ids(plan.to_spark(spark)) == matching, condition.sql
        skipped += len(plan.skipped)
    assert skipped


@pytest.mark.parametrize("kind", KEYS, ids=str)
def test_rows_of_keys(spark: Any, tmp_path: Path, kind: pa.DataType) -> None:
    source, folder = random.Random(f"keys on Spark {kind}"), tmp_path / "t"
    folder.mkdir()
    for part in range(5):
        values = [None if source.random() < 0.1 else key_differences.MAKERS[kind](source) for _ in range(40)]
        values.sort(key=lambda value: (value is None, str(value)))
        columns = {"id": range(part * 100, part * 100 + 40), "x": pa.array(values, kind)}
        pq.write_table(pa.table(columns), folder / f"{part}.parquet", row_group_size=source.choice((7, 100)))
    table = settled(ps.open_table(folder))
    pss.build_index(spark, table, "x", source.choice(("sieve", "bloom")), unit=source.choice(("file", "row_group")))
    frame = spark.read.parquet(str(folder))
    for case in range(PER_TABLE):
        drawn = [key_differences.MAKERS[kind](source) for _ in range(source.choice((1, 2, 10, 30, 100)))]
        keys = pa.array([None if source.random() < 0.1 else key for key in drawn], kind)
        pq.write_table(pa.table({"x": keys}), tmp_path / f"keys-{case}.parquet")
        wanted = spark.read.parquet(str(tmp_path / f"keys-{case}.parquet"))
        expected = ids(frame.join(wanted, "x", "left_semi"))
        plan = table.plan(keys={"x": keys})
        assert ids(plan.to_spark(spark)) == expected, (kind, keys.to_pylist())
        # A join runs several jobs.
        if case % 5 == 0:
            assert ids(pss.semi_join(table, wanted, "x")) == expected, (kind, keys.to_pylist())

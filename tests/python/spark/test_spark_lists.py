"""Spark builds the same indexes of lists and maps, and returns the rows of conditions on their elements."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import lists
from support.spark_tables import ids, settled

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


# Conditions of Spark, and how many of the four files with a list, a map and texts can hold a match.
OF_SPARK = {
    "array_contains(tags, 'a21')": 1,
    "array_contains(tags, 'missing')": 0,
    "arrays_overlap(tags, array('a21', 'a3', NULL))": 2,
    "arrays_overlap(array('a21'), tags)": 1,
    "arrays_overlap(ratios, array(0.0D))": 1,
    "size(tags) = 2 AND array_contains(tags, 'a21')": 1,
    "labels['k'] = 11": 1,
    "labels['k'] IN (10, 11)": 1,
    "element_at(labels, 'k') BETWEEN 10 AND 12": 1,
    "element_at(labels, 'k') = 11 OR array_contains(tags, 'a3')": 2,
    "map_contains_key(labels, 'x2')": 1,
    "array_contains(map_values(labels), 11L)": 1,
    "names['k'] LIKE 'N3%'": 1,
    # These keep all files.
    "NOT array_contains(tags, 'a21')": 4,
    "labels['k'] IS NULL": 4,
    "tags[0] = 'a20'": 4,
    "exists(tags, x -> x = 'a20')": 4,
}


def test_scans_of_spark_skip_files_by_lists_and_maps(spark: Any, tmp_path: Path) -> None:
    for part in range(4):
        numbers = range(part * 20, part * 20 + 20)
        columns = {
            "id": pa.array(numbers),
            "tags": pa.array([[f"a{number}", None] for number in numbers]),
            "ratios": pa.array([[float(part or -0.0)] for _ in numbers]),
            "labels": pa.array(
                [[("k", part * 5 + number % 2), (f"x{part}", None)] for number in numbers],
                pa.map_(pa.string(), pa.int64()),
            ),
            "names": pa.array([[("k", f"N{part}")] for _ in numbers], pa.map_(pa.string(), pa.string())),
        }
        pq.write_table(pa.table(columns), tmp_path / f"{part}.parquet")
    table = settled(ps.open_table(tmp_path))
    table.build_index(["tags", "ratios", "labels.key", "labels.value", "names.value"])
    frame, pruned = spark.read.parquet(str(tmp_path)), pss.read(spark, table)
    for condition, files in OF_SPARK.items():
        query = pruned.where(condition)
        assert ids(query) == ids(frame.where(condition)), condition
        scan = pss.last_scan(query)
        assert scan is not None
        assert scan.files_kept == files, condition

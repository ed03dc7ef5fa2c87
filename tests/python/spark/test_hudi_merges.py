"""Merge-on-read Hudi tables whose logs have differing columns, late writes or duplicate keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.spark_tables import needs

import parsieve as ps
import parsieve.spark as pss

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::parsieve.ParsieveWarning")]


class Merged:
    """A merge-on-read table with one file group. Its base file has the given columns."""

    def __init__(
        self,
        spark: Any,
        folder: Path,
        version: str = "9",
        columns: str = "10L AS v, 0L AS a, 0L AS b",
        **options: str,
    ) -> None:
        needs("hudi")
        self.spark, self.folder = spark, str(folder / "t")
        self.options = {
            "hoodie.table.name": "t",
            "hoodie.write.table.version": version,
            "hoodie.write.auto.upgrade": "false",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "v",
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            **options,
        }
        self.write(f"SELECT id, {columns} FROM range(4)", "bulk_insert")

    def write(self, sql: str, operation: str = "upsert") -> None:
        from pyspark.sql.types import StructField, StructType

        selected = self.spark.sql(sql)
        # The columns of literals do not allow null, and such a column cannot be added to a table.
        schema = StructType([StructField(field.name, field.dataType) for field in selected.schema])
        frame = self.spark.createDataFrame(selected.collect(), schema).coalesce(1)
        options = {**self.options, "hoodie.datasource.write.operation": operation}
        frame.write.format("hudi").options(**options).mode("append").save(self.folder)

    def merge(self, sql: str, changes: str = "a = m.a, v = m.v") -> None:
        """Update some columns of some records, so that Hudi writes only these columns."""
        name = f"late{abs(hash(self.folder))}"
        self.spark.sql(sql).createOrReplaceTempView("late_updates")
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{self.folder}'")
        self.spark.sql(
            f"MERGE INTO {name} t USING late_updates m ON t.id = m.id WHEN MATCHED THEN UPDATE SET {changes}"
        )
        self.spark.sql(f"DROP TABLE {name}")

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return the rows that Spark reads."""
        return sorted(map(tuple, self.spark.read.format("hudi").load(self.folder).select(*columns).collect()))

    def planned_rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return the rows of a plan."""
        rows = ps.open_table(self.folder).plan().to_arrow(columns).to_pylist()
        return sorted(tuple(row.values()) for row in rows)


VERSIONS = pytest.mark.parametrize("version", ["6", "8", "9"])


@VERSIONS
def test_late_writes_after_one_added_column(spark: Any, tmp_path: Path, version: str) -> None:
    table = Merged(spark, tmp_path, version)
    table.write("SELECT 1L AS id, 50L AS v, 1L AS a, 1L AS b")
    table.write("SELECT 1L AS id, 40L AS v, 2L AS a, 2L AS b, 2L AS c")
    expected = table.rows("id", "v", "a", "b", "c")
    assert (1, 50, 1, 1, None) in expected
    assert table.planned_rows("id", "v", "a", "b", "c") == expected


@VERSIONS
@pytest.mark.parametrize("order", [30, 70])
def test_writes_between_two_added_columns(spark: Any, tmp_path: Path, version: str, order: int) -> None:
    table = Merged(spark, tmp_path, version)
    table.write("SELECT 1L AS id, 50L AS v, 1L AS a, 1L AS b")
    table.write(f"SELECT 1L AS id, {order}L AS v, 2L AS a, 2L AS b, 2L AS c")
    table.write("SELECT 2L AS id, 50L AS v, 3L AS a, 3L AS b, 3L AS c, 3L AS d")
    expected = table.rows("id", "v", "a", "b", "c", "d")
    check(table, expected, is_late=order < 50)


@pytest.mark.parametrize("version", ["8", "9"])
@pytest.mark.parametrize("order", [30, 70])
def test_writes_after_a_partial_update(spark: Any, tmp_path: Path, version: str, order: int) -> None:
    table = Merged(spark, tmp_path, version)
    table.merge("SELECT 1L AS id, 50L AS v, 1L AS a")
    table.write(f"SELECT 1L AS id, {order}L AS v, 2L AS a, 2L AS b")
    expected = table.rows("id", "v", "a", "b")
    assert ((1, 50, 1, 2) if order < 50 else (1, 70, 2, 2)) in expected
    check(table, expected, is_late=order < 50)


@VERSIONS
def test_a_column_that_was_dropped_and_added_again(spark: Any, tmp_path: Path, version: str) -> None:
    drops = {"hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true"}
    table = Merged(spark, tmp_path, version, **drops)
    table.write("SELECT 1L AS id, 50L AS v, 1L AS a, 1L AS b, 1L AS c")
    table.write("SELECT 1L AS id, 60L AS v, 2L AS a, 2L AS b")
    assert table.planned_rows("id", "v", "a", "b") == table.rows("id", "v", "a", "b")
    table.write("SELECT 2L AS id, 50L AS v, 3L AS a, 3L AS b, 3L AS c")
    assert (1, 60, 2, 2, None) in table.rows("id", "v", "a", "b", "c")
    with pytest.raises(ps.UnsupportedError, match="does not have all columns of the records that it replaces"):
        table.planned_rows("id", "c")


@pytest.mark.parametrize("version", ["8", "9"])
def test_duplicate_keys(spark: Any, tmp_path: Path, version: str) -> None:
    """A bulk insert does not remove duplicates. MERGE INTO changes all records of a key, by their positions."""
    table = Merged(spark, tmp_path, version)
    table.write("SELECT 1L AS id, 10L AS v, 5L AS a, id AS b FROM range(1, 3)", "insert")
    steps: list[Callable[[], None]] = [
        lambda: table.merge("SELECT 1L AS id, 50L AS v, 7L AS a"),
        lambda: table.merge("SELECT 1L AS id, 40L AS v, 8L AS a"),
        lambda: table.write("SELECT 1L AS id, 60L AS v, 9L AS a, 9L AS b"),
    ]
    for step in steps:
        step()
        expected = table.rows("id", "v", "a", "b")
        assert table.planned_rows("id", "v", "a", "b") == expected
        found = [row for row in expected if row[2] == 7]
        assert rows_where(table, "a = 7") == found


@VERSIONS
def test_texts_that_order_records_in_parquet_logs(spark: Any, tmp_path: Path, version: str) -> None:
    """Spark compares the text of the last record of the log instead of the record's own."""
    options = {"hoodie.logfile.data.block.format": "parquet"}
    table = Merged(spark, tmp_path, version, "'f' AS v, 0L AS a, 0L AS b", **options)
    table.write("SELECT 1L AS id, 'h' AS v, 1L AS a, 1L AS b UNION ALL SELECT 2L, 'c', 1L, 1L")
    assert table.rows("id", "v", "a")[1] == (1, "f", 0)
    with pytest.raises(ps.UnsupportedError, match="Parquet's format, in which Spark does not order texts such as v"):
        table.planned_rows("id")


@pytest.mark.parametrize("version", ["8", "9"])
def test_partial_updates_that_mark_deleted_records(spark: Any, tmp_path: Path, version: str) -> None:
    """Spark takes the mark from another column, so it keeps a record that the package `hudi` deletes."""
    names = [f"f{number}" for number in range(8)]
    columns = ["10L AS v", *(f"'x' AS {name}" for name in ["mark", *names])]
    options = {"hoodie.payload.delete.field": "mark", "hoodie.payload.delete.marker": "D"}
    table = Merged(spark, tmp_path, version, ", ".join(columns), **options)
    changes = ["mark = 'D'", "v = m.v", *(f"{name} = 'y'" for name in names)]
    table.merge("SELECT 1L AS id, 40L AS v", ", ".join(changes))
    assert (1, 40, "D", *["y"] * 8) in table.rows("id", "v", "mark", *names)
    with pytest.raises(ps.UnsupportedError, match="in which Spark does not find the column mark"):
        table.planned_rows("id")


def test_duplicate_keys_with_positions_in_some_logs(spark: Any, tmp_path: Path) -> None:
    table = Merged(spark, tmp_path)
    table.write("SELECT 1L AS id, 10L AS v, 5L AS a, id AS b FROM range(1, 3)", "insert")
    table.merge("SELECT 1L AS id, 50L AS v, 7L AS a")
    name = f"positions{abs(hash(table.folder))}"
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{table.folder}'")
    spark.sql(f"UPDATE {name} SET a = 8 WHERE id = 2")
    spark.sql(f"DROP TABLE {name}")
    with pytest.raises(ps.UnsupportedError, match="occupies more than one position"):
        table.planned_rows("id")


def test_an_index_leaves_out_late_writes(spark: Any, tmp_path: Path) -> None:
    """The table has a second file group, which a plan of the index skips."""
    table = Merged(spark, tmp_path, **{"hoodie.parquet.small.file.limit": "0"})
    table.write("SELECT 8L AS id, 10L AS v, 0L AS a, 0L AS b", "insert")
    table.merge("SELECT 1L AS id, 50L AS v, 1L AS a")
    table.write("SELECT 1L AS id, 30L AS v, 2L AS a, 2L AS b")
    report = ps.open_table(table.folder).build_index("b", kind="sieve", progress=False)
    assert len(report.left_out) == 1
    assert "late writes" in report.left_out[0].reason
    plan = ps.open_table(table.folder).plan("b = 2")
    assert (len(plan.files), len(ps.open_table(table.folder).plan().files)) == (1, 2)
    assert pss.read(spark, table.folder, "b = 2").select("id", "b").collect() == [(1, 2)]


def rows_where(table: Merged, condition: str) -> list[tuple[Any, ...]]:
    rows = ps.open_table(table.folder).plan(condition).to_arrow(["id", "v", "a", "b"]).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def check(table: Merged, expected: list[tuple[Any, ...]], *, is_late: bool) -> None:
    columns = ["id", "v", "a", "b", "c", "d"][: len(expected[0])]
    if not is_late:
        assert table.planned_rows(*columns) == expected
        return
    with pytest.raises(ps.UnsupportedError, match=r"the package hudi may merge records of .* late writes"):
        table.planned_rows(*columns)

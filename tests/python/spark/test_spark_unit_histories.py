"""Plans of long random histories that Spark writes keep the physical position of each matching row.

The tables have deletion vectors, position deletes and Hudi logs. `plan/test_unit_histories.py` has the other tables.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.models.position_truth import VERSION
from support.models.unit_histories import Effort, Row, Rows, UnitTable, live
from support.spark_tables import SparkTable, needs

import parsieve as ps

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, uid BIGINT, key BIGINT, name STRING, real DOUBLE, at TIMESTAMP"
# `id` is the record key: an update changes `uid` and keeps `id`.
DRAWN = "id BIGINT, uid BIGINT, key BIGINT, name STRING, real DOUBLE, micros BIGINT"


class SparkUnitTable(UnitTable):
    """A table that Spark SQL writes."""

    def __init__(self, random_: random.Random, spark: Any, kind: str, folder: Path) -> None:
        super().__init__(random_)
        self.spark, self.kind = spark, kind
        # Hudi cleans after ten commits, and a state may take two of them.
        self.readable_states = 3 if kind.startswith("hudi") else 0
        self.made = SparkTable(spark, kind, f"units_{kind}_{folder.name}", folder / "t", COLUMNS, None)
        self._opened = ps.open_table(self.made.folder)

    def open(self) -> ps.Table:
        return ps.open_table(self.made.folder)

    def state(self) -> Any:
        return self._opened.opened.lake.snapshot().id

    def _insert(self, rows: Rows) -> None:
        drawn = [(uid % VERSION, uid, *values[:3], _micros(values)) for uid, values in rows.items()]
        frame = self.spark.createDataFrame(drawn, DRAWN).coalesce(1)
        frame.createOrReplaceTempView("drawn_rows")
        selected = "SELECT id, uid, key, name, real, timestamp_micros(micros) AS at FROM drawn_rows"
        self.spark.sql(f"INSERT INTO {self.made.name} {selected}")

    def _replace(self, gone: list[int], new: Rows) -> None:
        condition = f"id IN ({', '.join(str(uid % VERSION) for uid in gone)})"
        if new.keys() == {uid + VERSION for uid in gone}:
            self.made.update(f"uid = uid + {VERSION}, key = key + 17", condition)
            return
        self.made.delete(condition)
        if new:
            self._insert(new)

    def cluster(self) -> None:
        """Merge the logs, deletes and small files of a table into new files."""
        if self.kind == "delta":
            self.spark.sql(f"OPTIMIZE {self.made.name} ZORDER BY (key)")
        elif self.kind == "iceberg":
            name = self.made.name.removeprefix("iceberg.")
            options = "map('rewrite-all', 'true')"
            self.spark.sql(f"CALL iceberg.system.rewrite_data_files(table => '{name}', options => {options})")
        elif self.kind == "hudi_mor" and self.random.random() < 0.5:
            options = "hoodie.compact.inline.max.delta.commits=1"
            for op in ("schedule", "run"):
                self.spark.sql(
                    f"CALL run_compaction(table => '{self.made.name}', op => '{op}', options => '{options}')"
                )
        else:
            call = f"CALL run_clustering(table => '{self.made.name}', order => 'key', op => 'scheduleAndExecute')"
            self.spark.sql(call).collect()


def _micros(row: Row) -> int:
    return int(row[3].timestamp()) * 1_000_000 + int(row[3].microsecond)


@pytest.mark.parametrize("kind", ["delta", "hudi_mor"])
def test_plans_of_a_short_spark_history_keep_the_position_of_each_match(spark: Any, tmp_path: Path, kind: str) -> None:
    needs(kind.partition("_")[0])
    unit_table = SparkUnitTable(random.Random(1), spark, kind, tmp_path)
    assert live(unit_table, Effort(commits=8, rows=40, check_every=4, plans=3)) > 100
    unit_table.made.drop()


@pytest.mark.slow
@pytest.mark.timeout(5000)
@pytest.mark.parametrize("kind", ["delta", "iceberg", "hudi_mor", "hudi_cow"])
def test_plans_of_ten_thousand_row_operations_in_spark_keep_the_position_of_each_match(
    spark: Any, tmp_path: Path, kind: str
) -> None:
    needs(kind.partition("_")[0])
    unit_table = SparkUnitTable(random.Random(2), spark, kind, tmp_path)
    commits, rows = (100, 150) if kind.startswith("hudi") else (200, 60)
    assert live(unit_table, Effort(commits, rows, check_every=10, plans=4)) >= 10_000
    unit_table.made.drop()

"""Spark's own reader reads only the kept row groups of plain folders, also if a file has several splits."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.spark_tables import ids, settled

import parsieve as ps
import parsieve.spark as pss
from parsieve.spark.runtime.gateway import query_of
from parsieve.spark.scan.record import log_scan

pytestmark = pytest.mark.spark
FILES, GROUPS, ROWS = 3, 8, 50


@pytest.fixture
def table(tmp_path: Path) -> ps.Table:
    """Write files whose keys are scattered over all row groups, and index them by row group."""
    folder = tmp_path / "orders"
    folder.mkdir()
    keys = list(range(FILES * GROUPS * ROWS))
    random.Random(1).shuffle(keys)
    for number in range(FILES):
        rows = keys[number * GROUPS * ROWS : (number + 1) * GROUPS * ROWS]
        data = pa.table({"id": rows, "text": [f"{key:030}" for key in rows]})
        pq.write_table(data, folder / f"part-{number}.parquet", row_group_size=ROWS)
    table: ps.Table = settled(ps.open_table(folder))
    table.build_index("id", kind="sieve", unit="row_group", progress=False)
    return table


@contextmanager
def settings(spark: Any, **values: str) -> Iterator[None]:
    names = {f"spark.sql.{name.replace('_', '.')}": value for name, value in values.items()}
    before = {name: spark.conf.get(name) for name in names}
    try:
        for name, value in names.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def rows_read(frame: Any) -> tuple[list[int], int]:
    """Return the matching ids, and how many rows the scan of the file returned."""
    found = ids(frame)
    leaves = query_of(frame).executedPlan().collectLeaves()
    scan = leaves.apply(0)
    query_of(frame).executedPlan().executeCollect()
    return found, int(scan.metrics().apply("numOutputRows").value())


@pytest.mark.parametrize("vectorized", ["true", "false"])
@pytest.mark.parametrize("split", ["128MB", "5000b", "900b"])
def test_spark_reads_only_the_kept_row_groups(spark: Any, table: ps.Table, split: str, vectorized: str) -> None:
    options = {
        "adaptive_enabled": "false",
        "files_maxPartitionBytes": split,
        # So that Spark itself skips no row group.
        "parquet_filterPushdown": "false",
        "parquet_enableVectorizedReader": vectorized,
    }
    with settings(spark, **options):
        for keys in [(7,), (7, 500, 1100), tuple(range(40))]:
            plan = table.plan(f"id IN {keys}" if len(keys) > 1 else f"id = {keys[0]}")
            groups = sum(GROUPS if kept is None else len(kept) for kept in plan.row_groups.values())
            assert groups <= len(keys)
            frame = pss.read(spark, table, f"id IN ({', '.join(map(str, keys))})")
            found, rows = rows_read(frame)
            assert found == sorted(keys)
            assert rows == groups * ROWS


def test_a_file_that_was_replaced_is_read_completely(spark: Any, table: ps.Table) -> None:
    path = Path(table.uri) / "part-0.parquet"
    frame = pss.read(spark, table, "id = 7")
    assert ids(frame) == [7]
    data = pa.table({"id": list(range(7, 7 + 400)), "text": ["x"] * 400})
    new = path.with_name(".new")
    pq.write_table(data, new, row_group_size=300)
    new.replace(path)
    expected = ids(spark.read.parquet(str(table.uri)).where("id = 7"))
    # The index knows another version of the file, with other row groups.
    assert ids(pss.read(spark, table, "id = 7")) == expected
    assert 7 in expected


def test_queries_of_one_dataframe_are_planned_at_the_same_time(
    spark: Any, table: ps.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each query waits after it has chosen its files until the other one has chosen its own."""
    file = pq.ParquetFile(f"{table.uri}/part-0.parquet")
    first, second = (file.read_row_group(number)["id"][0].as_py() for number in range(2))
    both_have_chosen = threading.Barrier(2)

    def wait(*arguments: Any) -> Any:
        both_have_chosen.wait(60)
        return log_scan(*arguments)

    monkeypatch.setattr("parsieve.spark.scan.file_index.log_scan", wait)
    frame = pss.read(spark, table)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda key: ids(frame.where(f"id = {key}")), [first, second]))
    assert not both_have_chosen.broken
    assert found == [[first], [second]]

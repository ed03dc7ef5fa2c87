"""`last_scan` and the log show which files Spark skipped."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from support.spark_tables import SparkTable, ids, needs, settled

import parsieve as ps
import parsieve.spark as pss
from parsieve.plan.open_table import OpenTable
from parsieve.spark.scan.last_scan import MOST_KEPT, _scans

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(spark: Any, tmp_path: Path) -> Path:
    path = tmp_path / "orders"
    spark.range(0, 1000, 1, 10).write.parquet(str(path))
    settled(ps.open_table(path)).build_index("id", progress=False)
    return path


def test_a_scan_is_recorded_and_logged(spark: Any, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "parsieve.spark")
    frame = pss.read(spark, folder)
    assert frame.where("id IN (7, 700)").count() == 2
    scan = pss.last_scan(frame)
    assert scan is not None
    assert (scan.files_kept, scan.files_total) == (2, 10)
    sizes = sorted(path.stat().st_size for path in folder.glob("*.parquet"))
    assert scan.bytes_total == sum(sizes)
    assert scan.bytes_kept is not None
    assert sizes[0] * 2 <= scan.bytes_kept <= sizes[-1] * 2
    assert sum(scan.evidence.values()) == 8
    assert scan.table == str(folder)
    assert str(scan).startswith("orders: 2 of 10 files, ")
    assert [record.getMessage() for record in caplog.records if record.name == "parsieve.spark"] == [str(scan)]
    # If no query has run yet, `last_scan` plans one and reads nothing.
    assert pss.last_scan(pss.read(spark, folder, "id = 7")).files_kept == 1  # type: ignore[union-attr]
    assert pss.last_scan(spark.range(3)) is None
    assert pss.last_scan(spark.read.parquet(str(folder))) is None


def test_the_scan_of_a_plan_is_recorded(spark: Any, folder: Path) -> None:
    frame = ps.open_table(folder).plan("id = 7").to_spark(spark)
    assert ids(frame) == [7]
    scan = pss.last_scan(frame)
    assert scan is not None
    assert (scan.files_kept, scan.files_total) == (1, 10)
    assert sum(scan.evidence.values()) == 9


def test_a_failed_plan_is_recorded(spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pss.read(spark, folder, "id = 7")

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("the disk is on fire")

    monkeypatch.setattr(OpenTable, "plan", broken)
    assert ids(frame) == [7]
    scan = pss.last_scan(frame)
    assert scan is not None
    assert scan.files_kept == scan.files_total == 10
    assert scan.notes == ("no file was skipped: OSError: the disk is on fire",)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "hudi_mor"])
def test_scans_of_lakes_are_recorded(spark: Any, tmp_path: Path, kind: str) -> None:
    needs(kind)
    made = SparkTable(spark, kind, f"scans_{kind}", tmp_path / "t")
    # Each insert writes at least one file in each partition.
    for first in (0, 40, 80):
        made.insert(first, first + 40)
    table = ps.open_table(made.folder)
    table.build_index("id", progress=False)
    total = len(table.plan().files)
    frame = pss.read(spark, table, "id = 42")
    other = pss.read(spark, table, "id IN (42, 7)")
    few, more = len(table.plan("id = 42").files), len(table.plan("id IN (42, 7)").files)
    assert few < more < total
    for one, kept in ((frame, few), (other, more), (frame.select("name").where("name IS NOT NULL"), few)):
        one.collect()
        scan = pss.last_scan(one)
        assert scan is not None, kind
        assert (scan.files_kept, scan.files_total) == (kept, total)
        assert scan.bytes_kept is not None
        assert scan.bytes_total is not None
        assert 0 < scan.bytes_kept < scan.bytes_total
    planned = pss.last_scan(table.plan("id = 42").to_spark(spark))
    assert planned is not None
    assert planned.files_kept == few
    assert len(_scans) <= MOST_KEPT
    made.drop()


def test_sizes_have_readable_units() -> None:
    for kept, total, said in (
        (78_000_000, 305_000_000, "78 of 305 MB"),
        (0, 9_000, "0 of 9 kB"),
        (12_345, 99_000, "12.3 of 99 kB"),
        (None, None, ""),
    ):
        assert str(pss.Scan("s3://lake/orders/", 1, 2, kept, total)) == "orders: 1 of 2 files" + (said and f", {said}")

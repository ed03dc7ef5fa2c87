"""Conditions on timestamps that are stored as INT96 lose no row, and skip files."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.spark_tables import ids, ids_and_files, settled

import parsieve as ps
import parsieve.spark as pss
from parsieve.predicate.read.arrow import parse_expression
from parsieve.spark.pushdown.int96 import FEW, READ, as_stored

SCHEMA = pa.schema([("at", READ)])
MICROS = [-2, -1, 0, 1, 2, 10, 9_223_372_036_854_775, 9_223_372_036_854_776, -9_223_372_036_854_776, 2**60]


def moment(micros: int) -> Any:
    return pa.scalar(micros, pa.int64()).cast(READ)


def test_every_stored_timestamp_that_spark_matches_is_selected() -> None:
    """Checked for both ways of truncation, and compared with pyarrow."""
    nanos = sorted({n + d for n in (-2000, -1000, 0, 1000, 2000, 10_000) for d in (-999, -1, 0, 1, 500, 999)})
    nanos += [-(2**63) + 1, 2**63 - 1, 9_223_372_036_854_775_000]
    at = pc.field("at")
    forms = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
    asked = [form(at, moment(micros)) for micros in MICROS for form in forms]
    asked += [
        at.isin(pa.array([1, 2, 10]).cast(READ)),
        ~at.isin(pa.array([1, 2, 10]).cast(READ)),
        at.isin(pa.array(range(FEW + 5)).cast(READ)),
        at.is_null(),
        ~(at < moment(1)) | (at == moment(-1)),
        ~((at > moment(-1)) & (at < moment(2))),
    ]
    for one in asked:
        held = as_stored(parse_expression(one, SCHEMA, None, nan_is_greatest=True), ["at"])
        for cut in (_to_the_floor, _to_zero):
            rows = pa.table(
                {
                    "at": pa.array([None, *(cut(n) for n in nanos)], pa.int64()).cast(READ),
                    "n": pa.array([None, *nanos], pa.int64()),
                }
            )
            wanted = rows.filter(one)["n"].to_pylist()
            found = _matching(held, [None, *nanos])
            assert set(wanted) <= found, (str(one), str(held))


def _to_the_floor(nanos: int) -> int:
    return nanos // 1000


def _to_zero(nanos: int) -> int:
    return -(-nanos // 1000) if nanos < 0 else nanos // 1000


def _matching(held: Any, nanos: list[int | None]) -> set[int | None]:
    from support.models.predicate_reference import rows as matching

    table = pa.table({"at": pa.array(nanos, pa.int64()).cast(pa.timestamp("ns"))})
    return {nanos[number] for number in matching(held, table)}


@pytest.mark.spark
def test_files_are_skipped_by_int96_timestamps(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    rows = "timestamp_micros(1767225600000000 + id * 617 % 160 * 3600000001) AS at"
    spark.range(0, 160, 1, 8).selectExpr("id", rows).write.parquet(str(folder))
    [file, *_] = folder.glob("*.parquet")
    assert pq.ParquetFile(file).schema.column(1).physical_type == "INT96"
    # A file of another writer, with nanoseconds at the edges of a microsecond, and one beyond the range of nanoseconds.
    fine = [1767225600000000999, 1767225600000000001, 1767225599999999999]
    other = pa.table({"id": [1000, 1001, 1002], "at": pa.array(fine, pa.timestamp("ns"))})
    pq.write_table(other, folder / "other.parquet", use_deprecated_int96_timestamps=True)
    spark.sql("SELECT 2000L AS id, TIMESTAMP '9999-01-01 00:00:00' AS at").coalesce(1).write.mode("append").parquet(
        str(folder)
    )
    table = settled(ps.open_table(folder))
    table.build_index("at", kind="sieve", progress=False)
    whole = spark.read.parquet(str(folder))
    opened = {}
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for name in ("UTC", "America/New_York"):
            spark.conf.set("spark.sql.session.timeZone", name)
            for where in (
                "at = timestamp_micros(1767225600000000)",
                "at = timestamp_micros(1767225599999999)",
                "at < timestamp_micros(1767225600000000)",
                "at <= timestamp_micros(1767225600000000 + 3600000001)",
                "at > timestamp_micros(1767225600000000 + 159 * 3600000001)",
                "at != timestamp_micros(1767225600000000)",
                "at IN (timestamp_micros(1767225600000000), timestamp_micros(1767225600000000 + 5 * 3600000001))",
                "at > TIMESTAMP '9998-01-01 00:00:00'",
                "at IS NULL",
            ):
                found, opened[where] = ids_and_files(pss.read(spark, folder, where))
                assert found == ids(whole.where(where)), where
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    # The file with values beyond the range is never skipped.
    assert opened["at IS NULL"] <= 1
    assert opened["at = timestamp_micros(1767225600000000)"] <= 3
    assert opened["at < timestamp_micros(1767225600000000)"] <= 2
    assert ids(pss.semi_join(folder, whole.where("id IN (7, 1001)").select("at"), "at")) == [0, 7, 1000, 1001]
    with pytest.raises(ps.UnsupportedError, match="is timestamp to Spark"):
        table.plan("at > TIMESTAMP '2026-01-01 00:00:00.000000001'").to_spark(spark)

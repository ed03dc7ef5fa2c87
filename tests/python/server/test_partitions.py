"""Tables with each kind of partition: scans that the server plans return the rows that pyiceberg plans itself."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import DoubleType, LongType, NestedField, StringType
from support.iceberg_manifests import HandWrittenTable
from support.serving import client, running, sql_catalog

import parsieve as ps
from parsieve.server.app import local_app
from parsieve.server.rest_app import rest_app
from parsieve.server.rest_catalog import RestCatalog
from parsieve.server.settings import Limits
from parsieve.server.sql_catalog import LocalCatalog

ROWS = range(60)
START = dt.datetime(2026, 1, 1)
TABLE = pa.table(
    {
        "id": pa.array(ROWS, pa.int64()),
        "number": pa.array([row % 3 for row in ROWS], pa.int32()),
        "text": [f"a{row % 4}" for row in ROWS],
        "time": pa.array([START + dt.timedelta(hours=7 * row) for row in ROWS], pa.timestamp("us")),
        "zoned": pa.array([START + dt.timedelta(hours=9 * row) for row in ROWS], pa.timestamp("us", "UTC")),
        "day": [START.date() + dt.timedelta(days=row % 5) for row in ROWS],
        "price": pa.array([Decimal(row % 4) / 10 for row in ROWS], pa.decimal128(9, 2)),
        "flag": [row % 2 == 0 for row in ROWS],
        "data": pa.array([bytes([row % 3, 255]) for row in ROWS], pa.binary()),
        "real": [row % 3 + 0.5 for row in ROWS],
    }
)
PARTITIONS: list[tuple[str, Any]] = [
    *((name, IdentityTransform()) for name in TABLE.schema.names if name not in ("id", "zoned")),
    ("time", DayTransform()),
    ("zoned", MonthTransform()),
    ("zoned", HourTransform()),
    ("day", YearTransform()),
    ("id", BucketTransform(4)),
    ("text", TruncateTransform(1)),
    ("number", TruncateTransform(2)),
]
FILTERS = [
    "id = 7",
    "number != 1",
    "NOT (text = 'a1')",
    "text LIKE 'a2%'",
    "day = '2026-01-03'",
    "time > '2026-01-10T00:00:00'",
    "zoned < '2026-01-05T00:00:00+00:00'",
    "price = 0.20",
    "flag = true",
    "real > 1.0",
]


def test_each_kind_of_partition(tmp_path: Path) -> None:
    catalog = sql_catalog(tmp_path)
    for number, (column, transform) in enumerate(PARTITIONS):
        table = catalog.create_table(f"shop.t{number}", schema=TABLE.schema)
        with table.update_spec() as spec:
            spec.add_field(column, transform)
        table.append(TABLE)
    with running(local_app(LocalCatalog(catalog), Limits())) as uri:
        served = client(uri)
        for number, partition in enumerate(PARTITIONS):
            ours, own = served.load_table(f"shop.t{number}"), catalog.load_table(f"shop.t{number}")
            for where in FILTERS:
                actual, expected = (
                    sorted(scan.to_arrow()["id"].to_pylist()) for scan in (ours.scan(where), own.scan(where))
                )
                assert actual == expected, (partition, where)
    catalog.close()


@pytest.mark.parametrize("page_size", [1, 2000])
def test_deleted_rows_stay_deleted(tmp_path: Path, page_size: int) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "p", StringType(), required=False))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"), spec_id=0)
    written = HandWrittenTable(tmp_path / "t", schema, spec)
    paths = [
        written.add_rows(pa.table({"id": range(start, 40, 4), "p": [part] * 10}), 0, part)
        for start, part in enumerate("abab")
    ]
    # One file of deletes is for a partition, and one for a data file.
    written.delete_rows(paths[0], [0, 3, 9], 0, "a")
    written.delete_rows(paths[1], [1], 0, "b", bounds=paths[1])
    written.add_rows(pa.table({"id": [0, 5], "p": ["a", "a"]}), 0, "a")
    catalog = sql_catalog(tmp_path)
    catalog.register_table("shop.t", written.metadata)
    ps.open_table(catalog.load_table("shop.t")).build_index("id", progress=False)
    expected = sorted([*set(range(40)) - {0, 12, 36, 5}, 0, 5])
    with running(local_app(LocalCatalog(catalog), Limits(page_size=page_size))) as uri:
        table = client(uri).load_table("shop.t")
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == expected
        for number in (*range(41), 99):
            found = table.scan(f"id = {number}")
            assert found.to_arrow()["id"].to_pylist() == [value for value in expected if value == number]
            assert found.count() == expected.count(number)
    catalog.close()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_partition_that_json_does_not_have_is_an_error_with_a_reason(tmp_path: Path, value: float) -> None:
    field = PartitionField(1, 1000, IdentityTransform(), "d")
    schema = Schema(NestedField(1, "d", DoubleType(), required=False))
    written = HandWrittenTable(tmp_path / "t", schema, PartitionSpec(field, spec_id=0))
    written.add_rows(pa.table({"d": [value]}), 0, value)
    catalog = sql_catalog(tmp_path)
    catalog.register_table("shop.t", written.metadata)
    with running(local_app(LocalCatalog(catalog), Limits())) as uri:
        planned = requests.post(f"{uri}/v1/namespaces/shop/tables/t/plan", json={}, timeout=60)
    assert planned.status_code == 406
    assert f"the table has a partition {value}, which JSON does not have" in planned.json()["error"]["message"]
    catalog.close()


def test_damaged_manifests_are_an_error_with_a_reason(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    written = HandWrittenTable(tmp_path / "t", schema, PartitionSpec(spec_id=0))
    written.add_rows(pa.table({"id": [1]}), 0)
    catalog = sql_catalog(tmp_path)
    catalog.register_table("shop.t", written.metadata)
    [manifest] = catalog.load_table("shop.t").current_snapshot().manifests(catalog.load_table("shop.t").io)
    Path(manifest.manifest_path.removeprefix("file://")).write_bytes(b"damaged")
    with running(local_app(LocalCatalog(catalog), Limits())) as uri:
        planned = requests.post(f"{uri}/v1/namespaces/shop/tables/t/plan", json={}, timeout=60)
    assert planned.status_code == 406
    assert Path(manifest.manifest_path).name in planned.json()["error"]["message"]
    catalog.close()


def test_a_client_can_choose_to_plan_itself(tmp_path: Path) -> None:
    """pyiceberg rejects the null of a partition in an answer, so it must be able to plan such a scan itself."""
    catalog = sql_catalog(tmp_path)
    rows = pa.table({"id": [1, 2], "p": ["a", None]})
    table = catalog.create_table("shop.t", schema=rows.schema)
    with table.update_spec() as spec:
        spec.add_field("p", IdentityTransform())
    table.append(rows)
    with (
        running(local_app(LocalCatalog(catalog), Limits())) as local,
        running(rest_app(RestCatalog(local, 60), Limits())) as in_front,
    ):
        for uri in (local, in_front):
            with pytest.raises(ValueError, match="partition"):
                client(uri).load_table("shop.t").scan().to_arrow()
            itself = client(uri, **{"scan-planning-mode": "client"}).load_table("shop.t")
            assert sorted(itself.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    catalog.close()


def test_partitions_of_doubles_are_exact(tmp_path: Path) -> None:
    catalog = sql_catalog(tmp_path)
    rows = pa.table({"id": [1, 2], "v": [0.1, 16_777_217.0]})
    table = catalog.create_table("shop.t", schema=rows.schema)
    with table.update_spec() as spec:
        spec.add_field("v", IdentityTransform())
    table.append(rows)
    with running(local_app(LocalCatalog(catalog), Limits())) as uri:
        for value in rows["v"].to_pylist():
            # A client compares the values of partitions with its filter.
            filter = {"type": "eq", "term": "v", "value": value}
            answer = requests.post(f"{uri}/v1/namespaces/shop/tables/t/plan", json={"filter": filter}, timeout=60)
            assert [task["data-file"]["partition"] for task in answer.json()["file-scan-tasks"]] == [[value]]
    catalog.close()

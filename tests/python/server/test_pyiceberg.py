"""pyiceberg's scans, planned by the server, return the rows of a full scan and open fewer files."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import expressions
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import ArrowScan, expression_to_pyarrow
from pyiceberg.table import Table
from support.serving import client, running, sql_catalog

import parsieve as ps
from parsieve.io.index_location import BELOW
from parsieve.server.app import local_app
from parsieve.server.planner import Planner
from parsieve.server.protocol.requests import read_plan_request
from parsieve.server.settings import Limits
from parsieve.server.sql_catalog import LocalCatalog

_FILES = 12
# The types of pyiceberg do not describe positional arguments.
ie: Any = expressions


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a catalog with the table `shop.orders`, whose files all have nearly the same smallest and largest id."""
    catalog = sql_catalog(tmp_path_factory.mktemp("shop"))
    schema = pa.schema({"id": pa.int64(), "user": pa.string(), "price": pa.float32(), "day": pa.date32()})
    table = catalog.create_table("shop.orders", schema=schema)
    for part in range(_FILES):
        ids = list(range(part, 6000, _FILES))
        columns = {
            "id": ids,
            "user": [f"u{number % 97}" for number in ids],
            "price": [None if number % 9 == 0 else number / 10 for number in ids],
            "day": [number % 40 + 20454 for number in ids],
        }
        table.append(pa.table(columns, schema=schema))
    ps.open_table(catalog.load_table("shop.orders")).build_index("id", progress=False)
    yield catalog
    catalog.close()


@pytest.fixture(params=[2000, 5], ids=["inline", "in parts"])
def table(shop: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return the table as pyiceberg's REST catalog loads it from the server."""
    with running(local_app(LocalCatalog(shop), Limits(page_size=request.param))) as uri:
        yield client(uri).load_table("shop.orders")


def _random_filter(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.6:
        left, right = (_random_filter(rng, depth - 1) for _ in range(2))
        return rng.choice([f"({left}) AND ({right})", f"({left}) OR ({right})", f"NOT ({left})"])
    number = rng.randrange(6500)
    return rng.choice(
        [
            f"id = {number}",
            f"id IN ({number}, {number // 2}, 99999)",
            f"id > {number}",
            f"price = {number / 10}",
            f"price <= {number / 10}",
            f"price != {number / 10}",
            "price IS NULL",
            f"user LIKE 'u{number % 10}%'",
            f"day = '2026-01-{number % 28 + 1:02}'",
        ]
    )


def test_rows_are_those_of_a_full_scan(shop: Any, table: Any) -> None:
    full = shop.load_table("shop.orders")
    rng = random.Random(7)
    for _ in range(12):
        where = _random_filter(rng)
        expected = full.scan(where).to_arrow().sort_by("id")
        assert table.scan(where).to_arrow().sort_by("id").equals(expected), where
        assert table.scan(where).count() == len(expected), where


def test_fewer_files_than_statistics_allow(shop: Any, table: Any) -> None:
    assert len(list(shop.load_table("shop.orders").scan("id = 3001").plan_files())) == _FILES
    assert len(list(table.scan("id = 3001").plan_files())) == 1
    assert len(list(table.scan().plan_files())) == _FILES
    # More files than this page size come in parts.
    assert len(list(table.scan("id IN (0, 1, 2, 3, 4, 5, 6)").plan_files())) == 7


def test_earlier_snapshots_are_planned_exactly(shop: Any, table: Any) -> None:
    for number, snapshot in enumerate(table.metadata.snapshots, start=1):
        assert len(list(table.scan(snapshot_id=snapshot.snapshot_id).plan_files())) == number
        found = table.scan("id = 3001", snapshot_id=snapshot.snapshot_id).to_arrow()
        assert len(found) == (number > 3001 % _FILES)


def test_a_snapshot_whose_schema_was_removed_has_the_current_schema(tmp_path: Path) -> None:
    catalog = sql_catalog(tmp_path)
    orders = catalog.create_table("shop.orders", schema=pa.schema({"id": pa.int64()}))
    orders.append(pa.table({"id": [1]}))
    old = orders.current_snapshot()
    with orders.update_schema() as update:
        update.rename_column("id", "number")
    current = orders.schema()
    metadata = orders.metadata.model_copy(update={"schemas": [current]})
    pruned = Table(orders.name(), metadata, orders.metadata_location, orders.io, orders.catalog)
    for name, table in (("id", orders), ("number", pruned)):
        filter = {"type": "eq", "term": name, "value": 1}
        body = {"snapshot-id": old.snapshot_id, "use-snapshot-schema": True, "filter": filter}
        planned = Planner().plan("orders", table, read_plan_request(json.dumps(body).encode()))
        assert len(planned.page(0, 10)["file-scan-tasks"]) == 1
    catalog.close()


def test_a_damaged_index_hides_no_row(tmp_path: Path, shop: Any) -> None:
    catalog = sql_catalog(tmp_path)
    source = shop.load_table("shop.orders").scan().to_arrow()
    orders = catalog.create_table("shop.orders", schema=source.schema)
    for start in range(0, 6000, 1000):
        orders.append(source.slice(start, 1000))
    ps.open_table(catalog.load_table("shop.orders")).build_index("id", progress=False)
    damaged = [path for path in tmp_path.rglob(f"{BELOW}/**/*") if path.is_file()]
    assert damaged
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-7] + b"damaged")
    with running(local_app(LocalCatalog(catalog), Limits())) as uri:
        found = client(uri).load_table("shop.orders").scan("id = 3001").to_arrow()
    assert found["id"].to_pylist() == [3001]
    catalog.close()


def test_files_that_the_index_does_not_cover_are_planned(tmp_path: Path) -> None:
    catalog = sql_catalog(tmp_path)
    orders = catalog.create_table("shop.orders", schema=pa.schema({"id": pa.int64()}))
    for ids in ([0, 50, 100], [1, 60, 101], [2, 70, 102]):
        orders.append(pa.table({"id": ids}))
    ps.open_table(catalog.load_table("shop.orders")).build_index("id", progress=False)
    with running(local_app(LocalCatalog(catalog), Limits())) as uri:
        table = client(uri).load_table("shop.orders")
        assert len(list(table.scan("id = 60").plan_files())) == 1
        orders.append(pa.table({"id": [3, 60, 103]}))
        table.refresh()
        assert table.scan("id = 60").to_arrow()["id"].to_pylist() == [60, 60]
    catalog.close()


def test_plans_hold_only_their_own_files(tmp_path: Path) -> None:
    """The server keeps a thousand plans. All states of a table that is often written to would fill the memory."""
    catalog = sql_catalog(tmp_path)
    orders = catalog.create_table("shop.orders", schema=pa.schema({"id": pa.int64()}))
    planner, states = Planner(), []
    for number in range(4):
        orders.append(pa.table({"id": [number]}))
        body = json.dumps({"filter": {"type": "eq", "term": "id", "value": 0}}).encode()
        planned = planner.plan("orders", catalog.load_table("shop.orders"), read_plan_request(body))
        states.append(planned)
        assert planned.columns is not None
        assert (planned.columns.num_rows, len(planned.partitions)) == (1, 1)
    assert [len(planned.page(0, 10)["file-scan-tasks"]) for planned in states] == [1] * 4
    catalog.close()


@pytest.fixture(scope="module")
def with_nan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a catalog with the table `shop.sensors`, whose files contain NaN, nulls and numbers."""
    catalog = sql_catalog(tmp_path_factory.mktemp("sensors"))
    schema = pa.schema({"id": pa.int64(), "d": pa.float64(), "f": pa.float32()})
    sensors = catalog.create_table("shop.sensors", schema=schema)
    files: list[Any] = [[math.nan], [math.nan, 5.0], [0.0, math.nan], [5.0], [0.0], [None, 5.0], [-0.0, 0.1], [7.0]]
    for number, values in enumerate(files):
        ids = [number * 10 + row for row in range(len(values))]
        sensors.append(pa.table({"id": ids, "d": values, "f": values}, schema=schema))
    table = ps.open_table(catalog.load_table("shop.sensors"))
    table.build_index(["d", "f"], kind="sieve", progress=False)
    yield catalog
    catalog.close()


def _negations(name: str) -> list[expressions.BooleanExpression]:
    below, above = ie.GreaterThanOrEqual(name, 0.1), ie.LessThan(name, 0.1)
    orders = (ie.GreaterThan, ie.GreaterThanOrEqual, ie.LessThan, ie.LessThanOrEqual)
    return [
        *(ie.Not(kind(name, value)) for kind in orders for value in (-1.0, 0.0, 0.1, 5.0)),
        *(ie.Not(kind(name, 5.0)) for kind in (ie.EqualTo, ie.NotEqualTo)),
        *(ie.Not(kind(name, [5.0, 7.0])) for kind in (ie.In, ie.NotIn)),
        ie.NotEqualTo(name, 5.0),
        ie.NotIn(name, [5.0, 7.0]),
        ie.Not(ie.And(below, ie.LessThan("id", 30))),
        ie.Not(ie.Or(below, ie.LessThan("id", 10))),
        ie.And(ie.Not(below), ie.Not(above)),
        ie.Not(ie.And(ie.Not(above), ie.Not(below))),
        ie.Or(ie.Not(below), above),
    ]


@pytest.mark.parametrize("name", ["d", "f"])
def test_negated_comparisons_are_true_for_nan(with_nan: Any, name: str) -> None:
    full = with_nan.load_table("shop.sensors")
    everything = ArrowScan(full.metadata, full.io, full.schema(), ie.AlwaysTrue(), True)
    rows = full.scan().to_arrow()
    with running(local_app(LocalCatalog(with_nan), Limits())) as uri:
        table = client(uri).load_table("shop.sensors")
        for condition in _negations(name):
            # Filter in memory: pyarrow's scan would lose NaN by the statistics of row groups.
            matches = expression_to_pyarrow(bind(full.schema(), condition, True))
            found = everything.to_table(table.scan(condition).plan_files()).filter(matches)
            expected = rows.filter(matches)
            assert sorted(found["id"].to_pylist()) == sorted(expected["id"].to_pylist()), condition
        # Files without NaN are still skipped.
        assert len(list(table.scan(ie.Not(ie.GreaterThanOrEqual(name, 0.1))).plan_files())) < 8


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", "a b", "ü+", "plan"])
def test_tables_with_any_name_can_be_read(tmp_path: Path, name: str) -> None:
    catalog = sql_catalog(tmp_path)
    schema = pa.schema({"id": pa.int64()})
    catalog.create_table(("shop", name), schema=schema).append(pa.table({"id": [1, 2]}, schema=schema))
    with running(local_app(LocalCatalog(catalog), Limits())) as uri:
        served = client(uri)
        assert served.list_tables("shop") == [("shop", name)]
        assert served.table_exists(("shop", name))
        assert served.load_table(("shop", name)).scan(row_filter="id = 2").to_arrow()["id"].to_pylist() == [2]
    catalog.close()

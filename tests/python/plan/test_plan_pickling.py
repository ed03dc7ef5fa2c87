"""Tables and plans can be pickled for other processes."""

from __future__ import annotations

import importlib
import io
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import obstore.store
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import parsieve as ps

PREDICATE = "id BETWEEN 18 AND 27 OR id = 49"
IDS = [*range(18, 28), 49]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write five files of ten ids."""
    orders = tmp_path / "orders"
    orders.mkdir()
    for part in range(5):
        path = orders / f"part-{part}.parquet"
        pq.write_table(pa.table({"id": range(part * 10, part * 10 + 10), "part": [part] * 10}), path, row_group_size=5)
    return orders


def ids(plan: ps.Plan) -> list[int]:
    """Return the ids of the plan's rows."""
    return sorted(plan.to_arrow()["id"].to_pylist())


def build_index(table: ps.Table) -> None:
    """Index the ids of all files, and update the index until it covers new files too."""
    table.build_index("id", kind="sieve")
    while table.index_stats()["id"].locations < 5:
        table.update_index()


def copy_of(value: Any, dumps: Callable[[Any], bytes] = pickle.dumps) -> Any:
    return pickle.loads(dumps(value))


def assert_same(copy: ps.Plan, plan: ps.Plan) -> None:
    """Assert that a copy equals the original plan and reads the same rows."""
    assert copy.files == plan.files
    assert copy.row_groups == plan.row_groups
    assert copy.kept == plan.kept
    assert copy.skipped == plan.skipped
    assert copy.explain() == plan.explain()
    assert json.loads(copy.to_json()) == json.loads(plan.to_json())
    assert (copy.requests, copy.bytes_fetched, copy.schema) == (plan.requests, plan.bytes_fetched, plan.schema)
    assert repr(copy) == repr(plan)
    assert ids(copy) == ids(plan)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("row_groups", [False, True])
def test_an_unpickled_plan_equals_the_original(folder: Path, protocol: int, row_groups: bool) -> None:
    table = ps.open_table(folder)
    build_index(table)
    plan = table.plan(PREDICATE, row_groups=row_groups)
    assert ids(plan) == IDS
    copy = copy_of(plan, lambda value: pickle.dumps(value, protocol))
    assert_same(copy, plan)
    assert_same(copy_of(copy), plan)
    assert sorted(copy.to_polars().collect()["id"]) == IDS
    assert copy.to_duckdb().to_arrow_table().num_rows == len(IDS)
    assert isinstance(copy.to_dataset(), pads.Dataset)


def test_an_unpickled_table_uses_its_index(folder: Path, tmp_path: Path) -> None:
    table = ps.open_table(folder, index_location=tmp_path / "index")
    build_index(table)
    copy = copy_of(table)
    assert (copy.uri, copy.format, copy.schema) == (table.uri, table.format, table.schema)
    assert copy.index_kinds() == {"id": "sieve"}
    assert [skip.evidence for skip in copy.plan("id = 7").skipped] == ["index"] * 4


def test_unpickled_relative_paths_refer_to_the_original_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = ps.open_table("orders", index_location="index")
    build_index(table)
    sent = pickle.dumps(table)
    monkeypatch.chdir("/")
    copy = pickle.loads(sent)
    assert copy.index_kinds() == {"id": "sieve"}
    assert ids(copy.plan(PREDICATE)) == IDS


def test_pickles_do_not_contain_caches(folder: Path) -> None:
    table = ps.open_table(folder)
    build_index(table)
    fresh = len(pickle.dumps(ps.open_table(folder)))
    for _ in range(3):
        table.plan(PREDICATE, row_groups=True).to_arrow()
    assert len(pickle.dumps(table)) <= fresh + 200


def _ids_of_table(table: ps.Table) -> list[int]:
    return ids(table.plan(PREDICATE))


def test_other_processes_read_plans_and_tables(folder: Path) -> None:
    table = ps.open_table(folder)
    build_index(table)
    plan = table.plan(PREDICATE)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(ids, [plan]) == [IDS]
        assert pool.map(_ids_of_table, [table]) == [IDS]


def test_cloudpickle_sends_closures_with_tables_and_plans(folder: Path) -> None:
    """Spark, Dask and Ray use cloudpickle to send functions with the tables and plans that they refer to."""
    cloudpickle = pytest.importorskip("cloudpickle")
    table = ps.open_table(folder)
    plan = table.plan(PREDICATE)
    assert copy_of(lambda: ids(plan), cloudpickle.dumps)() == IDS
    assert copy_of(lambda: ids(table.plan(PREDICATE)), cloudpickle.dumps)() == IDS


def test_tables_on_filesystem_objects_can_be_pickled(folder: Path, tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    for file in folder.iterdir():
        memory.pipe_file(f"/pickled/{file.name}", file.read_bytes())
    pairs = [
        (fs.LocalFileSystem(), str(folder)),
        (fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "orders"),
        (fs.PyFileSystem(fs.FSSpecHandler(memory)), "/pickled"),
        (memory, "/pickled"),
        (fsspec.filesystem("dir", path=str(tmp_path), fs=fsspec.filesystem("file")), "orders"),
        (obstore.store.LocalStore(tmp_path), "orders"),
    ]
    for pair in pairs:
        table = ps.open_table(pair)
        assert ids(copy_of(table).plan(PREDICATE)) == IDS
        plan = table.plan(PREDICATE)
        assert_same(copy_of(plan), plan)


def test_tables_with_storage_options_can_be_pickled(folder: Path) -> None:
    for source, options in (
        (folder.as_uri(), None),
        ("s3://nowhere/orders", {"aws_region": "eu-central-1", "aws_endpoint": "http://localhost:1"}),
    ):
        table = ps.open_table(source, "parquet", options)
        copy = copy_of(table)
        assert (copy.uri, copy.opened.lake.storage_options) == (table.uri, table.opened.lake.storage_options)
    assert ids(copy_of(ps.open_table(folder.as_uri())).plan(PREDICATE)) == IDS


def test_the_error_of_a_failing_pickle_explains_the_reason(folder: Path) -> None:
    store = obstore.store.MemoryStore()
    for file in folder.iterdir():
        store.put(f"orders/{file.name}", file.read_bytes())
    table = ps.open_table((store, "orders"))
    for value in (table, table.plan(PREDICATE)):
        with pytest.raises(TypeError, match=r"cannot pickle <parsieve\..*MemoryStore cannot be pickled"):
            pickle.dumps(value)
    indexed_in_store = ps.open_table(folder, index_location=(store, "index"))
    with pytest.raises(TypeError, match="MemoryStore cannot be pickled"):
        pickle.dumps(indexed_in_store)


def test_pickles_never_contain_keys(folder: Path) -> None:
    key = b"0123456789abcdef"
    table = ps.open_table(folder, decryption={"footer_key": key})
    for value in (table, table.plan(PREDICATE)):
        sent = io.BytesIO()
        with pytest.raises(TypeError, match="opened with decryption=, and the pickle would contain the keys"):
            pickle.dump(value, sent)
        assert key not in sent.getvalue()


def test_an_unpickled_delta_table_keeps_its_version(tmp_path: Path) -> None:
    deltalake = importlib.import_module("deltalake")
    uri = str(tmp_path / "delta")
    deltalake.write_deltalake(uri, pa.table({"id": range(100)}))
    deltalake.write_deltalake(uri, pa.table({"id": [1, 2]}), mode="append")
    by_path, pinned = ps.open_table(uri), ps.open_table(deltalake.DeltaTable(uri, version=0))
    assert len(ids(copy_of(by_path).plan("id <= 2"))) == 5
    for copy in (copy_of(pinned), copy_of(copy_of(pinned))):
        assert ids(copy.plan("id <= 2")) == [0, 1, 2]
    for plan in (by_path.plan("id <= 2"), pinned.plan("id <= 2")):
        assert_same(copy_of(plan), plan)


def test_an_unpickled_iceberg_table_keeps_its_metadata_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogs = importlib.import_module("pyiceberg.catalog.sql")
    catalog = catalogs.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("shop")
    written = catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    written.append(pa.table({"id": range(100)}))
    pinned = ps.open_table(catalog.load_table("shop.orders"))
    written.append(pa.table({"id": [1, 2]}))
    monkeypatch.chdir(tmp_path)
    by_path = ps.open_table(os.path.relpath(pinned.uri, tmp_path))
    monkeypatch.chdir("/")
    assert ids(copy_of(pinned).plan("id <= 2")) == [0, 1, 2]
    monkeypatch.chdir(tmp_path)
    sent = pickle.dumps(by_path)
    monkeypatch.chdir("/")
    assert len(ids(pickle.loads(sent).plan("id <= 2"))) == 5
    plan = pinned.plan("id <= 2")
    assert_same(copy_of(plan), plan)


def test_plans_with_literals_of_each_type_can_be_pickled(tmp_path: Path) -> None:
    nanos = pa.array([1, 1_700_000_000_123_456_789], pa.timestamp("ns", "UTC"))
    columns = {
        "id": [1, 2],
        "ns": nanos,
        "price": pa.array(["1.10", "2.20"]).cast(pa.decimal128(9, 2)),
        "raw": [b"\x00", b"\xff"],
        "half": pa.array([1.5, float("nan")], pa.float32()),
    }
    pq.write_table(pa.table(columns), tmp_path / "part-0.parquet")
    table = ps.open_table(tmp_path)
    for where in (
        "ns = TIMESTAMP '2023-11-14T22:13:20.123456789Z'",
        [("ns", "in", nanos[1:])],
        "price = 2.20",
        "half = 'NaN'::float OR id = 2",
        [("raw", "=", b"\xff")],
    ):
        plan = table.plan(where)
        assert ids(plan) == [2], where
        assert_same(copy_of(plan), plan)


def test_unpickling_nanoseconds_does_not_need_pandas() -> None:
    """Run in a new process in which pandas cannot be imported."""
    program = """
import sys
class NoPandas:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoPandas())
import pickle, pyarrow as pa
from parsieve.predicate.expr import Literal
literal = Literal(pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC"))[0])
assert pickle.loads(pickle.dumps(literal)).scalar.value == 1_700_000_000_123_456_789
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=500)

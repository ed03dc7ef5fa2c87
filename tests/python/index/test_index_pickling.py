"""Lakes, slices and stores can be pickled, so that other processes can read slices and write index files."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import obstore.store
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from parsieve import UnsupportedError
from parsieve.index import LocalStore, ObjectStore, Store
from parsieve.lake import open_lake

ROWS = pa.table({"k": [1, 2, None], "part": ["a", "a", "b"]})


def roundtrip(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def table(kind: str, folder: Path) -> Any:
    if kind == "parquet":
        for name in ("a", "b"):
            (folder / f"part={name}").mkdir(parents=True)
            pq.write_table(ROWS.select(["k"]), folder / f"part={name}" / "x.parquet")
        return str(folder)
    if kind == "delta":
        write_deltalake(str(folder), ROWS, partition_by=["part"])
        return DeltaTable(str(folder))
    folder.mkdir()
    catalog = SqlCatalog("test", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
    catalog.create_namespace("n")
    iceberg_table = catalog.create_table("n.t", ROWS.schema)
    iceberg_table.append(ROWS)
    catalog.close()
    return iceberg_table


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_unpickled_slices_read_the_same_rows(tmp_path: Path, kind: str) -> None:
    with warnings.catch_warnings():
        # pyiceberg causes warnings with newer versions of its dependencies.
        warnings.simplefilter("ignore")
        lake = open_lake(table(kind, tmp_path / "t"))
        snapshot = lake.snapshot()
        unpickled, slices = roundtrip((lake, snapshot.slices))
    columns = [("k",), ("part",)]
    for ours, theirs in zip(snapshot.slices, slices, strict=True):
        assert (theirs.location, theirs.token) == (ours.location, ours.token)
        assert pa.Table.from_batches(unpickled.read_keys(theirs, columns)).equals(
            pa.Table.from_batches(lake.read_keys(ours, columns))
        )


@pytest.mark.parametrize("remote", [False, True])
def test_unpickled_stores_write_to_the_same_location(tmp_path: Path, remote: bool) -> None:
    store: Store = (
        ObjectStore(obstore.store.LocalStore(tmp_path), "index") if remote else LocalStore(tmp_path / "index")
    )
    store.put("a/b", b"here")
    unpickled = roundtrip(store)
    assert unpickled.get("a/b") == b"here"
    assert unpickled.put_if_absent("a/c", b"there")
    assert store.get("a/c") == b"there"
    assert str(unpickled) == str(store)
    assert (unpickled.requests, store.requests) != (0, 0)


def test_a_memory_store_cannot_be_pickled() -> None:
    with pytest.raises((TypeError, UnsupportedError, NotImplementedError)):
        pickle.dumps(ObjectStore(obstore.store.MemoryStore(), "index"))

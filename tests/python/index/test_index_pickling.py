"""What other processes need to read slices and write parts of an index goes there as a pickle."""

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


def travelled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


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
    made = catalog.create_table("n.t", ROWS.schema)
    made.append(ROWS)
    catalog.close()
    return made


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_slices_are_read_where_they_come_to(tmp_path: Path, kind: str) -> None:
    with warnings.catch_warnings():
        # pyiceberg on newer versions of its own dependencies.
        warnings.simplefilter("ignore")
        lake = open_lake(table(kind, tmp_path / "t"))
        snapshot = lake.snapshot()
        there, slices = travelled((lake, snapshot.slices))
    columns = [("k",), ("part",)]
    for ours, theirs in zip(snapshot.slices, slices, strict=True):
        assert (theirs.location, theirs.token) == (ours.location, ours.token)
        assert pa.Table.from_batches(there.read_keys(theirs, columns)).equals(
            pa.Table.from_batches(lake.read_keys(ours, columns))
        )


@pytest.mark.parametrize("remote", [False, True])
def test_stores_are_written_from_anywhere(tmp_path: Path, remote: bool) -> None:
    store: Store = (
        ObjectStore(obstore.store.LocalStore(tmp_path), "index") if remote else LocalStore(tmp_path / "index")
    )
    store.put("a/b", b"here")
    there = travelled(store)
    assert there.get("a/b") == b"here"
    assert there.put_if_absent("a/c", b"there")
    assert store.get("a/c") == b"there"
    assert str(there) == str(store)
    assert (there.requests, store.requests) != (0, 0)


def test_a_store_in_memory_goes_nowhere() -> None:
    with pytest.raises((TypeError, UnsupportedError, NotImplementedError)):
        pickle.dumps(ObjectStore(obstore.store.MemoryStore(), "index"))

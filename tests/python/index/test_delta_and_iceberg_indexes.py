"""Indexes of Delta and Iceberg tables stay correct through appends, deletes and time travel."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import parsieve as ps
from parsieve.index import TableIndex
from parsieve.index.sieve import query
from parsieve.io.index_location import BELOW
from parsieve.lake import open_lake
from parsieve.lake.base import Lake, Snapshot


def rows(r: random.Random) -> pa.Table:
    keys = [r.randrange(200) for _ in range(30)]
    return pa.table({"k": pa.array(keys, pa.int64()), "s": [f"{key:03}" for key in keys]})


def delta(path: Path, closing: ExitStack) -> tuple[Callable[[], Lake], Callable[[random.Random], None]]:
    def change(r: random.Random) -> None:
        if r.random() < 0.3 and (path / "_delta_log").is_dir():
            DeltaTable(path).delete(f"k % 7 = {r.randrange(7)}")
        else:
            write_deltalake(path, rows(r), mode="append")

    return lambda: open_lake(str(path)), change


def iceberg(path: Path, closing: ExitStack) -> tuple[Callable[[], Lake], Callable[[random.Random], None]]:
    from pyiceberg.catalog.sql import SqlCatalog

    path.mkdir()
    catalog = SqlCatalog("test", uri=f"sqlite:///{path}/catalog.db", warehouse=str(path))
    closing.callback(catalog.close)
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=rows(random.Random(0)).schema)

    def change(r: random.Random) -> None:
        if r.random() < 0.3 and table.current_snapshot() is not None:
            table.delete(f"k < {r.randrange(40)}")
        else:
            table.append(rows(r))

    return lambda: open_lake(table), change


def check(index: TableIndex, lake: Lake, snapshot: Snapshot) -> int:
    view = index.at(snapshot)
    assert view is not None
    keys_of_slices = [
        pa.concat_arrays([batch.column(0) for batch in lake.read_keys(data_slice, [("k",)])] or [pa.array([])])
        for data_slice in snapshot.slices
    ]
    skipped = 0
    for key in range(0, 200, 9):
        mask = view.may_match("k", query.equals(pa.scalar(key, pa.int64())), snapshot.slices).to_pylist()
        for keys, keep in zip(keys_of_slices, mask, strict=True):
            assert keep or key not in keys.to_pylist()
            skipped += not keep
    return skipped


@pytest.mark.parametrize("make", [delta, iceberg])
def test_the_index_answers_for_every_snapshot_of_its_table(tmp_path: Path, make: Any) -> None:
    with ExitStack() as closing:
        open_table_lake, change = make(tmp_path / "table", closing)
        r = random.Random(5)
        change(r)
        lake = open_table_lake()
        index = TableIndex(lake.folder_address(BELOW))
        index.build(lake, lake.snapshot(), ["k", "s"], progress=False)
        snapshots = []
        for _ in range(8):
            change(r)
            lake = open_table_lake()
            snapshots.append(lake.snapshot())
            index.update(lake, snapshots[-1], progress=False)
        assert index.verify(lake, snapshots[-1]) == []
        assert all(check(index, lake, snapshot) > 0 for snapshot in snapshots)
        index.compact(lake, snapshots[-1])
        assert index.verify(lake, snapshots[-1]) == []


@pytest.mark.parametrize("kind", ["sieve", "bloom"])
@pytest.mark.parametrize("version", ["1", "2"])
def test_an_index_does_not_answer_for_a_table_that_was_created_again(tmp_path: Path, kind: str, version: str) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    file = tmp_path / "t" / "data" / "in.parquet"
    file.parent.mkdir(parents=True)
    with ExitStack() as closing:
        catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
        closing.callback(catalog.close)
        catalog.create_namespace("n")

        def create(keys: list[int]) -> ps.Table:
            content = pa.table({"k": pa.array(keys, pa.int64())})
            table = catalog.create_table(
                "n.t", content.schema, location=str(tmp_path / "t"), properties={"format-version": version}
            )
            pq.write_table(content, file, compression="none", use_dictionary=False)
            table.add_files([str(file)])
            return ps.open_table(table)

        create([1, 2, 3]).build_index("k", kind=kind)
        size = file.stat().st_size
        catalog.drop_table("n.t")
        again = create([7, 8, 9])
        # The name, the size, the number of rows and the sequence number are the same.
        assert file.stat().st_size == size
        assert again.count_uncovered() == {"k": 1}
        assert again.plan("k = 8").to_arrow().num_rows == 1

"""Indexes of Delta and Iceberg tables stay correct through appends, deletes and time travel."""

from __future__ import annotations

import json
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


def test_the_partitions_of_a_float_column_have_other_values_as_doubles(tmp_path: Path) -> None:
    rows = pa.table({"p": pa.array([0.1, 0.5], pa.float32()), "k": [1, 2]})
    write_deltalake(tmp_path, rows, partition_by=["p"])
    ps.open_table(tmp_path).build_index(["p", "k"], kind="sieve")
    log = tmp_path / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    (metadata,) = (action for action in actions if "metaData" in action)
    schema = json.loads(metadata["metaData"]["schemaString"])
    # As after `ALTER TABLE ... ALTER COLUMN p TYPE double` of Spark, which then reads the text 0.1 as a double.
    schema["fields"][0]["type"] = "double"
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    (log / f"{1:020}.json").write_text("\n".join(map(json.dumps, [protocol, metadata])))
    table = ps.open_table(tmp_path)
    assert table.plan("p = 0.1").to_arrow()["k"].to_pylist() == [1]
    table.update_index()
    assert table.verify_index() == []
    assert table.plan("p = 0.1", stale="error").to_arrow()["k"].to_pylist() == [1]
    assert table.plan("k = 2", stale="error", as_of=1).to_arrow()["p"].to_pylist() == [0.5]

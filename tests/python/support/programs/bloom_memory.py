"""Build a Bloom index of many slices or files. Print how many bytes the process grew, and the size of the index.

python bloom_memory.py STORE slices|files MEMORY THREADS COUNT ROWS
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from parsieve.index import TableIndex
from parsieve.lake.base import AsOf, ColumnPath, Lake, Slice, Snapshot
from parsieve.lake.open import open_lake
from parsieve.lake.slices import SliceObjects
from support.models.model_lake import ModelLake, place
from support.programs.index_memory import peak

COLUMNS = ("k", "other")


class Scattered(ModelLake):
    """A table whose rows are made while they are read. Numbers of rows are unknown, as in a folder of files."""

    rows = 0

    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        snapshot = super().snapshot(as_of)
        return dataclasses.replace(
            snapshot, slices=SliceObjects(dataclasses.replace(piece, num_rows=None) for piece in snapshot.slices)
        )

    def read_keys(self, piece: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        r = np.random.default_rng(int(piece.group))
        for start in range(0, self.rows, 10_000):
            size = min(10_000, self.rows - start)
            arrays = [pa.array(r.integers(0, 2**62, size)) for _ in columns]
            yield pa.RecordBatch.from_arrays(arrays, [str(at) for at in range(len(columns))])


def grown_by(store: str, lakes: Sequence[Lake], memory: int, threads: int) -> int:
    """Build an index of each lake, and return how much the process grew for the last one.

    The builds before it load everything that a process loads only once.
    """
    before = 0
    for number, lake in enumerate(lakes):
        snapshot = lake.snapshot()
        before = peak()
        TableIndex(f"{store}-{number}").build_bloom(lake, snapshot, COLUMNS, memory=memory, threads=threads)
    return peak() - before


def scattered(slices: int, rows: int) -> Lake:
    """Return a table in memory with a number of rows in each slice."""
    schema = pa.schema([(name, pa.int64()) for name in COLUMNS])
    lake = Scattered(schema)
    lake.rows = rows
    lake.change({place(str(at)): schema.empty_table() for at in range(slices)})
    return lake


def files(folder: str, count: int) -> Lake:
    """Write a folder of small Parquet files, wait until they have tokens, and open it."""
    Path(folder).mkdir()
    for number in range(count):
        columns = {name: pa.array([number, number + 20_000, number * 7919 % 20_000]) for name in COLUMNS}
        pq.write_table(pa.table(columns), f"{folder}/{number:05}.parquet")
    lake = open_lake(folder)
    while not all(piece.token for piece in lake.snapshot().slices):
        time.sleep(0.01)
    return lake


def main(store: str, kind: str, memory: int, threads: int, count: int, rows: int) -> None:
    """Print how many bytes the process grew, and the size of the filters."""
    if kind == "files":
        lakes = [files(f"{store}-few", 5), files(f"{store}-many", count)]
    else:
        lakes = [scattered(5, rows), scattered(count, rows)]
    grown = grown_by(store, lakes, memory, threads)
    print(grown, sum(path.stat().st_size for path in Path(f"{store}-1").rglob("*.rows")))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))

"""Build an index with more rows than fit in its memory. Print how many bytes the process grew, and the number of pairs.

python index_memory.py STORE MEMORY ROWS
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from parsieve.index import TableIndex
from parsieve.index.sieve import query
from parsieve.lake.base import ColumnPath, Slice
from support.models.model_lake import ModelLake, place

SLICES = 20
BATCH = 50_000


class Scattered(ModelLake):
    """A table whose rows are made while they are read."""

    def read_keys(self, piece: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        r = np.random.default_rng(int(piece.group))
        for _ in range(self.rows // SLICES // BATCH):
            keys = r.integers(0, 2**62, BATCH)
            yield pa.RecordBatch.from_arrays([pa.array(keys)], ["0"])

    rows = 0


def peak() -> int:
    """Return the peak memory of this process in bytes.

    `getrusage` is the fallback, because on Linux it includes the memory of the parent process at the fork.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main(store: str, memory: str, rows: str) -> None:
    """Build two indexes: a small one to load all modules, and the one that is measured."""
    lake = Scattered(pa.schema([("k", pa.int64())]))
    empty = pa.table({"k": pa.array([], pa.int64())})
    snapshot = lake.change({place(str(at)): empty for at in range(SLICES)})
    lake.rows = SLICES * BATCH
    TableIndex(store + "-small").build(lake, snapshot, ["k"], memory=int(memory), threads=2, progress=False)
    before = peak()
    lake.rows = int(rows)
    view = TableIndex(store).build(lake, snapshot, ["k"], memory=int(memory), threads=2, progress=False)
    grown = peak() - before
    key = int(np.random.default_rng(7).integers(0, 2**62, BATCH)[123])
    assert place("7") in view.lookup("k", query.equals(pa.scalar(key)))
    print(grown, view.columns[("k",)].base.pairs)


if __name__ == "__main__":
    main(*sys.argv[1:])

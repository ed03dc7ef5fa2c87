"""Make an index of many rows, and compact it. Compaction prints how much the process grew, and the size of the index.

python compaction_memory.py make FOLDER ROWS; python compaction_memory.py compact FOLDER
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from parsieve import _core
from support.programs.index_memory import peak

BATCH = 100_000
CHANGES = 1000
LOCATIONS = [("", f"{at:03}") for at in range(64)]
AXIS = _core.SieveAxis(pa.int64())


def make(folder: Path, rows: int) -> None:
    """Write a base of ascending keys with wide gaps."""
    r = np.random.default_rng(3)
    build = _core.SieveBuild(AXIS, len(LOCATIONS))
    key = 0
    with (folder / "base").open("wb") as lookups, (folder / "rest").open("wb") as keys:
        for _ in range(rows // BATCH):
            batch = key + np.cumsum(r.integers(1, 2**32, BATCH))
            key = int(batch[-1])
            places = r.integers(0, len(LOCATIONS), BATCH, dtype=np.uint32)
            build.push(pa.array(batch), pa.array(places), pa.array(np.ones(BATCH, np.uint64)))
            for half, data in zip((lookups, keys), build.take(), strict=True):
                half.write(data)
        root, last = build.finish(1, LOCATIONS, [(0, 0, False)] * len(LOCATIONS))
        for half, data in zip((lookups, keys), last, strict=True):
            half.write(data)
    with (folder / "base").open("ab") as base, (folder / "rest").open("rb") as rest:
        while data := rest.read(1 << 20):
            base.write(data)
    (folder / "root").write_bytes(root)


def compact(folder: Path) -> None:
    """Compact the base with a delta of some changes. Print the growth, the size and a few counts."""
    pairs = _core.SievePairs(AXIS)
    pairs.push(pa.array(np.random.default_rng(4).integers(0, 2**50, CHANGES)), 0)
    delta = _core.sieve_delta(AXIS, instant=2, locations=LOCATIONS[:1], dead=[], sides=[], plus=pairs.sort(), minus=[])
    timeline = _core.SieveTimeline(AXIS, (folder / "root").read_bytes(), [delta])
    base = os.open(folder / "base", os.O_RDONLY)
    before = peak()
    with (folder / "new").open("wb") as lookups, (folder / "new-rest").open("wb") as keys:

        def write(halves: tuple[bytes, bytes]) -> None:
            lookups.write(halves[0])
            keys.write(halves[1])

        root, unmatched = timeline.compact(LOCATIONS, lambda _, at, size: os.pread(base, size, at), write)
        grown = peak() - before
    report = _core.SieveTimeline(AXIS, root, []).report([])
    assert report is not None
    print(grown, (folder / "base").stat().st_size, report["rows"], unmatched)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        compact(Path(sys.argv[2]))

"""Write to an index that other processes share, until the process is killed. Note each version that this process wrote.

`contend` in tests/python/index/test_index_writers.py runs it.
"""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path
from typing import Any

from parsieve import ConflictError
from parsieve.index import TableIndex
from support.models.model_lake import SavedLake


def index_location(folder: Path, in_object_store: bool) -> Any:
    """Return the location of an index: a folder, or a bucket in this folder."""
    if not in_object_store:
        return folder
    from obstore.store import LocalStore

    return LocalStore(folder, mkdir=True), "index"


def main(table: str, folder: str, notes: str, seed: str, in_object_store: bool = False) -> None:
    """Build, update and compact in an endless loop."""
    location = index_location(Path(folder), in_object_store)
    r = random.Random(int(seed))
    # Let the process that checks the index run first.
    os.nice(10)
    lake = SavedLake(Path(table))
    fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    index = TableIndex(location)
    while True:
        if r.random() < 0.2:
            index = TableIndex(location)
        newest = index.refresh()
        before = newest.version if newest else 0
        at = max(1, lake.newest() - r.choice([0, 0, 0, 1]))
        # A conflict is no error: another process may build the same column, or win all races for a while.
        with contextlib.suppress(ConflictError):
            if newest is None or r.random() < 0.05:
                view = index.build(lake, lake.snapshot(at), ["k"], progress=False, threads=1)
            elif r.random() < 0.25:
                view = index.compact(lake, lake.snapshot(), progress=False, threads=1)
            else:
                view = index.update(lake, lake.snapshot(at), progress=False, threads=1)
            if view.version > before:
                os.write(fd, f"{view.version} {view.commit.writer}\n".encode())

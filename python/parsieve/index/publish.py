"""The race for the next version: read the newest one, prepare files that nobody sees yet, and commit them on top of it.

Who loses looks again: where the winner did something else, the same work is committed on top of his version.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from parsieve import _core
from parsieve.errors import ConflictError
from parsieve.index.commit import Base, BloomState, ColumnState, Commit, Log, Part, TableState, after
from parsieve.index.feeder import Built
from parsieve.index.store import Store, unique
from parsieve.lake.base import ColumnPath

RETRIES = 100

Columns = dict[ColumnPath, ColumnState]
Blooms = dict[ColumnPath, BloomState]
# The table's snapshot and the columns of a new version; its Bloom filters where they change.
Changed = tuple[TableState, Columns] | tuple[TableState, Columns, Blooms]


def commit(log: Log, operation: str, change: Callable[[Commit | None, int], Changed | None]) -> Commit | None:
    """Put the next version. `change` sees the newest one and how often it was tried; None if nothing is to be done."""
    for attempt in range(RETRIES):
        newest = log.newest()
        changed = change(newest, attempt)
        if changed is None:
            return newest
        made = after(newest, operation, *changed)
        if log.publish(made):
            return made
        time.sleep(random.uniform(0, min(0.5, 0.005 * 2 ** min(attempt, 10))))
    raise ConflictError(f"{log.store} had a newer version each time that {operation} was tried; try again later")


def put_base(store: Store, axis: _core.SieveAxis, built: Built, instant: int) -> Base:
    """Store a root and its segments."""
    files: tuple[Part, ...] = ()
    if built.file_size:
        segments = Part(unique("segments", "segments"), built.file_size)
        store.put(segments.name, built.file)
        files = (segments,)
    return put_root(store, axis, built.root, files, instant)


def put_root(store: Store, axis: _core.SieveAxis, root: bytes, files: tuple[Part, ...], instant: int) -> Base:
    """Store a root whose segment files are stored already."""
    part = Part.put(store, unique("roots", "root"), root)
    report = _core.SieveTimeline(axis, root, []).report([])
    assert report is not None
    return Base(instant, part, files, int(report["pairs"]))

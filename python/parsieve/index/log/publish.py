"""The race for the next version: read the newest one, prepare files that nobody sees yet, and commit them on top of it.

Who loses looks again: where the winner did something else, the same work is committed on top of his version.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from parsieve import _core
from parsieve.errors import ConflictError
from parsieve.index.log.commit import Base, BloomState, ColumnState, Commit, Log, Part, TableState, after, name_of
from parsieve.index.log.garbage import lost
from parsieve.index.scan.runs import Built
from parsieve.io.store.base import Store, unique
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
        known = set() if newest is None else set(newest.parts())
        fresh = [part for part in made.parts() if part not in known]
        # Nobody shall see a version without its files, not even for the moment in which it is put and looked at.
        gone = lost(log.store, fresh)
        if not gone and log.publish(made):
            gone = lost(log.store, fresh)
            if not gone:
                return made
            _withdraw(log, made, set(gone))
        if gone:
            raise ConflictError(
                f"{log.store}: files of this {operation} were removed as garbage before it could be committed, for it "
                f"took longer than the age of garbage: {', '.join(gone)}; begin it again"
            )
        time.sleep(random.uniform(0, min(0.5, 0.005 * 2 ** min(attempt, 10))))
    raise ConflictError(f"{log.store} had a newer version each time that {operation} was tried; try again later")


def _withdraw(log: Log, made: Commit, gone: set[str]) -> None:
    """Undo a version that names files that are gone, and whatever was put on top of it with these files."""
    if max((version for version, _ in log.stored()), default=made.version) == made.version:
        log.store.delete(name_of(made.version))

    def change(newest: Commit | None, _: int) -> Changed | None:
        if newest is None:
            return None
        columns = {path: state for path, state in newest.columns.items() if not _names(state, gone)}
        blooms = {path: state for path, state in newest.blooms.items() if not _names(state, gone)}
        if len(columns) + len(blooms) == len(newest.columns) + len(newest.blooms):
            return None
        return newest.table, columns, blooms

    commit(log, "withdraw", change)


def _names(state: ColumnState | BloomState, gone: set[str]) -> bool:
    return any(part.name in gone for part in state.parts())


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

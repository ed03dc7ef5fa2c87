"""Keep the map of pages of an index in step with its table.

Each change of the map is a separate version, after the version with the changes of the columns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from parsieve._core import FormatError
from parsieve.errors import IndexNotFoundError
from parsieve.index.build.executor import Executor
from parsieve.index.build.target import Target
from parsieve.index.log import bindings
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.commit import FORMAT, Commit, MapState
from parsieve.index.log.log import Log
from parsieve.index.log.publish import Transaction
from parsieve.index.pages.build import SLICES_PER_PART, MapReport, wants_map
from parsieve.index.pages.compact import merge_maps, renumber_maps
from parsieve.lake.slices import locations_of

if TYPE_CHECKING:
    from parsieve.index.log.parts import Part
    from parsieve.io.store.base import Store
    from parsieve.lake.base import Lake, Location, Snapshot

# If this share of the ids belongs to files that are gone, an update stores all maps again.
MOST_GONE = 0.25


@dataclass(slots=True)
class MappedVersion:
    """A version of an index whose map is in step with a snapshot, and why files that were read have no map."""

    # None if there is no index.
    version: Commit | None
    left_out: dict[Location, Exception] = field(default_factory=dict)


def ensure(log: Log, lake: Lake, snapshot: Snapshot, executor: Executor[Any], pages: bool | None) -> MappedVersion:
    """Build the map of pages of an index (True) or drop it (False).

    None brings the existing map to the snapshot. If there is none, it builds one if the files of the table are in an
    object store. But an index that parsieve 0.1 can read gets a map only on request, because that version cannot read
    an index with a map.
    """
    if pages is False:
        return MappedVersion(drop(log))
    newest = log.newest()
    if pages or (newest is not None and newest.pages is None and newest.format == FORMAT and wants_map(lake, None)):
        return build(log, lake, snapshot, executor)
    return update(log, lake, snapshot, executor)


def build(log: Log, lake: Lake, snapshot: Snapshot, executor: Executor[Any]) -> MappedVersion:
    """Read the footers of all files of a snapshot, and commit a new map of their pages."""
    target = Target.of(snapshot)
    report = executor.map_pages(lake, target.slices)
    locations = locations_of(target.slices)
    bound = Bindings.fresh(locations, target.bindings(report.to_retry()))
    chain = bindings.write(log.store, (), bindings.NOTHING, bound)
    state = MapState(target.table, chain, tuple(report.parts))
    transaction = Transaction(log, "build pages")
    while True:
        newest = transaction.begin()
        if newest is None or newest.is_empty:
            raise IndexNotFoundError(
                f"{log.store} holds no index to which a map of pages could be added; build one first"
            )
        if transaction.is_retry and _is_ahead(newest.pages, target):
            return MappedVersion(newest)
        if version := transaction.commit(newest.table, pages=state):
            return MappedVersion(version, report.left_out)


def update(log: Log, lake: Lake, snapshot: Snapshot, executor: Executor[Any]) -> MappedVersion:
    """Read the footers of new and changed files, and commit their maps. Without an index or a map, do nothing."""
    target = Target.of(snapshot)
    transaction = Transaction(log, "update pages")
    reads: dict[tuple[tuple[Location, str], ...], MapReport] = {}
    # The files of maps that this update has written.
    written: set[Part] = set()
    while True:
        newest = transaction.begin()
        if newest is None or newest.pages is None or (transaction.is_retry and _is_ahead(newest.pages, target)):
            return MappedVersion(newest)
        state = newest.pages
        try:
            bound = bindings.read(log.store, state.bindings)
        except FormatError:
            if transaction.is_outdated():
                # Another process expired the files of this version.
                continue
            # No reader can use this map any more.
            return build(log, lake, snapshot, executor)
        # Filters that were added to a file have moved its pages, so it is read again even if its rows are the same.
        changed = target.changed_slices(bound.tokens, {})
        scan = tuple((file_slice.location, file_slice.token) for file_slice in changed)
        if scan not in reads:
            reads[scan] = executor.map_pages(lake, changed) if changed else MapReport()
            written |= {part for files in reads[scan].parts for part in files.parts()}
        report = reads[scan]
        after = bound.after(target.bindings(report.to_retry()), locations_of(changed))
        files = (*state.files, *(replace(part, first_id=bound.next_id + part.first_id) for part in report.parts))
        chain: tuple[Part, ...]
        if len(after.tokens) < (1 - MOST_GONE) * after.next_id:
            files, after = renumber_maps(log.store, replace(state, files=files), after)
            chain = bindings.write(log.store, (), bindings.NOTHING, after)
        else:
            files = merge_maps(log.store, files, set(after.live_ids()))
            chain = bindings.write(log.store, state.bindings, bound, after)
        after_state = MapState(target.table, chain, files)
        written |= {part for files in after_state.files for part in files.parts()}.difference(state.parts())
        if (files, chain) == (state.files, state.bindings):
            version: Commit | None = newest
        else:
            version = transaction.commit(newest.table, pages=after_state)
        if version is not None:
            _remove(log.store, written.difference(version.parts()))
            return MappedVersion(version, report.left_out)


def compact(log: Log, *, purge: bool = False) -> Commit | None:
    """Store the map as a new build would, without maps of files that are gone. No file of the table is read.

    This does nothing if the map already is like that, unless `purge` is true, or if there is no map.
    """
    transaction = Transaction(log, "compact pages")
    while True:
        newest = transaction.begin()
        if newest is None or newest.pages is None:
            return newest
        state = newest.pages
        try:
            bound = bindings.read(log.store, state.bindings)
        except FormatError:
            if transaction.is_outdated():
                continue
            # The next update builds the map again.
            return newest
        fewest = -(-len(bound.tokens) // SLICES_PER_PART)
        if not purge and len(state.files) <= fewest and len(bound.tokens) == bound.next_id:
            return newest
        files, after = renumber_maps(log.store, state, bound)
        chain = bindings.write(log.store, (), bindings.NOTHING, after)
        if version := transaction.commit(newest.table, pages=MapState(state.table, chain, files)):
            return version


def drop(log: Log) -> Commit | None:
    """Commit a version without a map of pages, if there is one."""
    transaction = Transaction(log, "drop pages")
    while True:
        newest = transaction.begin()
        if newest is None or newest.pages is None:
            return newest
        if version := transaction.commit(newest.table, pages=False):
            return version


def _remove(store: Store, files: Collection[Part]) -> None:
    """Remove files that were merged, or that belong to an attempt that was too late. No version names them."""
    for part in files:
        # `expire_index` removes what cannot be removed now.
        with contextlib.suppress(OSError):
            store.delete(part.name)


def _is_ahead(state: MapState | None, target: Target) -> bool:
    """Return whether another writer has mapped a later snapshot."""
    return state is not None and target.snapshot.id is not None and state.table.instant > target.table.instant

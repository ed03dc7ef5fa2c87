"""Compute how many bytes an index has on disk, and how many of them lookups read."""

from __future__ import annotations

from collections.abc import Collection

from parsieve import _core
from parsieve._core import ParsieveError
from parsieve.index.log.commit import Commit
from parsieve.index.view import View
from parsieve.lake.base import ColumnPath


def stored_bytes(commit: Commit, paths: Collection[ColumnPath] | None = None) -> int:
    """Return the bytes of all files of some columns; a file that columns share counts once.

    Without `paths`, these are all files of the version, including its own, except the map of pages.
    """
    parts = {
        part.name: part.size
        for state in commit.states
        if paths is None or state.path in paths
        for part in state.parts()
    }
    return sum(parts.values()) + (len(commit.to_bytes()) if paths is None else 0)


def pages_bytes(commit: Commit) -> int:
    """Return the bytes of all files of the map of pages."""
    return 0 if commit.pages is None else sum(part.size for part in commit.pages.parts())


def lookup_bytes(view: View, paths: Collection[ColumnPath] | None = None) -> int:
    """Return how many bytes lookups in some columns, or in all, can read at most.

    The rest are keys and counts, which only updates, compaction and verification read.
    """
    total = 0
    for path, state in view.columns.items():
        if paths is None or path in paths:
            timeline = view.reader(path).timeline
            try:
                report = None if timeline is None else timeline.report([])
            except ParsieveError:
                report = None
            total += int(report["lookup_bytes"]) if report is not None else sum(file.size for file in state.base.files)
            if isinstance(timeline, _core.SieveUnitTimeline):
                total += sum(length for _, _, length in timeline.unit_pages())
            total += state.base.root.size + sum(delta.file.size for delta in state.deltas)
    for bloom in (*view.commit.blooms.values(), *view.commit.texts.values()):
        if paths is None or bloom.path in paths:
            total += sum(shelf.directory.size + shelf.rows.size for shelf in bloom.shelves)
    return total

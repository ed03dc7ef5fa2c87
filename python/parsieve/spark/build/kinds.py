"""Which kind of index each column gets, and what a build on Spark returns."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from parsieve.index.advice import advise_column
from parsieve.index.indexed_table import FEW_FILES
from parsieve.index.log.commit import Commit, Log, TableState
from parsieve.index.table_index import TableIndex
from parsieve.index.view import View
from parsieve.lake.base import ColumnPath, Lake, Snapshot

KINDS = ("auto", "sieve", "bloom", "both")
_log = logging.getLogger("parsieve.spark")


def choose(lake: Lake, snapshot: Snapshot, paths: Sequence[ColumnPath], kind: str) -> dict[ColumnPath, str]:
    """Return "sieve", "bloom", "both" or "none" for each column, as `Table.build_index` chooses them.

    "auto" reads a sample of the files on the driver; a sample of few files says nothing, and a Sieve is built.
    """
    if kind != "auto":
        return dict.fromkeys(paths, kind)
    if len(snapshot.slices) < FEW_FILES:
        return dict.fromkeys(paths, "sieve")
    return {path: advise_column(lake, snapshot, path).recommendation for path in paths}


def report(log: Log, snapshot: Snapshot, done: Commit | None, chosen: Mapping[ColumnPath, str]) -> View:
    """Return what a build returns: the version that it made, or the newest one where "auto" built nothing."""
    # The one place to return a `BuildReport` instead.
    for path, kind in chosen.items():
        _log.info("index of %s: %s", ".".join(path), kind)
    commit = done or log.newest() or Commit(0, "", None, 0, "none", TableState.of(snapshot), {}, {})
    return View(log.store, commit, TableIndex(log.store).refresh)

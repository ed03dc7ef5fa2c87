"""Choose the kind of index for each column."""

from __future__ import annotations

from collections.abc import Sequence

from parsieve.index.advice import advise_column
from parsieve.index.indexed_table import FEW_FILES
from parsieve.lake.base import ColumnPath, Lake, Snapshot

KINDS = ("auto", "sieve", "bloom", "both")


def choose(lake: Lake, snapshot: Snapshot, paths: Sequence[ColumnPath], kind: str) -> dict[ColumnPath, str]:
    """Return "sieve", "bloom", "both" or "none" for each column, as `Table.build_index` chooses them.

    "auto" reads a sample of the files on the driver. If there are too few files for a sample, it chooses "sieve".
    """
    if kind != "auto":
        return dict.fromkeys(paths, kind)
    if len(snapshot.slices) < FEW_FILES:
        return dict.fromkeys(paths, "sieve")
    return {path: advise_column(lake, snapshot, path).recommendation for path in paths}

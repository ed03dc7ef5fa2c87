"""Pickle tables and plans for other processes, without caches, evidence and library objects."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from parsieve.index.table_index import TableIndex
from parsieve.io.store.base import Store
from parsieve.io.store.local import LocalStore
from parsieve.lake.base import Lake, Snapshot
from parsieve.plan.record import PlanRecord


@dataclass(frozen=True, slots=True)
class Opening:
    """A lake without caches and library objects, with what its adapter needs to open the table again."""

    lake: Lake
    attributes: dict[str, Any]

    def open(self) -> Lake:
        """Return the lake, ready for use. Reads nothing."""
        lake = copy.copy(self.lake)
        lake.__dict__.update(self.attributes)
        return lake


def opening_of(lake: Lake, what: str) -> Opening:
    """Return how to open a lake in another process. `what` names the table or plan in a `TypeError`."""
    if lake.keys is not None:
        raise TypeError(
            f"cannot pickle {what}: it was opened with decryption=, and the pickle would contain the keys. "
            "Open the table again in the other process"
        )
    storage = getattr(lake, "_storage", None)
    if storage is not None:
        _require_picklable(storage.filesystem, what)
    return Opening(copy.copy(lake), lake.reopening())


def store_of(store: Store, what: str) -> Store:
    """Return an index's store in a form that another process can use."""
    for name in ("_filesystem", "_store"):
        _require_picklable(getattr(store, name, None), what)
    return LocalStore(os.path.abspath(store.root)) if isinstance(store, LocalStore) else store  # noqa: PTH100


def _require_picklable(filesystem: Any, what: str) -> None:
    """Raise `TypeError` if a filesystem, or one that it wraps, cannot be pickled."""
    # pyarrow and fsspec wrap filesystems under these names.
    for layer in (filesystem, *(getattr(filesystem, name, None) for name in ("base_fs", "handler", "fs"))):
        if layer is None:
            continue
        try:
            layer.__reduce_ex__(4)
        except Exception as error:
            raise TypeError(
                f"cannot pickle {what}: its {type(layer).__name__} cannot be pickled ({error}). "
                "Open the table again in the other process, or name it by its path or URI"
            ) from error


def record_state(record: PlanRecord, what: str) -> dict[str, Any]:
    """Return a plan's record as a dict to pickle. `what` names the plan in a `TypeError`."""
    opening = opening_of(record.lake, what)
    return record.without_evidence() | {"lake": opening, "snapshot": _thinned(record.snapshot, set(record.kept))}


def _thinned(snapshot: Snapshot, kept: set[int]) -> Snapshot:
    """Return a snapshot without statistics, and without data that only readers of skipped files need."""
    return Snapshot(snapshot.id, snapshot.instant, snapshot.schema, snapshot.slices.thinned(kept))


def restore_record(state: dict[str, Any]) -> PlanRecord:
    """Restore a plan's record from its `record_state`."""
    record = object.__new__(PlanRecord)
    record.__dict__.update(state | {"lake": state["lake"].open()})
    return record


def table_state(lake: Lake, index: TableIndex, what: str) -> tuple[Opening, Store]:
    """Return how to open a table in another process: its lake, and the store of its index."""
    return opening_of(lake, what), store_of(index.store, what)


def restore_table(kind: Callable[[Lake, Store], Any], opening: Opening, store: Store) -> Any:
    """Restore a table from its `table_state`."""
    return kind(opening.open(), store)

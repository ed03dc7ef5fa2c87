"""Pickle tables and plans for other processes: what a pickle contains, and what it leaves out."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from parsieve.io.store.base import Store
from parsieve.io.store.local import LocalStore
from parsieve.lake.base import Lake, Snapshot


@dataclass(frozen=True, slots=True)
class _Version:
    """Replaces a `DeltaTable` in a pickle, so that the copy stays at the original's version."""

    number: int

    def version(self) -> int:
        """Return the version number."""
        return self.number


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
    return Opening(copy.copy(lake), _attributes(lake))


def _attributes(lake: Lake) -> dict[str, Any]:
    """Return the attributes that `Lake.__getstate__` leaves out, and the caches, as the copy needs them."""
    if lake.format == "delta":
        given: Any = lake.__dict__.get("_given")
        return {"_given": None if given is None else _Version(int(given.version()))}
    if lake.format == "hudi":
        return {"_written": {}}
    if lake.format == "iceberg":
        given, source = lake.__dict__.get("_given"), lake.__dict__.get("_source")
        if given is None:
            text = os.fspath(source)  # type: ignore[arg-type]
            return {"_given": None, "_source": text if "://" in text else os.path.abspath(text)}  # noqa: PTH100
        # The metadata file never changes, so the copy sees the same state. Only `properties` can open it elsewhere.
        options = {name: str(value) for name, value in dict(given.io.properties).items()}
        return {"_given": None, "_source": given.metadata_location, "storage_options": options}
    return {}


def store_of(store: Store, what: str) -> Store:
    """Return an index's store in a form that another process can use."""
    for name in ("_filesystem", "_store"):
        _require_picklable(getattr(store, name, None), what)
    return LocalStore(os.path.abspath(store.root)) if isinstance(store, LocalStore) else store  # noqa: PTH100


def _require_picklable(filesystem: Any, what: str) -> None:
    """Raise `TypeError` if a filesystem, or one that it wraps, cannot be pickled."""
    # pyarrow and fsspec wrap filesystems under these names.
    for one in (filesystem, *(getattr(filesystem, name, None) for name in ("base_fs", "handler", "fs"))):
        if one is None:
            continue
        try:
            one.__reduce_ex__(4)
        except Exception as error:
            raise TypeError(
                f"cannot pickle {what}: its {type(one).__name__} cannot be pickled ({error}). "
                "Open the table again in the other process, or name it by its path or URI"
            ) from error


def plan_state(plan: Any, left_out: frozenset[str]) -> dict[str, Any]:
    """Return a plan's attributes without its evidence. What the evidence proves is written out instead."""
    what = repr(plan)
    opening = opening_of(plan._lake, what)
    for name, attribute in vars(type(plan)).items():
        if isinstance(attribute, cached_property):
            getattr(plan, name)
    written = {"_explained": plan.explain(), "_as_json": plan.to_json()}
    state = {name: value for name, value in vars(plan).items() if name not in left_out}
    return state | written | {"_lake": opening, "_snapshot": _thinned(plan._snapshot, set(plan._kept))}


def _thinned(snapshot: Snapshot, kept: set[int]) -> Snapshot:
    """Return a snapshot without statistics, and without data that only readers of skipped files need."""
    slices = tuple(
        piece if number in kept else replace(piece, native=None) for number, piece in enumerate(snapshot.slices)
    )
    return Snapshot(snapshot.id, snapshot.instant, snapshot.schema, slices)


def restore_plan(plan: Any, state: dict[str, Any]) -> None:
    """Restore a plan from its `plan_state`."""
    plan.__dict__.update(state | {"_lake": state["_lake"].open()})


def table_state(table: Any) -> tuple[Opening, Store]:
    """Return what opens a table in another process: its lake and the store of its index."""
    what = repr(table)
    return opening_of(table._lake, what), store_of(table._index.store, what)


def restore_table(kind: Callable[[Lake, Store], Any], opening: Opening, store: Store) -> Any:
    """Restore a table from its `table_state`."""
    return kind(opening.open(), store)

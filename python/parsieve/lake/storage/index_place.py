"""Find out whether readers of a plain folder would take the files of an index inside it for files of the table."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePath, PurePosixPath

from parsieve.io.names import is_ignored
from parsieve.io.store.base import Store
from parsieve.io.store.local import LocalStore
from parsieve.io.store.objects import ObjectStore
from parsieve.lake.storage.storage import Storage

# Other spellings of the same scheme.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "gcs": "gs"}


def problem_with(storage: Storage, store: Store) -> str:
    """Return why an index must not be written to a store, or "" if readers of the folder do not find it there."""
    visible = [inside for inside in _paths_inside(storage, store) if not any(map(is_ignored, inside.parts))]
    # Nothing can be written to a location that is a file. The store says so.
    if not visible or storage.is_single_file() or (isinstance(store, LocalStore) and store.root.is_file()):
        return ""
    return (
        f"the index location {store} is inside the folder of the table, {storage.uri}, so readers of the folder would "
        "take the files of the index for Parquet files. Use the default location, or a name that begins with _ or a "
        f"dot, such as {_ignored_place(str(store), visible[0])}"
    )


def _paths_inside(storage: Storage, store: Store) -> Iterator[PurePath]:
    """Yield the paths of a store relative to the folder of a table; none if it is outside, or if that is unknown."""
    if isinstance(store, LocalStore):
        if storage.is_local:
            for root in {Path(storage.root), Path(os.path.realpath(storage.root))}:
                for place in _spellings(Path(os.path.abspath(store.root))):  # noqa: PTH100 - no symlinks
                    yield from _inside(place, root)
    elif isinstance(store, ObjectStore):
        named, prefix = store.location
        if isinstance(named, str) and "://" in storage.uri:
            yield from _inside(_of_uri(named), _of_uri(storage.uri))
        elif not isinstance(named, str) and named == storage.filesystem:
            yield from _inside(PurePosixPath("/", prefix), PurePosixPath("/", storage.root))


def _spellings(place: Path) -> Iterator[Path]:
    """Yield a path with the links in each of its parents resolved. A link may lead into a folder or out of it."""
    for parent in (place, *place.parents):
        yield Path(os.path.realpath(parent)) / place.relative_to(parent)


def _inside(place: PurePath, root: PurePath) -> Iterator[PurePath]:
    if place.is_relative_to(root):
        yield place.relative_to(root)


def _of_uri(uri: str) -> PurePosixPath:
    scheme, _, rest = uri.partition("://")
    return PurePosixPath("/", _SCHEMES.get(scheme, scheme), rest.strip("/"))


def _ignored_place(store: str, inside: PurePath) -> str:
    """Return a similar place that readers ignore."""
    parent, sign, name = store.rstrip("/").rpartition("/")
    if not inside.parts:
        return f"{store.rstrip('/')}/_index"
    # Readers do not ignore `_column=value`.
    return f"{parent}{sign}_{'index' if '=' in name else name}"

"""Rewrite objects of a store: download the object, rewrite it locally, and upload it unless it changed meanwhile."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from parsieve._core import UnsupportedError
from parsieve.errors import ConflictError
from parsieve.filters.report import RewriteReport
from parsieve.filters.target import TABLE_FOLDERS, table_error
from parsieve.io.fd import name_in_errors
from parsieve.io.object_store import os_errors, store_at
from parsieve.io.ranges import RangeReader
from parsieve.io.sources import tagged

# The largest upload that S3 and compatible stores accept in one request. Only single requests can be conditional.
LARGEST_UPLOAD = 5 << 30


def is_remote(source: Any) -> bool:
    """Return whether a source is a URI or a `(store, path)` pair, not a local file."""
    return (isinstance(source, tuple) and len(source) == 2) or (
        isinstance(source, str) and "://" in source and not source.startswith("file://")
    )


def rewrite_object(source: Any, dest: Any, rewrite: Callable[[Path], RewriteReport], dry_run: bool) -> RewriteReport:
    """Download an object, call `rewrite` with the local file, and upload the new file.

    The upload is conditional: it fails if the object has changed since it was read, or if `dest` already exists. The
    new object keeps the attributes of the old one, such as its content type.
    """
    store, path = _store(source)
    target_store, target = (store, path) if dest is None else _store(dest)
    _refuse_table_object(source if dest is None else dest)
    name = target if isinstance(source, tuple) else str(source if dest is None else dest)
    with os_errors(path):
        head = store.head(path)
    tag = head.get("e_tag")
    if tag is None:
        raise UnsupportedError(f"the store has no ETag for {path}, so a change in the meantime could not be detected")
    if dest is not None and not dry_run and _is_object(target_store, target):
        raise _exists(target)
    if head["size"] > LARGEST_UPLOAD:
        raise UnsupportedError(
            f"{path} has {head['size']} bytes; conditional uploads are limited to {LARGEST_UPLOAD} bytes"
        )
    with tempfile.TemporaryDirectory(prefix="parsieve-") as folder:
        local = Path(folder) / "object.parquet"
        reader = RangeReader((store, path))
        # An object that was replaced may be restored later, and then has the same ETag as before.
        if reader.version != tagged(head["size"], tag):
            raise ConflictError(f"{path} was changed in the meantime; nothing was uploaded")
        with name_in_errors(local), local.open("wb") as file:
            for data in reader.chunks(0, reader.size):
                file.write(data)
        report = rewrite(local)
        if dry_run or not (report.written or dest is not None):
            return report._replace(path=name, bytes_fetched=reader.bytes_fetched, written=False)
        same_version = {key: head[key] for key in ("e_tag", "version") if head.get(key) is not None}
        # The conditional upload below proves that these are the attributes of the version that was read.
        with os_errors(path):
            attributes = store.get(path, options={"head": True}).attributes
        _put(target_store, target, local, same_version if dest is None else "create", attributes)
    return report._replace(path=name, bytes_fetched=reader.bytes_fetched, written=True)


def _put(store: Any, path: str, local: Path, condition: Any, attributes: Any) -> None:
    try:
        store.put(path, local, mode=condition, attributes=attributes or None, use_multipart=False)
    except Exception as error:
        # Recognized by their names, so that obstore need not be imported.
        kind = type(error).__name__
        is_refused = kind in ("PreconditionError", "AlreadyExistsError")
        # If the answer to an upload is lost, the client tries again, and the store refuses what it already contains.
        if is_refused and _contains(store, path, local):
            return
        if kind in ("PreconditionError", "NotFoundError"):
            raise ConflictError(f"{path} was changed in the meantime; nothing was uploaded") from error
        if kind == "AlreadyExistsError":
            raise _exists(path) from error
        if kind in ("NotImplementedError", "NotSupportedError"):
            what = f" with the attributes {attributes}" if attributes else ""
            raise UnsupportedError(
                f"{type(store).__name__} does not support conditional uploads{what}, so changes in the meantime could "
                "be lost"
            ) from error
        raise


def _is_object(store: Any, path: str) -> bool:
    """Return whether an object certainly exists. If this is unknown, the conditional upload decides."""
    try:
        store.head(path)
    except Exception:
        return False
    return True


def _contains(store: Any, path: str, local: Path) -> bool:
    """Return whether an object and a local file have the same bytes."""
    try:
        reader = RangeReader((store, path))
        if reader.size != local.stat().st_size:
            return False
        with local.open("rb") as file:
            return all(file.read(len(data)) == data for data in reader.chunks(0, reader.size))
    except (ConflictError, FileNotFoundError):
        return False


def _exists(path: str) -> FileExistsError:
    return FileExistsError(f"{path} exists; remove it first, or choose another dest")


def _refuse_table_object(place: Any) -> None:
    """Raise an error for an object of a table, as `refuse_table_file` does for local files."""
    shown = place if isinstance(place, str) else place[1]
    for folder, store, prefix in _folders_above(place):
        for name, kind in TABLE_FOLDERS.items():
            try:
                is_table = any(kind != "Iceberg" or ".metadata.json" in name for name in _names(store, prefix + name))
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"{shown} was not uploaded, because it is unknown whether it belongs to a table: {name} in "
                    f"{folder or 'the root of the store'} cannot be listed ({error.strerror})",
                ) from error
            if is_table:
                raise table_error(shown, folder, kind)


def _folders_above(place: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield the folders that contain an object: the name, a store, and the prefix of the folder in that store."""
    store, path = _store(place)
    store, root = _unprefixed(store)
    parts = [part for part in f"{root}/{path}".split("/")[:-1] if part]
    for end in range(len(parts), -1, -1):
        folder = "/".join(parts[:end])
        name = "/".join(place.split("/")[: end - len(parts) - 1]) if isinstance(place, str) else folder
        yield name, store, f"{folder}/" if folder else ""


def _unprefixed(store: Any) -> tuple[Any, str]:
    """Return the store of the whole bucket or container, and the folder in it that a store calls its root."""
    arguments = getattr(store, "__getnewargs_ex__", None)
    positional, named = ((), {}) if arguments is None else arguments()
    root = named.get("prefix")
    if not isinstance(root, str) or not root.strip("/"):
        return store, ""
    return type(store)(*positional, **{**named, "prefix": None}), root.strip("/")


def _names(store: Any, folder: str) -> Iterator[str]:
    """Yield the names of the objects in a folder of a store, as long as the caller needs more of them."""
    listing: Iterator[list[dict[str, Any]]] = iter(store.list(folder))
    while True:
        with os_errors(folder):
            listed = next(listing, [])
        if not listed:
            return
        for found in listed:
            parent, _, name = found["path"].rpartition("/")
            if parent == folder:
                yield name


def _store(source: Any) -> tuple[Any, str]:
    """Return the obstore store of a source, and the path in it."""
    if isinstance(source, tuple) and len(source) == 2:
        store, path = source
        if hasattr(store, "get_range") and hasattr(store, "put"):
            return store, os.fsdecode(path)
        raise UnsupportedError(
            f"upload needs a store of obstore, which supports conditional uploads; {type(store).__qualname__} does not"
        )
    if not is_remote(source):
        raise ValueError(f"upload=True needs a URI or a (store, path) pair, not {source!r}")
    folder, _, name = str(source).rpartition("/")
    return store_at(folder), name

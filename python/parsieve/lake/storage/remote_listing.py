"""List the files below a folder of an object store, or of any other remote filesystem, and describe single files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyarrow import fs

from parsieve._core import UnsupportedError
from parsieve.io.names import is_ignored
from parsieve.io.object_store import os_errors
from parsieve.io.sources import ETAGS, size_of
from parsieve.lake.storage.listing import NEVER, ListedFile, token_of

# Stores use their own clocks for timestamps, which may differ from the local clock.
REMOTE_NS = 60_000_000_000
# The largest difference between two time zones.
ANY_ZONE_NS = 26 * 3600 * 1_000_000_000
# What filesystems of pyarrow and fsspec call stores in which a file and a folder can have the same name.
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "tos"}


def list_files(filesystem: Any, root: str, now: int) -> Iterator[ListedFile]:
    """Yield all files below a folder that engines do not ignore, or the single file. `now` precedes the listing."""
    if isinstance(filesystem, fs.FileSystem):
        return _list_pyarrow(filesystem, root, now)
    return (_list_fsspec if hasattr(filesystem, "cat_file") else _list_obstore)(filesystem, root, now)


def find_file(filesystem: Any, path: str, now: int) -> ListedFile:
    """Return one file. In an object store, the names of other files may be its name, followed by a slash."""
    if isinstance(filesystem, fs.FileSystem):
        info = filesystem.get_file_info(path)
        if info.type == fs.FileType.File:
            return _of_pyarrow(info, info.base_name, now)
    elif hasattr(filesystem, "cat_file"):
        # A cached listing would hide a change.
        filesystem.invalidate_cache()
        info = filesystem.info(path)
        if info.get("type", "file") == "file":
            return _of_fsspec(info, path.rsplit("/", 1)[-1], path, now)
    else:
        import obstore

        with os_errors(path):
            meta = obstore.head(filesystem, path)
        return _of_obstore(filesystem, meta, path.rsplit("/", 1)[-1], now)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def names_in(filesystem: Any, folder: str, table: Any) -> set[str]:
    """Return the names in a folder of a table. A missing folder has none."""
    if isinstance(filesystem, fs.FileSystem):
        kind = filesystem.get_file_info(folder).type
        # In an object store, a file may have the name of a folder.
        if kind != fs.FileType.Directory and not (kind == fs.FileType.File and _is_object_store(filesystem)):
            return set()
        selector = fs.FileSelector(folder, allow_not_found=True)
        return {info.base_name for info in filesystem.get_file_info(selector)}
    if hasattr(filesystem, "cat_file"):
        filesystem.invalidate_cache()
        is_folder = filesystem.isdir(folder) or (_is_object_store(filesystem) and filesystem.isfile(folder))
        itself = filesystem._strip_protocol(folder)
        try:
            below = filesystem.ls(folder, detail=False) if is_folder else []
        except FileNotFoundError:
            # Filesystems of obstore do not list an object as a folder.
            below = []
        paths = [path for path in below if path != itself]
    else:
        import obstore

        with os_errors(table):
            listed = obstore.list_with_delimiter(filesystem, prefix=folder or None)
        paths = [*listed["common_prefixes"], *(meta["path"] for meta in listed["objects"])]
    return {path.rstrip("/").rsplit("/", 1)[-1] for path in paths}


def sizes_below(filesystem: Any, root: str) -> Iterator[tuple[str, int]]:
    """Yield the relative paths and the sizes of all files below a folder, including files that engines ignore."""
    if isinstance(filesystem, fs.FileSystem):
        infos = filesystem.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        sizes = {info.path: info.size for info in infos if info.type == fs.FileType.File}
    elif hasattr(filesystem, "cat_file"):
        filesystem.invalidate_cache()
        sizes = {path: info["size"] for path, info in filesystem.find(root, detail=True).items()}
        root = filesystem._strip_protocol(root)
    else:
        import obstore

        with os_errors(root or filesystem):
            listed = obstore.list(filesystem, prefix=root or None)
            sizes = {meta["path"]: meta["size"] for chunk in listed for meta in chunk}
    for path, size in sizes.items():
        yield _below(path, root), int(size)


def _is_object_store(filesystem: Any) -> bool:
    """Return whether a file and a folder of a filesystem of pyarrow or fsspec can have the same name."""
    if isinstance(filesystem, fs.FileSystem):
        return filesystem.type_name in _OBJECT_STORES
    protocol = getattr(filesystem, "protocol", ())
    return not _OBJECT_STORES.isdisjoint((protocol,) if isinstance(protocol, str) else protocol)


def _below(path: str, root: str) -> str:
    """Return a listed path relative to the listed folder."""
    inside, folder = path.lstrip("/"), root.strip("/")
    if folder and not inside.startswith(folder + "/"):
        raise UnsupportedError(f"the filesystem lists {path!r} in {root!r}; spell the folder as the filesystem does")
    return inside[len(folder) + 1 if folder else 0 :]


def _is_visible(relative: str) -> bool:
    return not any(map(is_ignored, relative.split("/")))


def _is_marker(root: str, size: int, has_files_below: bool) -> bool:
    """Return whether a file of an object store only marks the folder of the same name, which contains files.

    Raise `UnsupportedError` if the file is not empty, because engines read either the file or the folder.
    """
    if has_files_below and size:
        raise UnsupportedError(
            f"{root} is the name of a file and of a folder with files, and engines read either the file or the folder; "
            "rename one of them"
        )
    return has_files_below


def _list_pyarrow(filesystem: fs.FileSystem, root: str, now: int) -> Iterator[ListedFile]:
    info = filesystem.get_file_info(root)
    below = []
    if info.type != fs.FileType.File:
        below = filesystem.get_file_info(fs.FileSelector(root, recursive=True))
    elif _is_object_store(filesystem):
        below = filesystem.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        below = [info for info in below if info.type == fs.FileType.File]
    if info.type == fs.FileType.File and not _is_marker(root, info.size, bool(below)):
        yield _of_pyarrow(info, info.base_name, now)
        return
    for info in below:
        relative = _below(info.path, root)
        if info.type == fs.FileType.File and _is_visible(relative):
            yield _of_pyarrow(info, relative, now)


def _of_pyarrow(info: fs.FileInfo, relative: str, now: int) -> ListedFile:
    changed = info.mtime_ns or now
    return ListedFile(relative, info.path, info.size, *token_of((info.size, changed), changed, now, REMOTE_NS))


def _etag_token(details: Callable[[str], Any], size: int, changed: Any, now: int) -> tuple[str, int]:
    """Return the token of an object from its ETag, or else from its timestamp if that is old enough.

    Without a token, also return the time from which the object can have one.
    """
    for name in ETAGS:
        if tag := details(name):
            return f"{size}-{str(tag).strip(chr(34))}", 0
    if changed is None:
        return "", NEVER
    seconds = changed if isinstance(changed, (int, float)) else changed.timestamp()
    # A datetime without a time zone may be in any zone.
    uncertainty = ANY_ZONE_NS if getattr(changed, "tzinfo", now) is None else 0
    return token_of((size, seconds), int(seconds * 1e9), now, REMOTE_NS + uncertainty)


def _list_fsspec(filesystem: Any, root: str, now: int) -> Iterator[ListedFile]:
    # A listing in fsspec's cache would hide later changes.
    filesystem.invalidate_cache()
    folder, info = filesystem._strip_protocol(root), _file_info(filesystem, root)
    infos = {}
    if info is None or _is_object_store(filesystem):
        infos = filesystem.find(root, detail=True)
    if info is not None and not _is_marker(root, info["size"], any(path != folder for path in infos)):
        infos = {root: info}
    for path, info in infos.items():
        # Another process may write the file just after `_file_info` did not find it.
        is_single = path in (root, folder)
        relative = path.rsplit("/", 1)[-1] if is_single else _below(path, folder)
        if info.get("type", "file") == "file" and (is_single or _is_visible(relative)):
            yield _of_fsspec(info, relative, path, now)


def _file_info(filesystem: Any, path: str) -> Mapping[str, Any] | None:
    """Return what `info` of fsspec says about a file, or None if there is none. Takes one request."""
    try:
        info: Mapping[str, Any] = filesystem.info(path)
    except Exception:
        # Stores raise their own errors. fsspec's `isfile` ignores all of them, too. A real problem fails the listing.
        return None
    return info if info.get("type", "file") == "file" else None


def _of_fsspec(info: Mapping[str, Any], relative: str, path: str, now: int) -> ListedFile:
    changed = next((info[name] for name in ("mtime", "LastModified", "last_modified") if info.get(name)), None)
    size = size_of(info, path)
    return ListedFile(relative, path, size, *_etag_token(info.get, size, changed, now))


def _list_obstore(store: Any, root: str, now: int) -> Iterator[ListedFile]:
    import obstore

    with os_errors(root or store):
        objects = [meta for chunk in obstore.list(store, prefix=root or None) for meta in chunk]
        if not objects and root:
            objects = [obstore.head(store, root)]
    for meta in objects:
        path = meta["path"]
        is_single = path == root
        relative = path.rsplit("/", 1)[-1] if is_single else _below(path, root)
        if is_single or _is_visible(relative):
            yield _of_obstore(store, meta, relative, now)


def _of_obstore(store: Any, meta: Mapping[str, Any], relative: str, now: int) -> ListedFile:
    token, settles = _etag_token(meta.get, meta["size"], meta.get("last_modified"), now)
    if type(store).__name__ == "MemoryStore":
        # Each such store numbers its ETags from zero, and an index in another store may outlive it.
        token += f"-{meta['last_modified'].isoformat()}"
    return ListedFile(relative, meta["path"], meta["size"], token, settles)

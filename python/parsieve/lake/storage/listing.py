"""List the files below a local folder, with a token for each file. This takes one `stat` for each file."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from stat import S_ISDIR
from typing import NamedTuple

from parsieve._core import UnsupportedError

# A file that changed just before it was listed may change again without getting a new timestamp, so it has no token.
# Kernels set timestamps once per tick. A timestamp of whole seconds may come from a filesystem with coarse timestamps.
# FAT has the coarsest ones, with two seconds.
TICK_NS = 50_000_000
COARSE_NS = 2_000_000_000


# A time that never comes, for files of stores that return neither an ETag nor a timestamp.
NEVER = 1 << 63


class ListedFile(NamedTuple):
    """A file below a folder. `relative` is its path in the folder, and `path` opens it."""

    relative: str
    path: str
    size: int
    token: str
    # If there is no token: the time from which the unchanged file can have one, in nanoseconds since 1970.
    settles: int = 0


# Every property that changes if a file is modified or replaced.
_properties_of = attrgetter("st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
_Properties = tuple[int, int, int, int, int]
# The errors of `stat` for names without rows: files deleted since the folder was listed, and broken or circular links.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
# Relative to an open folder, the kernel finds a file without resolving its whole path.
_CAN_STAT_IN_FOLDER = os.stat in os.supports_dir_fd and os.listdir in os.supports_fd


@dataclass(frozen=True, slots=True)
class _Folder:
    """The contents of a folder: its names in the system's order, with their properties, files and subfolders."""

    names: list[str]
    properties: list[_Properties]
    files: dict[str, tuple[_Properties, ListedFile]]
    folders: list[str]
    # Whether equal properties prove that every file is unchanged.
    has_all_tokens: bool


def is_ignored(name: str) -> bool:
    """Return whether engines ignore a file or folder with this name. They do not ignore partitions `_column=value`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def token_of(parts: tuple[object, ...], changed_ns: int, now: int, grain: int) -> tuple[str, int]:
    """Return the token that these parts form, and 0.

    If the file changed within the clock's grain, return "" and the time from which it can have a token.
    """
    return ("", changed_ns + grain) if changed_ns > now - grain else ("-".join(map(str, parts)), 0)


class LocalListing:
    """Lists a folder, or a single file, repeatedly. You can share it between threads.

    A file with unchanged properties keeps its `ListedFile`, so its texts are created only once. If nothing changed at
    all, `files` returns the same tuple object again.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        # The time of the last listing, its folders, and its files in order. One assignment replaces all of them.
        self._last: tuple[int, dict[str, _Folder], tuple[ListedFile, ...]] = (0, {}, ())

    def files(self) -> tuple[ListedFile, ...]:
        """Return all files that engines do not ignore, sorted by path."""
        # Read the clock first, so that a file that changes during the listing counts as just changed.
        now = time.time_ns()
        if os.path.isfile(self._root):  # noqa: PTH113
            return (of_path(self._root, now),)
        before, last_folders, files = self._last
        if now < before:
            # The clock was set back, so a changed file may get the same timestamps again.
            last_folders, files = {}, ()
        folders: dict[str, _Folder] = {}
        pending = [""]
        while pending:
            below = pending.pop()
            folder = _list_folder(f"{self._root}/{below}", below, last_folders.get(below), now)
            folders[below] = folder
            pending.extend(f"{below}{name}/" for name in folder.folders)
        if len(folders) != len(last_folders) or any(
            last_folders.get(below) is not folder for below, folder in folders.items()
        ):
            files = tuple(sorted(file for folder in folders.values() for _, file in folder.files.values()))
        self._last = now, folders, files
        return files


def _list_folder(path: str, below: str, last: _Folder | None, now: int) -> _Folder:
    """Return the contents of a folder: `last` itself if nothing changed, else with new objects for changes only."""
    names, properties = _read_folder(path)
    if last is not None and last.has_all_tokens and names == last.names and properties == last.properties:
        return last
    files: dict[str, tuple[_Properties, ListedFile]] = {}
    folders = []
    last_files = {} if last is None else last.files
    for name, present in zip(names, properties, strict=True):
        if S_ISDIR(present[0]):
            if not _is_link_to_parent(path + name, path[: len(path) - len(below) - 1]):
                folders.append(name)
            continue
        entry = last_files.get(name)
        if entry is None or entry[0] != present or not entry[1].token:
            entry = present, _make_listed(path + name, below + name, present, now)
        files[name] = entry
    return _Folder(names, properties, files, folders, all(file.token for _, file in files.values()))


def _read_folder(path: str) -> tuple[list[str], list[_Properties]]:
    """Return the names in a folder that engines do not ignore, and their properties. Follow links."""
    if not _CAN_STAT_IN_FOLDER:
        return _stat_all(os.listdir(path), lambda name: os.stat(path + name))  # noqa: PTH116, PTH208
    folder = os.open(path, os.O_RDONLY)
    try:
        return _stat_all(os.listdir(folder), partial(os.stat, dir_fd=folder))  # noqa: PTH208
    finally:
        os.close(folder)


def _stat_all(names: list[str], stat: Callable[[str], os.stat_result]) -> tuple[list[str], list[_Properties]]:
    names = [name for name in names if name[0] not in "._" or not is_ignored(name)]
    try:
        # `map` runs no Python code for each file, and keeps only a few numbers of each `stat_result`.
        return names, list(map(_properties_of, map(stat, names)))
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
    existing = []
    for name in names:
        try:
            existing.append((name, _properties_of(stat(name))))
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
    return [name for name, _ in existing], [properties for _, properties in existing]


def of_path(path: str, now: int) -> ListedFile:
    """Return a single file."""
    return _make_listed(path, os.path.basename(path), _properties_of(os.stat(path)), now)  # noqa: PTH116, PTH119


def _make_listed(path: str, relative: str, properties: _Properties, now: int) -> ListedFile:
    try:
        relative.encode()
    except UnicodeEncodeError:
        raise UnsupportedError(f"file name is not UTF-8: {path!r}; engines cannot open it, so rename it") from None
    _, size, modified, changed, inode = properties
    latest = max(modified, changed)
    grain = COARSE_NS if latest % 1_000_000_000 == 0 else TICK_NS
    return ListedFile(relative, path, size, *token_of((size, modified, changed, inode), latest, now, grain))


def _is_link_to_parent(path: str, root: str) -> bool:
    """Return whether a folder is a link to one of the folders that contain it, possibly through other links."""
    if not os.path.islink(path):  # noqa: PTH114
        return False
    target = os.path.realpath(path)
    while len(path) > len(root):
        path = os.path.dirname(path)  # noqa: PTH120
        if os.path.commonpath((target, os.path.realpath(path))) == target:
            return True
    return False

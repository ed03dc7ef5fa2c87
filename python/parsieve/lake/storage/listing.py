"""List the files below a local folder, with a token for each file. This takes one `stat` for each file."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple, overload

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.io.names import NO_FILE, is_ignored, is_link_to_parent, kind_of_special, refuse_special
from parsieve.observe.logs import FILES

# A file that changed just before it was listed may change again without getting a new timestamp, so it has no token.
# Kernels set timestamps once per tick. A timestamp of whole seconds may come from a filesystem with coarse timestamps.
# FAT has the coarsest ones, with two seconds.
TICK_NS = 50_000_000
COARSE_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000


# A time that never comes, for files of stores that return neither an ETag nor a timestamp.
NEVER = 1 << 63
# The latest time to which a few seconds can be added in 64 bits. Files that claim a later one never get a token.
_LATEST_NS = NEVER - 1 - 2 * COARSE_NS


class ListedFile(NamedTuple):
    """A file below a folder. `relative` is its path in the folder, and `path` opens it."""

    relative: str
    path: str
    size: int
    token: str
    # If there is no token: the time from which the unchanged file can have one, in nanoseconds since 1970.
    settles: int = 0


_COLUMNS = {"relative": pa.string(), "path": pa.string(), "size": pa.int64(), "token": pa.string()}
_SCHEMA = pa.schema(_COLUMNS | {"settles": pa.uint64(), "folder": pa.int32()})


class Listing(Sequence[ListedFile]):
    """The files below a folder, as columns, sorted by path."""

    def __init__(self, columns: pa.RecordBatch, folders: Sequence[str]) -> None:
        # The attributes of `ListedFile`, and the number of the folder that contains each file.
        self.columns = columns
        # The paths of the folders that contain files, in the order of their first file.
        self.folders = folders

    @classmethod
    def of(cls, files: Iterable[ListedFile]) -> Listing:
        """Return some files as columns."""
        files = sorted(files)
        folders = [file.relative.rpartition("/")[0] for file in files]
        places = {folder: number for number, folder in enumerate(dict.fromkeys(folders))}
        rows = [(*file, places[folder]) for file, folder in zip(files, folders, strict=True)]
        columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        return cls(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA), list(places))

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    @overload
    def __getitem__(self, number: int) -> ListedFile: ...

    @overload
    def __getitem__(self, number: slice) -> list[ListedFile]: ...

    def __getitem__(self, number: int | slice) -> ListedFile | list[ListedFile]:
        """Return one file, or a list of the files in a range."""
        numbers = range(len(self))[number]
        if isinstance(numbers, int):
            return ListedFile(*(column[numbers].as_py() for column in self.columns.columns[:5]))
        columns = self.columns.take(pa.array(numbers, pa.int64())).columns[:5]
        return list(map(ListedFile, *(column.to_pylist() for column in columns)))

    def filter(self, is_kept: pa.BooleanArray) -> Listing:
        """Return some of the files."""
        return self if pc.all(is_kept).as_py() else _with_folders(self.columns.filter(is_kept), self.folders)


def _with_folders(columns: pa.RecordBatch, folders: Sequence[str]) -> Listing:
    """Return the listing of some files, without the folders that contain none of them."""
    used = columns["folder"].unique()
    place = columns.schema.get_field_index("folder")
    columns = columns.set_column(place, "folder", pc.index_in(columns["folder"], value_set=used))
    return Listing(columns, [folders[number] for number in used.to_pylist()])


# Every property that changes if a file is modified or replaced.
_Properties = tuple[int, int, int, int, int]
_properties_of = attrgetter("st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
# How many files are described by Python objects at a time.
_STATS_AT_ONCE = 1024
# How many pipes, sockets and devices one warning lists.
_WARNED_AT_ONCE = 5
# Relative to an open folder, the kernel finds a file without resolving its whole path.
_CAN_STAT_IN_FOLDER = os.stat in os.supports_dir_fd and os.listdir in os.supports_fd


def token_of(parts: tuple[object, ...], changed_ns: int, now: int, grain: int) -> tuple[str, int]:
    """Return the token that these parts form, and 0.

    If the file changed within the clock's grain, return "" and the time from which it can have a token.
    """
    return ("", min(changed_ns + grain, NEVER)) if changed_ns > now - grain else ("-".join(map(str, parts)), 0)


@dataclass(frozen=True, slots=True)
class _Folder:
    """The contents of a folder."""

    # The properties of the files, in the order of their names.
    properties: pa.RecordBatch
    # The names of its folders, and the names of the folders that are listed: no link to a folder that contains it.
    names: list[str]
    folders: list[str]
    # The columns of a listing.
    files: pa.RecordBatch
    # Whether equal properties prove that every file is unchanged.
    has_all_tokens: bool


class LocalListing:
    """Lists a folder, or a single file, repeatedly. You can share it between threads.

    If nothing changed, `files` returns the same object again.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        # The time of the last listing, its folders, and its files. One assignment replaces all of them.
        self._last: tuple[int, dict[str, _Folder], Listing] = (0, {}, Listing.of(()))
        # The pipes, sockets and devices that were logged.
        self._warned: set[str] = set()

    def files(self) -> Listing:
        """Return all files that engines do not ignore, sorted by path."""
        # Read the clock first, so that a file that changes during the listing counts as just changed.
        now = time.time_ns()
        if os.path.isfile(self._root):  # noqa: PTH113
            return Listing.of([of_path(self._root, now)])
        before, last_folders, files = self._last
        if now < before:
            # The clock was set back, so a changed file may get the same timestamps again.
            last_folders, files = {}, Listing.of(())
        folders: dict[str, _Folder] = {}
        special: dict[str, int] = {}
        pending = [""]
        while pending:
            below = pending.pop()
            try:
                folder = _list_folder(self._root, below, last_folders.get(below), now, special)
            except OSError as error:
                if below and error.errno in NO_FILE:
                    # Removed since its parent was listed.
                    continue
                if error.errno == errno.ENOTDIR:
                    refuse_special(self._root)
                raise
            folders[below] = folder
            pending.extend(f"{below}{name}/" for name in folder.folders)
        self._warn(special)
        if len(folders) != len(last_folders) or any(
            last_folders.get(below) is not folder for below, folder in folders.items()
        ):
            files = _joined(folders)
        self._last = now, folders, files
        return files

    def _warn(self, special: dict[str, int]) -> None:
        """Log pipes, sockets and devices, each once. Engines skip them, or wait forever for a pipe's bytes."""
        new = [path for path in special if path not in self._warned]
        if new:
            self._warned |= special.keys()
            listed = ", ".join(f"{path} ({kind_of_special(special[path])})" for path in new[:_WARNED_AT_ONCE])
            more = f" and {len(new) - _WARNED_AT_ONCE:,} more" if len(new) > _WARNED_AT_ONCE else ""
            FILES.warning("%s leaves out what is not a file: %s%s", self._root, listed, more)


def _joined(folders: dict[str, _Folder]) -> Listing:
    """Return the files of all folders, sorted by path."""
    names = sorted(folders)
    parts = []
    for number, name in enumerate(names):
        files = folders[name].files
        parts.append(files.append_column(_SCHEMA.field("folder"), pa.repeat(pa.scalar(number, pa.int32()), len(files))))
    columns = pa.concat_batches(parts)
    paths = columns["relative"]
    # The names of files and folders side by side may have another order than their paths.
    if pc.all(pc.less(paths[:-1], paths[1:])).as_py() is False:
        columns = columns.take(pc.sort_indices(paths))
    return _with_folders(columns, [name.rstrip("/") for name in names])


def _list_folder(root: str, below: str, last: _Folder | None, now: int, special: dict[str, int]) -> _Folder:
    """Return the contents of a folder: `last` itself if nothing changed."""
    path = f"{root}/{below}"
    if not _is_unicode(path):
        raise UnsupportedError(f"folder name is not UTF-8: {path!r}; engines cannot open it, so rename it")
    folders, properties = _read_folder(path, special)
    if last is not None and last.has_all_tokens and folders == last.names and properties.equals(last.properties):
        return last
    files = _files(path, below, properties, now)
    listed = [name for name in folders if not is_link_to_parent(path + name, root)]
    return _Folder(properties, folders, listed, files, pc.all(pc.not_equal(files["token"], "")).as_py() is not False)


def _properties(path: str, names: list[str], stats: list[_Properties]) -> pa.RecordBatch:
    """Return the names and properties of the files in a folder as columns."""
    try:
        columns = [pa.array(names, pa.string())]
    except UnicodeEncodeError:
        raise _not_unicode(path, names) from None
    mode, size, modified, changed, inode = zip(*stats, strict=True) if stats else [()] * 5
    columns += [pa.array(column, pa.int64()) for column in (mode, size)]
    columns += [_times(column) for column in (modified, changed)]
    columns.append(pa.array(inode, pa.uint64()))
    return pa.RecordBatch.from_arrays(columns, ["name", "mode", "size", "modified", "changed", "inode"])


def _times(nanoseconds: Sequence[int]) -> pa.Int64Array:
    """Return times as an array. Times after the year 2262 become the latest one, and files with it have no token."""
    try:
        return pa.array(nanoseconds, pa.int64())
    except OverflowError:
        return pa.array([max(-_LATEST_NS, min(time, _LATEST_NS)) for time in nanoseconds], pa.int64())


def _files(path: str, below: str, properties: pa.RecordBatch, now: int) -> pa.RecordBatch:
    name, size = properties["name"], properties["size"]
    latest = pc.min_element_wise(pc.max_element_wise(properties["modified"], properties["changed"]), _LATEST_NS)
    is_coarse = pc.equal(latest, pc.multiply(pc.divide(latest, _SECOND_NS), _SECOND_NS))
    settled = pc.add(latest, pc.if_else(is_coarse, COARSE_NS, TICK_NS))
    is_young = pc.greater(settled, now)
    parts = [properties[column].cast(pa.string()) for column in ("size", "modified", "changed", "inode")]
    columns = [
        pc.binary_join_element_wise(below, name, ""),
        pc.binary_join_element_wise(path, name, ""),
        size,
        pc.if_else(is_young, "", pc.binary_join_element_wise(*parts, "-")),
        pc.if_else(is_young, settled, 0).cast(pa.uint64()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=_SCHEMA.names[:5])


def _read_folder(path: str, special: dict[str, int]) -> tuple[list[str], pa.RecordBatch]:
    """Return the names of the folders in a folder, and the properties of its files, both sorted. Follow links.

    Names that engines ignore are left out. The modes of pipes, sockets and devices are added to `special`.
    """
    if not _CAN_STAT_IN_FOLDER:
        return _read_names(path, os.listdir(path), lambda name: os.stat(path + name), special)  # noqa: PTH116, PTH208
    folder = os.open(path, os.O_RDONLY)
    try:
        return _read_names(path, os.listdir(folder), partial(os.stat, dir_fd=folder), special)  # noqa: PTH208
    finally:
        os.close(folder)


def _read_names(
    path: str, names: Sequence[str], stat: Callable[[str], os.stat_result], special: dict[str, int]
) -> tuple[list[str], pa.RecordBatch]:
    names = sorted(name for name in names if name[0] not in "._" or not is_ignored(name))
    folders, batches = list[str](), [_properties(path, [], [])]
    # The garbage collector visits the tuples of a large batch again and again.
    for start in range(0, len(names), _STATS_AT_ONCE):
        some, stats = _stat_all(names[start : start + _STATS_AT_ONCE], stat)
        if not all(map(S_ISREG, set(map(itemgetter(0), stats)))):
            entries = list(zip(some, stats, strict=True))
            folders += [name for name, (mode, *_) in entries if S_ISDIR(mode)]
            special.update({path + name: mode for name, (mode, *_) in entries if kind_of_special(mode)})
            entries = [entry for entry in entries if S_ISREG(entry[1][0])]
            some, stats = [name for name, _ in entries], [stat for _, stat in entries]
        batches.append(_properties(path, some, stats))
    return folders, pa.concat_batches(batches)


def _not_unicode(path: str, names: Iterable[str]) -> UnsupportedError:
    name = next(name for name in names if not _is_unicode(path + name))
    return UnsupportedError(f"file name is not UTF-8: {path + name!r}; engines cannot open it, so rename it")


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _stat_all(names: list[str], stat: Callable[[str], os.stat_result]) -> tuple[list[str], list[_Properties]]:
    try:
        # `map` runs no Python code for each file, and keeps only a few numbers of each `stat_result`.
        return names, list(map(_properties_of, map(stat, names)))
    except OSError as error:
        if error.errno not in NO_FILE:
            raise
    existing = []
    for name in names:
        try:
            existing.append((name, _properties_of(stat(name))))
        except OSError as error:
            if error.errno not in NO_FILE:
                raise
    return [name for name, _ in existing], [properties for _, properties in existing]


def of_path(path: str, now: int) -> ListedFile:
    """Return a single file."""
    name = os.path.basename(path)  # noqa: PTH119
    if not _is_unicode(path):
        raise _not_unicode(path.removesuffix(name), [name])
    _, size, modified, changed, inode = _properties_of(os.stat(path))  # noqa: PTH116
    latest = max(modified, changed)
    grain = COARSE_NS if latest % _SECOND_NS == 0 else TICK_NS
    return ListedFile(name, path, size, *token_of((size, modified, changed, inode), latest, now, grain))

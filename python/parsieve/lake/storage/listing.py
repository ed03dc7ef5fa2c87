"""The files below a folder of this machine, with what proves that each is still the same; one `stat` a file."""

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

# A file that changed so shortly before it was listed may change again without a new time: its token says nothing.
# Kernels stamp files by their tick; whole seconds are the mark of a filesystem that knows no finer ones (FAT: two).
TICK_NS = 50_000_000
COARSE_NS = 2_000_000_000


# Later than any clock shows: for files whose store gives neither an ETag nor a time.
NEVER = 1 << 63


class ListedFile(NamedTuple):
    """A file below the folder: its path in it, how to open it, and what proves that it is still the same."""

    relative: str
    path: str
    size: int
    token: str
    # Without a token: when the file can have one if it does not change until then, in nanoseconds since 1970.
    settles: int = 0


# Kind, size, times of change (of content, of anything) and inode: whatever tells that a file is another one.
_facts = attrgetter("st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
_Facts = tuple[int, int, int, int, int]
# Gone since the folder was read, or a link to nothing, to something below a file, or to itself: no rows.
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
# By an open folder the kernel finds a file without its way from the root.
_BY_FOLDER = os.stat in os.supports_dir_fd and os.listdir in os.supports_fd


@dataclass(frozen=True, slots=True)
class _Folder:
    """What a folder held: its names as the system gave them, and what was made of each."""

    names: list[str]
    facts: list[_Facts]
    files: dict[str, tuple[_Facts, ListedFile]]
    folders: list[str]
    # Whether the facts prove that every file is still the same.
    is_settled: bool


def is_ignored(name: str) -> bool:
    """Whether engines pass over a file or folder of this name; `_column=value` is a partition all the same."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def token_of(parts: tuple[object, ...], changed_ns: int, now: int, grain: int) -> tuple[str, int]:
    """A token of these parts; for a file that changed within the clock's grain, none, and when it can have one."""
    return ("", changed_ns + grain) if changed_ns > now - grain else ("-".join(map(str, parts)), 0)


class LocalListing:
    """A folder, or a single file, listed again and again. Threads may share it.

    What a file gave before is given again where its `stat` is the same: no text is made for it anew, and the very same
    tuple tells that nothing changed at all.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        # Replaced as a whole: when it was listed, what each folder held, and the files in order.
        self._last: tuple[int, dict[str, _Folder], tuple[ListedFile, ...]] = (0, {}, ())

    def files(self) -> tuple[ListedFile, ...]:
        """All files that engines do not ignore, sorted by path."""
        # Taken before the listing: a file that changes while it goes on counts as changed just now.
        now = time.time_ns()
        if os.path.isfile(self._root):  # noqa: PTH113
            return (of_path(self._root, now),)
        before, known, listed = self._last
        if now < before:
            # The clock was put back, so a file may change again to times that it had.
            known, listed = {}, ()
        found: dict[str, _Folder] = {}
        pending = [""]
        while pending:
            below = pending.pop()
            folder = _look(f"{self._root}/{below}", below, known.get(below), now)
            found[below] = folder
            pending.extend(f"{below}{name}/" for name in folder.folders)
        if len(found) != len(known) or any(known.get(below) is not folder for below, folder in found.items()):
            listed = tuple(sorted(file for folder in found.values() for _, file in folder.files.values()))
        self._last = now, found, listed
        return listed


def _look(path: str, below: str, last: _Folder | None, now: int) -> _Folder:
    """What a folder holds; the very same object where nothing in it changed. What is the same makes no objects."""
    names, facts = _look_at(path)
    if last is not None and last.is_settled and names == last.names and facts == last.facts:
        return last
    files: dict[str, tuple[_Facts, ListedFile]] = {}
    folders = []
    known = {} if last is None else last.files
    for name, fact in zip(names, facts, strict=True):
        if S_ISDIR(fact[0]):
            if not _leads_back(path + name, path[: len(path) - len(below) - 1]):
                folders.append(name)
            continue
        one = known.get(name)
        if one is None or one[0] != fact or not one[1].token:
            one = fact, _listed(path + name, below + name, fact, now)
        files[name] = one
    return _Folder(names, facts, files, folders, all(file.token for _, file in files.values()))


def _look_at(path: str) -> tuple[list[str], list[_Facts]]:
    """The names in a folder that engines do not ignore, and what the system says of each; links are followed."""
    if not _BY_FOLDER:
        return _stats(os.listdir(path), lambda name: os.stat(path + name))  # noqa: PTH116, PTH208
    folder = os.open(path, os.O_RDONLY)
    try:
        return _stats(os.listdir(folder), partial(os.stat, dir_fd=folder))  # noqa: PTH208
    finally:
        os.close(folder)


def _stats(names: list[str], stat: Callable[[str], os.stat_result]) -> tuple[list[str], list[_Facts]]:
    names = [name for name in names if name[0] not in "._" or not is_ignored(name)]
    try:
        # No turn of Python's for a file; what the system said of it is forgotten at once but for a few numbers.
        return names, list(map(_facts, map(stat, names)))
    except OSError as error:
        if error.errno not in _NOTHING_THERE:
            raise
    found = []
    for name in names:
        try:
            found.append((name, _facts(stat(name))))
        except OSError as error:
            if error.errno not in _NOTHING_THERE:
                raise
    return [name for name, _ in found], [one for _, one in found]


def of_path(path: str, now: int) -> ListedFile:
    """A file by itself."""
    return _listed(path, os.path.basename(path), _facts(os.stat(path)), now)  # noqa: PTH116, PTH119


def _listed(path: str, relative: str, facts: _Facts, now: int) -> ListedFile:
    try:
        relative.encode()
    except UnicodeEncodeError:
        raise UnsupportedError(f"the name of {path!r} is no UTF-8, and engines do not open such; rename it") from None
    _, size, modified, changed, inode = facts
    latest = max(modified, changed)
    grain = COARSE_NS if latest % 1_000_000_000 == 0 else TICK_NS
    return ListedFile(relative, path, size, *token_of((size, modified, changed, inode), latest, now, grain))


def _leads_back(path: str, root: str) -> bool:
    """Whether a folder is a link to one that it lies in, be it by way of other links."""
    if not os.path.islink(path):  # noqa: PTH114
        return False
    target = os.path.realpath(path)
    while len(path) > len(root):
        path = os.path.dirname(path)  # noqa: PTH120
        if os.path.commonpath((target, os.path.realpath(path))) == target:
            return True
    return False

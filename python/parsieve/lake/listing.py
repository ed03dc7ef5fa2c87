"""The files below a folder of this machine, with what proves that each is still the same; one `stat` a file."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

# A file that changed so shortly before it was listed may change again without a new time: its token says nothing.
# Kernels stamp files by their tick; whole seconds are the mark of a filesystem that knows no finer ones (FAT: two).
TICK_NS = 50_000_000
COARSE_NS = 2_000_000_000


class ListedFile(NamedTuple):
    """A file below the folder: its path in it, how to open it, and what proves that it is still the same."""

    relative: str
    path: str
    size: int
    token: str


# Size, times of change (of content, of anything) and inode, then the file that was made of them.
_Seen = tuple[int, int, int, int, ListedFile]


def is_ignored(name: str) -> bool:
    """Whether engines pass over a file or folder of this name; `_column=value` is a partition all the same."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def token_of(parts: tuple[object, ...], changed_ns: int, now: int, grain: int) -> str:
    """A token of these parts, or none for a file that changed within the clock's grain."""
    return "" if changed_ns > now - grain else "-".join(map(str, parts))


class LocalListing:
    """A folder, or a single file, listed again and again. Threads may share it.

    What a file gave before is given again where its `stat` is the same: no text is made for it anew, and the very same
    tuple tells that nothing changed at all.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        # Replaced as a whole: when it was listed, what was seen, and the files in order.
        self._last: tuple[int, dict[str, _Seen], tuple[ListedFile, ...]] = (0, {}, ())

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
        found, same = self._look(known, now)
        if not same or same < len(found) or same < len(listed):
            listed = tuple(sorted(one[4] for one in found))
            known = {one[4].relative: one for one in found}
        self._last = now, known, listed
        return listed

    def _look(self, known: dict[str, _Seen], now: int) -> tuple[list[_Seen], int]:
        """What is there, and how many files of it are those that were known, and trusted."""
        found: list[_Seen] = []
        same = 0
        pending = [(self._root, "")]
        while pending:
            folder, below = pending.pop()
            with os.scandir(folder) as entries:
                # One turn for each file of the table: what is the same makes no objects.
                for entry in entries:
                    name = entry.name
                    if name[0] in "._" and is_ignored(name):
                        continue
                    if entry.is_dir():
                        if not (entry.is_symlink() and _leads_back(entry.path)):
                            pending.append((entry.path, f"{below}{name}/"))
                        continue
                    try:
                        stat = entry.stat()
                    except FileNotFoundError:
                        # Gone since the folder was read, or a link to nothing: no rows.
                        continue
                    one = known.get(below + name)
                    if (
                        one is not None
                        and one[1] == stat.st_mtime_ns
                        and one[2] == stat.st_ctime_ns
                        and one[0] == stat.st_size
                        and one[3] == stat.st_ino
                        and one[4].token
                    ):
                        same += 1
                        found.append(one)
                        continue
                    file = _listed(entry.path, below + name, stat, now)
                    found.append((stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, file))
        return found, same


def of_path(path: str, now: int) -> ListedFile:
    """A file by itself."""
    return _listed(path, os.path.basename(path), os.stat(path), now)  # noqa: PTH116, PTH119


def _listed(path: str, relative: str, stat: os.stat_result, now: int) -> ListedFile:
    changed = max(stat.st_mtime_ns, stat.st_ctime_ns)
    grain = COARSE_NS if changed % 1_000_000_000 == 0 else TICK_NS
    parts = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
    return ListedFile(relative, path, stat.st_size, token_of(parts, changed, now, grain))


def _leads_back(link: str) -> bool:
    target = os.path.realpath(link)
    return os.path.commonpath((target, os.path.realpath(os.path.dirname(link)))) == target  # noqa: PTH120

"""Names of files and folders: which of them engines ignore, and which lead to something other than a file."""

from __future__ import annotations

import errno
import os
import stat

from parsieve._core import UnsupportedError

# The errors of `stat` for names without rows: files deleted since the folder was listed, and broken or circular links.
NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_SPECIAL = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def is_ignored(name: str) -> bool:
    """Return whether engines ignore a file or folder with this name. They do not ignore partitions `_column=value`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def kind_of_special(mode: int) -> str | None:
    """Return what has this mode if it is a pipe, a socket or a device; None for a file or folder.

    >>> import stat
    >>> kind_of_special(stat.S_IFIFO | 0o600), kind_of_special(stat.S_IFREG | 0o600)
    ('a pipe', None)
    """
    return next((kind for is_kind, kind in _SPECIAL if is_kind(mode)), None)


def refuse_special(path: str | bytes | os.PathLike[str]) -> None:
    """Raise an error for a pipe, a socket or a device. Opening a pipe waits until another program writes to it."""
    kind = kind_of_special(os.stat(path).st_mode)  # noqa: PTH116 - the path may be bytes
    if kind is not None:
        hint = "; write its bytes to a file first" if kind == "a pipe" else ""
        raise UnsupportedError(f"{os.fsdecode(path)} is {kind}, not a file{hint}")


def is_link_to_parent(path: str, root: str) -> bool:
    """Return whether a folder is a link to one of the folders that contain it, possibly through other links."""
    if not os.path.islink(path):  # noqa: PTH114
        return False
    target = os.path.realpath(path)
    while len(path) > len(root):
        path = os.path.dirname(path)  # noqa: PTH120
        if os.path.commonpath((target, os.path.realpath(path))) == target:
            return True
    return False

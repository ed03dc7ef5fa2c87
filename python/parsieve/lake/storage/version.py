"""Tell one version of a file from another."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Version:
    """The properties that distinguish one version of a file from another."""

    # The token that a listing would have for the file, even if the file is too young for a token.
    token: str
    size: int
    # The time of the last change in nanoseconds, or None if it is unknown.
    changed: int | None = None
    # Other properties of this version from the store, such as an ETag.
    proof: str = ""


def local_version(status: os.stat_result) -> Version:
    """Return the version of a local file."""
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    token = f"{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}-{status.st_ino}"
    return Version(token, status.st_size, changed)

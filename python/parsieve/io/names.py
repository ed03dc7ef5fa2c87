"""Names of files and folders: which of them engines ignore."""

from __future__ import annotations


def is_ignored(name: str) -> bool:
    """Return whether engines ignore a file or folder with this name. They do not ignore partitions `_column=value`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)

"""Reading a Hudi table while a writer rewrites its properties.

Hudi changes `hoodie.properties` in steps: it writes `hoodie.properties.backup`, deletes the file, creates it again,
fills it, and deletes the backup. Between those steps the file is missing, empty or incomplete, and readers fail
although the table is fine. Each text begins with the time at which it was written, so two equal texts with no backup
between them prove that nothing was rewritten in the meantime.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from time import sleep
from typing import TypeVar

from parsieve.lake.storage.storage import Storage

T = TypeVar("T")

NAME = "hoodie.properties"
BACKUP = "hoodie.properties.backup"
# Seconds to wait after each attempt that met a rewrite: ten seconds in all.
WAITS = (0.01, 0.02, 0.05, 0.1, 0.2, *[0.5] * 20)
# A backup that is older was left by a writer that died; its table is read as it is.
ABANDONED = dt.timedelta(minutes=1)


def read_text(storage: Storage) -> str:
    """Return the text of the table's properties as it is now, whole or not."""
    with storage.open(storage.join(f".hoodie/{NAME}")) as file:
        data: bytes = file.read()
    return data.decode(errors="replace")


def settled_text(storage: Storage) -> str | None:
    """Return the text of the properties, "" where there is no such file, or None while a writer rewrites it."""
    try:
        text = read_text(storage)
    except FileNotFoundError:
        text = ""
    # Asked after the text: a rewrite that began before it was read and has ended by now left another text.
    return None if _is_rewritten(storage) else text


def _is_rewritten(storage: Storage) -> bool:
    if BACKUP not in storage.names(".hoodie"):
        return False
    try:
        written = storage.modified(storage.join(f".hoodie/{BACKUP}"))
    except FileNotFoundError:
        # Deleted a moment ago: what was read before that may be incomplete.
        return True
    return dt.datetime.now(dt.UTC) - written < ABANDONED


def wait_until_settled(storage: Storage) -> None:
    """Wait while a writer rewrites the properties, for ten seconds at most."""
    for wait in WAITS:
        if settled_text(storage) is not None:
            return
        sleep(wait)


def while_settled(storage: Storage, act: Callable[[], T]) -> T:
    """Return what `act`, which reads the properties, returns; call it again if it failed because of a rewrite."""
    try:
        return act()
    except Exception:
        # Whatever is wrong for good fails again below, where a rewrite would be noticed.
        return _repeat(storage, act, verify=False)


def of_settled(storage: Storage, act: Callable[[], T]) -> T:
    """Return what `act` returns where nobody rewrote the properties meanwhile; incomplete ones mislead silently."""
    return while_settled(storage, act) if _writes_whole(storage) else _repeat(storage, act, verify=True)


def _writes_whole(storage: Storage) -> bool:
    """Whether a reader sees no file that is still being written, as in object stores."""
    filesystem = storage.filesystem
    names = ("S3FileSystem", "GcsFileSystem", "AzureFileSystem")
    return hasattr(filesystem, "get_range") or type(filesystem).__name__ in names


def _repeat(storage: Storage, act: Callable[[], T], *, verify: bool) -> T:
    last: Exception | None = None
    for wait in WAITS:
        before = settled_text(storage)
        try:
            found = act()
        except Exception as error:
            if before is not None and settled_text(storage) == before:
                raise
            last = error
        else:
            if not verify or (before is not None and settled_text(storage) == before):
                return found
        sleep(wait)
    raise last or TimeoutError(f"{storage.uri}: a writer keeps rewriting .hoodie/{NAME}; try again")

"""Read a Hudi table while a writer rewrites its properties.

Hudi changes `hoodie.properties` in steps: it writes `hoodie.properties.backup`, deletes the file, creates it again,
fills it, and deletes the backup. Between these steps the file is missing, empty or incomplete, and readers fail
although the table is fine. The first line of the file is the time at which it was written. So if two reads return the
same text and there was no backup, the file was not rewritten between them.
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
# Seconds to wait after each attempt that a rewrite interrupted. They add up to about ten seconds.
WAITS = (0.01, 0.02, 0.05, 0.1, 0.2, *[0.5] * 20)
# An older backup belongs to a writer that died, so reads ignore it.
ABANDONED = dt.timedelta(minutes=1)


def read_text(storage: Storage) -> str:
    """Return the present text of the table's properties, which may be incomplete."""
    with storage.open(storage.join(f".hoodie/{NAME}")) as file:
        data: bytes = file.read()
    return data.decode(errors="replace")


def stable_text(storage: Storage) -> str | None:
    """Return the text of the properties, "" if the file is missing, or None while a writer rewrites it."""
    try:
        text = read_text(storage)
    except FileNotFoundError:
        text = ""
    # Look for the backup after reading. If a rewrite began before the read and has ended now, the text is another one.
    return None if _is_being_rewritten(storage) else text


def _is_being_rewritten(storage: Storage) -> bool:
    if BACKUP not in storage.names(".hoodie"):
        return False
    try:
        written = storage.modified(storage.join(f".hoodie/{BACKUP}"))
    except FileNotFoundError:
        # The backup was just deleted, so the text that was read before may be incomplete.
        return True
    return dt.datetime.now(dt.UTC) - written < ABANDONED


def wait_for_rewrite(storage: Storage) -> None:
    """Wait while a writer rewrites the properties, for about ten seconds at most."""
    for wait in WAITS:
        if stable_text(storage) is not None:
            return
        sleep(wait)


def retry_after_rewrite(storage: Storage, act: Callable[[], T]) -> T:
    """Call `act`, which reads the properties, and return its result. If a rewrite makes it fail, call it again."""
    try:
        return act()
    except Exception:
        # Permanent problems fail again below. There, rewrites are noticed.
        return _repeat(storage, act, verify=False)


def read_consistently(storage: Storage, act: Callable[[], T]) -> T:
    """Call `act` until no rewrite happened meanwhile, and return its result.

    `act` may return a wrong result without an error if it reads incomplete properties.
    """
    return retry_after_rewrite(storage, act) if _has_atomic_writes(storage) else _repeat(storage, act, verify=True)


def _has_atomic_writes(storage: Storage) -> bool:
    """Return whether readers never see incomplete files, as in object stores."""
    filesystem = storage.filesystem
    names = ("S3FileSystem", "GcsFileSystem", "AzureFileSystem")
    return hasattr(filesystem, "get_range") or type(filesystem).__name__ in names


def _repeat(storage: Storage, act: Callable[[], T], *, verify: bool) -> T:
    last_error: Exception | None = None
    for wait in WAITS:
        before = stable_text(storage)
        try:
            result = act()
        except Exception as error:
            if before is not None and stable_text(storage) == before:
                raise
            last_error = error
        else:
            if not verify or (before is not None and stable_text(storage) == before):
                return result
        sleep(wait)
    raise last_error or TimeoutError(f"{storage.uri}: a writer keeps rewriting .hoodie/{NAME}; try again")

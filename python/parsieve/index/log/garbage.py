"""Garbage collection: delete unreferenced files, and guarantee that no version references a deleted file.

```text
collector   list old files ── write a notice of garbage ── read the versions ── delete the rest ── delete the notice
writer      write files ── ... ── write the version ── look for notices, then for the files of the version
```

A version that exists when the collector reads the versions saves its files. A writer that commits later finds the
notice, or finds that its files are gone.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import Collection
from dataclasses import dataclass

from parsieve.filters.renewal_notes import RENEWALS
from parsieve.index.log import bindings
from parsieve.index.log.folders import COMMITS, GUARD, LOG
from parsieve.index.log.log import Log
from parsieve.index.log.parts import NOTICES, PAGES
from parsieve.io import document
from parsieve.io.store.base import Stored, unique

# No version references the notes about renewed files, so unused ones become garbage.
FOLDERS = ("roots", "segments", "deltas", "shelves", PAGES, bindings.BINDINGS, COMMITS, LOG, RENEWALS)
# Seconds after which a collector reads the versions again.
RELOAD_AFTER = 60.0
# Age at which the notice of a killed collector is removed. It must be longer than a collector can be suspended,
# because writers rely on the notice until the collector has finished.
NOTICE_AGE = dt.timedelta(days=7)
# Files that a killed writer left behind can be removed after a day.
GARBAGE_AGE = dt.timedelta(days=1)
# Younger versions stay, for plans on earlier states of the table.
OLDER_THAN = dt.timedelta(days=7)
OlderThan = dt.timedelta | dt.datetime | float


@dataclass(frozen=True, slots=True)
class Collected:
    """The files that were removed, and unreferenced files that are too young to remove."""

    removed: tuple[Stored, ...]
    young: tuple[Stored, ...]


def collect(log: Log, garbage_age: dt.timedelta, released: Collection[str] = ()) -> Collected:
    """Remove unreferenced files that are older than `garbage_age`, and those in `released` at any age.

    Released files belong to expired or dropped versions. They were committed, so no running build needs them.
    """
    store, now = log.store, time.time()
    # List the files before reading the versions: files that are written after the listing are not removed.
    old = now - garbage_age.total_seconds()
    stored = {file.name: file for folder in FOLDERS for file in store.list(folder)}
    unreferenced = stored.keys() - referenced_files(log)
    garbage = sorted(name for name in unreferenced if stored[name].modified < old or name in released)
    young = tuple(stored[name] for name in sorted(unreferenced.difference(garbage)))
    for notice in store.list(NOTICES):
        if notice.modified < min(old, now - NOTICE_AGE.total_seconds()):
            store.delete(notice.name)
    if not garbage:
        return Collected((), young)
    notice_name = unique(NOTICES, "garbage")
    store.put(notice_name, document.write("garbage", {"names": garbage}))
    removed = []
    read_at, unused = time.time(), set(garbage) - referenced_files(log)
    for name in garbage:
        if time.time() - read_at > RELOAD_AFTER:
            # A process that was suspended here may have missed a new version.
            read_at, unused = time.time(), set(garbage) - referenced_files(log)
        if name in unused:
            store.delete(name)
            removed.append(stored[name])
    store.delete(notice_name)
    return Collected(tuple(removed), young)


def referenced_files(log: Log, without: Collection[int] = ()) -> set[str]:
    """Return the names of all versions, of their guard, and of the files that they reference.

    Versions in `without` are not read. Raises `FormatError` if another version is damaged.
    """
    live = {GUARD}
    for version, stored in log.stored():
        if version in without:
            continue
        live.add(stored.name)
        with contextlib.suppress(FileNotFoundError):
            live.update(part.name for part in log.read(version, stored).parts())
    return live

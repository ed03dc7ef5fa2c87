"""Files that no version names are removed, and no version stays that names a removed one, however slowly it was made.

```text
collector   list old files ── notice of those to go ── read the versions ── remove what none names ── remove the notice
writer      put files ── ... ── put the version ── look for notices, then for its files
```

Whichever came first, one of the two sees the other: a version that was there when the collector read them saves its
files, and who put one later finds the notice, or finds its files gone.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from parsieve._core import FormatError
from parsieve.filters.renewal_notes import RENEWALS
from parsieve.index.log import bindings
from parsieve.index.log.commit import COMMITS, Log, Part, name_of
from parsieve.io import document
from parsieve.io.store.base import Store, Stored, unique

NOTICES = "garbage"
# Notes of files that were renewed are named by no version: what nobody took up grows old.
FOLDERS = ("roots", "segments", "deltas", "shelves", bindings.BINDINGS, COMMITS, RENEWALS)
# Seconds after which a collector reads the versions again.
HASTE = 60.0
# Longer than any collector sleeps: its notice would be missed.
NOTICE_AGE = dt.timedelta(days=7)


def lost(store: Store, parts: Iterable[Part]) -> list[str]:
    """Which of these files are gone, or are about to go."""
    noticed: set[str] = set()
    parts = [part for part in parts if part.name and part.size]
    for notice in store.list(NOTICES) if parts else []:
        # What is gone meanwhile has done its work: its files are gone as well.
        with contextlib.suppress(FileNotFoundError):
            try:
                noticed.update(document.read("garbage", store.get(notice.name), notice.name).texts("names"))
            except FormatError:
                # Nobody knows what it says, so it says all.
                noticed.update(part.name for part in parts)
    return [part.name for part in parts if part.name in noticed or not _is_there(store, part)]


def _is_there(store: Store, part: Part) -> bool:
    try:
        return bool(store.get_ranges(part.name, [(0, 1)])[0])
    except FileNotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class Collected:
    """What was removed, and the files that no version names and that are too young to be."""

    removed: tuple[Stored, ...]
    young: tuple[Stored, ...]


def collect(log: Log, garbage_age: dt.timedelta, released: Collection[str] = ()) -> Collected:
    """Remove files that no version names and that are older than `garbage_age`, or are `released` whatever their age.

    Released are files of versions that were expired or dropped: they were committed, so no build is about to.
    """
    store, now = log.store, time.time()
    # What a version names that was put since then is young; everything else is listed before the versions are read.
    old = now - garbage_age.total_seconds()
    stored = {one.name: one for folder in FOLDERS for one in store.list(folder)}
    unnamed = stored.keys() - named(log)
    garbage = sorted(name for name in unnamed if stored[name].modified < old or name in released)
    young = tuple(stored[name] for name in sorted(unnamed.difference(garbage)))
    for notice in store.list(NOTICES):
        if notice.modified < min(old, now - NOTICE_AGE.total_seconds()):
            store.delete(notice.name)
    if not garbage:
        return Collected((), young)
    notice_name = unique(NOTICES, "garbage")
    store.put(notice_name, document.write("garbage", {"names": garbage}))
    removed = []
    looked, doomed = time.time(), set(garbage) - named(log)
    for name in garbage:
        if time.time() - looked > HASTE:
            # Whoever slept here may have missed a version.
            looked, doomed = time.time(), set(garbage) - named(log)
        if name in doomed:
            store.delete(name)
            removed.append(stored[name])
    store.delete(notice_name)
    return Collected(tuple(removed), young)


def named(log: Log) -> set[str]:
    """The versions, and every file that one of them names."""
    live: set[str] = set()
    for version, _ in log.stored():
        live.add(name_of(version))
        with contextlib.suppress(FileNotFoundError):
            live.update(part.name for part in log.read(version).parts())
    return live

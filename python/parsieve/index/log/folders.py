"""Where the versions of an index are stored, so that parsieve 0.1 changes no index that it cannot read.

```text
commits/v00000000000000000007    versions of an index that only ever had columns in format 1
commits/v99999999999999999999    the guard: from now on, all versions are in log/
log/v00000000000000000008
```

Version 0.1 takes the guard for the newest version, which it refuses to read. Its expiry never deletes the newest
version, and its garbage collection reads all versions before it deletes a file.

The first commit with a column in format 2 moves the versions: put the guard, copy the versions with the newest first,
delete copies that are too late, delete the versions in `commits/`, and mark the guard as complete. A copy is too late
if another writer has moved and expired the version meanwhile. Any writer can finish this after a crash. Until then the
guard also contains the newest version, because 0.1 takes that for an old one, and may expire it before it is copied.
"""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from parsieve._core import FormatError
from parsieve.io import document
from parsieve.io.store.base import Store, Stored

COMMITS = "commits"
LOG = "log"
GUARD = f"{COMMITS}/v{'9' * 20}"
ATTEMPTS = 5
# The guard once all versions are in `log/`.
_COMPLETE = document.write("commit", {"moved_to": LOG}, version=2)

Versions = list[tuple[int, Stored]]


def name_of(version: int, folder: str = COMMITS) -> str:
    """Return the file name of a version in one of the two folders."""
    return f"{folder}/v{version:020d}"


def put_new(store: Store, name: str, data: bytes) -> bool:
    """Write a file unless its name is taken. Return whether the file has these bytes."""
    for attempt in range(ATTEMPTS):
        try:
            written = store.put_if_absent(name, data)
            break
        except OSError:
            # The file may have been written nevertheless. Its content shows which writer wrote it.
            if contains(store, name, data):
                return True
            if attempt + 1 == ATTEMPTS:
                raise
            time.sleep(0.05 * 2**attempt)
    return written or contains(store, name, data)


def contains(store: Store, name: str, data: bytes) -> bool:
    """Return whether a file has these bytes."""
    try:
        return store.get(name) == data
    except FileNotFoundError:
        return False


def _has_guard(versions: Versions) -> bool:
    return bool(versions) and versions[-1][1].name == GUARD


class _Guard(NamedTuple):
    """The content of the guard."""

    # Whether versions in `commits/` have to be moved. Otherwise a version there was put by 0.1 after the move.
    is_moving: bool
    # The newest version when the guard was put, and its document.
    version: int = 0
    data: bytes = b""


class Scan(NamedTuple):
    """A listing of both folders."""

    has_guard: bool
    # Whether a move was not finished, or the guard was written with another library for compression.
    is_moving: bool
    # All versions of the index, oldest first.
    versions: Versions
    moved: Versions
    # The versions that are in `commits/` in spite of the guard.
    left: Versions


class Folders:
    """The two folders in a store."""

    def __init__(self, store: Store, has_its_files: Callable[[bytes], bool]) -> None:
        self._store = store
        # Returns whether a version, given by its document, references no file that was deleted.
        self._has_its_files = has_its_files
        # Whether `log/` had versions and `commits/` had the guard when they were listed last.
        self.is_moved = False
        self._has_guard = False
        # The newest version in `log/` when it was listed last.
        self.last_seen = 0

    @property
    def folder(self) -> str:
        """Return the folder for the next version."""
        return LOG if self.is_moved else COMMITS

    def newest(self) -> tuple[int, Stored] | None:
        """Return the newest version, or None if there is none. One listing is enough once the versions were moved."""
        # The newest version is the first one to be copied, so `log/` never ends with an older one.
        if moved := self._last_moved():
            self.is_moved = True
            self.last_seen = moved[-1][0]
            return moved[-1]
        versions = self._list(COMMITS)
        self.is_moved, self._has_guard = False, _has_guard(versions)
        if self._has_guard:
            versions = self._with_log(versions).versions
        return versions[-1] if versions else None

    def _last_moved(self) -> Versions:
        """Return the versions in `log/`, or only those since the last listing if there are any."""
        since = self._list(LOG, after=self.last_seen - 1) if self.last_seen > 1 else []
        # Without any, the index was dropped, or somebody deleted the newest version.
        return since or self._list(LOG)

    def scan(self, since: int = 0) -> Scan:
        """List both folders. With `since`, leave out the versions in `log/` that are older."""
        return self._with_log(self._list(COMMITS), since)

    def _with_log(self, versions: Versions, since: int = 0) -> Scan:
        # `log/` is listed last: a version that disappeared from `commits/` meanwhile was copied before.
        moved = self._list(LOG, after=max(since - 1, 0))
        self.is_moved, self._has_guard = bool(moved), _has_guard(versions)
        if not self._has_guard:
            return Scan(False, False, sorted((dict(versions) | dict(moved)).items()), moved, [])
        guard, left = versions[-1][1], versions[:-1]
        state = self._guard() if left or not moved else _Guard(is_moving=False)
        every = dict(left if state.is_moving else []) | dict(moved)
        if state.version > max(every, default=0):
            every[state.version] = guard
        return Scan(True, guard.size != len(_COMPLETE), sorted(every.items()), moved, left)

    def get(self, version: int, stored: Stored | None = None) -> bytes:
        """Read the document of a version. Raises `FileNotFoundError` if it was expired."""
        if stored is not None and stored.name == GUARD:
            guard = self._guard()
            if guard.version == version:
                return guard.data
        names = [name_of(version), name_of(version, LOG)]
        # A version moves from `commits/` to `log/`, so this order finds it at any time.
        if self.is_moved and (stored is None or stored.name != names[0]):
            names.reverse()
        try:
            return self._store.get(names[0])
        except FileNotFoundError:
            return self._store.get(names[1])

    def prepare(self, version: int, needs_guard: bool) -> bool:
        """Move all versions if the next one must be in `log/`, because of its format or because of the guard.

        Return False, and move nothing, if another writer has put this version.
        """
        if self.is_moved or not (needs_guard or self._has_guard):
            return True
        found = self._list(COMMITS)
        if found and not _has_guard(found) and found[-1][0] >= version:
            return False
        self._move(found)
        return True

    def move(self) -> None:
        """Move all versions to `log/`, or finish a move that another process began."""
        self._move(self._list(COMMITS))

    def _move(self, found: Versions) -> None:
        store = self._store.final
        if not _has_guard(found):
            content: dict[str, object] = {"version": 0, "document": ""}
            if found:
                version = found[-1][0]
                with contextlib.suppress(FileNotFoundError):
                    text = base64.b64encode(store.get(name_of(version))).decode()
                    content = {"version": version, "document": text}
            put_new(store, GUARD, document.write("commit", {"moved_to": LOG, "moving": content}, version=2))
        scan, guard = self.scan(), self._guard()
        if guard.is_moving:
            known, copies = {version for version, _ in scan.moved}, {}
            for version, stored in reversed(scan.versions):
                if version not in known:
                    # If 0.1 expires the version now, or another writer moves it, there is nothing to copy.
                    with contextlib.suppress(FileNotFoundError):
                        data = self._copied(version, stored, guard)
                        if put_new(store, name_of(version, LOG), data):
                            copies[version] = data
            if copies:
                self._withdraw_expired(copies)
        for _, stored in scan.left:
            store.delete(stored.name)
        if guard.is_moving:
            store.put(GUARD, _COMPLETE)
        self.is_moved = True

    def _withdraw_expired(self, copies: Mapping[int, bytes]) -> None:
        """Delete the copies of versions that were expired after this writer had read them.

        A version is deleted in `commits/` before it can be expired in `log/`, so a copy whose original still exists is
        not too late. Otherwise another writer has finished the move. Then a copy is too late if a later version was
        expired, because the oldest version expires first, or if it is the oldest one and its files were removed.
        """
        scan = self.scan()
        originals, moved = {version for version, _ in scan.left}, [version for version, _ in scan.moved]
        for version in sorted(copies.keys() - originals):
            later = [number for number in moved if number > version]
            if not later or version not in moved:
                continue
            has_gap = later != list(range(version + 1, later[-1] + 1))
            if has_gap or (version == moved[0] and not self._has_its_files(copies[version])):
                self._store.delete(name_of(version, LOG))
                moved.remove(version)

    def delete(self, versions: Collection[int]) -> int:
        """Delete some versions, oldest first. Return their size in bytes."""
        scan = self.scan()
        sizes = {version: stored.size for version, stored in scan.versions if version in versions}
        for version, stored in sorted([*scan.versions, *scan.left]):
            if version in versions:
                self._store.delete(stored.name)
        return sum(sizes.values())

    def _copied(self, version: int, stored: Stored, guard: _Guard) -> bytes:
        try:
            return self.get(version, stored)
        except FileNotFoundError:
            if guard.version != version:
                raise
            return guard.data

    def restore_guard(self) -> None:
        """Put the guard of versions that are in `log/`."""
        put_new(self._store.final, GUARD, _COMPLETE)

    def leave(self, version: int | None) -> None:
        """Give the index back to writers of any version: keep only this last version, which has no columns."""
        store, scan = self._store.final, self.scan()
        if not scan.has_guard or any(number != version for number, _ in scan.moved):
            return
        store.put(GUARD, _COMPLETE)
        if version is not None and scan.moved:
            # Late writers of 0.1 find it, and withdraw the versions that they put below it.
            try:
                store.put(name_of(version), store.get(name_of(version, LOG)))
            except FileNotFoundError:
                # Another process drops the index.
                return
        for number, stored in [*scan.left, *scan.moved]:
            if number != version or stored.name.startswith(LOG):
                store.delete(stored.name)
        store.delete(GUARD)
        self.is_moved = False
        if self._list(LOG):
            # Another writer began a new index before the guard was deleted.
            self.restore_guard()

    def _guard(self) -> _Guard:
        try:
            fields = document.read("commit", self._store.get(GUARD), GUARD, newest=2)
            if fields.maybe("moving", dict) is None:
                return _Guard(is_moving=False)
            moving = fields.inner("moving")
            data = base64.b64decode(moving.get("document", str))
            return _Guard(True, moving.get("version", int), data)
        except FileNotFoundError:
            return _Guard(is_moving=False)
        except (FormatError, ValueError):
            # Moving a version needlessly is safe. Ignoring one would lose it.
            return _Guard(is_moving=True)

    def _list(self, folder: str, after: int = 0) -> Versions:
        """Return the versions in a folder, or those after one of them.

        A listing takes some time. If two versions are put meanwhile, it may contain only the second one. The next
        listing contains both.
        """
        versions = self._list_once(folder, after)
        numbers = [version for version, file in versions if file.name != GUARD]
        if numbers and numbers[-1] - numbers[0] >= len(numbers):
            again = self._list_once(folder, after)
            known = [entry for entry in again if entry[0] <= numbers[-1] or entry[1].name == GUARD]
            # Without any, all of them have expired.
            return known or again
        return versions

    def _list_once(self, folder: str, after: int) -> Versions:
        versions = []
        for file in self._store.list(folder, name_of(after, folder) if after else ""):
            digits = file.name.removeprefix(f"{folder}/v")
            if len(digits) == 20 and digits.isdecimal():
                versions.append((int(digits), file))
        return versions

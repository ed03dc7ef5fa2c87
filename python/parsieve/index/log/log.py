"""The versions of an index. Each is a small file, written only if its name is free; its files are never overwritten.

```text
log/v00000000000000000007    writer, parent, the table's snapshot; the files of each column, and of the map of pages
```
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from parsieve._core import FormatError
from parsieve.index.log.commit import FORMAT, Commit
from parsieve.index.log.folders import ATTEMPTS, LOG, Folders, contains, name_of, put_new
from parsieve.index.log.parts import lost
from parsieve.io.store.base import Store, Stored


class Log:
    """The versions of the index in a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._folders = Folders(store, self._has_its_files)
        self._last: tuple[str, bytes, Commit] | None = None  # name, bytes and content of the last version read

    def within(self, store: Store) -> Log:
        """Return the same log for a store that adds something to this one."""
        log = Log(store)
        log._folders.last_seen = self._folders.last_seen
        return log

    def stored(self) -> list[tuple[int, Stored]]:
        """Return the existing versions and their files, oldest first."""
        return self._folders.scan().versions

    def read(self, version: int, stored: Stored | None = None) -> Commit:
        """Read a version. Raises `FileNotFoundError` if it does not exist, and `FormatError` if it is damaged."""
        name = f"{self.store}/{name_of(version, self._folders.folder) if stored is None else stored.name}"
        data = self._folders.get(version, stored)
        last = self._last
        if last is not None and last[:2] == (name, data):
            return last[2]
        commit = Commit.from_bytes(data, name)
        if commit.version != version:
            raise FormatError(f"{name} contains version {commit.version}")
        self._last = name, data, commit
        return commit

    def newest(self) -> Commit | None:
        """Return the newest version, or None if there is none."""
        for _ in range(ATTEMPTS):
            newest = self._folders.newest()
            if newest is None:
                return None
            # If the version was expired after it was listed, there is a newer one.
            with contextlib.suppress(FileNotFoundError):
                try:
                    return self.read(*newest)
                except FormatError as error:
                    raise FormatError(
                        f"{error}. Delete this file to return to the previous version, or delete the folder "
                        f"{self.store} to build a new index"
                    ) from error
        raise FileNotFoundError(f"the versions of {self.store} are removed faster than they can be read; try again")

    def publish(self, commit: Commit) -> bool:
        """Publish a version as the newest one. Return False, without any effect, if another writer was faster."""
        if not self._folders.prepare(commit.version, commit.format == FORMAT):
            return False
        name, data = name_of(commit.version, self._folders.folder), commit.to_bytes()
        return put_new(self.store, name, data) and self._is_in_history(commit, name, data)

    def _is_in_history(self, commit: Commit, name: str, data: bytes) -> bool:
        """Return whether the next version, if any, is based on this one. Delete this one if not.

        Other writers may have committed and expired this version number while this writer was suspended.
        """
        scan = self._folders.scan(since=commit.version)
        if scan.has_guard and name == name_of(commit.version):
            # Another writer moved the versions, perhaps together with this one.
            self._folders.move()
            name = name_of(commit.version, LOG)
            if not contains(self.store, name, data):
                return False
            scan = self._folders.scan()
        elif not scan.has_guard and name != name_of(commit.version):
            if all(version == commit.version for version, _ in self._folders.scan().moved):
                # The index was dropped, which removed the guard last.
                self.store.delete(name)
                return False
            self._folders.restore_guard()
        elif scan.left or scan.is_moving:
            self._folders.move()
        later = [(version, stored) for version, stored in scan.versions if version > commit.version]
        if not later:
            return True
        if later[0][0] == commit.version + 1:
            with contextlib.suppress(FileNotFoundError):
                if self.read(*later[0]).parent == commit.writer:
                    return True
        self.store.delete(name)
        return False

    def delete(self, versions: Collection[int]) -> int:
        """Delete some versions, oldest first. Return their size in bytes."""
        return self._folders.delete(versions)

    def finish_move(self) -> None:
        """Finish a move that a killed writer began: move the versions to the folder that 0.1 does not read."""
        scan = self._folders.scan()
        if scan.left or scan.is_moving:
            self._folders.move()

    def _has_its_files(self, version: bytes) -> bool:
        try:
            return not lost(self.store, Commit.from_bytes(version, str(self.store)).parts())
        except FormatError:
            return True  # Keep a damaged version until it expires.

    def leave(self, newest: Commit | None) -> None:
        """Let writers of any version build an index again, after all columns were dropped."""
        self._folders.leave(None if newest is None else newest.version)

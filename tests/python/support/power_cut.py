"""Simulate power cuts of a local index: record all changes to its folder, and lose some that were not synced.

A change of a name survives if its folder was synced later, and a write if its file was. Every other change may be lost,
in any combination, and a write may be torn.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from parsieve.io import fd as descriptors
from parsieve.io.store import local


class Change(NamedTuple):
    """A change below the folder, or a sync of the changes before it."""

    kind: str
    # The folder of a name, or the file of a write.
    where: str | int
    name: str = ""
    file: int = -1
    start: int = 0
    data: bytes = b""


NAMES = ("link", "unlink")


class Recording:
    """Records the changes below a folder while a `LocalStore` makes them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.changes: list[Change] = []
        self._names: dict[str, int] = {}
        self._contents: dict[int, bytes] = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                number = self._names[self._name(path)] = len(self._names)
                self._contents[number] = path.read_bytes()
        self.before = dict(self._names)
        self._next = len(self._names)
        self._open: dict[int, int] = {}
        self._patch(monkeypatch)

    def _name(self, path: Any) -> str:
        return Path(path).relative_to(self.folder).as_posix()

    def _patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        hardlink_to, unlink, replace = Path.hardlink_to, Path.unlink, Path.replace
        write, sync_folder = descriptors.write, descriptors.sync_folder

        def record_link(path: Path, target: Any) -> None:
            hardlink_to(path, target)
            self._link(path, self._names[self._name(target)])

        def record_unlink(path: Path, missing_ok: bool = False) -> None:
            existed = path.exists()
            unlink(path, missing_ok)
            if existed:
                self._unlink(path)

        def record_replace(path: Path, target: Any) -> Path:
            result = replace(path, target)
            self._link(Path(target), self._names[self._name(path)])
            self._unlink(path)
            return result

        def record_write(fd: int, start: int, data: Any) -> None:
            write(fd, start, data)
            self.changes.append(Change("write", self._open[fd], start=start, data=bytes(data)))

        def record_sync_folder(path: Path) -> None:
            sync_folder(path)
            if path == self.folder or path.is_relative_to(self.folder):
                self.changes.append(Change("sync", self._name(path)))

        monkeypatch.setattr(Path, "hardlink_to", record_link)
        monkeypatch.setattr(Path, "unlink", record_unlink)
        monkeypatch.setattr(Path, "replace", record_replace)
        monkeypatch.setattr(descriptors, "write", record_write)
        monkeypatch.setattr(local, "sync_folder", record_sync_folder)
        monkeypatch.setattr(local, "os", self)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        """Create a file, as `os.open` does."""
        fd = os.open(path, flags, mode)
        self._open[fd] = self._next
        self._contents[self._next] = b""
        self._link(Path(path), self._next)
        self._next += 1
        return fd

    def fsync(self, fd: int) -> None:
        """Sync a file."""
        os.fsync(fd)
        self.changes.append(Change("sync", self._open[fd]))

    def close(self, fd: int) -> None:
        """Close a file."""
        del self._open[fd]
        os.close(fd)

    def _link(self, path: Path, file: int) -> None:
        name = self._name(path)
        self._names[name] = file
        self.changes.append(Change("link", self._name(path.parent), name, file))

    def _unlink(self, path: Path) -> None:
        name = self._name(path)
        del self._names[name]
        self.changes.append(Change("unlink", self._name(path.parent), name))

    def last(self) -> dict[str, bytes]:
        """Return the files after all changes."""
        return self._replay(len(self.changes), {})

    def states(self, most: int, chance: random.Random) -> Iterator[tuple[int, dict[str, bytes]]]:
        """Yield the distinct sets of files that a power cut can leave, with the number of changes before it.

        There are at most `most` states for each number of changes, chosen at random if there are more.
        """
        seen = set()
        for length in range(len(self.changes) + 1):
            for fates in self._fates(length, most, chance):
                files = self._replay(length, fates)
                key = hash(tuple(sorted(files.items())))
                if key not in seen:
                    seen.add(key)
                    yield length, files

    def _fates(self, length: int, most: int, chance: random.Random) -> Iterator[dict[int, float]]:
        """Yield for each change that is not synced which share of it survives."""
        synced: set[str | int] = set()
        unsynced = []
        for at in reversed(range(length)):
            change = self.changes[at]
            if change.kind == "sync":
                synced.add(change.where)
            elif change.where not in synced:
                unsynced.append(at)
        choices = [(0.0, 1.0) if self.changes[at].kind in NAMES else (0.0, 0.5, 1.0) for at in unsynced]
        if math.prod(map(len, choices)) <= most:
            fates = list(itertools.product(*choices))
        else:
            fates = [tuple(map(chance.choice, choices)) for _ in range(most)]
        return (dict(zip(unsynced, fate, strict=True)) for fate in fates)

    def _replay(self, length: int, fates: dict[int, float]) -> dict[str, bytes]:
        names = dict(self.before)
        contents = {number: bytearray(data) for number, data in self._contents.items()}
        for at, change in enumerate(self.changes[:length]):
            share = fates.get(at, 1.0)
            if change.kind == "write" and share:
                data = change.data[: math.ceil(len(change.data) * share)]
                content = contents[int(change.where)]
                content.extend(bytes(max(0, change.start - len(content))))
                content[change.start : change.start + len(data)] = data
            elif change.kind == "link" and share:
                names[change.name] = change.file
            elif change.kind == "unlink" and share:
                names.pop(change.name, None)
        return {name: bytes(contents[number]) for name, number in names.items()}


def files_below(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder by name."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write a set of files into an empty folder."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

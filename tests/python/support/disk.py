"""Simulate power cuts: record all changes to files, and replay them without some changes that were not synced."""

import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from parsieve.io import fd, replace
from parsieve.io.in_place import change as in_place_change
from parsieve.io.in_place import first_format, journal

# Functions of `os` that change neither contents nor names. Any other function that is not recorded fails the test.
HARMLESS = "fstat stat lstat read fchown chmod removexattr utime path fspath fsdecode strerror".split()
CONSTANTS = "O_RDONLY O_RDWR O_CREAT O_EXCL SEEK_SET SEEK_END name O_BINARY".split()


# Disks write whole sectors.
SECTOR = 512

# The modules that change local files.
MODULES = (fd, in_place_change, first_format, journal, replace)


def patch_os(monkeypatch: pytest.MonkeyPatch, fake: Any) -> None:
    """Replace the module `os` in all modules that change local files."""
    for module in MODULES:
        monkeypatch.setattr(module, "os", fake)


class Crash(BaseException):
    """The end of a process that a test simulates."""


class CrashingOs:
    """The module `os` of a process that ends right before a call: the call of a function with this number."""

    def __init__(self, call: str, number: int) -> None:
        self._call, self._left, self._is_dead = call, number, False

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        if name == self._call or self._is_dead:
            self._left -= 1
            # After the crash no further call takes effect, so nothing cleans up.
            self._is_dead = self._is_dead or self._left == 0
        if self._is_dead and name in ("write", "ftruncate", "unlink", "replace", "fsync"):
            raise Crash
        return found


def crash(run: Callable[[], object], call: str, number: int = 1) -> None:
    """Run a function that changes files in small steps, and crash right before a system call."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fd, "CHUNK", 2 * SECTOR)
        patch_os(patched, CrashingOs(call, number))
        with pytest.raises(Crash):
            run()


class Change(NamedTuple):
    """A change to the contents or the name of a file, or a sync of all changes before `upto`."""

    kind: str
    file: int = -1
    name: str = ""
    other: str = ""
    start: int = 0
    data: bytes = b""
    upto: int = 0


class RecordingOs:
    """A replacement for the module `os` that records all changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.changes: list[Change] = []
        self._lock = threading.Lock()
        # The number and the position of each open file. Existing files have numbers too.
        self._open: dict[int, list[Any]] = {}
        self.files = {entry.name: number for number, entry in enumerate(sorted(folder.iterdir()))}
        self.contents = {number: (folder / name).read_bytes() for name, number in self.files.items()}
        self._names = dict(self.files)
        self._next = len(self.files)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(os, name)
        if name in HARMLESS or name in CONSTANTS or name == "PathLike":
            return attribute
        raise AssertionError(f"os.{name} is not recorded")

    def _add(self, change: Change) -> None:
        self.changes.append(change)

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        with self._lock:
            fd = os.open(path, flags, mode)
            name = Path(path).name
            if Path(path) == self.folder:
                self._open[fd] = [-1, 0]
                return fd
            if flags & os.O_CREAT:
                self._names[name] = self._next
                self._add(Change("create", self._next, name))
                self._next += 1
            self._open[fd] = [self._names[name], 0]
            return fd

    def close(self, fd: int) -> None:
        del self._open[fd]
        os.close(fd)

    def lseek(self, fd: int, start: int, whence: int) -> int:
        assert whence == os.SEEK_SET
        self._open[fd][1] = start
        return os.lseek(fd, start, whence)

    def write(self, fd: int, data: Any) -> int:
        with self._lock:
            count = os.write(fd, data)
            file, start = self._open[fd]
            self._open[fd][1] += count
            self._add(Change("write", file, start=start, data=bytes(data[:count])))
            return count

    def ftruncate(self, fd: int, length: int) -> None:
        with self._lock:
            os.ftruncate(fd, length)
            self._add(Change("truncate", self._open[fd][0], start=length))

    def _sync(self, fd: int, sync: Any) -> None:
        # Changes that happen during the sync may be missing from it.
        upto = len(self.changes)
        sync(fd)
        with self._lock:
            file = self._open[fd][0]
            self._add(Change("sync names" if file < 0 else "sync", file, upto=upto))

    def fsync(self, fd: int) -> None:
        self._sync(fd, os.fsync)

    def fdatasync(self, fd: int) -> None:
        self._sync(fd, os.fdatasync)

    def replace(self, old: Any, new: Any) -> None:
        with self._lock:
            os.replace(old, new)
            self._names[Path(new).name] = self._names.pop(Path(old).name)
            self._add(Change("rename", name=Path(old).name, other=Path(new).name))

    def unlink(self, path: Any) -> None:
        with self._lock:
            os.unlink(path)
            del self._names[Path(path).name]
            self._add(Change("unlink", name=Path(path).name))


def survivors(recorded: RecordingOs, seed: int) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Yield the files that a crash may leave after each prefix of the changes, by name."""
    chance = random.Random(seed)
    for length in range(len(recorded.changes) + 1):
        prefix = recorded.changes[:length]
        for luck in ("nothing", "everything", "some", "torn"):
            yield length, _survivor(recorded, prefix, luck, chance)


def _survivor(recorded: RecordingOs, prefix: list[Change], luck: str, chance: random.Random) -> dict[str, bytes]:
    synced: dict[int, int] = {}
    for change in prefix:
        if change.kind.startswith("sync"):
            synced[change.file] = max(synced.get(change.file, 0), change.upto)

    def survives(at: int, file: int) -> bool:
        return at < synced.get(file, 0) or luck == "everything" or (luck != "nothing" and chance.random() < 0.5)

    contents = {number: bytearray(data) for number, data in recorded.contents.items()}
    names = dict(recorded.files)
    for at, change in enumerate(prefix):
        if change.kind in ("create", "rename", "unlink"):
            if not survives(at, -1):
                # The contents of a file may exist before its name.
                contents.setdefault(change.file, bytearray())
                if change.kind == "rename" and change.name not in names:
                    continue
            elif change.kind == "create":
                names[change.name] = change.file
                contents.setdefault(change.file, bytearray())
            elif change.kind == "rename" and (change.name in names or _created_number(prefix, change.name)):
                names.pop(change.name, None)
                names[change.other] = _created_number(prefix[:at], change.name)
            elif change.kind == "unlink":
                names.pop(change.name, None)
        elif change.kind == "write" and survives(at, change.file):
            data = change.data
            if luck == "torn" and at >= synced.get(change.file, 0):
                data = data[: _torn_length(change.start, chance.randrange(len(data) + 1))]
            content = contents.setdefault(change.file, bytearray())
            content.extend(bytes(max(0, change.start - len(content))))
            content[change.start : change.start + len(data)] = data
        elif change.kind == "truncate" and survives(at, change.file):
            content = contents[change.file]
            del content[change.start :]
            content.extend(bytes(change.start - len(content)))
    return {name: bytes(contents[number]) for name, number in names.items()}


def _torn_length(start: int, length: int) -> int:
    """Return the length of a write that was torn after about `length` bytes: a disk writes whole sectors."""
    return max((start + length) // SECTOR * SECTOR - start, 0)


def _created_number(changes: list[Change], name: str) -> int:
    """Return the number of the file that was created with a name."""
    return next((change.file for change in reversed(changes) if change.kind == "create" and change.name == name), -1)

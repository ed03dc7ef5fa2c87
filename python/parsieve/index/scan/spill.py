"""Keep sorted runs and parts of files in memory up to a budget, and the rest in a temporary folder."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from parsieve import _core

# Offset and length of a block in the temporary file of its column.
Spilled = tuple[int, int]


class Room:
    """A memory budget, and a temporary folder for the data that exceeds it. Threads may share it."""

    def __init__(self, memory: int, folder: str | os.PathLike[str] | None = None) -> None:
        self._memory = memory
        self._parent = folder
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        self._open: list[BinaryIO] = []
        self.spilled_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._open:
            file.close()
        if self._folder is not None:
            self._folder.cleanup()

    def take(self, num_bytes: int) -> bool:
        """Reserve memory. Return False if not enough is left."""
        with self._lock:
            if self._memory < num_bytes:
                return False
            self._memory -= num_bytes
            return True

    def give_back(self, num_bytes: int) -> None:
        """Release reserved memory."""
        with self._lock:
            self._memory += num_bytes

    def open(self) -> BinaryIO:
        """Create a temporary file for writing and reading. It is closed with the room at the latest."""
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="parsieve-", dir=self._parent)
            path = Path(self._folder.name) / str(len(self._open))
            self._open.append(path.open("w+b", buffering=0))
            return self._open[-1]

    def note(self, num_bytes: int) -> None:
        """Add to the count of bytes that were written to disk."""
        with self._lock:
            self.spilled_bytes += num_bytes


class Unsorted:
    """Rows that wait to be sorted: in their own share of memory, and beyond it in the memory of a room, if any."""

    def __init__(self, pairs: _core.SievePairs, share: int, room: Room | None) -> None:
        self.pairs = pairs
        self._share = share
        self._room = room
        self._reserved = 0

    def fits(self) -> bool:
        """Reserve memory for the rows so far. Return False if there is not enough."""
        needed = self.pairs.num_bytes - self._share - self._reserved
        if needed <= 0:
            return True
        needed = max(needed, self._share // 8)
        if self._room is None or not self._room.take(needed):
            return False
        self._reserved += needed
        return True

    def run(self) -> Iterator[list[bytes]]:
        """Yield the rows as blocks of a sorted run, and free their memory."""
        while (blocks := self.pairs.sort_next()) is not None:
            yield blocks
        self.free()

    def free(self) -> None:
        """Release the reserved memory, after the rows have been taken."""
        if self._room is not None:
            self._room.give_back(self._reserved)
        self._reserved = 0


class Runs:
    """The rows of one column: sorted runs, each a list of blocks, and unsorted rows, which become runs when needed.

    Threads may add runs, and one thread reads them all.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._runs: list[list[bytes | Spilled]] = []
        self._unsorted: list[Unsorted] = []
        self._file: BinaryIO | None = None
        self._end = 0
        self._lock = threading.Lock()
        self._reserved = 0
        self._num_bytes = 0

    def __len__(self) -> int:
        self._sort()
        return len(self._runs)

    @property
    def num_bytes(self) -> int:
        """Return the bytes of all runs, in memory and on disk."""
        self._sort()
        return self._num_bytes

    def keep(self, unsorted: Unsorted) -> None:
        """Add rows that a build may sort together with others."""
        with self._lock:
            self._unsorted.append(unsorted)

    def unsorted(self) -> list[Unsorted] | None:
        """Return all rows, or None if some of them are in runs."""
        return None if self._runs else list(self._unsorted)

    def _sort(self) -> None:
        while self._unsorted:
            self.add_batches(self._unsorted[-1].run())
            self._unsorted.pop()

    def add(self, blocks: Sequence[bytes]) -> None:
        """Add a run, in memory or on disk."""
        self.add_batches([blocks])

    def add_batches(self, batches: Iterable[Sequence[bytes]]) -> None:
        """Add a run, whose blocks arrive in batches: in memory as far as there is room, and the rest on disk."""
        run: list[bytes | Spilled] = []
        for blocks in batches:
            size = sum(map(len, blocks))
            in_memory = self._room.take(size)
            with self._lock:
                self._num_bytes += size
                if in_memory:
                    self._reserved += size
                    run += blocks
                else:
                    run += self._write(blocks)
        if run:
            with self._lock:
                self._runs.append(run)

    def add_spilled(self, batches: Iterable[Sequence[bytes]]) -> None:
        """Add a run whose blocks are written to disk while it is made."""
        spilled: list[bytes | Spilled] = []
        for blocks in batches:
            with self._lock:
                spilled += self._write(blocks)
        with self._lock:
            self._runs.append(spilled)

    def _write(self, blocks: Sequence[bytes]) -> list[Spilled]:
        if self._file is None:
            self._file = self._room.open()
        spilled = []
        for block in blocks:
            self._file.seek(self._end)
            _write(self._file, block)
            spilled.append((self._end, len(block)))
            self._end += len(block)
            self._room.note(len(block))
        return spilled

    def blocks(self, run: int) -> Iterator[bytes]:
        """Yield the blocks of a run in order, one in memory at a time. Only one thread may read at a time."""
        self._sort()
        for block in self._runs[run]:
            yield block if isinstance(block, bytes) else self._load(*block)

    def _load(self, offset: int, length: int) -> bytes:
        assert self._file is not None
        self._file.seek(offset)
        data = _read(self._file, length)
        if len(data) != length:
            raise OSError("a temporary file was truncated by another process")
        return data

    def all_blocks(self) -> list[bytes]:
        """Return the blocks of all runs."""
        return [block for run in range(len(self)) for block in self.blocks(run)]

    def close(self) -> None:
        """Free all rows."""
        for unsorted in self._unsorted:
            unsorted.free()
        self._room.give_back(self._reserved)
        self._runs, self._unsorted, self._reserved = [], [], 0
        if self._file is not None:
            path = Path(self._file.name)
            self._file.close()
            path.unlink()
            self._file = None


def _write(file: BinaryIO, data: bytes) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        hint = f"{error.strerror} in the folder for temporary files; set TMPDIR to use another folder"
        raise OSError(error.errno, hint, file.name) from error


def _read(file: BinaryIO, length: int) -> bytes:
    data = b""
    while len(data) < length and (more := file.read(length - len(data))):
        data += more
    return data


class Sections:
    """The two halves of a segment file during a build: the lookup sections, and the exact keys that follow them."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._halves: tuple[list[bytes], list[bytes]] = ([], [])
        self._reserved = 0
        self._paths: list[Path] = []
        self._files: list[BinaryIO] = []

    def add(self, sections: Sequence[bytes]) -> None:
        """Append bytes to each half."""
        size = sum(map(len, sections))
        if not self._files and not self._room.take(size):
            for half in self._halves:
                file = self._room.open()
                self._paths.append(Path(file.name))
                self._files.append(file)
                for section in half:
                    _write(file, section)
                half.clear()
            self._room.note(self._reserved)
            self._room.give_back(self._reserved)
            self._reserved = 0
        if self._files:
            for file, section in zip(self._files, sections, strict=True):
                _write(file, section)
            self._room.note(size)
            return
        self._reserved += size
        for half, section in zip(self._halves, sections, strict=True):
            half.append(section)

    def finish(self) -> bytes | list[Path]:
        """Return the file as bytes, or as the local files to concatenate."""
        if self._files:
            for file in self._files:
                file.close()
            return self._paths
        data = b"".join([*self._halves[0], *self._halves[1]])
        self._room.give_back(self._reserved)
        return data

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self._reserved or sum(path.stat().st_size for path in self._paths)

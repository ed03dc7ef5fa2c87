"""Bytes that may outgrow memory: runs of a sort and halves of a file, in memory first, then in a temporary folder."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

# What a run's piece is, once it is spilled: where it lies in the file of its column.
Spilled = tuple[int, int]
PIECE = 8 << 20


class Room:
    """A budget of memory for what waits, and a temporary folder for the rest. Threads may share it."""

    def __init__(self, memory: int, folder: str | os.PathLike[str] | None = None) -> None:
        self._memory = memory
        self._where = folder
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
        """Claim memory; False where there is none left."""
        with self._lock:
            if self._memory < num_bytes:
                return False
            self._memory -= num_bytes
            return True

    def give_back(self, num_bytes: int) -> None:
        """Memory that is free again."""
        with self._lock:
            self._memory += num_bytes

    def open(self) -> BinaryIO:
        """A new file to write and read, which is closed with the room at the latest."""
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="parsieve-", dir=self._where)
            path = Path(self._folder.name) / str(len(self._open))
            self._open.append(path.open("w+b", buffering=0))
            return self._open[-1]

    def note(self, num_bytes: int) -> None:
        """Bytes that went to the disk, for whoever asks."""
        with self._lock:
            self.spilled_bytes += num_bytes


class Runs:
    """The sorted runs of one column. Threads may add to it at once, and read when all are done."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._runs: list[list[bytes] | list[Spilled]] = []
        self._file: BinaryIO | None = None
        self._end = 0
        self._lock = threading.Lock()
        self._held = 0
        # Bytes of all runs, wherever they are.
        self.num_bytes = 0

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, pieces: list[bytes]) -> None:
        """Keep a run, in memory or on the disk."""
        if not pieces:
            return
        size = sum(map(len, pieces))
        with self._lock:
            self.num_bytes += size
        if self._room.take(size):
            with self._lock:
                self._held += size
                self._runs.append(pieces)
            return
        with self._lock:
            self._runs.append(self._write(pieces))

    def add_spilled(self, pieces: Iterable[list[bytes]]) -> None:
        """Keep a run on the disk while it is made."""
        places: list[Spilled] = []
        for some in pieces:
            with self._lock:
                places += self._write(some)
        with self._lock:
            self._runs.append(places)

    def _write(self, pieces: Sequence[bytes]) -> list[Spilled]:
        if self._file is None:
            self._file = self._room.open()
        places = []
        for piece in pieces:
            self._file.seek(self._end)
            _write(self._file, piece)
            places.append((self._end, len(piece)))
            self._end += len(piece)
            self._room.note(len(piece))
        return places

    def pieces(self, run: int) -> Iterator[bytes]:
        """The pieces of a run in order; only one thread may read. Nothing is held of what was given."""
        for piece in self._runs[run]:
            yield piece if isinstance(piece, bytes) else self._load(*piece)

    def _load(self, offset: int, length: int) -> bytes:
        assert self._file is not None
        self._file.seek(offset)
        data = _read(self._file, length)
        if len(data) != length:
            raise OSError("a temporary file became shorter than it was written")
        return data

    def all_pieces(self) -> list[bytes]:
        """Every piece of every run."""
        return [piece for run in range(len(self._runs)) for piece in self.pieces(run)]

    def close(self) -> None:
        """Forget everything."""
        self._room.give_back(self._held)
        self._runs, self._held = [], 0
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
        hint = f"{error.strerror} in the folder for temporary files, which TMPDIR names"
        raise OSError(error.errno, hint, file.name) from error


def _read(file: BinaryIO, length: int) -> bytes:
    data = b""
    while len(data) < length and (more := file.read(length - len(data))):
        data += more
    return data


class Sections:
    """The two halves of a segment file while it is written: lookup sections, and the exact keys that follow them."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._halves: tuple[list[bytes], list[bytes]] = ([], [])
        self._held = 0
        self._paths: list[Path] = []
        self._files: list[BinaryIO] = []

    def add(self, sections: Sequence[bytes]) -> None:
        """More bytes for each half."""
        size = sum(map(len, sections))
        if not self._files and not self._room.take(size):
            for half in self._halves:
                file = self._room.open()
                self._paths.append(Path(file.name))
                self._files.append(file)
                for piece in half:
                    _write(file, piece)
                half.clear()
            self._room.note(self._held)
            self._room.give_back(self._held)
            self._held = 0
        if self._files:
            for file, section in zip(self._files, sections, strict=True):
                _write(file, section)
            self._room.note(size)
            return
        self._held += size
        for half, section in zip(self._halves, sections, strict=True):
            half.append(section)

    def finish(self) -> bytes | list[Path]:
        """The whole file: its bytes, or files that are it, end to end."""
        if self._files:
            for file in self._files:
                file.close()
            return self._paths
        data = b"".join([*self._halves[0], *self._halves[1]])
        self._room.give_back(self._held)
        return data

    def size(self) -> int:
        """Bytes of the whole file."""
        return self._held or sum(path.stat().st_size for path in self._paths)

"""Changing a local file where it lies, with a journal that undoes what a crash left half done.

```text
journal .NAME.parsieve-journal, fsync -> append behind the old footer, fsync -> verify
  -> wipe, fsync -> remove the journal
```

Nothing of the old file is overwritten before the new one is complete on the disk, so cutting the file at its old length
brings the old one back. Whoever of us opens a file beside which a journal lies finishes or undoes the change first.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from parsieve._core import FormatError, UnsupportedError
from parsieve.errors import ConflictError
from parsieve.io import atomic
from parsieve.io.atomic import BINARY, Identity, Range

MAGIC = b"parsieve journal 1\n"
JOURNAL = ".{}.parsieve-journal"
TAIL = 8


def journal_of(path: Path) -> Path:
    """Where the journal of a file lies."""
    return path.with_name(JOURNAL.format(path.name))


class _Entry(NamedTuple):
    """What a journal says: which file, its old length and footer, its new length, what is added and wiped."""

    inode: int
    old_length: int
    footer: bytes
    new_length: int
    checksum: int
    wipe: list[Range]

    def encode(self) -> bytes:
        values = self._replace(footer=self.footer.hex())  # type: ignore[arg-type]
        text = json.dumps(values._asdict(), sort_keys=True).encode()
        return MAGIC + b"%08x\n" % zlib.crc32(text) + text

    @classmethod
    def decode(cls, data: bytes, path: Path) -> _Entry:
        text = data[len(MAGIC) + 9 :]
        if not data.startswith(MAGIC) or data[len(MAGIC) :][:9] != b"%08x\n" % zlib.crc32(text):
            raise FormatError(
                f"{path} is damaged, or was written by a newer version of parsieve; the file that it belongs to may be "
                "half changed. If readers can open that file, delete the journal; otherwise restore it from a backup"
            )
        values = json.loads(text)
        values["footer"] = bytes.fromhex(values["footer"])
        values["wipe"] = [(start, end) for start, end in values["wipe"]]
        return cls(**values)


class InPlace:
    """A file that is changed where it lies. Left without `finish`, nothing happened."""

    def __init__(self, path: Path) -> None:
        """Lock the file; its other names see the change too."""
        self._path = path
        self._fd = os.open(path, os.O_RDWR | BINARY)
        try:
            atomic.lock(path, self._fd)
            _undo_or_finish(path, self._fd)
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> InPlace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def finish(
        self,
        seen: Identity,
        wipe: Sequence[Range],
        tail: Callable[[], Iterator[bytes]],
        verify: Callable[[Path], None],
    ) -> int:
        """Append `tail`, the same at each call, and fill the ranges `wipe` with zeros; the new size."""
        atomic.unchanged(self._path, self._fd, seen)
        old_length = os.fstat(self._fd).st_size
        checksum, length = 0, old_length
        for piece in tail():
            checksum, length = zlib.crc32(piece, checksum), length + len(piece)
        footer = _read_all(self._fd, max(old_length - TAIL, 0), old_length)
        footer = _read_all(self._fd, max(old_length - TAIL - int.from_bytes(footer[:4], "little"), 0), old_length)
        entry = _Entry(os.fstat(self._fd).st_ino, old_length, footer, length, checksum, list(wipe))
        atomic.forget_checksum(self._path)
        try:
            _put(journal_of(self._path), entry.encode())
            end = old_length
            with atomic.naming(self._path):
                for piece in tail():
                    atomic.write(self._fd, end, piece)
                    end += len(piece)
                os.fsync(self._fd)
            if not _is_complete(self._fd, entry):
                raise OSError(f"{self._path} does not have the bytes that were written; they were removed again")
            verify(self._path)
        except BaseException:
            _undo(self._path, self._fd, entry)
            raise
        try:
            _complete(self._path, self._fd, entry)
        except KeyboardInterrupt:
            # The new file is whole, so only the journal is left to remove.
            _complete(self._path, self._fd, entry)
            raise
        return length


def is_begun(path: str | os.PathLike[str]) -> bool:
    """Whether a change of a local file is under way, or was interrupted."""
    # Asked at every opening, so without the price of `pathlib`: only a link leads to another folder.
    found = os.fspath(path)
    if os.path.islink(found):
        found = os.path.realpath(found)
    folder, name = os.path.split(found)
    return os.path.exists(os.path.join(folder, JOURNAL.format(name)))


def recover(path: str | os.PathLike[str]) -> None:
    """Finish or undo a change of a local file that a crash interrupted, before somebody reads the file."""
    if not is_begun(path):
        return
    path = Path(os.path.realpath(path))
    try:
        fd = os.open(path, os.O_RDWR | BINARY)
    except PermissionError:
        raise ConflictError(
            f"a change of {path} was interrupted or is under way (see {journal_of(path).name}), and you have no "
            "permission to write to the file; wait, or open it once as a user who may write"
        ) from None
    try:
        atomic.lock(path, fd)
        _undo_or_finish(path, fd)
    finally:
        os.close(fd)


def _undo_or_finish(path: Path, fd: int) -> None:
    """What is right for the state in which the file and its journal are; `fd` is locked."""
    journal = journal_of(path)
    try:
        entry = _Entry.decode(journal.read_bytes(), journal)
    except FileNotFoundError:
        return
    if _is_complete(fd, entry):
        _complete(path, fd, entry)
    elif os.fstat(fd).st_size >= entry.old_length:
        _undo(path, fd, entry)
    else:
        raise UnsupportedError(
            f"{journal} describes a file of {entry.old_length} bytes, but {path} is shorter; delete the journal "
            "if the file was replaced"
        )


def _is_complete(fd: int, entry: _Entry) -> bool:
    """Whether everything that was to be appended is there."""
    if os.fstat(fd).st_size != entry.new_length:
        return False
    checksum = 0
    for piece in _pieces(fd, entry.old_length, entry.new_length):
        checksum = zlib.crc32(piece, checksum)
    return checksum == entry.checksum


def _complete(path: Path, fd: int, entry: _Entry) -> None:
    if entry.wipe:
        for start, end in entry.wipe:
            atomic.write(fd, start, bytes(end - start))
        os.fsync(fd)
    _remove(journal_of(path))


def _undo(path: Path, fd: int, entry: _Entry) -> None:
    """The old file: nothing of it was overwritten, but a torn write may have touched the block where it ended."""
    start = entry.old_length - len(entry.footer)
    if _read_all(fd, start, entry.old_length) != entry.footer:
        if os.fstat(fd).st_ino != entry.inode:
            raise UnsupportedError(
                f"{journal_of(path)} does not belong to {path}; delete the journal if the file was replaced"
            )
        atomic.write(fd, start, entry.footer)
    os.ftruncate(fd, entry.old_length)
    os.fsync(fd)
    _remove(journal_of(path))


def _put(path: Path, data: bytes) -> None:
    """A file that is there whole, or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
    try:
        try:
            with atomic.naming(temporary):
                atomic.write(fd, 0, data)
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    atomic.sync_folder(path.parent)


def _remove(journal: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(journal)
    atomic.sync_folder(journal.parent)


def _read_all(fd: int, start: int, end: int) -> bytes:
    return b"".join(_pieces(fd, start, end))


def _pieces(fd: int, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        piece = atomic.read(fd, start, min(atomic.PIECE, end - start))
        if not piece:
            return
        yield piece
        start += len(piece)

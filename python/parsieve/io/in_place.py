"""Change a local file in place. A journal lets the next reader undo or finish a change that a crash interrupted.

```text
write .NAME.parsieve-journal, fsync -> append after the old footer, fsync -> verify
  -> wipe, fsync -> remove the journal
```

No byte of the old file is overwritten until the new file is complete on disk. Until then, truncating the file to its
old length restores it. Every function of parsieve that opens a file first looks for a journal next to it, and undoes
or finishes the change.
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
from parsieve.io import fd as descriptors
from parsieve.io.fd import BINARY, Identity, Range

MAGIC = b"parsieve journal 1\n"
JOURNAL = ".{}.parsieve-journal"
# The last bytes of a Parquet file: the length of the footer, and the magic number.
TAIL = 8


def journal_path(path: Path) -> Path:
    """Return the path of a file's journal."""
    return path.with_name(JOURNAL.format(path.name))


class _Journal(NamedTuple):
    """The content of a journal."""

    inode: int
    old_length: int
    # The old footer with its length and the magic number.
    footer: bytes
    new_length: int
    # The CRC-32 of the appended bytes.
    checksum: int
    # Ranges to fill with zeros once the appended bytes are on disk.
    wipe: list[Range]

    def encode(self) -> bytes:
        values = self._replace(footer=self.footer.hex())  # type: ignore[arg-type]
        text = json.dumps(values._asdict(), sort_keys=True).encode()
        return MAGIC + b"%08x\n" % zlib.crc32(text) + text

    @classmethod
    def decode(cls, data: bytes, path: Path) -> _Journal:
        text = data[len(MAGIC) + 9 :]
        if not data.startswith(MAGIC) or data[len(MAGIC) :][:9] != b"%08x\n" % zlib.crc32(text):
            raise FormatError(
                f"the journal {path} is damaged, or was written by a newer version of parsieve, and its Parquet file "
                "may be half changed. If readers can open the Parquet file, delete the journal; otherwise restore the "
                "Parquet file from a backup"
            )
        values = json.loads(text)
        values["footer"] = bytes.fromhex(values["footer"])
        values["wipe"] = [(start, end) for start, end in values["wipe"]]
        return cls(**values)


class InPlaceChange:
    """A change of a file in place. Without `finish`, nothing changes."""

    def __init__(self, path: Path) -> None:
        """Lock the file, and undo or finish an interrupted change."""
        self._path = path
        self._fd = os.open(path, os.O_RDWR | BINARY)
        try:
            descriptors.lock(path, self._fd)
            _recover_locked(path, self._fd)
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> InPlaceChange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def finish(
        self,
        expected: Identity,
        wipe: Sequence[Range],
        tail: Callable[[], Iterator[bytes]],
        verify: Callable[[Path], None],
    ) -> int:
        """Append bytes to the file, fill some ranges with zeros, and return the new size.

        Args:
            expected: The identity of the file before anything was read from it.
            wipe: Ranges to fill with zeros once the appended bytes are on disk.
            tail: Returns the bytes to append; it is called twice and must return the same bytes.
            verify: Checks the file before anything is wiped, and raises if the file is wrong.
        """
        descriptors.check_unchanged(self._path, self._fd, expected)
        old_length = os.fstat(self._fd).st_size
        checksum, length = 0, old_length
        for data in tail():
            checksum, length = zlib.crc32(data, checksum), length + len(data)
        ending = descriptors.read_range(self._fd, max(old_length - TAIL, 0), old_length)
        footer_start = max(old_length - TAIL - int.from_bytes(ending[:4], "little"), 0)
        footer = descriptors.read_range(self._fd, footer_start, old_length)
        journal = _Journal(os.fstat(self._fd).st_ino, old_length, footer, length, checksum, list(wipe))
        descriptors.remove_checksum(self._path)
        try:
            _write_atomically(journal_path(self._path), journal.encode())
            end = old_length
            with descriptors.name_in_errors(self._path):
                for data in tail():
                    descriptors.write(self._fd, end, data)
                    end += len(data)
                os.fsync(self._fd)
            if not _is_complete(self._fd, journal):
                raise OSError(f"{self._path} does not have the bytes that were written; they were removed again")
            verify(self._path)
        except BaseException:
            _undo(self._path, self._fd, journal)
            raise
        try:
            _complete(self._path, self._fd, journal)
        except KeyboardInterrupt:
            # The new file is complete, so finish the wiping and remove the journal before stopping.
            _complete(self._path, self._fd, journal)
            raise
        return length


def has_journal(path: str | os.PathLike[str]) -> bool:
    """Return whether a change of a local file is under way or was interrupted."""
    # This runs whenever a file is opened, so it avoids `pathlib`, and resolves the path only if it is a link.
    target = os.fspath(path)
    if os.path.islink(target):
        target = os.path.realpath(target)
    folder, name = os.path.split(target)
    return os.path.exists(os.path.join(folder, JOURNAL.format(name)))


def recover(path: str | os.PathLike[str]) -> None:
    """Finish or undo a change of a local file that a crash interrupted."""
    if not has_journal(path):
        return
    path = Path(os.path.realpath(path))
    try:
        fd = os.open(path, os.O_RDWR | BINARY)
    except PermissionError:
        raise ConflictError(
            f"a change of {path} was interrupted or is under way (see {journal_path(path).name}), and you have no "
            "permission to write to the file; wait, or open it once as a user who may write"
        ) from None
    try:
        descriptors.lock(path, fd)
        _recover_locked(path, fd)
    finally:
        os.close(fd)


def _recover_locked(path: Path, fd: int) -> None:
    """Finish the change if all its bytes are in the file, otherwise undo it. `fd` must be locked."""
    location = journal_path(path)
    try:
        journal = _Journal.decode(location.read_bytes(), location)
    except FileNotFoundError:
        return
    if _is_complete(fd, journal):
        _complete(path, fd, journal)
    elif os.fstat(fd).st_size >= journal.old_length:
        _undo(path, fd, journal)
    else:
        raise UnsupportedError(
            f"{location} describes a file of {journal.old_length} bytes, but {path} is shorter; delete the journal "
            "if the file was replaced"
        )


def _is_complete(fd: int, journal: _Journal) -> bool:
    """Return whether the file has all the bytes to append."""
    if os.fstat(fd).st_size != journal.new_length:
        return False
    checksum = 0
    for data in descriptors.read_chunks(fd, journal.old_length, journal.new_length):
        checksum = zlib.crc32(data, checksum)
    return checksum == journal.checksum


def _complete(path: Path, fd: int, journal: _Journal) -> None:
    if journal.wipe:
        for start, end in journal.wipe:
            descriptors.write(fd, start, bytes(end - start))
        os.fsync(fd)
    _remove_journal(path)


def _undo(path: Path, fd: int, journal: _Journal) -> None:
    """Restore the old file: truncate it, and rewrite the footer in case a torn write damaged its last block."""
    start = journal.old_length - len(journal.footer)
    if descriptors.read_range(fd, start, journal.old_length) != journal.footer:
        if os.fstat(fd).st_ino != journal.inode:
            raise UnsupportedError(
                f"{journal_path(path)} does not belong to {path}; delete the journal if the file was replaced"
            )
        descriptors.write(fd, start, journal.footer)
    os.ftruncate(fd, journal.old_length)
    os.fsync(fd)
    _remove_journal(path)


def _remove_journal(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(journal_path(path))
    descriptors.sync_folder(path.parent)


def _write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves either the complete file or none."""
    temporary = path.with_name(path.name + ".tmp")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
    try:
        try:
            with descriptors.name_in_errors(temporary):
                descriptors.write(fd, 0, data)
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    descriptors.sync_folder(path.parent)

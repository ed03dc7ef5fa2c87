"""The journal of a change in place. With its checksums, each state of the file can be recognized.

```text
parsieve journal 2
CRC-32 of the rest, in 8 hexadecimal digits
JSON: old_length, ending, new_length, checksum, appended, wipe
```

The journal has the last bytes of the old file, and checksums of all sectors that the change writes.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from parsieve.errors import ConflictError
from parsieve.io import fd as descriptors
from parsieve.io.fd import BINARY, Range
from parsieve.io.in_place import sectors
from parsieve.io.in_place.parquet import read_footer

MAGIC = b"parsieve journal 2\n"
JOURNAL = ".{}.parsieve-journal"
# A filesystem writes whole blocks. So appending to a file also writes the old bytes of its last block.
BLOCK = 4096


class Wipe(NamedTuple):
    """A range to fill with zeros, and the checksums of the sectors with its old bytes."""

    start: int
    end: int
    checksums: bytes


class Journal(NamedTuple):
    """The content of a journal in format 2."""

    old_length: int
    # The last bytes of the old file: its footer, and all other bytes in the block to which the change appends.
    ending: bytes
    new_length: int
    # The CRC-32 of all appended bytes, and of each of their sectors.
    checksum: int
    appended: bytes
    # Ranges of the old file to fill with zeros once the appended bytes are on disk.
    wipe: list[Wipe]

    @classmethod
    def plan(cls, fd: int, wipe: Sequence[Range], tail: Iterable[bytes]) -> Journal:
        """Return the journal of a change that appends `tail` to a file and fills the ranges `wipe` with zeros."""
        old_length = length = descriptors.size(fd)
        checksum = 0

        def measured() -> Iterable[bytes]:
            nonlocal length, checksum
            for data in tail:
                length, checksum = length + len(data), zlib.crc32(data, checksum)
                yield data

        appended = sectors.checksums(measured(), old_length)
        ending = max(len(read_footer(fd)), old_length % BLOCK)
        return cls(
            old_length,
            descriptors.read_range(fd, old_length - ending, old_length),
            length,
            checksum,
            appended,
            [
                Wipe(start, end, sectors.checksums(descriptors.read_chunks(fd, start, end), start))
                for start, end in wipe
            ],
        )

    def encode(self) -> bytes:
        """Return the bytes of the journal."""
        values: dict[str, Any] = self._asdict()
        values |= {"ending": self.ending.hex(), "appended": self.appended.hex()}
        values["wipe"] = [(start, end, checksums.hex()) for start, end, checksums in self.wipe]
        return frame(MAGIC, json.dumps(values, sort_keys=True).encode())

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Journal:
        """Return the journal with these values of its JSON object."""
        wipe = [Wipe(start, end, bytes.fromhex(checksums)) for start, end, checksums in values["wipe"]]
        ending, appended = bytes.fromhex(values["ending"]), bytes.fromhex(values["appended"])
        return cls(values["old_length"], ending, values["new_length"], values["checksum"], appended, wipe)


def frame(magic: bytes, text: bytes) -> bytes:
    """Return a text after the first line of a journal and a checksum."""
    return magic + b"%08x\n" % zlib.crc32(text) + text


def framed_values(magic: bytes, data: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a journal, or None if it is damaged or has another first line."""
    text = data[len(magic) + 9 :]
    if data != frame(magic, text):
        return None
    values: dict[str, Any] = json.loads(text)
    return values


def journal_path(path: Path) -> Path:
    """Return the path of a file's journal."""
    return path.with_name(JOURNAL.format(path.name))


def has_journal(path: str | os.PathLike[str]) -> bool:
    """Return whether a change of a local file is under way or was interrupted."""
    # This runs whenever a file is opened, so it avoids `pathlib`, and resolves the path only if it is a link.
    target = os.fspath(path)
    if os.path.islink(target):
        target = os.path.realpath(target)
    folder, name = os.path.split(target)
    return os.path.exists(os.path.join(folder, JOURNAL.format(name)))


class JournalFile:
    """The journal next to a file. While it is open, no other process of parsieve removes or replaces it.

    The lock of the Parquet file is not enough for that. If another program replaces the file, two processes can lock
    the old and the new file at the same time, but both have the same journal.
    """

    def __init__(self, path: Path) -> None:
        """Prepare to open or create the journal of the Parquet file `path`."""
        self._target, self._path = path, journal_path(path)
        self._fd = -1
        self._exists = False

    def __enter__(self) -> JournalFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> bytes | None:
        """Open and lock the journal, and return its content, or None if there is no journal."""
        try:
            self._fd = os.open(self._path, os.O_RDWR | BINARY)
        except FileNotFoundError:
            return None
        descriptors.lock(self._target, self._fd)
        if not descriptors.is_at(self._path, self._fd):
            # Another process removed the journal before it was locked, and may have created a new one.
            raise ConflictError(f"{self._target} is being changed by another process; nothing was replaced")
        self._exists = True
        data = descriptors.read_range(self._fd, 0, descriptors.size(self._fd))
        self._allow_rename()
        return data

    def create(self, data: bytes) -> None:
        """Create and lock the journal so that a crash leaves either the complete journal or none."""
        temporary = self._path.with_name(self._path.name + ".tmp")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        self._fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
        try:
            descriptors.lock(self._target, self._fd)
            with descriptors.name_in_errors(temporary):
                descriptors.write(self._fd, 0, data)
                os.fsync(self._fd)
            if os.path.lexists(self._path):
                raise ConflictError(f"{self._target} is being changed by another process; nothing was replaced")
            self._allow_rename()
            os.replace(temporary, self._path)
            self._exists = True
            descriptors.sync_folder(self._path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(self._path if self._exists else temporary)
            self._exists = False
            self.close()
            raise

    def remove(self) -> None:
        """Remove the journal if this object opened or created it and has not removed it yet."""
        if self._exists:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
            # From now on, the path may lead to the journal of another process.
            self._exists = False
        descriptors.sync_folder(self._path.parent)
        self.close()

    def close(self) -> None:
        """Unlock the journal."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _allow_rename(self) -> None:
        """Close the journal on Windows, where an open file can be neither renamed nor removed, and has no lock."""
        if os.name == "nt":
            self.close()

"""Change a local file in place. A journal lets the next reader undo or finish a change that a crash interrupted.

```text
write .NAME.parsieve-journal, fsync -> extend the file with zeros, fsync -> write all but the last sector, fsync
  -> write the last sector, fsync -> verify -> wipe, fsync -> remove the journal
```

No byte of the old file is overwritten until the new file is complete on disk. Until then, truncating the file to its
old length restores it. No other program can read the file before its last sector is written, so none uses a filter that
is not on disk yet. Every function of parsieve that opens a file first looks for a journal next to it, and undoes or
finishes the change.

Another program may have replaced the file in the meantime. So the state of the file follows from its bytes, and only
bytes that the journal proves to be a part of the change are removed or wiped.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from parsieve._core import FormatError, UnsupportedError
from parsieve.errors import ConflictError
from parsieve.io import fd as descriptors
from parsieve.io.fd import BINARY, Identity, Range
from parsieve.io.in_place import first_format, journal, sectors
from parsieve.io.in_place.first_format import FirstJournal, examine_first
from parsieve.io.in_place.journal import Journal, JournalFile, framed_values, has_journal, journal_path
from parsieve.io.in_place.state import Finding, State, examine

Plan = TypeVar("Plan", Journal, FirstJournal)

# How often to open a file that other programs replace at the same time.
ATTEMPTS = 10


class InPlaceChange:
    """A change of a file in place. Without `finish`, nothing changes."""

    def __init__(self, path: Path) -> None:
        """Lock the file, and undo or finish an interrupted change."""
        self._path = path
        self._journal = JournalFile(path)
        self._fd = os.open(path, os.O_RDWR | BINARY)
        try:
            descriptors.lock(path, self._fd)
            if not _recover_locked(path, self._fd):
                raise ConflictError(f"{path} was replaced in the meantime; its replacement was not changed")
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> InPlaceChange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._journal.close()
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
        plan = Journal.plan(self._fd, wipe, tail())
        descriptors.remove_checksum(self._path)
        self._journal.create(plan.encode())
        has_begun = False
        try:
            # Another program may have changed the file while the change was planned.
            descriptors.check_unchanged(self._path, self._fd, expected)
            has_begun = True
            with descriptors.name_in_errors(self._path):
                self._append(plan, tail())
            self._require_new(plan)
            verify(self._path)
            if plan.wipe:
                self._require_new(plan)
        except BaseException as error:
            self._undo(plan, error, has_begun)
            raise
        try:
            self._complete(plan)
        except KeyboardInterrupt:
            # The new file is complete, so finish the wiping and remove the journal before stopping.
            self._complete(plan)
            raise
        return plan.new_length

    def _append(self, plan: Journal, tail: Iterator[bytes]) -> None:
        os.ftruncate(self._fd, plan.new_length)
        os.fsync(self._fd)
        last_sector = max(plan.old_length, (plan.new_length - 1) // sectors.SECTOR * sectors.SECTOR)
        held = b""
        for start, block in sectors.align(tail, plan.old_length, descriptors.CHUNK):
            size = max(last_sector - start, 0)
            held += block[size:]
            if size:
                self._write(plan, start, block[:size])
        os.fsync(self._fd)
        self._write(plan, last_sector, held)
        os.fsync(self._fd)

    def _write(self, plan: Journal, start: int, data: bytes) -> None:
        # A program that overwrites the file truncates it first.
        if descriptors.size(self._fd) != plan.new_length:
            raise ConflictError(f"{self._path} was changed in the meantime; nothing more was written to it")
        descriptors.write(self._fd, start, data)

    def _require_new(self, plan: Journal) -> None:
        """Raise an error unless the file is the complete new file."""
        if not descriptors.is_at(self._path, self._fd):
            raise ConflictError(f"{self._path} was replaced in the meantime; its replacement was not changed")
        if examine(self._fd, plan).state is not State.NEW:
            raise OSError(f"{self._path} does not have the bytes that were written")

    def _undo(self, plan: Journal, error: BaseException, has_begun: bool) -> None:
        """Restore the old file, unless another program has changed the file since then."""
        if has_begun:
            finding = examine(self._fd, plan)
            if finding.state is State.UNKNOWN:
                error.add_note(str(_unknown(self._path, plan)))
                return
            if finding.state is not State.OTHER:
                _restore(self._fd, plan, finding)
        self._journal.remove()

    def _complete(self, plan: Journal) -> None:
        _wipe(self._fd, plan)
        self._journal.remove()


def recover(path: str | os.PathLike[str]) -> None:
    """Finish or undo a change of a local file that a crash interrupted."""
    for _ in range(ATTEMPTS):
        if not has_journal(path):
            return
        target = Path(os.path.realpath(path))
        try:
            fd = os.open(target, os.O_RDWR | BINARY)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            raise ConflictError(
                f"a change of {target} was interrupted or is under way (see {journal_path(target).name}), and you "
                f"cannot write to the file ({error.strerror}); wait, or open it once where and as a user who can write"
            ) from None
        try:
            descriptors.lock(target, fd)
            if _recover_locked(target, fd):
                return
        finally:
            os.close(fd)
    raise ConflictError(f"{os.fspath(path)} was replaced each time parsieve opened it; try again")


def _recover_locked(path: Path, fd: int) -> bool:
    """Finish or undo a change if there is a journal. Return False if the path no longer leads to `fd`.

    `fd` must be locked.
    """
    with JournalFile(path) as file:
        data = file.open()
        if data is None:
            return True
        if not descriptors.is_at(path, fd):
            return False
        plan = _decode(data, path)
        finding = examine_first(fd, plan) if isinstance(plan, FirstJournal) else examine(fd, plan)
        match finding.state:
            case State.UNKNOWN:
                raise _unknown(path, plan)
            case State.NEW:
                _rewrite_lost(fd, plan, finding)
                _wipe(fd, plan)
            case State.HALF | State.OLD:
                _restore(fd, plan, finding)
            case State.OTHER:
                # The change and its journal belong to a file that no longer exists.
                pass
        file.remove()
    return True


def _decode(data: bytes, path: Path) -> Journal | FirstJournal:
    """Return the content of the journal of the file `path`."""
    try:
        if (values := framed_values(journal.MAGIC, data)) is not None:
            return _checked(Journal.from_values(values))
        if (values := framed_values(first_format.MAGIC, data)) is not None:
            return _checked(FirstJournal.from_values(values))
    except (KeyError, TypeError, ValueError):
        # The fields are missing or have other types.
        pass
    raise FormatError(
        f"the journal {journal_path(path)} is damaged, or was written by a newer version of parsieve, and its Parquet "
        "file may be half changed. If readers can open the Parquet file, delete the journal; otherwise restore the "
        "Parquet file from a backup"
    )


def _checked(plan: Plan) -> Plan:
    """Return a journal; raise an error if its numbers are those of no change."""
    is_change = 0 <= len(plan.ending) <= plan.old_length <= plan.new_length and isinstance(plan.checksum, int)
    if not is_change or not all(0 <= wipe.start <= wipe.end <= plan.old_length for wipe in plan.wipe):
        raise ValueError("the numbers of a journal are out of order")
    return plan


def _unknown(path: Path, plan: Journal | FirstJournal) -> UnsupportedError:
    return UnsupportedError(
        f"a change of {path} was interrupted, and the file is neither the old nor the new one now, so parsieve does "
        "not touch it. If another program is writing to the file, wait until it is done. If readers can open the "
        f"file, delete the journal {journal_path(path).name} next to it. Otherwise restore the file from a backup and "
        f"delete the journal. If no other program wrote to the file, its first {plan.old_length} bytes are the old "
        "file"
    )


def _restore(fd: int, plan: Journal | FirstJournal, finding: Finding) -> None:
    """Restore the old file. If a crash interrupts this, the next reader can still recognize the file."""
    _rewrite_lost(fd, plan, finding)
    if descriptors.size(fd) != plan.old_length:
        os.ftruncate(fd, plan.old_length)
        os.fsync(fd)


def _rewrite_lost(fd: int, plan: Journal | FirstJournal, finding: Finding) -> None:
    """Write the sectors of the old file that a torn write has lost."""
    first = plan.old_length - len(plan.ending)
    for start, end in finding.lost:
        descriptors.write(fd, start, plan.ending[start - first : end - first])
    if finding.lost:
        os.fsync(fd)


def _wipe(fd: int, plan: Journal | FirstJournal) -> None:
    """Fill the ranges to wipe with zeros."""
    for range_ in plan.wipe:
        for start, end in sectors.split_range(range_.start, range_.end, descriptors.CHUNK):
            descriptors.write(fd, start, bytes(end - start))
    if plan.wipe:
        os.fsync(fd)

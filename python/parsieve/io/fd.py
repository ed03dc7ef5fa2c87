"""File descriptors of local files: read, write, lock and sync them, and notice when another process changes one."""

from __future__ import annotations

import contextlib
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from parsieve.errors import ConflictError

if sys.platform != "win32":
    import fcntl

BINARY = getattr(os, "O_BINARY", 0)
# Small enough that a copied chunk is still in the processor's cache when it is read back. A multiple of the sectors of
# any disk.
CHUNK = 512 << 10
# Longer than one tick of any kernel's file clock.
TICKS_NS = 50_000_000

Identity = tuple[int, ...]
Range = tuple[int, int]


def identity(state: os.stat_result) -> Identity:
    """Return the fields that change when a process writes to the file or replaces it."""
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def detects_writes(state: os.stat_result, now: int) -> bool:
    """Return whether any write after `now` must change the timestamps.

    Clocks of filesystems are coarse: a write within the same tick leaves the timestamps as they were.
    """
    return max(state.st_mtime_ns, state.st_ctime_ns) <= now - TICKS_NS


def version_token(state: os.stat_result) -> str:
    """Return the version of a file as the listing of a plain folder spells it."""
    return "-".join(map(str, (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)))


def check_unchanged(path: Path, fd: int, expected: Identity) -> None:
    """Raise `ConflictError` unless both the path and the open descriptor still have the expected identity."""
    try:
        is_same = identity(os.stat(path)) == expected == identity(os.fstat(fd))
    except FileNotFoundError:
        is_same = False
    if not is_same:
        raise ConflictError(f"{path} was changed in the meantime; nothing was replaced")


def is_at(path: Path, fd: int) -> bool:
    """Return whether a path still leads to the open file, so that no process has replaced or removed it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


def lock(path: Path, fd: int) -> None:
    """Keep other parsieve processes from changing or replacing the file until `fd` is closed."""
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConflictError(f"{path} is being changed by another process; nothing was replaced") from None
    except OSError:
        # The filesystem has no locks, so only `check_unchanged` protects the file.
        return


@contextlib.contextmanager
def name_in_errors(path: Path | str) -> Iterator[None]:
    """Add the path to system errors that come without one, such as "No space left on device"."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)
        raise


def size(fd: int) -> int:
    """Return the size of the open file."""
    return os.fstat(fd).st_size


def read(fd: int, start: int, length: int) -> bytes:
    """Return at most `length` bytes from `start` on, or none at the end of the file."""
    os.lseek(fd, start, os.SEEK_SET)
    return os.read(fd, length)


def read_chunks(fd: int, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a range in chunks; stop early if the file ends within the range."""
    while start < end:
        data = read(fd, start, min(CHUNK, end - start))
        if not data:
            return
        yield data
        start += len(data)


def read_range(fd: int, start: int, end: int) -> bytes:
    """Return the bytes of a range, or fewer if the file ends within it."""
    return b"".join(read_chunks(fd, start, end))


def checksum(fd: int, start: int, end: int) -> int:
    """Return the CRC-32 of a range."""
    result = 0
    for data in read_chunks(fd, start, end):
        result = zlib.crc32(data, result)
    return result


def write(fd: int, start: int, data: bytes) -> None:
    """Write all of `data` at `start`."""
    os.lseek(fd, start, os.SEEK_SET)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def fill_with_zeros(data: bytes, start: int, ranges: Sequence[Range]) -> bytes:
    """Return the bytes of a file at `start`, with zeros in some ranges of the file."""
    for first, last in ranges:
        first, last = max(first - start, 0), min(last - start, len(data))
        if first < last:
            data = data[:first] + bytes(last - first) + data[last:]
    return data


def sync_folder(folder: Path) -> None:
    """Make names that were created, renamed or removed in a folder survive a crash."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        # Some network filesystems cannot sync a folder, and need no sync.
        with contextlib.suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)


def remove_checksum(path: Path) -> None:
    """Remove Hadoop's checksum file of `path`: Hadoop ignores a missing checksum but refuses a stale one.

    Call this before the bytes change. A crash in between then leaves the old file, which stays readable.
    """
    checksum = path.with_name(f".{path.name}.crc")
    if os.path.lexists(checksum):
        os.unlink(checksum)
        sync_folder(path.parent)

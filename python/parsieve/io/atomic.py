"""Replacing a local file so that a crash at any moment leaves the old file or the complete new one.

```text
copy into .parsieve-*.tmp, each piece compared -> append -> fsync -> verify
  -> lock -> source unchanged? -> rename -> fsync folder
```

The copy runs in a thread of its own while the caller still computes what to append, and the disk writes meanwhile.
A crash may leave the temporary file behind; it is hidden, is no `.parquet`, and can be deleted.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from parsieve._core import UnsupportedError
from parsieve.errors import ConflictError

if sys.platform != "win32":
    import fcntl

TEMPORARY = ".parsieve-{}.tmp"
BINARY = getattr(os, "O_BINARY", 0)
# What is copied is read back at once, while it is still in a processor's cache.
PIECE = 512 << 10
# Linux: let two files share their blocks. Filesystems that cannot say so.
FICLONE = 0x40049409

# Longer than any tick by which a kernel stamps files.
TICKS_NS = 50_000_000

Identity = tuple[int, ...]
Range = tuple[int, int]


def identity(of: os.stat_result) -> Identity:
    """What changes when somebody replaces or writes a file."""
    return of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns


def is_settled(of: os.stat_result, now: int) -> bool:
    """Whether whoever writes to a file from `now` on leaves another time than it has; a young one's may stay."""
    return max(of.st_mtime_ns, of.st_ctime_ns) <= now - TICKS_NS


def target_of(source: Path, dest: Path | None, hard_links: str) -> Path:
    """The path to write: links followed, and refused where a new file would break something."""
    if hard_links not in ("refuse", "break"):
        raise ValueError(f'hard_links must be "refuse" or "break", not {hard_links!r}')
    wanted = source if dest is None else dest
    target = Path(os.path.realpath(wanted))
    exists = target.exists()
    if exists and not os.path.samefile(source, target):
        raise FileExistsError(f"{wanted} already exists; remove it first, or choose another dest")
    if exists and not target.is_file():
        raise UnsupportedError(f"{wanted} is {'a folder' if target.is_dir() else 'not a regular file'}")
    if exists and target.stat().st_nlink > 1 and hard_links == "refuse":
        raise UnsupportedError(
            f'{wanted} has other hard links, which would keep the old file; pass hard_links="break" or a dest'
        )
    for path in {Path(os.path.abspath(wanted)), target}:
        refuse_tables(path)
    return target


def refuse_tables(path: Path) -> None:
    """Refuse a file of a table: the table's metadata records file sizes, so a file that grows breaks the table."""
    for folder in path.parents:
        kind = None
        if (folder / "_delta_log").is_dir():
            kind = "Delta"
        elif (folder / ".hoodie").is_dir():
            kind = "Hudi"
        elif (folder / "metadata").is_dir() and next((folder / "metadata").glob("*.metadata.json"), None):
            kind = "Iceberg"
        if kind:
            raise UnsupportedError(
                f"{path} belongs to the {kind} table {folder}, whose metadata records file sizes, so its files must "
                f'not change; use open_table({str(folder)!r}).build_index(..., kind="bloom"), or a dest outside of it'
            )


class Replacement:
    """A file that is being written to take the place of another. Left without `finish`, nothing happened."""

    def __init__(self, source: Path, seen: Identity, target: Path, settled: bool) -> None:
        """Begin to replace `target` by what `source` was when it was `seen`, with other bytes at its end.

        `settled` tells that nobody could write to it since without a trace; else nothing proves what was copied.
        """
        self._source, self._seen, self._target, self._settled = source, seen, target, settled
        self._temporary = target.with_name(TEMPORARY.format(secrets.token_hex(8)))
        # What proves a version of the file before and after, once it was replaced; None where nothing does.
        self.renewed: tuple[str, str] | None = None
        self._copy: _Copy | None = None
        self._new = -1
        self._old = os.open(source, os.O_RDONLY | BINARY)
        try:
            unchanged(source, self._old, seen)
            # Nobody else may read what is not finished, or what the old file's mode hides.
            self._new = os.open(self._temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
        except BaseException:
            os.close(self._old)
            if self._new >= 0:
                self._close()
                with contextlib.suppress(OSError):
                    os.unlink(self._temporary)
            raise

    def __enter__(self) -> Replacement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._copy is not None:
                self._copy.stop()
            self._close()
        finally:
            os.close(self._old)
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)

    def start(self, length: int) -> None:
        """Copy the first `length` bytes of the source while the caller does something else."""
        self._copy = _Copy(self._old, self._new, length, ())

    def finish(self, copy: int, wipe: Sequence[Range], tail: Iterable[bytes], verify: Callable[[Path], None]) -> int:
        """Let `copy` bytes of the source, some of them zeros, and `tail` be the file; return its size.

        `verify` looks at the finished file before anybody else can.
        """
        if self._copy is None:
            self._copy = _Copy(self._old, self._new, copy, wipe)
        elif self._copy.length != copy or wipe:
            raise RuntimeError("the copied range differs from the plan: this is a bug in parsieve")
        try:
            end = self._append(copy, tail)
            with naming(self._target):
                was = os.fstat(self._old)
                written = _take_over(self._source, was, self._temporary, self._new)
                os.fsync(self._new)
            if os.fstat(self._new).st_size != end:
                raise OSError(f"{self._temporary} does not have the size that was written")
        except (OSError, ConflictError):
            # If somebody wrote to the source, that is the reason to tell.
            unchanged(self._source, self._old, self._seen)
            raise
        self._close()
        verify(self._temporary)
        # From here to the end of this object nobody else of us replaces or changes the source.
        lock(self._source, self._old)
        unchanged(self._source, self._old, self._seen)
        if self._target != Path(os.path.realpath(self._source)) and self._target.exists():
            raise FileExistsError(f"{self._target} was created in the meantime; nothing was replaced")
        forget_checksum(self._target)
        os.replace(self._temporary, self._target)
        now = os.stat(self._target)
        # Whoever writes to it from now on leaves another time than that which it was given.
        if self._settled and written is not None and now.st_mtime_ns == written and now.st_size == end:
            self.renewed = (token_parts(was), token_parts(now))
        sync_folder(self._target.parent)
        return end

    def _append(self, end: int, tail: Iterable[bytes]) -> int:
        """Wait for the copy of the first `end` bytes, and write `tail` after it."""
        assert self._copy is not None
        with naming(self._target):
            self._copy.wait()
            for piece in tail:
                write(self._new, end, piece)
                end += len(piece)
        return end

    def _close(self) -> None:
        new, self._new = self._new, -1
        if new >= 0:
            os.close(new)


class _Copy:
    """The first bytes of one file copied to another by a thread, each piece compared; another keeps the disk busy."""

    def __init__(self, old: int, new: int, length: int, wipe: Sequence[Range]) -> None:
        self.length = length
        self._old, self._new, self._wipe = old, new, wipe
        self._error: BaseException | None = None
        self._stop = False
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._run, name="parsieve-copy")]
        if hasattr(os, "fdatasync"):
            self._threads.append(threading.Thread(target=self._settle, name="parsieve-settle"))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads, whatever they have done."""
        self._stop = True
        for thread in self._threads:
            thread.join()

    def wait(self) -> None:
        """Wait for the copy to be complete."""
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            if self._wipe or not _share(self._old, self._new, self.length):
                self._by_pieces()
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()

    def _by_pieces(self) -> None:
        start = 0
        while start < self.length and not self._stop:
            piece = read(self._old, start, min(PIECE, self.length - start))
            if not piece:
                raise ConflictError("the source became shorter during the copy; nothing was replaced")
            piece = _wiped(piece, start, self._wipe)
            write(self._new, start, piece)
            if not _holds(self._new, start, piece):
                raise OSError("a copied byte differs from the source; nothing was replaced")
            start += len(piece)

    def _settle(self) -> None:
        """Have the disk write what was copied so far, so that less is left for the end."""
        with contextlib.suppress(OSError):
            while not self._done.wait(0.02) and not self._stop:
                os.fdatasync(self._new)


def _share(old: int, new: int, length: int) -> bool:
    """Let the new file share the blocks of the old one, where the filesystem can."""
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(new, FICLONE, old)
    except OSError:
        return False
    os.ftruncate(new, length)
    return True


def _wiped(piece: bytes, start: int, wipe: Sequence[Range]) -> bytes:
    """The piece of a file at `start`, with zeros for what is wiped."""
    for first, last in wipe:
        first, last = max(first - start, 0), min(last - start, len(piece))
        if first < last:
            piece = piece[:first] + bytes(last - first) + piece[last:]
    return piece


def _holds(fd: int, start: int, expected: bytes) -> bool:
    """Whether a file has these bytes at `start`."""
    at = 0
    while at < len(expected):
        found = read(fd, start + at, len(expected) - at)
        if not found or found != expected[at : at + len(found)]:
            return False
        at += len(found)
    return True


def lock(path: Path, fd: int) -> None:
    """Keep others of us from changing or replacing the file, until `fd` is closed."""
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConflictError(f"{path} is being changed by another process; nothing was replaced") from None
    except OSError:
        # A filesystem without locks: what was seen of the file must do.
        return


def unchanged(source: Path, old: int, seen: Identity) -> None:
    """Whether the path still leads to the file that was read, and nobody wrote to it."""
    try:
        same = identity(os.stat(source)) == seen == identity(os.fstat(old))
    except FileNotFoundError:
        same = False
    if not same:
        raise ConflictError(f"{source} was changed in the meantime; nothing was replaced")


@contextlib.contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Name the file in errors of the system that come without a path, such as "No space left on device"."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)
        raise


def read(fd: int, start: int, length: int) -> bytes:
    """Some of the bytes from `start` on, none at the end of the file."""
    os.lseek(fd, start, os.SEEK_SET)
    return os.read(fd, length)


def write(fd: int, start: int, data: bytes) -> None:
    """Write all of the bytes at `start`."""
    os.lseek(fd, start, os.SEEK_SET)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def token_parts(of: os.stat_result) -> str:
    """A version of a file, as a table's listing names it."""
    return "-".join(map(str, (of.st_size, of.st_mtime_ns, of.st_ctime_ns, of.st_ino)))


def _take_over(source: Path, state: os.stat_result, temporary: Path, new: int) -> int | None:
    """Owner, mode and extended attributes of the old file, as far as the system lets us; the times are new.

    The time of change is some ticks of the clock ago, so that nobody who writes to the new file leaves the same. The
    result is that time; None where the old file is too young, or the filesystem's clock too coarse.
    """
    if hasattr(os, "fchown"):
        with contextlib.suppress(OSError):
            os.fchown(new, state.st_uid, state.st_gid)
    with contextlib.suppress(OSError):
        shutil.copystat(source, temporary)
    os.chmod(temporary, stat.S_IMODE(state.st_mode))
    now = time.time_ns()
    written = now - TICKS_NS
    if written <= state.st_mtime_ns:
        os.utime(temporary)
        return None
    os.utime(temporary, ns=(now, written))
    written = os.stat(temporary).st_mtime_ns
    return written if written % 1_000_000_000 else None


def forget_checksum(target: Path) -> None:
    """Remove Hadoop's checksum of the old bytes: it ignores a missing one, and refuses a file with a stale one.

    That happens before the rename: a crash between the two leaves the old file, readable.
    """
    checksum = target.with_name(f".{target.name}.crc")
    if os.path.lexists(checksum):
        os.unlink(checksum)
        sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a crash."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        # Some network filesystems cannot, and need not.
        with contextlib.suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)

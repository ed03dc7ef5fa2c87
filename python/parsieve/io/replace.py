"""Replace a local file so that a crash at any moment leaves either the old file or the complete new one.

```text
copy into .parsieve-*.tmp, compare each chunk -> append -> fsync -> verify
  -> lock -> source unchanged? -> rename, or link to a new name -> fsync folder
```

The copy runs in its own thread while the caller computes what to append. A crash may leave the temporary file behind.
It is hidden, does not end in `.parquet`, and can be deleted.
"""

from __future__ import annotations

import contextlib
import errno
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

from parsieve.errors import ConflictError
from parsieve.io import fd as descriptors
from parsieve.io.fd import BINARY, Identity, Range

if sys.platform != "win32":
    import fcntl

TEMPORARY = ".parsieve-{}.tmp"
# Linux: share the blocks of another file. Filesystems without this feature return an error.
FICLONE = 0x40049409


class Replacement:
    """A new file that is being written and then replaces another. Without `finish`, nothing is replaced."""

    def __init__(self, source: Path, expected: Identity, target: Path, detects_writes: bool) -> None:
        """Begin a new file that starts with the bytes of `source` and will be renamed to `target`.

        Args:
            source: The file to copy from.
            expected: The identity of `source` before anything was read from it.
            target: The path of the new file, which may be that of `source`.
            detects_writes: Whether any write to `source` since then must have changed its timestamps. Otherwise
                nothing proves which version was copied, and `proven_versions` stays None.
        """
        self._source, self._expected, self._target = source, expected, target
        # Whether the target is the source, maybe under another of its names.
        self._replaces = target == Path(os.path.realpath(source)) or (target.exists() and target.samefile(source))
        self._detects_writes = detects_writes
        self._temporary = target.with_name(TEMPORARY.format(secrets.token_hex(8)))
        # The version tokens of the file before and after it was replaced, if both are certain.
        self.proven_versions: tuple[str, str] | None = None
        self._copy: _Copy | None = None
        self._new = -1
        self._old = os.open(source, os.O_RDONLY | BINARY)
        try:
            descriptors.check_unchanged(source, self._old, expected)
            # Only the owner may read the unfinished file: the mode of the old file may forbid more.
            with self._explained():
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
        """Start to copy the first `length` bytes of the source in the background."""
        self._copy = _Copy(self._old, self._new, length, ())

    def finish(self, copy: int, wipe: Sequence[Range], tail: Iterable[bytes], verify: Callable[[Path], None]) -> int:
        """Write the rest of the new file, rename it to the target, and return its size.

        Args:
            copy: How many bytes to copy from the start of the source.
            wipe: Ranges of the copied bytes to fill with zeros.
            tail: The bytes to append.
            verify: Checks the finished file before it becomes visible, and raises if it is wrong.
        """
        if self._copy is None:
            self._copy = _Copy(self._old, self._new, copy, wipe)
        elif self._copy.length != copy or wipe:
            raise RuntimeError("the copied range differs from the plan: this is a bug in parsieve")
        try:
            end = self._append(copy, tail)
            with descriptors.name_in_errors(self._target):
                old_state = os.fstat(self._old)
                mtime = _copy_metadata(self._source, old_state, self._temporary, self._new)
                os.fsync(self._new)
            if os.fstat(self._new).st_size != end:
                raise OSError(f"{self._temporary} does not have the size that was written")
        except (OSError, ConflictError):
            # A concurrent change of the source explains the failure better than the failure itself.
            descriptors.check_unchanged(self._source, self._old, self._expected)
            raise
        self._close()
        verify(self._temporary)
        # Until this object is closed, no other parsieve process can replace or change the source.
        descriptors.lock(self._source, self._old)
        descriptors.check_unchanged(self._source, self._old, self._expected)
        if not self._replaces and self._target.exists():
            raise self._was_created()
        descriptors.remove_checksum(self._target)
        self._rename()
        new_state = os.stat(self._target)
        # The modification time was set into the past, so any write after the rename would have changed it.
        is_ours = mtime is not None and new_state.st_mtime_ns == mtime and new_state.st_size == end
        if self._detects_writes and is_ours:
            self.proven_versions = (descriptors.version_token(old_state), descriptors.version_token(new_state))
        descriptors.sync_folder(self._target.parent)
        return end

    def _rename(self) -> None:
        """Give the new file its name. A file of this name that another process has created meanwhile stays."""
        if not self._replaces:
            try:
                os.link(self._temporary, self._target)
            except FileExistsError:
                raise self._was_created() from None
            except OSError:
                # The filesystem has no hard links, so the check before is all that is possible.
                pass
            else:
                os.unlink(self._temporary)
                return
        with self._explained():
            os.replace(self._temporary, self._target)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Explain errors of a folder in which the user may not create or replace files."""
        try:
            yield
        except OSError as error:
            if not self._replaces or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            if not os.access(self._source, os.W_OK):
                # The file itself cannot be changed either.
                raise type(error)(error.errno, os.strerror(error.errno), str(self._target)) from error
            problem = f"{os.strerror(error.errno)}: a new file next to it must replace it"
            hint = "in_place=True changes the file itself"
            raise type(error)(error.errno, f"{problem}; {hint}", str(self._target)) from error

    def _was_created(self) -> FileExistsError:
        return FileExistsError(f"{self._target} was created in the meantime; nothing was replaced")

    def _append(self, end: int, tail: Iterable[bytes]) -> int:
        """Wait until the first `end` bytes are copied, write `tail` after them, and return the new end."""
        assert self._copy is not None
        with descriptors.name_in_errors(self._target):
            self._copy.wait()
            for data in tail:
                descriptors.write(self._new, end, data)
                end += len(data)
        return end

    def _close(self) -> None:
        new, self._new = self._new, -1
        if new >= 0:
            os.close(new)


class _Copy:
    """Copies the first bytes of a file in one thread and compares each chunk; a second thread flushes to the disk."""

    def __init__(self, old: int, new: int, length: int, wipe: Sequence[Range]) -> None:
        self.length = length
        self._old, self._new, self._wipe = old, new, wipe
        self._error: BaseException | None = None
        self._stop = False
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._run, name="parsieve-copy")]
        if hasattr(os, "fdatasync"):
            self._threads.append(threading.Thread(target=self._flush, name="parsieve-flush"))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the threads, even if the copy is not complete."""
        self._stop = True
        for thread in self._threads:
            thread.join()

    def wait(self) -> None:
        """Wait until the copy is complete; raise its error if it failed."""
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            if self._wipe or not _share_blocks(self._old, self._new, self.length):
                self._copy_chunks()
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()

    def _copy_chunks(self) -> None:
        start = 0
        while start < self.length and not self._stop:
            data = descriptors.read(self._old, start, min(descriptors.CHUNK, self.length - start))
            if not data:
                raise ConflictError("the source became shorter during the copy; nothing was replaced")
            data = descriptors.fill_with_zeros(data, start, self._wipe)
            descriptors.write(self._new, start, data)
            if not _has_bytes(self._new, start, data):
                raise OSError("a copied byte differs from the source; nothing was replaced")
            start += len(data)

    def _flush(self) -> None:
        """Flush the copied bytes to the disk from time to time, so that the final fsync is short."""
        with contextlib.suppress(OSError):
            while not self._done.wait(0.02) and not self._stop:
                os.fdatasync(self._new)


def _share_blocks(old: int, new: int, length: int) -> bool:
    """Let the new file share the blocks of the old one; return False if the filesystem cannot."""
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(new, FICLONE, old)
    except OSError:
        return False
    os.ftruncate(new, length)
    return True


def _has_bytes(new: int, start: int, expected: bytes) -> bool:
    """Return whether a file has these bytes at `start`."""
    done = 0
    while done < len(expected):
        data = descriptors.read(new, start + done, len(expected) - done)
        if not data or data != expected[done : done + len(data)]:
            return False
        done += len(data)
    return True


def _copy_metadata(source: Path, state: os.stat_result, temporary: Path, new: int) -> int | None:
    """Copy owner, mode and extended attributes as far as the system allows, and return the new modification time.

    The modification time is set some clock ticks into the past, so that any later write must change it. Returns None
    if that is impossible, because the old file is too young or the filesystem's clock is too coarse.
    """
    mode = _copy_owner(state, new)
    if hasattr(os, "removexattr"):
        # The folder may give new files an access control list, which the old file need not have.
        with contextlib.suppress(OSError):
            os.removexattr(temporary, "system.posix_acl_access")
    with contextlib.suppress(OSError):
        if mode == stat.S_IMODE(state.st_mode):
            shutil.copystat(source, temporary)
        else:
            # `copystat` would first grant the old permissions.
            _copy_attributes(source, temporary)
    os.chmod(temporary, mode)
    now = time.time_ns()
    mtime = now - descriptors.TICKS_NS
    if mtime <= state.st_mtime_ns:
        os.utime(temporary)
        return None
    os.utime(temporary, ns=(now, mtime))
    mtime = os.stat(temporary).st_mtime_ns
    return mtime if mtime % 1_000_000_000 else None


def _copy_owner(state: os.stat_result, new: int) -> int:
    """Give the new file the owner and the group of the old one as far as the system allows, and return its mode.

    A member of the group may keep it without keeping the owner. If the group changes, its members get only the
    permissions that everybody has.
    """
    mode = stat.S_IMODE(state.st_mode)
    if not hasattr(os, "fchown"):
        return mode
    try:
        os.fchown(new, state.st_uid, state.st_gid)
    except OSError:
        with contextlib.suppress(OSError):
            os.fchown(new, -1, state.st_gid)
    kept = os.fstat(new)
    if kept.st_uid != state.st_uid:
        mode &= ~stat.S_ISUID
    if kept.st_gid != state.st_gid:
        mode &= ~stat.S_ISGID
        mode &= ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    return mode


def _copy_attributes(source: Path, temporary: Path) -> None:
    """Copy the extended attributes, except for access control lists, which grant permissions."""
    for name in os.listxattr(source) if hasattr(os, "listxattr") else ():
        if not name.startswith("system."):
            os.setxattr(temporary, name, os.getxattr(source, name))

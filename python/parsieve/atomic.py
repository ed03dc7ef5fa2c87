"""Replacing a local file so that a crash at any moment leaves the old file or the complete new one.

```text
copy into .parsieve-*.tmp -> append -> fsync -> compare and verify -> source unchanged? -> rename -> fsync folder
```

A crash may leave the temporary file behind; it is hidden, is no `.parquet`, and can be deleted.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from parsieve._core import UnsupportedError
from parsieve.errors import ConflictError

TEMPORARY = ".parsieve-{}.tmp"
BINARY = getattr(os, "O_BINARY", 0)
PIECE = 8 << 20

Identity = tuple[int, ...]
Range = tuple[int, int]


def identity(of: os.stat_result) -> Identity:
    """What changes when somebody replaces or writes a file."""
    return of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns


def target_of(source: Path, dest: Path | None, hard_links: str) -> Path:
    """The path to write: links followed, and refused where a new file would break something."""
    if hard_links not in ("refuse", "break"):
        raise ValueError(f'hard_links is "refuse" or "break", not {hard_links!r}')
    wanted = source if dest is None else dest
    target = Path(os.path.realpath(wanted))
    exists = target.exists()
    if exists and not os.path.samefile(source, target):
        raise FileExistsError(f"{wanted} exists and is not the source; remove it first")
    if exists and not target.is_file():
        raise UnsupportedError(f"{wanted} is no regular file")
    if exists and target.stat().st_nlink > 1 and hard_links == "refuse":
        raise UnsupportedError(
            f'{wanted} has other names (hard links), which would keep the old file; pass hard_links="break" or a dest'
        )
    for path in {Path(os.path.abspath(wanted)), target}:
        _refuse_tables(path)
    return target


def _refuse_tables(path: Path) -> None:
    """A table's metadata record the size of its files, so a file that grows breaks it."""
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
                f"{path} belongs to the {kind} table {folder}, which records the sizes of its files; write to a dest "
                "outside of it, or use an index beside the table"
            )


def replace(
    source: Path,
    seen: Identity,
    target: Path,
    *,
    copy: int,
    wipe: Sequence[Range],
    tail: Iterable[bytes],
    verify: Callable[[Path], None],
) -> int:
    """Write `copy` bytes of the source with some of them zeros, then `tail`, to `target`; return the new size.

    `verify` looks at the finished file before anybody else can.
    """
    temporary = target.with_name(TEMPORARY.format(secrets.token_hex(8)))
    old = os.open(source, os.O_RDONLY | BINARY)
    try:
        state = os.fstat(old)
        _unchanged(source, old, seen)
        # Nobody else may read what is not finished, or what the old file's mode hides.
        new = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
        try:
            try:
                _copy(old, new, copy)
                for start, end in wipe:
                    _write(new, start, bytes(end - start))
                end = copy
                for piece in tail:
                    _write(new, end, piece)
                    end += len(piece)
                _take_over(source, state, temporary, new)
                os.fsync(new)
                if os.fstat(new).st_size != end:
                    raise OSError(f"{temporary} has not the size that was written")
                if not _same(old, new, copy, wipe):
                    _unchanged(source, old, seen)
                    raise OSError("a copied byte differs from the source; nothing was replaced")
            finally:
                os.close(new)
            verify(temporary)
            _unchanged(source, old, seen)
            if target != Path(os.path.realpath(source)) and target.exists():
                raise FileExistsError(f"{target} was made meanwhile")
            _forget_checksum(target)
            os.replace(temporary, target)
            _sync_folder(target.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    finally:
        os.close(old)
    return end


def _unchanged(source: Path, old: int, seen: Identity) -> None:
    """Whether the path still leads to the file that was read, and nobody wrote to it."""
    try:
        same = identity(os.stat(source)) == seen == identity(os.fstat(old))
    except FileNotFoundError:
        same = False
    if not same:
        raise ConflictError(f"{source} was changed by somebody else meanwhile; nothing was replaced")


def _copy(old: int, new: int, length: int) -> None:
    """The first bytes of a file, by the kernel where it can: some filesystems then share them."""
    done = 0
    with contextlib.suppress(AttributeError, OSError):
        while done < length:
            count = os.copy_file_range(old, new, length - done, done, done)
            if count == 0:
                break
            done += count
    while done < length:
        piece = _read(old, done, min(PIECE, length - done))
        if not piece:
            raise ConflictError("the source became shorter while it was copied; nothing was replaced")
        _write(new, done, piece)
        done += len(piece)


def _read(fd: int, start: int, length: int) -> bytes:
    os.lseek(fd, start, os.SEEK_SET)
    return os.read(fd, length)


def _write(fd: int, start: int, data: bytes) -> None:
    os.lseek(fd, start, os.SEEK_SET)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _same(old: int, new: int, length: int, wipe: Sequence[Range]) -> bool:
    """Whether every copied byte is the old one, and zero where it was wiped."""
    start = 0
    while start < length:
        piece = _read(old, start, min(PIECE, length - start))
        expected = piece
        for first, last in wipe:
            first, last = max(first - start, 0), min(last - start, len(piece))
            if first < last:
                expected = expected[:first] + bytes(last - first) + expected[last:]
        found = b""
        while len(found) < len(expected):
            more = _read(new, start + len(found), len(expected) - len(found))
            if not more:
                break
            found += more
        if not piece or found != expected:
            return False
        start += len(piece)
    return True


def _take_over(source: Path, state: os.stat_result, temporary: Path, new: int) -> None:
    """Owner, mode and extended attributes of the old file, as far as the system lets us; the times are new."""
    if hasattr(os, "fchown"):
        with contextlib.suppress(OSError):
            os.fchown(new, state.st_uid, state.st_gid)
    with contextlib.suppress(OSError):
        shutil.copystat(source, temporary)
    os.chmod(temporary, stat.S_IMODE(state.st_mode))
    os.utime(temporary)


def _forget_checksum(target: Path) -> None:
    """Remove Hadoop's checksum of the old bytes: it ignores a missing one, and refuses a file with a stale one.

    That happens before the rename: a crash between the two leaves the old file, readable.
    """
    checksum = target.with_name(f".{target.name}.crc")
    if os.path.lexists(checksum):
        os.unlink(checksum)
        _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        # Some network filesystems cannot, and need not.
        with contextlib.suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)

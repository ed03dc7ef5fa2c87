"""Read one version of each file, and prove that the file did not change meanwhile."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from parsieve._core import ParsieveError
from parsieve.errors import ConflictError
from parsieve.io import in_place
from parsieve.io.names import refuse_special
from parsieve.io.sources import open_source
from parsieve.lake.storage.listing import COARSE_NS, TICK_NS
from parsieve.lake.storage.version import Version, local_version

if TYPE_CHECKING:
    from parsieve.lake.storage.storage import Storage

# The number of attempts to read a file that keeps changing.
ATTEMPTS = 5
# Batches of a file are held back until the file is known to be unchanged, if it has at most this many bytes, and up to
# this many bytes of memory.
HELD_BYTES = 8 << 20
HELD_MEMORY = 64 << 20
# The errors of a read if the file's bytes change, besides errors of other libraries.
FAILURES = (pa.ArrowException, ParsieveError, OSError, ValueError, KeyError)


def settle(version: Version) -> None:
    """Wait until the next change of a local file is certain to give it a new timestamp.

    A kernel sets timestamps once per tick, so a second change within one tick would go unnoticed.
    """
    if version.changed is None:
        return
    grain = COARSE_NS if version.changed % 1_000_000_000 == 0 else TICK_NS
    remaining = version.changed + grain - time.time_ns()
    if 0 < remaining <= grain:
        time.sleep(remaining / 1e9)


def changed_since(name: str) -> ConflictError:
    """Return the error for a file that keeps changing."""
    return ConflictError(f"{name} was changed since the plan, and again during each attempt to read it; plan again")


def removed_since(name: str) -> ConflictError:
    """Return the error for a file that is gone."""
    return ConflictError(
        f"{name} was removed since the plan; plan again, and if that fails too, restore the file. If the plan has "
        "as_of=, a cleanup such as VACUUM may have removed the files of this state; choose a newer one"
    )


class Pinned:
    """One version of a file, open for reading.

    A local file is read through a descriptor, so replacing the file does not affect its bytes. An object of a store is
    read by name. Afterwards, `is_unchanged` returns whether all reads returned the same version.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._descriptor = -1
        if storage.is_local:
            self._pin()
        else:
            self.version = storage.version(path)
            # The source of a pyarrow fragment: an open file, or a path on `filesystem`.
            self.source: Any = path
            self.filesystem = storage.arrow()

    def _pin(self) -> None:
        for _ in range(100):
            refuse_special(self._path)
            in_place.recover(self._path)
            descriptor = os.open(self._path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            close = weakref.finalize(self, os.close, descriptor)
            # pyarrow opens the file again, so that it can read without Python's GIL. It keeps the size of the file from
            # then on, so get the status before: if the file changes between the two, the status is out of date.
            status = os.fstat(descriptor)
            file = pa.OSFile(self._path, "r")
            status_by_name = os.stat(self._path)  # noqa: PTH116
            # While the descriptor is open, the inode cannot be reused. So the same number means the same file.
            if (status.st_dev, status.st_ino) == (status_by_name.st_dev, status_by_name.st_ino):
                self._descriptor, self._status, self._close = descriptor, status, close
                self.source, self.filesystem = file, None
                self.version = local_version(status)
                return
            close()
        raise changed_since(self._path)

    def settle(self) -> None:
        """Open the latest version of the file, and wait until its next change is certain to be noticed."""
        if self._descriptor >= 0:
            for _ in range(ATTEMPTS):
                version = self.version
                settle(version)
                # Open the file again: if it changed, pyarrow would read it with the size that it had before.
                self.close()
                self._pin()
                if self.version == version:
                    return

    def open(self) -> Any:
        """Open the file for pyarrow."""
        return self.source if self._descriptor >= 0 else self._storage.open(self._path)

    @property
    def descriptor(self) -> int:
        """Return the open descriptor of a local file, or -1 for an object of a store."""
        return self._descriptor

    def handle(self) -> Any:
        """Return the local file as a Python file object, for readers that use its descriptor."""
        return os.fdopen(os.dup(self._descriptor), "rb")

    def footer_length(self) -> int:
        """Return the length of the footer that a Parquet file states."""
        if self._descriptor >= 0:
            return int.from_bytes(self.source.read_at(4, self._status.st_size - 8), "little")
        source = open_source(self._storage.source(self._path))
        try:
            return int.from_bytes(source.read(self.version.size - 8, self.version.size - 4), "little")
        finally:
            source.close()

    def is_unchanged(self) -> bool:
        """Return whether all reads so far returned this version."""
        if self._descriptor < 0:
            try:
                return self._storage.version(self._path) == self.version
            except FileNotFoundError:
                return False
        now, then = os.fstat(self._descriptor), self._status
        if (now.st_size, now.st_mtime_ns) != (then.st_size, then.st_mtime_ns):
            return False
        # Replacing the file by another one also changes the ctime of the old inode, because it loses a link.
        return now.st_ctime_ns == then.st_ctime_ns or now.st_nlink < then.st_nlink

    def close(self) -> None:
        """Close the descriptor. Running scans still have pyarrow's descriptor."""
        if self._descriptor >= 0:
            self._close()


def checked(
    batches: Callable[[Version | None], Iterator[pa.RecordBatch]], version: Callable[[], Version | None], name: str
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file that is opened by name. All batches come from the same version of the file.

    `batches` gets the version that it will probably read, if the storage knows versions.
    If the file changes before the first batch was yielded, read it again. If it changes later, raise `ConflictError`.
    """
    for attempt in range(ATTEMPTS):
        before = _present_version(version, name)
        if attempt and before is not None:
            settle(before)
        pending: list[pa.RecordBatch] = []
        size, has_yielded = 0, False
        try:
            for batch in batches(before):
                pending.append(batch)
                size += batch.nbytes
                if size > HELD_BYTES:
                    has_yielded = True
                    yield from pending
                    pending.clear()
        except FAILURES:
            if before is None or _present_version(version, name) == before:
                raise
        else:
            if before is None or _present_version(version, name) == before:
                yield from pending
                return
        if has_yielded:
            break
    raise changed_since(name)


def _present_version(version: Callable[[], Version | None], name: str) -> Version | None:
    try:
        return version()
    except FileNotFoundError as error:
        raise removed_since(name) from error

"""Hold files in one version while they are read, and prove that they did not change."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from parsieve._core import ParsieveError
from parsieve.errors import ConflictError
from parsieve.lake.storage.listing import COARSE_NS, TICK_NS

if TYPE_CHECKING:
    from parsieve.lake.storage.storage import Storage

# How often a file that keeps changing is read again before the reader gives up.
ATTEMPTS = 5
# Batches of a file are held back until the file is known to be unchanged, up to this many bytes.
HELD_BYTES = 8 << 20
# The errors of a read if the file's bytes change, besides errors of other libraries.
FAILURES = (pa.ArrowException, ParsieveError, OSError, ValueError, KeyError)


@dataclass(frozen=True, slots=True)
class Version:
    """The properties that distinguish one version of a file from another."""

    # The same as the token of the file in a listing, whatever the file's age.
    token: str
    size: int
    # When the file last changed, in nanoseconds; None if the filesystem does not say.
    changed: int | None = None
    # Other properties of this version from the store, such as an ETag.
    proof: str = ""


def local_version(facts: os.stat_result) -> Version:
    """Return the version of a local file."""
    changed = max(facts.st_mtime_ns, facts.st_ctime_ns)
    token = f"{facts.st_size}-{facts.st_mtime_ns}-{facts.st_ctime_ns}-{facts.st_ino}"
    return Version(token, facts.st_size, changed)


def settle(version: Version) -> None:
    """Wait until the next change of a local file is certain to give it another time.

    A kernel stamps files by its tick, so a second change within one tick would go unnoticed.
    """
    if version.changed is None:
        return
    grain = COARSE_NS if version.changed % 1_000_000_000 == 0 else TICK_NS
    remaining = version.changed + grain - time.time_ns()
    if 0 < remaining <= grain:
        time.sleep(remaining / 1e9)


def changed_since(name: str) -> ConflictError:
    """Return the error for a file that cannot be read as it was planned."""
    return ConflictError(f"{name} was changed since the plan, and again whenever it was read; plan again")


class Pinned:
    """One version of a file, open for reading.

    A local file is read through a descriptor, so its bytes stay the same even if another file takes its name.
    Objects of a store are read by name; `is_unchanged` tells afterwards whether all reads saw the same version.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._descriptor = -1
        if storage.is_local:
            self._pin()
        else:
            self.version = storage.version(path)
            # What pyarrow makes a fragment of: a file, or a path on a filesystem.
            self.source: Any = path
            self.filesystem = storage.arrow()

    def _pin(self) -> None:
        for _ in range(100):
            descriptor = os.open(self._path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            close = weakref.finalize(self, os.close, descriptor)
            # pyarrow reads natively, without Python's lock, through a descriptor of its own.
            file = pa.OSFile(self._path, "r")
            facts, named = os.fstat(descriptor), os.stat(self._path)  # noqa: PTH116
            # The descriptor keeps the inode from being reused, so the same number means the same file.
            if (facts.st_dev, facts.st_ino) == (named.st_dev, named.st_ino):
                self._descriptor, self._facts, self._close = descriptor, facts, close
                self.source, self.filesystem = file, None
                self.version = local_version(facts)
                return
            close()
        raise changed_since(self._path)

    def settle(self) -> None:
        """Wait until the next change of the file is certain to be noticed."""
        if self._descriptor >= 0:
            settle(self.version)
            self._facts = os.fstat(self._descriptor)
            self.version = local_version(self._facts)

    def open(self) -> Any:
        """Open the file, as pyarrow takes it."""
        return self.source if self._descriptor >= 0 else self._storage.open(self._path)

    @property
    def descriptor(self) -> int:
        """The open descriptor of a local file; -1 for an object of a store."""
        return self._descriptor

    def handle(self) -> Any:
        """Return the local file as one of Python's, for readers that take its descriptor."""
        return os.fdopen(os.dup(self._descriptor), "rb")

    def is_unchanged(self) -> bool:
        """Tell whether everything read so far is of this version."""
        if self._descriptor < 0:
            try:
                return self._storage.version(self._path) == self.version
            except FileNotFoundError:
                return False
        now, then = os.fstat(self._descriptor), self._facts
        if (now.st_size, now.st_mtime_ns) != (then.st_size, then.st_mtime_ns):
            return False
        # Another file that takes the name changes the old inode's ctime as well, by its number of links.
        return now.st_ctime_ns == then.st_ctime_ns or now.st_nlink < then.st_nlink

    def close(self) -> None:
        """Release the descriptor. Scans that still run keep pyarrow's own open."""
        if self._descriptor >= 0:
            self._close()


def checked(
    batches: Callable[[], Iterator[pa.RecordBatch]], version: Callable[[], Version | None], name: str
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file that is opened by name, all of one version.

    Read the file again if it changes before a batch was yielded, else raise `ConflictError`.
    """
    for attempt in range(ATTEMPTS):
        before = _present(version, name)
        if attempt and before is not None:
            settle(before)
        held: list[pa.RecordBatch] = []
        size, began = 0, False
        try:
            for batch in batches():
                held.append(batch)
                size += batch.nbytes
                if size > HELD_BYTES:
                    began = True
                    yield from held
                    held.clear()
        except FAILURES:
            if before is None or _present(version, name) == before:
                raise
        else:
            if before is None or _present(version, name) == before:
                yield from held
                return
        if began:
            break
    raise changed_since(name)


def _present(version: Callable[[], Version | None], name: str) -> Version | None:
    try:
        return version()
    except FileNotFoundError as error:
        raise ConflictError(f"{name} was removed since the plan; plan again") from error

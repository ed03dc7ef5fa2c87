"""Where an index lies: files that are written once, on a local disk or an object store.

```text
LocalStore    temporary file -> fsync -> link (fails if the name exists) -> fsync of the folder
ObjectStore   one conditional put
MountedStore  never written
```

Names are `folder/name`. No name of ours ends in `.parquet`, so that no engine takes an index file for data.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from parsieve import _core
from parsieve._core import UnsupportedError
from parsieve.io import atomic
from parsieve.io.atomic import BINARY, sync_folder
from parsieve.io.object_store import os_errors
from parsieve.io.sources import LOCAL_GAP, REMOTE_GAP, REQUESTS_AT_ONCE, Range

PIECE = 8 << 20
TEMPORARY = ".tmp-"

Data = bytes | Sequence[Path]


class Stored(NamedTuple):
    """A file of a store: its name, its bytes, and when it was written (seconds since 1970)."""

    name: str
    size: int
    modified: float


class Store(ABC):
    """Files by name. `requests` and `bytes_fetched` count what reading cost. Threads may share it."""

    gap = LOCAL_GAP

    def __init__(self) -> None:
        self.requests = 0
        self.bytes_fetched = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to reach the same files."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_obstore")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    @abstractmethod
    def __str__(self) -> str:
        """Where it is, for messages."""

    def get(self, name: str) -> bytes:
        """A whole file. `FileNotFoundError` if there is none."""
        data = self._get(name)
        self._count(len(data))
        return data

    def get_ranges(self, name: str, ranges: Sequence[Range]) -> list[bytes]:
        """Some ranges of a file: near ones in one request, far ones at once. A short one ended with the file."""
        joined = _core.coalesce(list(ranges), self.gap)

        def fetch(wanted: Range) -> tuple[Range, bytes]:
            data = self._get_range(name, *wanted)
            self._count(len(data))
            return wanted, data

        if len(joined) > 1:
            with ThreadPoolExecutor(min(REQUESTS_AT_ONCE, len(joined)), "parsieve-read") as pool:
                found = list(pool.map(fetch, joined))
        else:
            found = [fetch(wanted) for wanted in joined]
        pieces = []
        for start, end in ranges:
            (first, _), data = next(one for one in found if one[0][0] <= start and end <= one[0][1])
            pieces.append(data[start - first : end - first])
        return pieces

    def _count(self, length: int) -> None:
        with self._lock:
            self.requests += 1
            self.bytes_fetched += length

    @abstractmethod
    def _get(self, name: str) -> bytes: ...

    @abstractmethod
    def _get_range(self, name: str, start: int, end: int) -> bytes: ...

    @abstractmethod
    def put(self, name: str, data: Data) -> None:
        """Write a file whose name nobody else has: bytes, or local files end to end."""

    @abstractmethod
    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file unless the name is taken; whether it was written. An unknown outcome is an `OSError`."""

    def require_writable(self) -> None:  # noqa: B027 - many stores cannot know
        """Raise an error if it is certain that nothing can be written here, before a table is read in vain."""

    @abstractmethod
    def list(self, folder: str) -> list[Stored]:
        """The files of a folder, in order of their names."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file; one that is gone already is no error."""


class LocalStore(Store):
    """A folder of this machine. What is acknowledged has reached the disk."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__()
        self.root = Path(folder)

    def __str__(self) -> str:
        return str(self.root)

    def _is_below_a_file(self) -> bool:
        """Whether the table is a file by itself, below which there can be no folder."""
        return self.root.parent.is_file()

    def _get(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def _get_range(self, name: str, start: int, end: int) -> bytes:
        with (self.root / name).open("rb", buffering=0) as file:
            file.seek(start)
            pieces = []
            while start < end and (piece := file.read(end - start)):
                pieces.append(piece)
                start += len(piece)
            return b"".join(pieces)

    def put(self, name: str, data: Data) -> None:
        """Write a file."""
        with _named(self.root / name):
            temporary = self._write(name, [data] if isinstance(data, bytes) else _pieces(data))
            try:
                temporary.replace(self.root / name)
            except BaseException:
                _forget(temporary)
                raise
            sync_folder((self.root / name).parent)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file unless the name is taken."""
        target = self.root / name
        if target.exists():
            return False
        with _named(target):
            temporary = self._write(name, [data])
            try:
                _publish(temporary, target)
            except FileExistsError:
                return False
            finally:
                _forget(temporary)
            sync_folder(target.parent)
        return True

    def require_writable(self) -> None:
        """Raise an error if the folder cannot be written to, or made."""
        if self._is_below_a_file():
            raise UnsupportedError(
                f"{self.root.parent} is a file, and an index needs a folder: pass one as index_location=, or "
                "open the file's folder as a table"
            )
        there = next((one for one in [self.root, *self.root.absolute().parents] if one.is_dir()), None)
        if there is not None and not os.access(there, os.W_OK | os.X_OK):
            number = errno.EROFS if _is_read_only(there) else errno.EACCES
            with _named(self.root):
                raise OSError(number, os.strerror(number))

    def _write(self, name: str, pieces: Iterable[bytes]) -> Path:
        """A finished, durable file under a name that nobody looks at."""
        folder = (self.root / name).parent
        if not folder.is_dir():
            if self._is_below_a_file():
                self.require_writable()
            folder.mkdir(parents=True, exist_ok=True)
            for made in [folder, *folder.parents][: len(folder.relative_to(self.root).parts) + 2]:
                sync_folder(made)
        temporary = folder / f"{TEMPORARY}{secrets.token_hex(8)}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
        try:
            try:
                end = 0
                for piece in pieces:
                    atomic.write(fd, end, piece)
                    end += len(piece)
                os.fsync(fd)
            finally:
                os.close(fd)
        except BaseException:
            _forget(temporary)
            raise
        return temporary

    def list(self, folder: str) -> list[Stored]:
        """The files of a folder."""
        found = []
        nothing_there = (FileNotFoundError, NotADirectoryError) if self._is_below_a_file() else (FileNotFoundError,)
        with contextlib.suppress(*nothing_there), os.scandir(self.root / folder) as entries:
            for entry in entries:
                # A file may be deleted between its name and its size.
                with contextlib.suppress(FileNotFoundError):
                    state = entry.stat()
                    found.append(Stored(f"{folder}/{entry.name}", state.st_size, state.st_mtime))
        return sorted(found)

    def delete(self, name: str) -> None:
        """Remove a file."""
        (self.root / name).unlink(missing_ok=True)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Disk errors name the file that was to be written, and what to do where nothing can be."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint = f"{error.strerror}; store the index elsewhere, with index_location=PLACE"
            raise OSError(error.errno, hint, str(path)) from error
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def _is_read_only(folder: Path) -> bool:
    return hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


class NoStore(Store):
    """No place at all: it holds nothing, and says why it takes nothing."""

    def __init__(self, problem: str) -> None:
        super().__init__()
        self._problem = problem

    def __str__(self) -> str:
        return "nowhere"

    def _get(self, name: str) -> bytes:
        raise FileNotFoundError(errno.ENOENT, self._problem, name)

    def _get_range(self, name: str, start: int, end: int) -> bytes:
        return self._get(name)

    def require_writable(self) -> None:
        """Raise the error that says why not."""
        raise UnsupportedError(self._problem)

    def put(self, name: str, data: Data) -> None:
        """Refuse to write a file."""
        raise UnsupportedError(self._problem)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Refuse to write a file."""
        raise UnsupportedError(self._problem)

    def list(self, folder: str) -> list[Stored]:
        """There are no files."""
        return []

    def delete(self, name: str) -> None:
        """There are no files."""


def _publish(temporary: Path, target: Path) -> None:
    """Give a file its name, unless the name is taken; all or nothing."""
    if os.name == "nt":
        # There a rename never replaces a file.
        temporary.rename(target)
        return
    try:
        target.hardlink_to(temporary)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise UnsupportedError(
                f"the filesystem of {target.parent} makes no hard links, so versions of an index cannot be committed "
                "there safely; keep the index in another folder or on an object store"
            ) from error
        raise


def _pieces(paths: Sequence[Path]) -> Iterable[bytes]:
    for path in paths:
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                yield piece


def _forget(temporary: Path) -> None:
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)


class ObjectStore(Store):
    """A bucket's folder, through a store of obstore."""

    gap = REMOTE_GAP

    def __init__(self, store: Any, prefix: str = "", name: str | None = None) -> None:
        super().__init__()
        try:
            import obstore
        except ImportError:
            raise UnsupportedError(
                "an index on an object store needs the package obstore: pip install obstore"
            ) from None
        self._obstore = obstore
        self._store = store
        self._prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        self._name = name or f"{store!r}/{self._prefix}"

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        import obstore

        super().__setstate__(state)
        self._obstore = obstore

    def __str__(self) -> str:
        return self._name

    def _get(self, name: str) -> bytes:
        with os_errors(self):
            return bytes(self._obstore.get(self._store, self._prefix + name).bytes())

    def _get_range(self, name: str, start: int, end: int) -> bytes:
        with os_errors(self):
            return bytes(self._obstore.get_range(self._store, self._prefix + name, start=start, end=end))

    def put(self, name: str, data: Data) -> None:
        """Write a file."""
        # Large files go up in parts; a name of ours is never taken by others.
        source = data if isinstance(data, bytes) else _pieces(data)
        with os_errors(self):
            self._obstore.put(self._store, self._prefix + name, source)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file unless the name is taken."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            self._obstore.put(self._store, self._prefix + name, data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        except Exception as error:
            raise OSError(f"it is not known whether {name} was written to {self}: {error}") from error
        return True

    def list(self, folder: str) -> list[Stored]:
        """The files of a folder."""
        found = []
        with os_errors(self):
            for page in self._obstore.list(self._store, f"{self._prefix}{folder}/"):
                for meta in page:
                    name = meta["path"].removeprefix(self._prefix)
                    found.append(Stored(name, int(meta["size"]), meta["last_modified"].timestamp()))
        self._count(0)
        return sorted(found)

    def delete(self, name: str) -> None:
        """Remove a file."""
        with contextlib.suppress(FileNotFoundError), os_errors(self):
            self._obstore.delete(self._store, self._prefix + name)


def unique(folder: str, kind: str) -> str:
    """A name that nobody else has."""
    return f"{folder}/{int(time.time()):010x}-{secrets.token_hex(10)}.{kind}"

"""Reading files by ranges of bytes, wherever they lie: all input of the package goes through here.

A `Source` knows its size and reads ranges. `RangeReader` makes no more requests than a question needs: near ranges are
joined, and ranges that lie far apart are fetched at the same time.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from parsieve import _core
from parsieve.errors import ConflictError
from parsieve.io import journal
from parsieve.io.object_store import os_errors

Range = tuple[int, int]
Bytes = bytes | bytearray | memoryview

# An object store takes as long for 64 KiB as for 32 bytes; on a disk, bytes that nobody wants are the dearer ones.
REMOTE_GAP = 64 * 1024
LOCAL_GAP = 4 * 1024
REQUESTS_AT_ONCE = 16
# Names of an object's tag in the answers of filesystems.
ETAGS = ("ETag", "etag", "e_tag")
# Of a range that is read from its front to its end: it pays for the request, and stays in a processor's cache.
PIECE = 2 << 20


class Source(ABC):
    """Bytes of one file, read by ranges."""

    gap = LOCAL_GAP
    # Whether several threads may read at once, and are worth it.
    concurrent = False

    @abstractmethod
    def size(self) -> int:
        """Bytes of the whole file."""

    @abstractmethod
    def read(self, start: int, end: int) -> Bytes:
        """The bytes of a range, or fewer: the reader asks again for the rest."""

    def changed(self) -> bool:
        """Whether somebody wrote to the file since it was opened; most sources cannot tell, or see it as they read."""
        return False

    def version(self) -> str:
        """Return how the token of this version begins in a listing of a plain folder; "" if only its size is known."""
        return ""

    def close(self) -> None:  # noqa: B027 - most sources hold nothing open
        """Let go of what `open_source` opened."""


class _Memory(Source):
    gap = 0

    def __init__(self, data: Any) -> None:
        self._view = memoryview(data).cast("B")

    def size(self) -> int:
        return len(self._view)

    def read(self, start: int, end: int) -> Bytes:
        return self._view[start:end]


class _FileObject(Source):
    """A seekable file object of the caller's, who closes it."""

    def __init__(self, file: Any) -> None:
        self._file = file
        # Position and read belong together.
        self._lock = threading.Lock()

    def size(self) -> int:
        with self._lock:
            return int(self._file.seek(0, os.SEEK_END) or self._file.tell())

    def read(self, start: int, end: int) -> Bytes:
        with self._lock:
            self._file.seek(start)
            data = self._file.read(end - start)
        if isinstance(data, str):
            raise TypeError("the file was opened as text; open it with mode 'rb'")
        return data or b""


class LocalFile(Source):
    """A file of this machine. Nobody must close it: the descriptor goes with the object."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._close = weakref.finalize(self, os.close, self._fd)
        self._lock = threading.Lock()
        seen = os.fstat(self._fd)
        self._seen = seen.st_size, seen.st_mtime_ns
        self._version = f"{seen.st_size}-{seen.st_mtime_ns}-{seen.st_ctime_ns}-{seen.st_ino}-"
        if stat.S_ISDIR(seen.st_mode):
            self.close()
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))

    def size(self) -> int:
        """Bytes of the whole file."""
        return self._seen[0]

    def changed(self) -> bool:
        """Whether its size or time is another one: a footer that was read must not lead into other bytes."""
        if not self._close.alive:
            return False
        now = os.fstat(self._fd)
        return (now.st_size, now.st_mtime_ns) != self._seen

    def version(self) -> str:
        """Return the whole token of this version."""
        return self._version

    def read(self, start: int, end: int) -> Bytes:
        """The bytes of a range, or fewer."""
        # The number of a closed file may be that of another one by now.
        if not self._close.alive:
            raise ValueError("the file is closed")
        if sys.platform == "win32":
            with self._lock:
                os.lseek(self._fd, start, os.SEEK_SET)
                return os.read(self._fd, end - start)
        else:
            return os.pread(self._fd, end - start, start)

    def close(self) -> None:
        """Close the descriptor."""
        self._close()


class _Remote(Source):
    gap = REMOTE_GAP
    concurrent = True

    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem = filesystem
        self._path = path


class _PyArrow(_Remote):
    def __init__(self, filesystem: Any, path: str) -> None:
        super().__init__(filesystem, path)
        self._file = filesystem.open_input_file(path)

    def size(self) -> int:
        return int(self._file.size())

    def read(self, start: int, end: int) -> Bytes:
        data: bytes = self._file.read_at(end - start, start)
        return data

    def close(self) -> None:
        self._file.close()


class _Fsspec(_Remote):
    _version = ""

    def size(self) -> int:
        info = self._filesystem.info(self._path)
        self._version = _tagged(info["size"], next((info[name] for name in ETAGS if info.get(name)), None))
        return int(info["size"])

    def version(self) -> str:
        return self._version

    def read(self, start: int, end: int) -> Bytes:
        data: bytes = self._filesystem.cat_file(self._path, start=start, end=end)
        return data


class _Obstore(_Remote):
    # What names this version of the object, where the store has such a name.
    _tag: str | None = None
    _version = ""

    def size(self) -> int:
        with os_errors(self._path):
            head = self._filesystem.head(self._path)
        self._tag = head.get("e_tag")
        self._version = _tagged(head["size"], self._tag)
        return int(head["size"])

    def version(self) -> str:
        return self._version

    def read(self, start: int, end: int) -> Bytes:
        if self._tag is None:
            with os_errors(self._path):
                return memoryview(self._filesystem.get_range(self._path, start=start, end=end))
        # The footer of one version must not lead into another one.
        options = {"range": (start, end), "if_match": self._tag}
        try:
            with os_errors(self._path):
                return memoryview(self._filesystem.get(self._path, options=options).bytes())
        except Exception as error:
            if type(error.__cause__ or error).__name__ != "PreconditionError":
                raise
            raise ConflictError(f"{self._path} was replaced while it was read; open it again") from error


def _tagged(size: int, tag: Any) -> str:
    """Return how the token of an object begins."""
    return f"{size}-" if tag is None else f"{size}-{str(tag).strip(chr(34))}-"


def open_source(source: Any) -> Source:
    """The source that a caller means: a path, bytes, a file object, a URI, or a filesystem with a path."""
    if isinstance(source, tuple) and len(source) == 2:
        filesystem, path = source
        return _on(filesystem, os.fsdecode(path))
    if isinstance(source, str) and "://" in source:
        return _at(source)
    if isinstance(source, Source):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _local(source)
    if hasattr(source, "read") and hasattr(source, "seek"):
        return _FileObject(source)
    try:
        return _Memory(source)
    except TypeError:
        raise TypeError(
            "source must be a path, bytes, a seekable binary file, a URI, or a (filesystem, path) pair of pyarrow.fs, "
            f"fsspec or obstore, not {type(source).__qualname__}"
        ) from None


def _name(source: Any) -> str | None:
    """The path or URI that a caller gave."""
    if isinstance(source, tuple) and len(source) == 2:
        source = source[1]
    return os.fsdecode(source) if isinstance(source, (str, os.PathLike)) else None


def _local(path: str | os.PathLike[str]) -> Source:
    """A file whose end, as it was when it was opened, is not that of half a change in its place."""
    path = os.path.expanduser(path)  # noqa: PTH111 - a path of bytes, too
    while True:
        journal.recover(path)
        file = LocalFile(path)
        # One that began since the look above is under way, or it is over, and the file has another end.
        if not journal.is_begun(path) and not file.changed():
            return file
        file.close()


def _on(filesystem: Any, path: str) -> Source:
    # Told apart by their methods, so that none of the three libraries is imported here.
    if hasattr(filesystem, "open_input_file"):
        return _PyArrow(filesystem, path)
    if hasattr(filesystem, "cat_file"):
        return _Fsspec(filesystem, path)
    if hasattr(filesystem, "get_range"):
        return _Obstore(filesystem, path)
    raise TypeError(
        f"{type(filesystem).__qualname__} is not a filesystem of pyarrow.fs or fsspec, nor a store of obstore"
    )


def _at(uri: str) -> Source:
    if uri.partition("://")[0] == "file":
        return _local(local_path(uri))
    return _on(*filesystem_of(uri))


def local_path(uri: str) -> str:
    """The path of a file: URI."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    return url2pathname(urlsplit(uri).path)


def filesystem_of(uri: str) -> tuple[Any, str]:
    """The filesystem of a URI, of pyarrow.fs or else of fsspec, and the path in it."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as unknown:
        try:
            from fsspec.core import url_to_fs

            found = url_to_fs(uri)
        except (ImportError, ValueError):
            scheme = uri.partition("://")[0]
            raise ValueError(
                f"no filesystem for {scheme}://; install fsspec with its package for {scheme}, or pass a "
                "(filesystem, path) pair"
            ) from unknown
    return found


class RangeReader:
    """Brings the bytes that a question asks for, and counts them. Threads may share it."""

    def __init__(self, source: Any) -> None:
        self._source = open_source(source)
        # What to call the file in messages, where it has a name.
        self.name = _name(source)
        self._lock = threading.Lock()
        self.bytes_fetched = 0
        self.requests = 0
        try:
            self.size = self._source.size()
            # How the token of this version begins in a listing of a plain folder.
            self.version = self._source.version() or f"{self.size}-"
        except BaseException:
            self._source.close()
            raise

    def fetch(self, needed: Sequence[Range], into: _core.Fetched) -> None:
        """Read all ranges into `into`."""
        ranges = needed if len(needed) == 1 else _core.coalesce(list(needed), self._source.gap)
        if self._source.concurrent and len(ranges) > 1:
            with ThreadPoolExecutor(min(REQUESTS_AT_ONCE, len(ranges)), "parsieve-read") as pool:
                # Whatever fails first is raised here, and the rest is waited for.
                list(pool.map(lambda wanted: self._fetch(wanted, into), ranges))
        else:
            for wanted in ranges:
                self._fetch(wanted, into)

    def check(self) -> None:
        """`ConflictError` where the file is no longer the one that was opened."""
        if self._source.changed():
            raise ConflictError(f"{self.name} was changed since it was opened; open it again")

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes of a long range one after the other, never many of them at once."""
        while start < end:
            data = self._read(start, min(end, start + PIECE))
            yield data if isinstance(data, bytes) else bytes(data)
            start += len(data)

    def _fetch(self, wanted: Range, into: _core.Fetched) -> None:
        start, end = wanted
        while start < end:
            data = self._read(start, end)
            into.insert(start, data)
            start += len(data)

    def _read(self, start: int, end: int) -> Bytes:
        data = self._source.read(start, end)
        if not isinstance(data, bytes):
            data = memoryview(data).cast("B")
        if len(data) > end - start:
            data = data[: end - start]
        with self._lock:
            self.requests += 1
            self.bytes_fetched += len(data)
        if not data:
            raise OSError(f"unexpected end of {self.name or 'the source'}: no bytes at {start} to {end} of {self.size}")
        return data

    def close(self) -> None:
        """Let go of what was opened for reading; a file object of the caller's stays open."""
        self._source.close()

"""Sources of bytes: local files, memory, file objects, and files of pyarrow.fs, fsspec or obstore.

A `Source` knows its size and reads byte ranges. All input of the package comes through `open_source`.
"""

from __future__ import annotations

import datetime as dt
import errno
import os
import stat
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parsieve._core import ParsieveError, UnsupportedError
from parsieve.errors import ConflictError
from parsieve.io import in_place
from parsieve.io.fd import BINARY, version_token
from parsieve.io.names import refuse_special
from parsieve.io.object_store import os_errors
from parsieve.io.remote_speed import remote_speed

Range = tuple[int, int]
Bytes = bytes | bytearray | memoryview

# Two ranges are read with one request if the gap between them is at most this long: on a local disk, reading unneeded
# bytes costs more than another request.
LOCAL_GAP = 4 * 1024
# Keys under which filesystems report the ETag of an object.
ETAGS = ("ETag", "etag", "e_tag")
# Keys under which filesystems of fsspec report the time at which a file was written.
WRITTEN = ("mtime", "LastModified", "last_modified", "created")


class Source(ABC):
    """The bytes of one file, read by ranges."""

    # The longest gap between two ranges that are read with one request.
    gap = LOCAL_GAP
    # Whether parallel requests are possible and faster.
    concurrent = False
    # The bytes that take as long to read as one more round trip.
    round_trip_bytes = 0

    @abstractmethod
    def size(self) -> int:
        """Return the size of the file in bytes."""

    @abstractmethod
    def read(self, start: int, end: int) -> Bytes:
        """Return the bytes of a range, or only the first of them."""

    def changed(self) -> bool:
        """Return whether the file has changed since it was opened.

        Most sources return False, because they cannot tell, or because `read` raises if the file has changed.
        """
        return False

    def version(self) -> str:
        """Return the first part of this version's token in a listing of a plain folder.

        The result is "" if only the size is known.
        """
        return ""

    def close(self) -> None:  # noqa: B027 - most sources hold nothing open
        """Close what `open_source` opened."""


class _Memory(Source):
    gap = 0

    def __init__(self, data: Any) -> None:
        self._view = memoryview(data).cast("B")

    def size(self) -> int:
        return len(self._view)

    def read(self, start: int, end: int) -> Bytes:
        return self._view[start:end]


class _FileObject(Source):
    """A seekable file object, which the caller closes."""

    def __init__(self, file: Any) -> None:
        self._file = file
        # Keeps a seek and the read after it together.
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
    """A local file. Closing it is optional: the descriptor is closed when the object is garbage-collected."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        refuse_special(path)
        self._fd = os.open(path, os.O_RDONLY | BINARY)
        self._close = weakref.finalize(self, os.close, self._fd)
        self._lock = threading.Lock()
        state = os.fstat(self._fd)
        self._opened = state
        self._version = version_token(state) + "-"
        if stat.S_ISDIR(state.st_mode):
            self.close()
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self._opened.st_size

    def changed(self) -> bool:
        """Return whether the file was changed, so that offsets in the old footer are invalid."""
        if not self._close.alive:
            return False
        now, then = os.fstat(self._fd), self._opened
        if (now.st_size, now.st_mtime_ns) != (then.st_size, then.st_mtime_ns):
            return True
        # Programs can set the modification time, but not the ctime. Replacing the file by another one also changes the
        # ctime of the old inode, because it loses a link, but not its bytes.
        return now.st_ctime_ns != then.st_ctime_ns and now.st_nlink >= then.st_nlink

    def version(self) -> str:
        """Return the complete token of this version."""
        return self._version

    def read(self, start: int, end: int) -> Bytes:
        """Return the bytes of a range, or only the first of them."""
        # Once the descriptor is closed, the system may reuse its number for another file.
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
    concurrent = True

    def __init__(self, filesystem: Any, path: str) -> None:
        speed = remote_speed()
        self.gap, self.round_trip_bytes = speed.gap, speed.round_trip_bytes
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
    # The time at which this version was written, if it is known.
    written: Any = None

    def size(self) -> int:
        with any_os_errors(self._path):
            info = self._filesystem.info(self._path)
        size = size_of(info, self._path)
        self._version = tagged(size, next((info[name] for name in ETAGS if info.get(name)), None))
        self.written = written_at(info)
        return size

    def version(self) -> str:
        return self._version

    def read(self, start: int, end: int) -> Bytes:
        with any_os_errors(self._path):
            data: bytes = self._filesystem.cat_file(self._path, start=start, end=end)
        if len(data) > end - start:
            # The first bytes of the file would be taken for those of the range.
            raise OSError(
                errno.EIO,
                f"the server ignores range requests (it sent {len(data)} bytes instead of {end - start}); download the "
                "file first",
                self._path,
            )
        return data


class _Obstore(_Remote):
    # The ETag of this version of the object, if the store has ETags.
    _tag: str | None = None
    _version = ""

    def size(self) -> int:
        with os_errors(self._path):
            head = self._filesystem.head(self._path)
        self._tag = head.get("e_tag")
        self._version = tagged(head["size"], self._tag)
        return int(head["size"])

    def version(self) -> str:
        return self._version

    def read(self, start: int, end: int) -> Bytes:
        if self._tag is None:
            with os_errors(self._path):
                return memoryview(self._filesystem.get_range(self._path, start=start, end=end))
        # Offsets in the footer of one version are invalid in another version.
        options = {"range": (start, end), "if_match": self._tag}
        try:
            with os_errors(self._path):
                return memoryview(self._filesystem.get(self._path, options=options).bytes())
        except Exception as error:
            if type(error.__cause__ or error).__name__ != "PreconditionError":
                raise
            raise ConflictError(f"{self._path} was replaced while it was read; open it again") from error


class _FsspecVersion(_Fsspec):
    """One version of a file on fsspec, which has no conditional reads. `changed` compares the versions again."""

    def __init__(self, filesystem: Any, path: str) -> None:
        super().__init__(filesystem, path)
        # Look up the version only once, because a later lookup may return another version.
        self._size = super().size()

    def size(self) -> int:
        return self._size

    def changed(self) -> bool:
        self._filesystem.invalidate_cache()
        now = _Fsspec(self._filesystem, self._path)
        # A file that was replaced and then restored has the same ETag, but was written later.
        return (now.size(), now.version()) != (self._size, self._version) or are_other_times(now.written, self.written)


class _PyArrowVersion(_PyArrow):
    """One version of a file on pyarrow, whose filesystems return no version with the bytes."""

    def __init__(self, filesystem: Any, path: str, token: str) -> None:
        super().__init__(filesystem, path)
        self._token = token

    def changed(self) -> bool:
        info = self._filesystem.get_file_info(self._path)
        return self._token != "" and f"{info.size}-{info.mtime_ns}" != self._token


class _ObstoreVersion(_Remote):
    """One version of an object. A read returns the object's size and ETag with the bytes."""

    def __init__(self, filesystem: Any, path: str, size: int, token: str) -> None:
        super().__init__(filesystem, path)
        self._size = size
        self._token = token
        # The ETag that the first read returned.
        self._tag: str | None = None

    def size(self) -> int:
        return self._size

    def version(self) -> str:
        return f"{self._token}-" if self._token else ""

    def read(self, start: int, end: int) -> Bytes:
        options: dict[str, Any] = {"range": (start, end)}
        if self._tag is not None:
            options["if_match"] = self._tag
        try:
            with os_errors(self._path):
                result = self._filesystem.get(self._path, options=options)
                meta, data = result.meta, memoryview(result.bytes())
        except Exception as error:
            if type(error.__cause__ or error).__name__ != "PreconditionError":
                raise
            raise _other_version(self._path) from error
        tag = meta.get("e_tag")
        if meta["size"] != self._size or not _is_version(self._token, tagged(meta["size"], tag)):
            raise _other_version(self._path)
        self._tag = tag
        return data


@contextmanager
def any_os_errors(where: object) -> Iterator[None]:
    """Raise the errors of any library as `OSError`. A filesystem of fsspec may raise any exception."""
    try:
        yield
    except (OSError, ParsieveError):
        raise
    except Exception as error:
        raise OSError(errno.EIO, f"{where}: {type(error).__name__}: {error}") from error


def size_of(info: Mapping[str, Any], path: str) -> int:
    """Return the size of a file, as a filesystem of fsspec reports it. Some HTTP servers do not state it."""
    if info["size"] is None:
        raise UnsupportedError(f"the server does not state the size of {path}; download the file first")
    return int(info["size"])


def written_at(info: Mapping[str, Any]) -> Any:
    """Return the time at which a file was written, as a filesystem of fsspec reports it, or None."""
    return next((info[name] for name in WRITTEN if info.get(name)), None)


def are_other_times(left: Any, right: Any) -> bool:
    """Return whether two times at which a file was written differ. A listing may have fractions of seconds, or not."""
    if (
        isinstance(left, dt.datetime)
        and isinstance(right, dt.datetime)
        and not (left.microsecond and right.microsecond)
    ):
        left, right = left.replace(microsecond=0), right.replace(microsecond=0)
    return bool(left != right)


def open_version(source: Any, size: int, token: str) -> Source:
    """Open one version of a file, given by its size and by its token in a listing of a plain folder, or "" if unknown.

    Raises `ConflictError` if the file is another version. This also applies to later reads of the source, or its method
    `changed` then returns True. Opening an object of obstore sends no request, because each read returns the version.
    """
    if isinstance(source, tuple) and len(source) == 2 and not isinstance(source[0], str):
        filesystem, path = source[0], os.fsdecode(source[1])
        if hasattr(filesystem, "open_input_file"):
            opened: Source = _PyArrowVersion(filesystem, path, token)
        elif hasattr(filesystem, "cat_file"):
            opened = _FsspecVersion(filesystem, path)
        else:
            return _ObstoreVersion(filesystem, path, size, token)
    else:
        opened = open_source(source)
    try:
        if opened.size() != size or not _is_version(token, opened.version()):
            raise _other_version(str(source[1] if isinstance(source, tuple) else source))
    except BaseException:
        opened.close()
        raise
    return opened


def needs_listed_version(source: Any) -> bool:
    """Return whether only `open_version` can tell if a file was replaced, as on filesystems of fsspec and pyarrow."""
    return isinstance(source, tuple) and any(hasattr(source[0], name) for name in ("open_input_file", "cat_file"))


def _is_version(token: str, version: str) -> bool:
    return not token or f"{token}-".startswith(version)


def _other_version(path: str) -> ConflictError:
    return ConflictError(f"{path} was replaced since it was listed; plan again")


def tagged(size: int, tag: Any) -> str:
    """Return the first part of an object's token."""
    return f"{size}-" if tag is None else f"{size}-{str(tag).strip(chr(34))}-"


def open_source(source: Any) -> Source:
    """Open a path, bytes, a file object, a URI, or a `(filesystem, path)` pair."""
    if isinstance(source, tuple) and len(source) == 2:
        filesystem, path = source
        return _open_on(filesystem, os.fsdecode(path))
    if isinstance(source, str) and "://" in source:
        return _open_uri(source)
    if isinstance(source, Source):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _open_local(source)
    if hasattr(source, "read") and hasattr(source, "seek"):
        return _FileObject(source)
    try:
        return _Memory(source)
    except TypeError:
        raise TypeError(
            "source must be a path, bytes, a seekable binary file, a URI, or a (filesystem, path) pair of pyarrow.fs, "
            f"fsspec or obstore, not {type(source).__qualname__}"
        ) from None


def _open_local(path: str | os.PathLike[str]) -> Source:
    """Open a local file whose content is complete: not in the middle of a change in place."""
    path = os.path.expanduser(path)  # noqa: PTH111 - the path may be bytes
    while True:
        in_place.recover(path)
        file = LocalFile(path)
        # A change that started after `recover` has left a journal, or it is complete and has changed the file.
        if not in_place.has_journal(path) and not file.changed():
            return file
        file.close()


def _open_on(filesystem: Any, path: str) -> Source:
    # Recognized by their methods, so that none of the three libraries has to be imported.
    if hasattr(filesystem, "open_input_file"):
        return _PyArrow(filesystem, path)
    if hasattr(filesystem, "cat_file"):
        return _Fsspec(filesystem, path)
    if hasattr(filesystem, "get_range"):
        return _Obstore(filesystem, path)
    raise TypeError(
        f"{type(filesystem).__qualname__} is not a filesystem of pyarrow.fs or fsspec, nor a store of obstore"
    )


def _open_uri(uri: str) -> Source:
    if uri.partition("://")[0] == "file":
        return _open_local(local_path(uri))
    return _open_on(*filesystem_of(uri))


def local_path(uri: str) -> str:
    """Return the path of a file: URI."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    return url2pathname(urlsplit(uri).path)


def local_source(source: Any) -> Path | None:
    """Return the path of a local file or folder, given by its path or a file: URI, or None for any other source.

    As in `open_source`, `~` means the home folder.
    """
    if isinstance(source, str) and "://" in source:
        return Path(local_path(source)) if source.startswith("file://") else None
    # An empty text is no path, although `Path` takes it for the current folder.
    if not source or not isinstance(source, (str, os.PathLike)):
        return None
    # Unlike `Path.expanduser`, this keeps names such as `~backup.parquet`.
    return Path(os.path.expanduser(source))  # noqa: PTH111


def filesystem_of(uri: str) -> tuple[Any, str]:
    """Return the filesystem of a URI, from pyarrow.fs or else from fsspec, and the path in it."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as unknown:
        try:
            from fsspec.core import url_to_fs

            filesystem, path = url_to_fs(uri)
        except (ImportError, ValueError):
            scheme = uri.partition("://")[0]
            raise ValueError(
                f"no filesystem for {scheme}:// ({unknown}); install fsspec with its package for {scheme}, or pass a "
                "(filesystem, path) pair"
            ) from unknown
    return filesystem, path

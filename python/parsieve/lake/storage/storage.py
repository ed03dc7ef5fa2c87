"""The folder that a table lies in, on any filesystem: what files it holds, with their tokens, and how to open them."""

from __future__ import annotations

import datetime as dt
import errno
import io
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyarrow import fs

from parsieve._core import UnsupportedError
from parsieve.io import index_location
from parsieve.io.object_store import os_errors, store_at
from parsieve.io.sources import ETAGS, Source, filesystem_of, local_path, open_source
from parsieve.lake.storage.listing import COARSE_NS, NEVER, ListedFile, LocalListing, is_ignored, of_path, token_of
from parsieve.lake.storage.pinned import Version, local_version

# Stores stamp objects by their own clock, which may differ from ours.
REMOTE_NS = 60_000_000_000
# An index build waits no longer than this for files to settle, and reports those that take longer.
LONGEST_WAIT_NS = COARSE_NS + 500_000_000
# From one end of the world's clocks to the other.
ANY_ZONE_NS = 26 * 3600 * 1_000_000_000
# A time at which no file is young.
_FAR = 1 << 62


class _Ranged(io.RawIOBase):
    """A source as a file that is read by ranges."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._size = source.size()
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        data = self._source.read(self._at, end)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class Storage:
    """A folder, or a single file, on a local disk or an object store."""

    def __init__(self, source: Any, storage_options: Mapping[str, str] | None = None) -> None:
        self.options = dict(storage_options or {})
        # The filesystem's prefix of a path: engines get `prefix + path`.
        self.prefix = ""
        self.filesystem: Any = None
        if isinstance(source, tuple) and len(source) == 2:
            if not isinstance(source[1], (str, bytes, os.PathLike)):
                raise TypeError(f"a (filesystem, path) pair ends with a path, not {type(source[1]).__qualname__}")
            self.filesystem, root = _unwrapped(source[0], os.fsdecode(source[1]))
            if hasattr(self.filesystem, "get_range"):
                # Objects are named without a slash in front, however the folder was named.
                root = root.strip("/")
        elif isinstance(source, str) and "://" in source and not source.startswith("file:"):
            root = self._of_uri(source)
        elif isinstance(source, (str, os.PathLike)):
            text = os.fspath(source)
            path = local_path(text) if text.startswith("file:") else os.path.expanduser(text)  # noqa: PTH111
            root = os.path.abspath(path)  # noqa: PTH100 - no symlinks
        else:
            raise TypeError(
                "a table is the path or URI of a folder or of one file, or a (filesystem, path) pair, "
                f"not {type(source).__qualname__}"
            )
        self.root = root.rstrip("/") if len(root) > 1 else root
        self.uri = self.prefix + self.root
        self._listing = LocalListing(self.root)

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to open the same files; it lists them itself."""
        return {name: value for name, value in self.__dict__.items() if name != "_listing"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._listing = LocalListing(self.root)

    def _of_uri(self, uri: str) -> str:
        if self.options:
            try:
                # The store stands at the folder itself, so the path in it is empty.
                self.filesystem = store_at(uri, self.options)
            except UnsupportedError as error:
                raise ValueError(
                    f"storage_options for a plain folder: {error}; or give a (filesystem, path) pair"
                ) from None
            self.prefix = uri.rstrip("/") + "/"
            return ""
        self.filesystem, path = filesystem_of(uri)
        self.filesystem = _uncached(self.filesystem)
        bare = path.rstrip("/")
        trimmed = uri.rstrip("/")
        self.prefix = trimmed[: -len(bare)] if bare and trimmed.endswith(bare) else uri.partition("://")[0] + "://"
        return path

    @property
    def is_local(self) -> bool:
        """Whether paths are those of this machine."""
        return self.filesystem is None

    def address(self, path: str) -> str:
        """A path as an engine opens it."""
        return self.prefix + path

    def source(self, path: str) -> Any:
        """A path as `RangeReader` and `open_filters` take it."""
        return path if self.filesystem is None else (self.filesystem, path)

    def beside(self, name: str) -> Any:
        """A folder in this one, as a caller would name it: a path, a URI, or a (filesystem, path) pair."""
        if self.filesystem is not None and not self.prefix:
            return self.filesystem, self.join(name)
        return f"{self.uri.rstrip('/')}/{name}"

    def next_to(self) -> Any:
        """The folder for the index of this folder, outside of it, named as `beside` does; None where there is none."""
        if self.filesystem is None:
            return index_location.next_to_local(self.root)
        if self.prefix:
            return index_location.next_to_uri(self.uri)
        # Only obstore's stores begin inside a bucket.
        is_bucket_first = not hasattr(self.filesystem, "get_range") and not self.root.startswith("/")
        found = index_location.next_to(self.root, int(is_bucket_first))
        return None if found is None else (self.filesystem, found)

    def missing(self) -> FileNotFoundError:
        """The error for a folder or file that does not exist."""
        is_pattern = any(sign in self.uri for sign in "*?[")
        hint = " (a table is a folder or one file; globs are not supported)" if is_pattern else ""
        return FileNotFoundError(errno.ENOENT, f"no such file or folder{hint}", self.uri)

    def is_single_file(self) -> bool:
        """Whether this is a file of this machine by itself."""
        return self.filesystem is None and os.path.isfile(self.root)  # noqa: PTH113

    def join(self, relative: str) -> str:
        """The path of something below the folder."""
        return f"{self.root}/{relative}" if self.root else relative

    def arrow(self) -> fs.FileSystem | None:
        """The filesystem as pyarrow's; None for obstore, whose files pyarrow opens one by one."""
        if self.filesystem is None:
            return fs.LocalFileSystem()
        if isinstance(self.filesystem, fs.FileSystem):
            return self.filesystem
        if hasattr(self.filesystem, "cat_file"):
            return fs.PyFileSystem(fs.FSSpecHandler(self.filesystem))
        return None

    def open(self, path: str) -> Any:
        """A file to read, as pyarrow takes it."""
        filesystem = self.arrow()
        if filesystem is not None:
            return filesystem.open_input_file(path)
        return pa.PythonFile(_Ranged(open_source(self.source(path))), mode="r")

    def list(self) -> tuple[ListedFile, ...]:
        """All files below the folder that engines do not ignore, sorted by path; the file itself where it is one.

        The same object as last time tells that nothing changed.
        """
        return self._listing.files() if self.filesystem is None else self._remote(self.root)

    def wait(self) -> None:
        """Wait once until the files that changed a moment ago can have a token: at most one tick of the clock."""
        now = time.time_ns()
        settles = [file.settles for file in self.list() if file.size and not file.token]
        until = max((one for one in settles if one <= now + LONGEST_WAIT_NS), default=0)
        for _ in range(3):
            # The system may wake us early, or set its clock meanwhile.
            if (left := until - now) < 0:
                return
            time.sleep((min(left, LONGEST_WAIT_NS) + 1_000_000) / 1e9)
            now = time.time_ns()

    def _remote(self, root: str, now: int | None = None) -> tuple[ListedFile, ...]:
        # Taken before the listing: a file that changes while it goes on counts as changed just now.
        now = time.time_ns() if now is None else now
        if isinstance(self.filesystem, fs.FileSystem):
            found = _pyarrow(self.filesystem, root, now)
        elif hasattr(self.filesystem, "cat_file"):
            found = _fsspec(self.filesystem, root, now)
        else:
            found = _obstore(self.filesystem, root, now)
        return tuple(sorted(found))

    def names(self, below: str = "") -> set[str]:
        """The names in the folder or in one below it; none where there is no such folder."""
        path = self.join(below) if below else self.root
        if self.filesystem is None:
            return set(os.listdir(path)) if os.path.isdir(path) else set()  # noqa: PTH112, PTH208
        if isinstance(self.filesystem, fs.FileSystem):
            if self.filesystem.get_file_info(path).type != fs.FileType.Directory:
                return set()
            return {info.base_name for info in self.filesystem.get_file_info(fs.FileSelector(path))}
        if hasattr(self.filesystem, "cat_file"):
            self.filesystem.invalidate_cache()
            found = self.filesystem.ls(path, detail=False) if self.filesystem.isdir(path) else []
            return {one.rstrip("/").rsplit("/", 1)[-1] for one in found}
        import obstore

        with os_errors(self.uri or self.filesystem):
            listed = obstore.list_with_delimiter(self.filesystem, prefix=path or None)
        paths = [*listed["common_prefixes"], *(meta["path"] for meta in listed["objects"])]
        return {one.rstrip("/").rsplit("/", 1)[-1] for one in paths}

    def marks(self, below: str) -> dict[str, str | None]:
        """What lies in a folder below this one, with what proves that each file is still the same; None for folders.

        "" is a file that changed just now. Where only its name is known, the name stands for a file.
        """
        path = self.join(below)
        if self.filesystem is not None:
            return dict.fromkeys(self.names(below), "named")
        if not os.path.isdir(path):  # noqa: PTH112
            return {}
        now = time.time_ns()
        found: dict[str, str | None] = {}
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    found[entry.name] = None if entry.is_dir() else of_path(entry.path, now).token
                except FileNotFoundError:
                    # Gone since the folder was read.
                    continue
        return found

    def modified(self, path: str) -> dt.datetime:
        """When a file was written, by the filesystem's clock."""
        if self.filesystem is None:
            return dt.datetime.fromtimestamp(os.stat(path).st_mtime, dt.UTC)  # noqa: PTH116
        if hasattr(self.filesystem, "get_range"):
            written: dt.datetime = self.filesystem.head(path)["last_modified"]
            return written
        filesystem = self.arrow()
        assert filesystem is not None
        return filesystem.get_file_info(path).mtime or dt.datetime.now(dt.UTC)

    def version(self, path: str) -> Version:
        """Return what tells the file as it is now from its other versions, however young it is."""
        if self.filesystem is None:
            return local_version(os.stat(path))  # noqa: PTH116
        for file in self._remote(path, _FAR):
            return Version(file.token, file.size, proof=self._proof(path))
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def _proof(self, path: str) -> str:
        """What a store says of a version where a listing says too little."""
        if hasattr(self.filesystem, "cat_file"):
            return str(self.filesystem.ukey(path))
        if isinstance(self.filesystem, fs.FileSystem) and not isinstance(self.filesystem, fs.PyFileSystem):
            with self.filesystem.open_input_file(path) as file:
                said = file.metadata() or {}
            return "-".join(str(said.get(name, "")) for name in (b"ETag", b"VersionId"))
        return ""

    def stat(self, path: str) -> str:
        """The token of one file now, to see that nobody changed it while it was read."""
        if self.filesystem is None:
            return of_path(path, time.time_ns()).token
        for file in self._remote(path):
            return file.token
        raise FileNotFoundError(path)


def _unwrapped(filesystem: Any, root: str) -> tuple[Any, str]:
    """A filesystem without what only stands before it; none for this machine's, whose files have more than a time."""
    filesystem = _uncached(filesystem)
    match type(filesystem).__name__:
        case "SubTreeFileSystem":
            return _unwrapped(filesystem.base_fs, f"{filesystem.base_path.rstrip('/')}/{root.lstrip('/')}")
        case "DirFileSystem":
            return _unwrapped(filesystem.fs, f"{filesystem.path.rstrip('/')}/{root.lstrip('/')}")
        case "LocalFileSystem":
            return None, root
        case "LocalStore":
            # Its paths begin at its own folder, or else at the root of all.
            return None, os.path.join(filesystem.prefix or "/", root.lstrip("/"))  # noqa: PTH118
    return filesystem, root


def _uncached(filesystem: Any) -> Any:
    """A filesystem of fsspec's without what remembers files or lists of them: it tells new tokens and gives old rows.

    Pyarrow's handler stands before one that remembers lists, and cannot have it forget them.
    """
    while True:
        kinds = {kind.__name__ for kind in type(filesystem).__mro__}
        if "PyFileSystem" in kinds and type(filesystem.handler).__name__ == "FSSpecHandler":
            filesystem = filesystem.handler.fs
        elif "CachingFileSystem" in kinds and hasattr(filesystem, "cat_file"):
            filesystem = filesystem.fs
        else:
            return filesystem


def _below(path: str, root: str) -> str:
    """A listed path as it is called in the folder that was listed."""
    inside, folder = path.lstrip("/"), root.strip("/")
    if folder and not inside.startswith(folder + "/"):
        raise UnsupportedError(f"the filesystem lists {path!r} in {root!r}; name the folder as it does")
    return inside[len(folder) + 1 if folder else 0 :]


def _visible(relative: str) -> bool:
    return not any(map(is_ignored, relative.split("/")))


def _pyarrow(filesystem: fs.FileSystem, root: str, now: int) -> Iterator[ListedFile]:
    whole = filesystem.get_file_info(root)
    if whole.type == fs.FileType.File:
        found, single = [whole], True
    else:
        found, single = filesystem.get_file_info(fs.FileSelector(root, recursive=True)), False
    for info in found:
        relative = info.base_name if single else _below(info.path, root)
        if info.type == fs.FileType.File and (single or _visible(relative)):
            changed = info.mtime_ns or now
            yield ListedFile(relative, info.path, info.size, *token_of((info.size, changed), changed, now, REMOTE_NS))


def _etag_token(details: Callable[[str], Any], size: int, changed: Any, now: int) -> tuple[str, int]:
    """The token of an object: its tag where the store gives one, else its time, once that is long enough ago."""
    for name in ETAGS:
        if tag := details(name):
            return f"{size}-{str(tag).strip(chr(34))}", 0
    if changed is None:
        return "", NEVER
    seconds = changed if isinstance(changed, (int, float)) else changed.timestamp()
    # A time without a zone may be that of any zone.
    doubt = ANY_ZONE_NS if getattr(changed, "tzinfo", now) is None else 0
    return token_of((size, seconds), int(seconds * 1e9), now, REMOTE_NS + doubt)


def _fsspec(filesystem: Any, root: str, now: int) -> Iterator[ListedFile]:
    # A listing that fsspec remembers from earlier would hide what changed since.
    filesystem.invalidate_cache()
    folder, single = filesystem._strip_protocol(root), filesystem.isfile(root)
    found = {root: filesystem.info(root)} if single else filesystem.find(root, detail=True)
    for path, info in found.items():
        relative = path.rsplit("/", 1)[-1] if single else _below(path, folder)
        if info.get("type", "file") == "file" and (single or _visible(relative)):
            changed = next((info[name] for name in ("mtime", "LastModified", "last_modified") if info.get(name)), None)
            yield ListedFile(relative, path, info["size"], *_etag_token(info.get, info["size"], changed, now))


def _obstore(store: Any, root: str, now: int) -> Iterator[ListedFile]:
    import obstore

    with os_errors(root or store):
        found = [meta for chunk in obstore.list(store, prefix=root or None) for meta in chunk]
        if not found and root:
            found = [obstore.head(store, root)]
    for meta in found:
        path = meta["path"]
        single = path == root
        relative = path.rsplit("/", 1)[-1] if single else _below(path, root)
        if single or _visible(relative):
            token, settles = _etag_token(meta.get, meta["size"], meta.get("last_modified"), now)
            if type(store).__name__ == "MemoryStore":
                # Each such store counts its tags from nothing, and the index may lie elsewhere and outlive it.
                token += f"-{meta['last_modified'].isoformat()}"
            yield ListedFile(relative, path, meta["size"], token, settles)

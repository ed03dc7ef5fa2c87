"""List and open the files of a table's folder on any filesystem, with a token for each file."""

from __future__ import annotations

import datetime as dt
import errno
import io
import os
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from parsieve._core import FormatError, UnsupportedError
from parsieve.io import in_place, index_location
from parsieve.io.names import NO_FILE, is_link_to_parent, refuse_special
from parsieve.io.object_store import store_at
from parsieve.io.sources import Source, filesystem_of, local_path, open_source, open_version, written_at
from parsieve.lake.storage.listing import (
    COARSE_NS,
    Listing,
    LocalListing,
    of_path,
)
from parsieve.lake.storage.remote_listing import find_file, list_files, names_in, sizes_below
from parsieve.lake.storage.version import Version, local_version

# The longest time that an index build waits until files can have a token. It reports files that need longer.
LONGEST_WAIT_NS = COARSE_NS + 500_000_000
# A time so late that no file counts as just changed.
_FAR_FUTURE = 1 << 62


class _Ranged(io.RawIOBase):
    """A file object that reads ranges of a source."""

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
        # The libraries of formats accept only texts, but users also write True.
        given: dict[str, Any] = dict(storage_options or {})
        self.options = {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
        # Engines open `prefix + path`.
        self.prefix = ""
        self.filesystem: Any = None
        if isinstance(source, tuple) and len(source) == 2:
            if not isinstance(source[1], (str, bytes, os.PathLike)):
                raise TypeError(f"a (filesystem, path) pair must end with a path, not {type(source[1]).__qualname__}")
            self.filesystem, root = _unwrapped(source[0], os.fsdecode(source[1]))
            if hasattr(self.filesystem, "get_range"):
                # The names of objects have no leading slash.
                root = root.strip("/")
        elif isinstance(source, str) and "://" in source and not source.startswith("file:"):
            root = self._of_uri(source)
        elif isinstance(source, (str, os.PathLike)):
            text = os.fspath(source)
            if text.startswith("file:"):
                _check_path_of(text, "?#")
                path = local_path(text)
            else:
                path = os.path.expanduser(text)  # noqa: PTH111
            root = os.path.abspath(path)  # noqa: PTH100 - no symlinks
        else:
            raise TypeError(
                "a table must be the path or URI of a folder or of one file, a (filesystem, path) pair, a DeltaTable, "
                f"or a table that a catalog of pyiceberg has loaded, not {type(source).__qualname__}"
            )
        self.root = root.rstrip("/") if len(root) > 1 else root
        self.uri = self.prefix + self.root
        # The same address for libraries, which decode the escapes of a URI.
        self.encoded_uri = self.uri
        if not self.is_local and self.prefix:
            self.encoded_uri = str(source).partition("?")[0].rstrip("/")
        self._listing = LocalListing(self.root)
        self._buckets: dict[str, Storage] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return everything except the cached listing. Another process lists the files itself."""
        return {name: value for name, value in self.__dict__.items() if name != "_listing"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._listing = LocalListing(self.root)

    def _of_uri(self, uri: str) -> str:
        # pyarrow takes options after a question mark.
        _check_path_of(uri, "?#" if self.options else "#")
        if self.options:
            # The store begins at the folder itself, so the path in it is empty. A file needs a path in a store.
            folder, _, name = uri.rstrip("/").rpartition("/")
            if "://" not in folder or "%" in name or not name.endswith(".parquet"):
                folder, name = uri.rstrip("/"), ""
            try:
                self.filesystem = store_at(folder, self.options)
            except UnsupportedError as error:
                raise ValueError(
                    f"storage_options for a plain folder: {error}; or pass a (filesystem, path) pair"
                ) from None
            self.prefix = folder + "/"
            return name
        self.filesystem, path = filesystem_of(uri)
        self.filesystem = _uncached(self.filesystem)
        bare = path.rstrip("/")
        trimmed = uri.rstrip("/")
        self.prefix = trimmed[: -len(bare)] if bare and trimmed.endswith(bare) else uri.partition("://")[0] + "://"
        return path

    @property
    def is_local(self) -> bool:
        """Return whether the folder is on a local disk."""
        return self.filesystem is None

    def address(self, path: str) -> str:
        """Return a path in the form that engines open."""
        return self.prefix + path

    def source(self, path: str) -> Any:
        """Return a path in the form that `RangeReader` and `open_filters` accept."""
        return path if self.filesystem is None else (self.filesystem, path)

    def bucket(self, uri: str) -> Storage:
        """Return the storage of a bucket with the options of this one. Each bucket is opened once."""
        if uri not in self._buckets:
            self._buckets[uri] = Storage(uri, self.options)
        return self._buckets[uri]

    def folder_address(self, name: str) -> Any:
        """Return the address of a folder inside this one: a path, a URI, or a (filesystem, path) pair."""
        if self.filesystem is not None and not self.prefix:
            return self.filesystem, self.join(name)
        return f"{self.encoded_uri.rstrip('/')}/{name}"

    def next_to(self) -> Any:
        """Return the address of the folder for the index outside this folder, as `folder_address` does, or None."""
        if self.filesystem is None:
            return index_location.next_to_local(self.root)
        if self.prefix:
            return index_location.next_to_uri(self.uri)
        # The paths of obstore's stores do not contain the bucket. In other stores, it is the first part of the path.
        is_bucket_first = not hasattr(self.filesystem, "get_range") and not self.root.startswith("/")
        path = index_location.next_to(self.root, int(is_bucket_first))
        return None if path is None else (self.filesystem, path)

    def missing(self) -> FileNotFoundError:
        """Return the error for a folder or file that does not exist."""
        is_pattern = any(character in self.uri for character in "*?[")
        hint = " (a table is a folder or one file; globs are not supported)" if is_pattern else ""
        return FileNotFoundError(errno.ENOENT, f"no such file or folder{hint}", self.uri)

    def is_single_file(self) -> bool:
        """Return whether this is a single local file."""
        return self.filesystem is None and os.path.isfile(self.root)  # noqa: PTH113

    def join(self, relative: str) -> str:
        """Return the path of a file or folder below this folder."""
        return f"{self.root.rstrip('/')}/{relative}" if self.root else relative

    def arrow(self) -> fs.FileSystem | None:
        """Return the filesystem for pyarrow, or None for obstore, which pyarrow cannot use as a filesystem."""
        if self.filesystem is None:
            return fs.LocalFileSystem()
        if isinstance(self.filesystem, fs.FileSystem):
            return self.filesystem
        if hasattr(self.filesystem, "cat_file"):
            return fs.PyFileSystem(fs.FSSpecHandler(self.filesystem))
        return None

    def open(self, path: str) -> Any:
        """Open a file for pyarrow."""
        if "\0" in path:
            raise FormatError(f"{path!r} contains a null character, so it is not the path of a file")
        if self.is_local:
            refuse_special(path)
            in_place.recover(path)
        filesystem = self.arrow()
        if filesystem is not None:
            return filesystem.open_input_file(path)
        return pa.PythonFile(_Ranged(open_source(self.source(path))), mode="r")

    def open_listed(self, path: str, size: int, token: str) -> Any:
        """Open the version of a file that a listing had. An object of obstore raises `ConflictError` if it has another.

        On other filesystems, compare `stat` and `written` afterwards.
        """
        if self.filesystem is None or self.arrow() is not None:
            return self.open(path)
        return pa.PythonFile(_Ranged(open_version(self.source(path), size, token)), mode="r")

    def list(self) -> Listing:
        """Return all files below the folder that engines do not ignore, sorted by path, or the single file.

        If nothing in a local folder changed, the result is the same object as in the last call.
        """
        if self.filesystem is None:
            return self._listing.files()
        # Read the clock first, so that a file that changes during the listing counts as just changed.
        return Listing.of(list_files(self.filesystem, self.root, time.time_ns()))

    def wait(self) -> None:
        """Wait once until files that just changed can have a token, for at most `LONGEST_WAIT_NS`."""
        now = time.time_ns()
        columns = self.list().columns
        is_young = pc.and_(pc.greater(columns["size"], 0), pc.equal(columns["token"], ""))
        times = columns["settles"].filter(is_young).to_pylist()
        until = max((settles for settles in times if settles <= now + LONGEST_WAIT_NS), default=0)
        for _ in range(3):
            # `sleep` may return early, and the clock may be set meanwhile.
            if (remaining := until - now) < 0:
                return
            time.sleep((min(remaining, LONGEST_WAIT_NS) + 1_000_000) / 1e9)
            now = time.time_ns()

    def names(self, below: str = "") -> set[str]:
        """Return the names in the folder or in a folder below it. A missing folder has none."""
        path = self.join(below) if below else self.root
        if self.filesystem is None:
            return set(os.listdir(path)) if os.path.isdir(path) else set()  # noqa: PTH112, PTH208
        return names_in(self.filesystem, path, self.uri or self.filesystem)

    def sizes(self, skip: Collection[str] = ()) -> Iterator[tuple[str, int | None]]:
        """Yield the paths and the sizes of all files below this folder, including files that engines ignore.

        Local files have the size None, because a listing does not contain it. Leave out the files below the folders
        whose names are in `skip`.
        """
        if self.filesystem is not None:
            for path, size in sizes_below(self.filesystem, self.root):
                if path.split("/", 1)[0] not in skip:
                    yield path, size
            return
        for folder, folders, names in os.walk(self.root, onerror=_raise_unless_gone, followlinks=True):
            below = os.path.relpath(folder, self.root)
            prefix = "" if below == "." else f"{below}/".replace(os.sep, "/")
            listed = folders if prefix else [name for name in folders if name not in skip]
            folders[:] = [name for name in listed if not is_link_to_parent(f"{folder}/{name}", self.root)]
            yield from ((prefix + name, None) for name in names)

    def contained(self, *names: str) -> set[str]:
        """Return which of the names are in the folder. Do not list a local folder, which can be large."""
        if self.filesystem is not None:
            return self.names() & set(names)
        return {name for name in names if os.path.lexists(self.join(name))}

    def marks(self, below: str) -> dict[str, str | None]:
        """Return the names in a folder below this one, each with the token of the file, or None for a folder.

        The token is "" for a local file that just changed. In a remote folder, all tokens are "named".
        """
        path = self.join(below)
        if self.filesystem is not None:
            return dict.fromkeys(self.names(below), "named")
        if not os.path.isdir(path):  # noqa: PTH112
            return {}
        now = time.time_ns()
        tokens: dict[str, str | None] = {}
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    tokens[entry.name] = None if entry.is_dir() else of_path(entry.path, now).token
                except FileNotFoundError:
                    # Deleted since the folder was listed.
                    continue
        return tokens

    def modified(self, path: str) -> dt.datetime:
        """Return the time at which a file was written, by the filesystem's clock."""
        if self.filesystem is None:
            return dt.datetime.fromtimestamp(os.stat(path).st_mtime, dt.UTC)  # noqa: PTH116
        if hasattr(self.filesystem, "get_range"):
            written: dt.datetime = self.filesystem.head(path)["last_modified"]
            return written
        filesystem = self.arrow()
        assert filesystem is not None
        return filesystem.get_file_info(path).mtime or dt.datetime.now(dt.UTC)

    def version(self, path: str) -> Version:
        """Return the properties that identify the present version of a file, even if it just changed."""
        if self.filesystem is None:
            return local_version(os.stat(path))  # noqa: PTH116
        file = find_file(self.filesystem, path, _FAR_FUTURE)
        return Version(file.token, file.size, proof=self._proof(path))

    def _proof(self, path: str) -> str:
        """Return properties of a version that a listing of the store does not contain."""
        if hasattr(self.filesystem, "cat_file"):
            return str(self.filesystem.ukey(path))
        if isinstance(self.filesystem, fs.FileSystem) and not isinstance(self.filesystem, fs.PyFileSystem):
            with self.filesystem.open_input_file(path) as file:
                metadata = file.metadata() or {}
            return "-".join(str(metadata.get(name, "")) for name in ("ETag", "VersionId", "generation"))
        return ""

    def written(self, path: str) -> Any:
        """Return when a file was written, or None if its token proves that it was not replaced and then restored.

        ETags of many stores depend on the bytes only, so the restored file has the same one. Filesystems of fsspec read
        the present version of a file. obstore reads one version, and the tokens of other filesystems contain the time.
        """
        if not hasattr(self.filesystem, "cat_file"):
            return None
        self.filesystem.invalidate_cache()
        return written_at(self.filesystem.info(path))

    def stat(self, path: str) -> str:
        """Return the current token of a file. Compare it with an earlier one to notice changes during a read."""
        if self.filesystem is None:
            return of_path(path, time.time_ns()).token
        return find_file(self.filesystem, path, time.time_ns()).token


def _check_path_of(uri: str, ends: str) -> None:
    """Raise `ValueError` if a character ends the path of a URI. Libraries would open the folder named before it."""
    if any(character in uri for character in ends):
        raise ValueError(f"{uri} contains ? or #, which end the path of a URI; write %3F for ? and %23 for #")


def _raise_unless_gone(error: OSError) -> None:
    if error.errno not in NO_FILE:
        raise error


def _unwrapped(filesystem: Any, root: str) -> tuple[Any, str]:
    """Return the filesystem below wrappers for subfolders and caches, and the path of `root` in it.

    Return None for a local filesystem: `stat` returns more properties of its files than the wrapper does.
    """
    filesystem = _uncached(filesystem)
    match type(filesystem).__name__:
        case "SubTreeFileSystem":
            return _unwrapped(filesystem.base_fs, f"{filesystem.base_path.rstrip('/')}/{root.lstrip('/')}")
        case "DirFileSystem":
            return _unwrapped(filesystem.fs, f"{filesystem.path.rstrip('/')}/{root.lstrip('/')}")
        case "LocalFileSystem":
            return None, root
        case "LocalStore":
            # Paths are relative to the prefix of the store. Without a prefix, they start at the root of the disk.
            return None, os.path.join(filesystem.prefix or "/", root.lstrip("/"))  # noqa: PTH118
    return filesystem, root


def _uncached(filesystem: Any) -> Any:
    """Return an fsspec filesystem without its caches of files, which return old rows along with new tokens.

    Also remove the wrapper of pyarrow, through which the cached listings of fsspec could not be invalidated.
    """
    while True:
        kinds = {kind.__name__ for kind in type(filesystem).__mro__}
        if "PyFileSystem" in kinds and type(filesystem.handler).__name__ == "FSSpecHandler":
            filesystem = filesystem.handler.fs
        elif "CachingFileSystem" in kinds and hasattr(filesystem, "cat_file"):
            filesystem = filesystem.fs
        else:
            return filesystem

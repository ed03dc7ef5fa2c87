"""An index in a local folder."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from parsieve._core import UnsupportedError
from parsieve.errors import ConflictError
from parsieve.io import fd as descriptors
from parsieve.io.fd import BINARY, sync_folder
from parsieve.io.store.base import Data, Store, Stored, chunks_of

TEMPORARY = ".tmp-"

# Up to this many ranges of a local file are read faster than threads start.
FEW_RANGES = 200


class LocalStore(Store):
    """A folder on this machine. A file has reached the disk when `put` or `put_if_absent` returns."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__()
        self.root = Path(folder)

    def __str__(self) -> str:
        return str(self.root)

    def threads_for(self, num_ranges: int) -> int:
        """Return how many threads to read this many ranges with."""
        return super().threads_for(num_ranges) if num_ranges > FEW_RANGES else 1

    def _is_below_a_file(self) -> bool:
        """Return whether the table is a single file, which cannot contain a folder."""
        return self.root.parent.is_file()

    def _is_a_file(self) -> UnsupportedError:
        return UnsupportedError(
            f"the index location {self.root} is a file, not a folder; pass a folder, which need not exist yet, as "
            "index_location="
        )

    def _get(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def _get_range(self, name: str, start: int, end: int) -> bytes:
        with (self.root / name).open("rb", buffering=0) as file:
            file.seek(start)
            chunks = []
            while start < end and (chunk := file.read(end - start)):
                chunks.append(chunk)
                start += len(chunk)
            return b"".join(chunks)

    def put(self, name: str, data: Data) -> None:
        """Write a file."""
        with naming_index_folder(self.root / name):
            temporary = self._write(name, chunks_of(data))
            try:
                temporary.replace(self.root / name)
            except FileNotFoundError as error:
                raise ConflictError(
                    f"{temporary}: another process removed this unfinished file or its folder; run it again"
                ) from error
            except BaseException:
                _remove(temporary)
                raise
            sync_folder((self.root / name).parent)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file unless its name is taken."""
        target = self.root / name
        if target.exists():
            return False
        with naming_index_folder(target):
            temporary = self._write(name, [data])
            try:
                _publish(temporary, target)
            except FileExistsError:
                return False
            finally:
                _remove(temporary)
            sync_folder(target.parent)
        return True

    def require_writable(self) -> None:
        """Raise an error if the folder cannot be written to or created."""
        if self.root.is_file():
            raise self._is_a_file()
        if self._is_below_a_file():
            raise UnsupportedError(
                f"{self.root.parent} is a file, and an index needs a folder: pass one as index_location=, or "
                "open the file's folder as a table"
            )
        existing = next((folder for folder in [self.root, *self.root.absolute().parents] if folder.is_dir()), None)
        if existing is not None and not os.access(existing, os.W_OK | os.X_OK):
            number = errno.EROFS if _is_read_only(existing) else errno.EACCES
            with naming_index_folder(self.root):
                raise OSError(number, os.strerror(number))

    def _write(self, name: str, chunks: Iterable[bytes]) -> Path:
        """Write a complete file to the disk under a temporary name, and return its path."""
        folder = (self.root / name).parent
        if not folder.is_dir():
            if self._is_below_a_file():
                self.require_writable()
            folder.mkdir(parents=True, exist_ok=True)
            for created in [folder, *folder.parents][: len(folder.relative_to(self.root).parts) + 2]:
                sync_folder(created)
        temporary = folder / f"{TEMPORARY}{secrets.token_hex(8)}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
        try:
            try:
                end = 0
                for chunk in chunks:
                    descriptors.write(fd, end, chunk)
                    end += len(chunk)
                os.fsync(fd)
            finally:
                os.close(fd)
        except BaseException:
            _remove(temporary)
            raise
        return temporary

    def list(self, folder: str, after: str = "") -> list[Stored]:
        """Return the files of a folder, or those whose names are greater than `after`."""
        files = []
        last = after.removeprefix(f"{folder}/")
        no_folder = (FileNotFoundError, NotADirectoryError) if self._is_below_a_file() else (FileNotFoundError,)
        try:
            with contextlib.suppress(*no_folder), os.scandir(self.root / folder) as entries:
                for entry in entries:
                    if entry.name <= last:
                        continue
                    # A file may be deleted after it is listed.
                    with contextlib.suppress(FileNotFoundError):
                        state = entry.stat()
                        files.append(Stored(f"{folder}/{entry.name}", state.st_size, state.st_mtime))
        except NotADirectoryError as error:
            if self.root.is_file():
                raise self._is_a_file() from error
            raise
        return sorted(files)

    def delete(self, name: str) -> None:
        """Remove a file."""
        (self.root / name).unlink(missing_ok=True)


@contextlib.contextmanager
def naming_index_folder(path: Path) -> Iterator[None]:
    """Add the path to disk errors, and a remedy if the folder cannot be written to."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint = f"{error.strerror}; allow writing there, or store the index elsewhere, with index_location=PLACE"
            raise OSError(error.errno, hint, str(path)) from error
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def _is_read_only(folder: Path) -> bool:
    return hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _publish(temporary: Path, target: Path) -> None:
    """Rename a file to its final name, atomically, unless that name is taken."""
    if os.name == "nt":
        # On Windows a rename never replaces a file.
        temporary.rename(target)
        return
    try:
        target.hardlink_to(temporary)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise UnsupportedError(
                f"the filesystem of {target.parent} does not support hard links, so an index cannot be committed there "
                "safely; store it in another folder or in an object store"
            ) from error
        raise


def _remove(temporary: Path) -> None:
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)

"""An index in an object store."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from parsieve._core import UnsupportedError
from parsieve.io.object_store import os_errors
from parsieve.io.remote_speed import remote_speed
from parsieve.io.store.base import Data, Store, Stored, chunks_of


class ObjectStore(Store):
    """A folder in a bucket, accessed through an obstore store."""

    @property
    def gap(self) -> int:
        """The longest gap between two ranges that are read with one request."""
        return remote_speed().gap

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
        self._uri = name
        self._name = name or f"{store!r}/{self._prefix}"

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        import obstore

        super().__setstate__(state)
        self._obstore = obstore

    @property
    def location(self) -> tuple[Any, str]:
        """Return the URI that was opened, or else the obstore store, and the path of the folder in it."""
        return self._store if self._uri is None else self._uri, self._prefix

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
        # A multipart upload is not conditional, which is safe because no other writer uses this name.
        source = data if isinstance(data, bytes) else chunks_of(data)
        with os_errors(self):
            self._obstore.put(self._store, self._prefix + name, source)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file unless its name is taken."""
        from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

        try:
            self._obstore.put(self._store, self._prefix + name, data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        except (NotImplementedError, NotSupportedError) as error:
            raise UnsupportedError(
                f"{self}: the store cannot create a file only if it does not exist, so two writers could overwrite "
                "each other; allow conditional puts in its options, or store the index elsewhere, with "
                "index_location=PLACE"
            ) from error
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise OSError(f"{self}/{name}: the write failed, but may have reached the store: {reason}") from error
        return True

    def list(self, folder: str, after: str = "") -> list[Stored]:
        """Return the files of a folder, or those whose names are greater than `after`."""
        files = []
        offset = self._prefix + after if after else None
        with os_errors(self):
            for page in self._obstore.list(self._store, f"{self._prefix}{folder}/", offset=offset):
                for meta in page:
                    name = meta["path"].removeprefix(self._prefix)
                    files.append(Stored(name, int(meta["size"]), meta["last_modified"].timestamp()))
        self._count(0)
        return sorted(files)

    def delete(self, name: str) -> None:
        """Remove a file."""
        with contextlib.suppress(FileNotFoundError), os_errors(self):
            self._obstore.delete(self._store, self._prefix + name)

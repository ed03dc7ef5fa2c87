"""The files that a version references, one by one or in groups."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from parsieve._core import FormatError
from parsieve.io import document
from parsieve.io.store.base import Store
from parsieve.io.store.local import TEMPORARY

# The folder of maps of pages in a store.
PAGES = "pages"
# The folder of lists of files that are about to be deleted.
NOTICES = "garbage"
# Ids of slices are numbers of 32 bits, and the last one has a special meaning.
MAX_IDS = 2**32 - 1
# The types of the values in a row of `MapPart`.
ROW_TYPES = (int, int, str, int, str, str, int)


@dataclass(frozen=True, slots=True)
class Part:
    """A file that a version references."""

    name: str
    size: int
    # SHA-256 of a file that is read completely. Segment files are read by ranges, and each range has its own checksum.
    digest: str = ""

    @classmethod
    def put(cls, store: Store, name: str, data: bytes) -> Part:
        """Store a file that is read completely, and record its digest."""
        store.put(name, data)
        return cls(name, len(data), hashlib.sha256(data).hexdigest())

    def to_list(self) -> list[Any]:
        """Return the values to store in a document."""
        return [self.name, self.size, self.digest]

    def get(self, store: Store) -> bytes:
        """Read the file, and check its digest."""
        try:
            data = store.get(self.name)
        except FileNotFoundError as error:
            raise BrokenPartError(store, self.name, "it is missing", gone=True) from error
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise BrokenPartError(store, self.name, "its bytes have changed since it was written")
        return data


def parts_of(fields: document.Fields, field: str) -> tuple[Part, ...]:
    """Return the files that a field of a document lists."""
    return tuple(Part(name, size, digest) for name, size, digest in fields.rows(field, str, int, str))


class BrokenPartError(FormatError):
    """Raised if a file that a version references is missing or damaged."""

    def __init__(self, store: Store, name: str, why: str, gone: bool = False) -> None:
        super().__init__(f"{store}/{name}: {why}")
        self.name = name
        self.why = why
        self.gone = gone


@contextlib.contextmanager
def naming_remedy() -> Iterator[None]:
    """Convert the error for a missing or damaged part to a public error that names the remedy."""
    try:
        yield
    except BrokenPartError as error:
        raise FormatError(f"the index is damaged, so build it again with build_index(): {error}") from error


def doubt_of(name: str, error: Exception) -> tuple[str, str]:
    """Return the name of a part that cannot be used, and the reason. `name` is for errors that name no part."""
    if isinstance(error, BrokenPartError):
        return error.name, error.why
    if isinstance(error, FileNotFoundError):
        return name, "it is missing"
    return name, f"it cannot be read: {error}" if isinstance(error, OSError) else str(error)


@dataclass(frozen=True, slots=True)
class Shelf:
    """Bloom filters of some locations. The directory is read completely, the rows by ranges."""

    directory: Part
    rows: Part


@dataclass(frozen=True, slots=True)
class MapPart:
    """The map of successive slices, in one or two files."""

    # The id of its first slice. The files contain only distances from it, so a writer that was too late can use them
    # again with other ids.
    first_id: int
    # How many ids it covers, with or without a map.
    num_slices: int
    # Read completely.
    directory: Part
    # Read by ranges. None if the file of the directory includes the blocks.
    blocks: Part | None = None

    def parts(self) -> list[Part]:
        """Return its files."""
        return [self.directory] if self.blocks is None else [self.directory, self.blocks]

    def covers(self, slice_id: int) -> bool:
        """Return whether an id belongs to this part."""
        return self.first_id <= slice_id < self.first_id + self.num_slices

    def to_row(self) -> list[Any]:
        """Return the values to store in a document."""
        blocks = Part("", 0) if self.blocks is None else self.blocks
        directory = self.directory
        head = [self.first_id, self.num_slices, directory.name, directory.size, directory.digest]
        return [*head, blocks.name, blocks.size]

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> MapPart:
        """Return the part that `to_row` stored. The values have the types `ROW_TYPES`."""
        first_id, num_slices, name, size, digest, blocks, blocks_size = row
        if first_id < 0 or num_slices < 0 or first_id + num_slices > MAX_IDS:
            raise FormatError(f"{name}: a map of pages has ids out of range")
        return cls(first_id, num_slices, Part(name, size, digest), Part(blocks, blocks_size) if blocks else None)


def lost(store: Store, parts: Iterable[Part]) -> list[str]:
    """Return the names of files that were deleted or are about to be deleted."""
    announced: set[str] = set()
    parts = [part for part in parts if part.name and part.size]
    for notice in store.list(NOTICES) if parts else []:
        if notice.name.startswith(f"{NOTICES}/{TEMPORARY}"):
            # A collector deletes nothing before its notice is complete. It may have been killed before that.
            continue
        # If the notice was deleted meanwhile, so were its files.
        with contextlib.suppress(FileNotFoundError):
            try:
                announced.update(document.read("garbage", store.get(notice.name), notice.name).texts("names"))
            except FormatError:
                # An unreadable notice may concern every file.
                announced.update(part.name for part in parts)
    return [part.name for part in parts if part.name in announced or not _exists(store, part)]


def _exists(store: Store, part: Part) -> bool:
    try:
        return bool(store.get_ranges(part.name, [(0, 1)])[0])
    except FileNotFoundError:
        return False

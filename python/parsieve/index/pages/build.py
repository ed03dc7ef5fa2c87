"""Read the footers and offset indexes of slices, and store the map of their pages.

The map of a slice describes the version of the file that its token names. Some slices get no map, and readers use their
footers: encrypted files, slices of several files, and files that changed while they were read.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from parsieve._core import (
    DecryptionError,
    Fetched,
    FileMap,
    FileReader,
    FormatError,
    PageMapBuilder,
    ParsieveError,
    UnsupportedError,
)
from parsieve.errors import ConflictError
from parsieve.index.log.parts import PAGES, MapPart, Part
from parsieve.io.parallel import map_in_threads
from parsieve.io.ranges import RangeReader
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import Lake, Location, Slice
from parsieve.lake.slices import locations_of

# The slices of a part. A reader opens only the parts of the slices that it reads.
SLICES_PER_PART = 1 << 16
# How many slices are read before their maps are added, so that few maps wait in memory.
WINDOW = 1024
# Bytes of blocks in memory. The others wait in a temporary file.
BLOCKS_IN_MEMORY = 16 << 20


@dataclass(slots=True)
class MapReport:
    """The stored map of some slices, and the slices without a map."""

    parts: list[MapPart] = field(default_factory=list)
    left_out: dict[Location, Exception] = field(default_factory=dict)

    def to_retry(self) -> set[Location]:
        """Return the slices that may get a map if they are read again, because reading them failed."""
        errors = (ConflictError, OSError)
        return {location for location, error in self.left_out.items() if isinstance(error, errors)}


def wants_map(lake: Lake, pages: bool | None) -> bool:
    """Return whether to build a map of pages. None means yes if the files are in an object store.

    On a local disk, reading a footer costs about as much as reading the map.
    """
    return not lake.is_local if pages is None else pages


def build_maps(
    store: Store,
    lake: Lake,
    slices: Sequence[Slice],
    *,
    first_id: int = 0,
    threads: int = REQUESTS_AT_ONCE,
    spill: str | None = None,
    advance: Callable[[], object] = lambda: None,
) -> MapReport:
    """Read the maps of some slices in parallel, and store them. The slices have the ids from `first_id` on.

    The same slices always give the same files.
    """

    def read(file_slice: Slice) -> FileMap | Exception:
        return try_read_map(lake, file_slice)

    def maps(chosen: Sequence[Slice]) -> Iterator[FileMap | Exception]:
        for start in range(0, len(chosen), WINDOW):
            for result in map_in_threads(read, chosen[start : start + WINDOW], threads, "parsieve-index"):
                advance()
                yield result

    locations = locations_of(slices)
    return put_in_parts(store, locations, lambda start, end: maps(slices[start:end]), first_id=first_id, spill=spill)


def put_in_parts(
    store: Store,
    locations: Sequence[Location],
    read: Callable[[int, int], Iterable[FileMap | Exception | None]],
    *,
    first_id: int = 0,
    spill: str | None = None,
) -> MapReport:
    """Store the maps of the slices at some locations in as many parts as they need.

    `read` returns the maps of the slices between two positions, or why there are none.
    """
    report = MapReport()

    def maps(start: int, end: int) -> Iterator[FileMap | None]:
        for location, result in zip(locations[start:end], read(start, end), strict=True):
            if isinstance(result, Exception):
                report.left_out[location] = result
                yield None
            else:
                yield result

    for start in range(0, len(locations), SLICES_PER_PART):
        end = min(start + SLICES_PER_PART, len(locations))
        part, refused = put_maps(store, maps(start, end), first_id + start, spill=spill)
        report.parts.append(part)
        report.left_out |= {locations[start + number]: error for number, error in refused.items()}
    return report


def put_maps(
    store: Store, maps: Iterable[FileMap | None], first_id: int, *, spill: str | None = None
) -> tuple[MapPart, dict[int, UnsupportedError]]:
    """Store the maps of successive slices as one part. Also return why some of them could not be added.

    At most `SLICES_PER_PART` slices belong to a part.
    """
    builder, num_slices = PageMapBuilder(), 0
    refused: dict[int, UnsupportedError] = {}
    with tempfile.TemporaryDirectory(prefix="parsieve-", dir=spill) as folder:
        path, blocks, size = Path(folder) / "blocks", bytearray(), 0
        for number, file_map in enumerate(maps):
            num_slices = number + 1
            if file_map is None:
                continue
            try:
                builder.add(number, file_map)
            except UnsupportedError as error:
                refused[number] = error
            blocks += builder.take_blocks() if _is_worth_taking(number) else b""
            if len(blocks) > BLOCKS_IN_MEMORY:
                size += _append(path, blocks)
        directory, rest = builder.finish(num_slices)
        blocks += rest
        part = None
        if size:
            size += _append(path, blocks)
            part = Part(unique(PAGES, "blocks"), size)
            store.put(part.name, [path])
        elif blocks:
            part = Part(unique(PAGES, "blocks"), len(blocks))
            store.put(part.name, bytes(blocks))
        return MapPart(first_id, num_slices, Part.put(store, unique(PAGES, "map"), directory), part), refused


def _is_worth_taking(number: int) -> bool:
    """Return whether to take finished blocks. A map from which none was taken may be stored in one file."""
    return number % WINDOW == WINDOW - 1


def _append(path: Path, blocks: bytearray) -> int:
    with path.open("ab") as file:
        written = file.write(blocks)
    blocks.clear()
    return written


def try_read_map(lake: Lake, file_slice: Slice) -> FileMap | Exception:
    """Read the map of a slice's file, or return why it cannot have one now.

    A missing map only costs time. Reading the rows raises the error, if there is one.
    """
    try:
        return read_map(lake, file_slice)
    except (ParsieveError, OSError, ValueError) as error:
        return error


def read_map(lake: Lake, file_slice: Slice) -> FileMap:
    """Read the map of a slice's file from its footer and its offset indexes.

    Raises `UnsupportedError` if the slice cannot have a map, and `ConflictError` if its file is no longer the version
    that the slice's token names.
    """
    # Hudi merges logs with the rows of the base file. Other formats only delete rows of the file, by their numbers, and
    # readers subtract them.
    if file_slice.path is None or (lake.format == "hudi" and not file_slice.clean):
        raise UnsupportedError("the slice is not a single Parquet file")
    try:
        reader = RangeReader(lake.open_listed(file_slice))
    except ConflictError:
        raise _changed(file_slice) from None
    try:
        file_map = _read(reader)
        reader.check_unchanged()
        if lake.files_may_be_replaced and not f"{file_slice.token}-".startswith(reader.version):
            raise _changed(file_slice)
    finally:
        reader.close()
    if file_slice.size is not None and file_map.file_size != file_slice.size:
        raise _changed(file_slice)
    return file_map


def _changed(file_slice: Slice) -> ConflictError:
    return ConflictError(f"{file_slice.path} was changed since it was listed; update the index to map the new file")


def _read(reader: RangeReader) -> FileMap:
    fetched = Fetched()
    file: FileReader | None = None
    while file is None:
        try:
            needed, file = FileReader.open(reader.size, fetched)
        except DecryptionError:
            # With the keys, there would be no map either.
            raise UnsupportedError("the file cannot have a map of its pages: its footer is encrypted") from None
        reader.fetch(needed, fetched)
    arrow_schema = None if file.arrow_schema is None else _without_metadata(file.arrow_schema)
    while True:
        needed, file_map = FileMap.of(file, fetched, arrow_schema)
        if file_map is not None:
            return file_map
        reader.fetch(needed, fetched)


@lru_cache(maxsize=256)
def _without_metadata(arrow_schema: str) -> bytes:
    """Return the Arrow schema of a file without the table's metadata.

    pandas stores the number of rows there, so that each file would have a different schema.
    """
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(arrow_schema)))
        return base64.b64encode(schema.remove_metadata().serialize())
    except (ValueError, pa.ArrowException) as error:
        raise FormatError(f"the Arrow schema in the footer cannot be read: {error}") from error

"""Read the map of pages of a table, by ranges.

A part that cannot be read gives no maps, and the reader of the table uses the footers of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from parsieve._core import Fetched, FileMap, FormatError, PageMap, ParsieveError, coalesce
from parsieve.index.log import bindings
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.commit import MapState
from parsieve.index.log.parts import MapPart, doubt_of
from parsieve.io.parallel import map_in_threads, run_in_threads
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.io.sources import Range
from parsieve.io.store.base import Store
from parsieve.lake.base import Location, Slice
from parsieve.sharing import Lock, cached_property

# Rows of a row group, from the first one to the one after the last.
Rows = tuple[int, int]


@dataclass(frozen=True)
class MappedFile:
    """The chunks and pages of a file, and the version of the file that they belong to.

    Compare the version with the request that reads the pages: the size always, and the token if another file may
    replace this one under its name. If it is another version, use the file's footer.
    """

    pages: FileMap
    # The token of the slice whose file was mapped.
    token: str

    @property
    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self.pages.file_size

    @cached_property
    def columns(self) -> dict[tuple[str, ...], int]:
        """Return the number of each leaf column by its path in the file."""
        return {tuple(path): number for number, (path, *_) in enumerate(self.pages.leaves)}

    def leaves_below(self, paths: Iterable[Sequence[str]]) -> list[int]:
        """Return the numbers of the leaf columns with these paths, or below them, in order."""
        wanted = {tuple(path) for path in paths}
        return [
            number
            for path, number in self.columns.items()
            if any(path[:length] in wanted for length in range(1, len(path) + 1))
        ]

    def ranges(
        self, row_groups: Mapping[int, Sequence[Rows] | None], paths: Iterable[Sequence[str]] | None = None
    ) -> list[Range]:
        """Return the byte ranges that hold some rows of the columns at or below some paths, sorted.

        `row_groups` maps each row group to ranges of its rows, or to None for all rows. `paths` None means all columns.
        """
        leaves = list(self.columns.values()) if paths is None else self.leaves_below(paths)
        ranges: list[Range] = []
        for row_group, rows in row_groups.items():
            for column in leaves:
                if rows is None:
                    start, length, *_ = self.pages.chunk(row_group, column)
                    ranges.append((start, start + length))
                else:
                    ranges += self.pages.ranges_of(row_group, column, list(rows))
        return coalesce(ranges, 0)


class MapReader:
    """The map of pages in one version of an index. Threads may share it."""

    # Errors that mark a part as unusable for good. Other errors may be temporary: they are raised, and the next read
    # tries again.
    permanent_errors: ClassVar[tuple[type[Exception], ...]] = (ParsieveError, FileNotFoundError)

    def __init__(self, store: Store, state: MapState, bound: Bindings | None = None) -> None:
        """Create a reader. `bound` are the bindings of the map, if they were read already."""
        self.store = store
        self.state = state
        if bound is not None:
            self.bindings = bound
        # Why parts cannot be used, by name.
        self.doubts: dict[str, str] = {}
        self._opened: dict[MapPart, PageMap] = {}
        self._lock = Lock()

    @cached_property
    def bindings(self) -> Bindings:
        """Return the token and the id of each location; none if they cannot be read."""
        try:
            bound = bindings.read(self.store, self.state.bindings)
            if bound.ids is None:
                raise FormatError("the bindings of the map of pages have no ids")
            return bound
        except self.permanent_errors as error:
            self._doubt("bindings of the map of pages", error)
            return bindings.NOTHING

    def _doubt(self, name: str, error: Exception) -> None:
        part, reason = doubt_of(name, error)
        self.doubts[part] = reason

    def read(
        self, slices: Sequence[Slice], row_groups: Sequence[Sequence[int] | None] | None = None
    ) -> list[MappedFile | None]:
        """Return the maps of some slices, with these row groups of each (None: all).

        The entry of a slice is None if it has no map, if the map belongs to another version, or if it cannot be read.
        """
        self._read_ahead()
        tokens = self.bindings.tokens
        current = [bool(piece.token) and tokens.get(piece.location) == piece.token for piece in slices]
        locations = [piece.location if is_current else None for piece, is_current in zip(slices, current, strict=True)]
        return [
            None if file_map is None else MappedFile(file_map, piece.token)
            for piece, file_map in zip(slices, self.maps_at(locations, row_groups), strict=True)
        ]

    def maps_at(
        self, locations: Sequence[Location | None], row_groups: Sequence[Sequence[int] | None] | None = None
    ) -> list[FileMap | None]:
        """Return the maps of some locations, without comparing the versions of their files. None has no map."""
        wanted: dict[MapPart, list[int]] = {}
        numbers: list[int] = []
        for at, location in enumerate(locations):
            part, number = self._place(location)
            numbers.append(number)
            if part is not None:
                wanted.setdefault(part, []).append(at)
        groups = row_groups if row_groups is not None else [None] * len(locations)

        def read_part(entry: tuple[MapPart, list[int]]) -> list[tuple[int, FileMap | None]]:
            part, positions = entry
            chosen = [(numbers[at], groups[at]) for at in positions]
            return list(zip(positions, self._read_part(part, chosen), strict=True))

        maps: list[FileMap | None] = [None] * len(locations)
        for results in map_in_threads(read_part, wanted.items(), REQUESTS_AT_ONCE, "parsieve-read"):
            for at, file_map in results:
                maps[at] = file_map
        return maps

    def _read_ahead(self) -> None:
        """Read the bindings and the directory at the same time if there is only one directory."""
        if "bindings" in self.__dict__ or self._opened or len(self.state.files) != 1:
            return

        def read(part: MapPart | None) -> None:
            # Errors are handled when the part is used.
            with suppress(*self.permanent_errors):
                if part is None:
                    _ = self.bindings
                else:
                    self._open(part)

        run_in_threads(read, [None, *self.state.files], 2, "parsieve-read")

    def is_damaged_at(self, location: Location) -> bool:
        """Return whether damage was found in the files with the map of a location."""
        part, _ = self._place(location)
        return part is not None and any(file.name in self.doubts for file in part.parts())

    def _place(self, location: Location | None) -> tuple[MapPart | None, int]:
        """Return the part with the map of a location, and the number of its slice in it."""
        bound = self.bindings
        slice_id = None if location is None or bound.ids is None else bound.ids.get(location)
        # A slice without a token was not mapped.
        if location is None or slice_id is None or not bound.tokens[location]:
            return None, 0
        part = next((part for part in self.state.files if part.covers(slice_id)), None)
        return part, 0 if part is None else slice_id - part.first_id

    def _read_part(self, part: MapPart, wanted: Sequence[tuple[int, Sequence[int] | None]]) -> list[FileMap | None]:
        try:
            opened = self._open(part)
            return self._read_blocks(part, opened, wanted)
        except self.permanent_errors as error:
            self._doubt(part.directory.name, error)
            return [None] * len(wanted)

    def _open(self, part: MapPart) -> PageMap:
        with self._lock:
            opened = self._opened.get(part)
        if opened is None:
            opened = PageMap(part.directory.get(self.store))
            with self._lock:
                self._opened[part] = opened
        return opened

    def _read_blocks(
        self, part: MapPart, opened: PageMap, wanted: Sequence[tuple[int, Sequence[int] | None]]
    ) -> list[FileMap | None]:
        fetched = Fetched()
        needed: list[Range] = []
        for number, row_groups in wanted:
            needed += opened.file(number, fetched, row_groups)[0]
        if needed and part.blocks is not None:
            # Slices next to each other share blocks.
            ranges = sorted(set(needed))
            for (start, _), data in zip(ranges, self.store.get_ranges(part.blocks.name, ranges), strict=True):
                fetched.insert(start, data)
        return [self._decode(part, opened, number, fetched, row_groups) for number, row_groups in wanted]

    def _decode(
        self, part: MapPart, opened: PageMap, number: int, fetched: Fetched, row_groups: Sequence[int] | None
    ) -> FileMap | None:
        """Return the map of a slice, or None if its block is damaged. Other blocks of the part are still used."""
        try:
            _, answer = opened.file(number, fetched, row_groups)
        except self.permanent_errors as error:
            self._doubt(part.directory.name if part.blocks is None else part.blocks.name, error)
            return None
        if answer is None and part.blocks is not None:
            self.doubts[part.blocks.name] = "it is shorter than when it was written"
        return None if answer is None else answer[0]

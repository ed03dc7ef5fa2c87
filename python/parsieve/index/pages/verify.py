"""Check the map of pages: read every block, and compare the maps with the footers of the table."""

from __future__ import annotations

from collections.abc import Iterator

from parsieve._core import Fetched, PageMap, ParsieveError
from parsieve.errors import ConflictError
from parsieve.index.findings import IndexProblem, name_of
from parsieve.index.log.commit import MapState
from parsieve.index.log.parts import MapPart, doubt_of
from parsieve.index.pages.build import WINDOW, try_read_map
from parsieve.index.pages.reader import MapReader
from parsieve.io.parallel import map_in_threads
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.io.store.base import Store
from parsieve.lake.base import Lake, Slice, Snapshot


class _InspectedMap(MapReader):
    """A reader that records every error, even a temporary one."""

    permanent_errors = (ParsieveError, OSError)


def verify(store: Store, state: MapState, lake: Lake | None, snapshot: Snapshot | None) -> list[IndexProblem]:
    """Read every block of a map. With a lake, also compare the maps of files that it covers with their footers."""
    problems = [_problem(name, reason) for part in state.files for name, reason in _damages(store, part).items()]
    reader = _InspectedMap(store, state)
    covered = set(reader.bindings.tokens)
    if lake is not None and snapshot is not None:
        slices = [file_slice for file_slice in snapshot.slices if file_slice.location in covered]
        for start in range(0, len(slices), WINDOW):
            problems += _differences(reader, lake, slices[start : start + WINDOW])
    found = {problem.part for problem in problems}
    return problems + [_problem(name, reason) for name, reason in reader.doubts.items() if name not in found]


def _problem(name: str, reason: str) -> IndexProblem:
    return IndexProblem((), name, reason, loses_rows=False)


def _damages(store: Store, part: MapPart) -> dict[str, str]:
    """Read both files of a part, and return why they cannot be used, by name. The blocks are read by ranges."""
    name = part.directory.name
    try:
        opened = PageMap(part.directory.get(store))
        if opened.num_slices != part.num_slices:
            return {name: f"it covers {opened.num_slices} slices instead of {part.num_slices}"}
        if part.blocks is not None:
            name = part.blocks.name
            if opened.blocks_size != part.blocks.size:
                return {name: f"it has {part.blocks.size} bytes instead of {opened.blocks_size}"}
        for start in range(0, part.num_slices, WINDOW):
            numbers = range(start, min(start + WINDOW, part.num_slices))
            fetched = Fetched()
            needed = sorted({span for number in numbers for span in opened.file(number, fetched)[0]})
            for (first, end), data in zip(needed, store.get_ranges(name, needed) if needed else [], strict=True):
                if len(data) != end - first:
                    return {name: "it is shorter than when it was written"}
                fetched.insert(first, data)
            for number in numbers:
                opened.file(number, fetched)
    except (OSError, ParsieveError) as error:
        return dict([doubt_of(name, error)])
    return {}


def _differences(reader: MapReader, lake: Lake, slices: list[Slice]) -> Iterator[IndexProblem]:
    """Compare the maps of some slices with their footers. A wrong map could hide rows."""
    mapped = [
        (file_slice, found) for file_slice, found in zip(slices, reader.read(slices), strict=True) if found is not None
    ]
    current = map_in_threads(lambda entry: try_read_map(lake, entry[0]), mapped, REQUESTS_AT_ONCE, "parsieve-read")
    for (file_slice, found), file_map in zip(mapped, current, strict=True):
        where = name_of(file_slice.location)
        if isinstance(file_map, (ConflictError, FileNotFoundError)):
            # The file was changed or removed after the snapshot, so its map is no longer used.
            continue
        if isinstance(file_map, Exception):
            problem = f"the map of its pages cannot be checked, because its footer cannot be read: {file_map}"
            yield IndexProblem((), where, problem, loses_rows=False)
        elif file_map != found.pages:
            yield IndexProblem((), where, "the map of its pages differs from its footer", loses_rows=True)

"""Read the matching rows of many files, several files at a time, in the order of the files."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from parsieve._core import ParsieveError, RowFile, UnsupportedError
from parsieve.errors import ConflictError
from parsieve.index.pages.reader import MapReader
from parsieve.io.parallel import Workers, thread_count
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.io.sources import open_version
from parsieve.lake.base import Lake, Slice
from parsieve.lake.storage.pinned import changed_since
from parsieve.observe.logs import ROWS
from parsieve.reader.file import Parts, Refusal, Traffic, read_file, version_of
from parsieve.reader.footers import FileVersion, KnownFile, cache_of
from parsieve.reader.request import Candidates, ReadRequest

# The number of refused files that are read together in the other way.
REFUSED_AT_ONCE = 32
# The number of files whose maps are read together.
MAPS_AT_ONCE = 256

Result = list[pa.RecordBatch] | Refusal | Parts
# Reads the rows of some files, from a position to the one after the last, in another way.
Fallback = Callable[[int, int], Iterator[pa.RecordBatch]]


class TableReader:
    """Reads rows of a table by pages."""

    def __init__(self, lake: Lake, request: ReadRequest, pages: MapReader | None = None) -> None:
        """`pages` is the map of the pages of the table's files. In an object store, it replaces their footers."""
        self._lake = lake
        self._request = request
        self._cache = cache_of(lake)
        self._is_remote = not lake.is_local
        self._pages = pages if self._is_remote else None
        self._traffic = Traffic()

    def read(
        self, files: Sequence[Candidates], fallback: Fallback, *, threads: int | None = None, hold: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of some files. `fallback` reads the files that this reader cannot read exactly.

        With `hold`, the rows of a file are yielded only once all of them were read. Without, a large file is read in
        parts, and `ConflictError` is raised if it changes after some of its rows were yielded.
        """
        reasons: Counter[str] = Counter()
        refused = 0
        with Workers(self._num_threads(threads), "parsieve-rows") as workers:
            for position, result in enumerate(workers.map(self._read, self._with_maps(files))):
                if isinstance(result, Parts):
                    parts = self._read_parts(result, workers, hold)
                    result = next(parts)
                else:
                    parts = iter(())
                if not isinstance(result, Refusal):
                    if refused:
                        yield from fallback(position - refused, position)
                        refused = 0
                    yield from result
                    num_rows = sum(batch.num_rows for batch in result)
                    for more in parts:
                        if not isinstance(more, Refusal):
                            yield from more
                            num_rows += sum(batch.num_rows for batch in more)
                        else:
                            file_slice = files[position].file_slice
                            if not more.is_change and not self._has_changed(file_slice):
                                reasons[more.reason] += 1
                                yield from _after(fallback(position, position + 1), num_rows)
                            # `fallback` also reads a newer file, whose rows must not follow rows of the planned one.
                            if more.is_change or self._has_changed(file_slice):
                                raise changed_since(str(file_slice.path))
                    continue
                reasons[result.reason] += 1
                refused += 1
                if result.is_general:
                    rest = len(files) - position - 1
                    reasons[result.reason] += rest
                    refused += rest
                    break
                if refused == REFUSED_AT_ONCE:
                    yield from fallback(position + 1 - refused, position + 1)
                    refused = 0
        if refused:
            yield from fallback(len(files) - refused, len(files))
        if ROWS.isEnabledFor(logging.DEBUG):
            read = len(files) - reasons.total()
            about = {"reasons": reasons, "traffic": self._traffic}
            ROWS.debug("read %d of %d files by pages", read, len(files), extra=about)

    def _num_threads(self, threads: int | None) -> int:
        # Threads that wait for an object store need no processor.
        return (
            max(thread_count(None), REQUESTS_AT_ONCE) if threads is None and self._is_remote else thread_count(threads)
        )

    def _read(self, candidates: Candidates) -> Result:
        return read_file(self._lake, candidates, self._request, self._cache, self._traffic)

    def _read_parts(self, parts: Parts, workers: Workers, hold: bool) -> Iterator[list[pa.RecordBatch] | Refusal]:
        """Yield the rows of each part of a file; with `hold`, yield the rows of all parts together."""
        held: list[pa.RecordBatch] = []
        for result in workers.map(self._read, parts.parts):
            if isinstance(result, Parts):
                raise AssertionError("a part of a file was divided")
            if isinstance(result, Refusal):
                yield result
                return
            if hold:
                held += result
            else:
                yield result
        if hold:
            yield held

    def _has_changed(self, file_slice: Slice) -> bool:
        version = version_of(self._lake, file_slice)
        if isinstance(version, Refusal):
            return True
        try:
            open_version(self._lake.open_base(file_slice), version.size, version.token).close()
        except (ConflictError, FileNotFoundError):
            return True
        return False

    def _with_maps(self, files: Sequence[Candidates]) -> Iterator[Candidates]:
        """Yield the files, once their maps were read in place of their footers."""
        for position, candidates in enumerate(files):
            if self._pages is not None and position % MAPS_AT_ONCE == 0:
                self._read_maps(self._pages, files[position : position + MAPS_AT_ONCE])
            yield candidates

    def _read_maps(self, pages: MapReader, files: Sequence[Candidates]) -> None:
        missing: dict[FileVersion, Slice] = {}
        for file_slice in (candidates.file_slice for candidates in files):
            version = version_of(self._lake, file_slice)
            if isinstance(version, FileVersion):
                key = version._replace(token=file_slice.token)
                if self._cache.get(key) is None:
                    missing[key] = file_slice
        try:
            maps = pages.read(list(missing.values()))
        except (ParsieveError, OSError):
            # The footers of the files have the same information.
            return
        for key, mapped in zip(missing, maps, strict=True):
            if mapped is not None and mapped.size == key.size:
                # A file whose schema cannot be read is refused later.
                with suppress(UnsupportedError):
                    self._cache.put(key, KnownFile.of(RowFile.from_map(mapped.pages)))


def _after(batches: Iterator[pa.RecordBatch], num_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches without their first rows."""
    for batch in batches:
        skipped = min(num_rows, batch.num_rows)
        num_rows -= skipped
        if skipped < batch.num_rows:
            yield batch.slice(skipped)

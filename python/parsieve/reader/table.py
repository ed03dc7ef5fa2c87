"""Read the matching rows of many files, several files at a time, in the order of the files."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import pyarrow as pa

from parsieve._core import ParsieveError, RowFile
from parsieve.index.pages.reader import MapReader
from parsieve.io.parallel import thread_count
from parsieve.io.sources import REQUESTS_AT_ONCE
from parsieve.lake.base import Lake
from parsieve.reader.file import Refusal, read_file, version_of
from parsieve.reader.footers import FileVersion, KnownFile, cache_of
from parsieve.reader.request import Candidates, ReadRequest

# So many refused files are read together in the other way.
REFUSED_AT_ONCE = 32
# The number of files that are read ahead of the consumer, for each thread.
AHEAD = 2
# The number of files whose maps are read together.
MAPS_AT_ONCE = 256

_log = logging.getLogger("parsieve.rows")

Result = list[pa.RecordBatch] | Refusal
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

    def read(
        self, files: Sequence[Candidates], fallback: Fallback, threads: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows of some files. `fallback` reads the files that this reader cannot read exactly."""
        reasons: Counter[str] = Counter()
        refused = 0
        with closing(self._results(files, self._num_threads(threads))) as results:
            for position, result in enumerate(results):
                if not isinstance(result, Refusal):
                    if refused:
                        yield from fallback(position - refused, position)
                        refused = 0
                    yield from result
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
        if _log.isEnabledFor(logging.DEBUG):
            read = len(files) - reasons.total()
            _log.debug("read %d of %d files by pages", read, len(files), extra={"reasons": reasons})

    def _num_threads(self, threads: int | None) -> int:
        # Threads that wait for an object store need no processor.
        return (
            max(thread_count(None), REQUESTS_AT_ONCE) if threads is None and self._is_remote else thread_count(threads)
        )

    def _results(self, files: Sequence[Candidates], threads: int) -> Iterator[Result]:
        """Yield the result for each file, in order."""
        if threads == 1 or len(files) < 2:
            for position, candidates in enumerate(files):
                self._read_maps(files, position)
                yield self._read(candidates)
            return
        pending: deque[Future[Result]] = deque()
        with ThreadPoolExecutor(min(threads, len(files)), "parsieve-rows") as pool:
            try:
                for position, candidates in enumerate(files):
                    self._read_maps(files, position)
                    pending.append(pool.submit(self._read, candidates))
                    if len(pending) > AHEAD * threads:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                for future in pending:
                    future.cancel()

    def _read(self, candidates: Candidates) -> Result:
        return read_file(self._lake, candidates, self._request, self._cache)

    def _read_maps(self, files: Sequence[Candidates], position: int) -> None:
        """Read the maps of the next files together, in place of one footer after the other."""
        if self._pages is None or position % MAPS_AT_ONCE:
            return
        missing: list[tuple[FileVersion, Candidates]] = []
        for candidates in files[position : position + MAPS_AT_ONCE]:
            version = version_of(self._lake, candidates.file_slice)
            if isinstance(version, FileVersion) and self._cache.get(version) is None:
                missing.append((version, candidates))
        try:
            maps = self._pages.read([candidates.file_slice for _, candidates in missing])
        except (ParsieveError, OSError):
            # The footers of the files have the same information.
            return
        for (version, _), mapped in zip(missing, maps, strict=True):
            if mapped is not None and mapped.size == version.size:
                self._cache.put(version, KnownFile.of(RowFile.from_map(mapped.pages)))

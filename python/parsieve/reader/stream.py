"""Read the matching rows of many files, several files at a time, in the order of the files."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from parsieve.io.parallel import thread_count
from parsieve.lake.base import Lake
from parsieve.reader.file import Refusal, read_file
from parsieve.reader.footers import cache_of
from parsieve.reader.request import Candidates, ReadRequest

# So many refused files are read together in the other way.
REFUSED_AT_ONCE = 32
# The number of files that are read ahead of the consumer, for each thread.
AHEAD = 2

_log = logging.getLogger("parsieve.rows")

Result = list[pa.RecordBatch] | Refusal
# Reads the rows of some files, from a position to the one after the last, in another way.
Fallback = Callable[[int, int], Iterator[pa.RecordBatch]]


def read_files(
    lake: Lake, files: Sequence[Candidates], request: ReadRequest, fallback: Fallback, threads: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the matching rows of some files. `fallback` reads the files that this reader cannot read exactly."""
    reasons: Counter[str] = Counter()
    refused = 0
    for position, result in enumerate(_results(lake, files, request, thread_count(threads))):
        if isinstance(result, Refusal):
            reasons[result.reason] += 1
            refused += 1
            if result.is_general:
                reasons[result.reason] += len(files) - position - 1
                yield from fallback(position + 1 - refused, len(files))
                refused = 0
                break
            if refused < REFUSED_AT_ONCE:
                continue
        if refused:
            end = position + 1 if isinstance(result, Refusal) else position
            yield from fallback(end - refused, end)
            refused = 0
        if not isinstance(result, Refusal):
            yield from result
    if refused:
        yield from fallback(len(files) - refused, len(files))
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("read %d of %d files by pages", len(files) - reasons.total(), len(files), extra={"reasons": reasons})


def _results(lake: Lake, files: Sequence[Candidates], request: ReadRequest, threads: int) -> Iterator[Result]:
    """Yield the result for each file, in order."""
    cache = cache_of(lake)
    if threads == 1 or len(files) < 2:
        for candidates in files:
            yield read_file(lake, candidates, request, cache)
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(min(threads, len(files)), "parsieve-rows") as pool:
        try:
            for candidates in files:
                pending.append(pool.submit(read_file, lake, candidates, request, cache))
                if len(pending) > AHEAD * threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

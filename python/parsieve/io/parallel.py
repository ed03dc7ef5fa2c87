"""Run work in threads, in order, and show its progress."""

from __future__ import annotations

import operator
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Self, TextIO, TypeVar

# No work has more parts that could run at once.
MOST_THREADS = 1 << 16

Item = TypeVar("Item")
Result = TypeVar("Result")


def thread_count(threads: int | None) -> int:
    """Return the number of threads to use; None means one per processor that this process may use."""
    if threads is None:
        # A container may allow fewer processors than the machine has.
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    if not hasattr(threads, "__index__"):
        raise TypeError(f"threads must be an integer or None, not {threads!r}")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    return min(operator.index(threads), MOST_THREADS)


def map_in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int, name: str = "parsieve"
) -> Iterator[Result]:
    """Yield the results in the order of the items. The first error cancels the items that have not started."""
    items = list(items)
    if threads <= 1 or len(items) < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(min(threads, len(items)), name) as pool:
        try:
            yield from pool.map(work, items)
        finally:
            pool.shutdown(cancel_futures=True)


def run_in_threads(work: Callable[[Item], object], items: Iterable[Item], threads: int, name: str = "parsieve") -> None:
    """Do the work for each item. The first error cancels the items that have not started."""
    for _ in map_in_threads(work, items, threads, name):
        pass


class Workers:
    """Threads that do work ahead of its consumer. The first use that needs threads starts them."""

    # The number of items that wait for the consumer or for a thread, for each thread.
    AHEAD = 2

    def __init__(self, threads: int, name: str = "parsieve") -> None:
        self._threads = threads
        self._name = name
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel the work that has not started, and wait for the rest."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results in the order of the items, which are taken as threads become free.

        Work must not wait for other work of the same threads.
        """
        items = iter(items)
        first = list(islice(items, 2))
        if self._threads == 1 or len(first) < 2:
            yield from map(work, chain(first, items))
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, self._name)
        pending: deque[Future[Result]] = deque()
        for item in chain(first, items):
            pending.append(self._pool.submit(work, item))
            if len(pending) > self.AHEAD * self._threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


class ProgressBar:
    """A progress bar over files, on terminals only unless `show` is set. Threads may share it."""

    WIDTH = 30

    def __init__(self, total: int, stream: TextIO | None = None, *, label: str = "", show: bool | None = None) -> None:
        self._total, self._done, self._failed = total, 0, 0
        self._label = f"{label} " if label else ""
        self._stream = sys.stderr if stream is None else stream
        is_open = self._stream is not None
        self._visible = total > 0 and is_open and (self._stream.isatty() if show is None else show)
        self._begun = time.monotonic()
        self._lock = threading.Lock()

    def __enter__(self) -> ProgressBar:
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        if self._visible:
            print(file=self._stream)

    def step(self, failed: bool = False) -> None:
        """Count one more file."""
        with self._lock:
            self._done += 1
            self._failed += failed
            self._draw()

    def _draw(self) -> None:
        if not self._visible:
            return
        share = self._done / max(self._total, 1)
        bar = "#" * round(share * self.WIDTH)
        left = (time.monotonic() - self._begun) / share * (1 - share) if self._done else 0
        failed = f", {self._failed} failed" if self._failed else ""
        files = "file" if self._total == 1 else "files"
        text = f"{self._label}[{bar:<{self.WIDTH}}] {self._done:,}/{self._total:,} {files}{failed}, {left:.0f} s left"
        print(f"\r{text:<79}", end="", file=self._stream, flush=True)

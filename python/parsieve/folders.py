"""Work on all Parquet files of a folder: several at once, and one that fails does not stop the others."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Generic, NamedTuple, TextIO, TypeVar

from parsieve._core import ParsieveError
from parsieve.errors import describe
from parsieve.making import usual_threads

Result = TypeVar("Result")

SUFFIXES = (".parquet", ".parq", ".pq")


class Outcome(NamedTuple, Generic[Result]):
    """The result for one file, or its error."""

    path: Path
    result: Result | None
    error: str | None


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder and below it, sorted, without hidden ones (`_` or `.`)."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [Path(place, name) for name in names if name.endswith(SUFFIXES) and not name.startswith((".", "_"))]
    return sorted(found)


def for_each_file(
    work: Callable[[Path], Result], files: list[Path], *, threads: int | None = None, bar: Progress | None = None
) -> list[Outcome[Result]]:
    """Do the work for each file, and return the outcomes in the order of the files."""
    outcomes: dict[Path, Outcome[Result]] = {}
    with ThreadPoolExecutor(usual_threads(threads), "parsieve-file") as pool:
        running = {pool.submit(work, path): path for path in files}
        try:
            for done in as_completed(running):
                path = running[done]
                try:
                    outcomes[path] = Outcome(path, done.result(), None)
                except (ParsieveError, OSError, ValueError) as error:
                    outcomes[path] = Outcome(path, None, describe(error, path))
                if bar is not None:
                    bar.step(outcomes[path].error is not None)
        finally:
            # After an interrupt, files that have not been started are left alone.
            pool.shutdown(cancel_futures=True)
    return [outcomes[path] for path in files]


class Progress:
    """A progress bar on a terminal. `show` overrides whether the stream is one."""

    WIDTH = 30

    def __init__(self, total: int, stream: TextIO | None = None, *, show: bool | None = None) -> None:
        self._total, self._done, self._failed = total, 0, 0
        self._stream = sys.stderr if stream is None else stream
        self._visible = self._stream.isatty() if show is None else show
        self._begun = time.monotonic()

    def __enter__(self) -> Progress:
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        if self._visible:
            print(file=self._stream)

    def step(self, failed: bool) -> None:
        """Count one more file."""
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
        text = f"[{bar:<{self.WIDTH}}] {self._done:,}/{self._total:,} {files}{failed}, {left:.0f} s left"
        print(f"\r{text:<79}", end="", file=self._stream, flush=True)


def indexed_folder(path: Path) -> Path | None:
    """The nearest folder around a file that has an index beside it."""
    return next((folder for folder in path.parents if (folder / "_parsieve" / "commits").is_dir()), None)

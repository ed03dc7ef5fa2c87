"""Work on all Parquet files of a folder: several at once, and one that fails does not stop the others."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Generic, NamedTuple, TextIO, TypeVar

from parsieve._core import ParsieveError
from parsieve.errors import FolderError, describe
from parsieve.filters.build import usual_threads
from parsieve.io.index_location import BELOW, next_to_local

Result = TypeVar("Result")

SUFFIXES = (".parquet", ".parq", ".pq")


class Outcome(NamedTuple, Generic[Result]):
    """The result for one file, or its error."""

    path: Path
    result: Result | None
    error: str | None
    failure: Exception | None = None


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
                    outcomes[path] = Outcome(path, None, describe(error, path), error)
                if bar is not None:
                    bar.step(outcomes[path].error is not None)
        finally:
            # After an interrupt, files that have not been started are left alone.
            pool.shutdown(cancel_futures=True)
    return [outcomes[path] for path in files]


def local_folder(source: Any) -> Path | None:
    """Return the local folder that a caller means, or None for a file, a URI or anything else."""
    if not isinstance(source, (str, os.PathLike)):
        return None
    path = Path(source).expanduser()
    return path if path.is_dir() else None


def over_folder(
    folder: Path,
    work: Callable[[Path], Result],
    combine: Callable[[dict[str, Result]], Any],
    *,
    threads: int | None = None,
    before: Callable[[list[Path]], None] | None = None,
) -> Any:
    """Combine the results of all Parquet files below a folder, by their paths.

    `before` may refuse the files before any is touched. `FolderError` if some fail, once the others are done.
    """
    files = parquet_files(folder)
    if not files:
        raise FileNotFoundError(errno.ENOENT, f"no Parquet files ({', '.join(SUFFIXES)}) in this folder", str(folder))
    if before is not None:
        before(files)
    outcomes = for_each_file(work, files, threads=threads)
    failed = {str(one.path): one.failure for one in outcomes if one.failure is not None}
    combined = combine({str(one.path): one.result for one in outcomes if one.result is not None})
    if failed:
        raise FolderError(str(folder), failed, combined, len(files))
    return combined


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
    """The nearest folder around a file that is a table with an index."""
    return next((folder for folder, _ in indexes_around(path)), None)


def indexes_around(path: Path) -> Iterator[tuple[Path, Path]]:
    """The folders around a file that are tables with an index, the nearest first, and where the index of each is."""
    for folder in path.parents:
        beside = next_to_local(str(folder))
        for index in [folder / BELOW, *([] if beside is None else [Path(beside)])]:
            if (index / "commits").is_dir():
                yield folder, index

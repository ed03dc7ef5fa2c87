"""Process all Parquet files of a folder in parallel; a file that fails does not stop the others."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from parsieve._core import ParsieveError
from parsieve.errors import FolderError, describe
from parsieve.io.names import is_ignored
from parsieve.io.parallel import ProgressBar, thread_count
from parsieve.io.sources import local_source

Result = TypeVar("Result")

SUFFIXES = (".parquet", ".parq", ".pq")


class Outcome(NamedTuple, Generic[Result]):
    """The result for one file, or its error."""

    path: Path
    result: Result | None
    error: str | None
    failure: Exception | None = None


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder and below it, sorted, without those that engines ignore by their names.

    A file that also has links in the folder is returned once. Raise an error if a folder cannot be listed.
    """
    paths: list[Path] = []
    links: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not is_ignored(name)]
        for name in names:
            if name.endswith(SUFFIXES) and not is_ignored(name):
                path = Path(parent, name)
                (links if path.is_symlink() else paths).append(path)
    by_file = {os.path.realpath(path): path for path in paths} if links else {}
    for link in sorted(links):
        by_file.setdefault(os.path.realpath(link), link)
    return sorted(by_file.values() if links else paths)


def _raise(error: OSError) -> None:
    raise error


def for_each_file(
    work: Callable[[Path], Result], files: list[Path], *, threads: int | None = None, bar: ProgressBar | None = None
) -> list[Outcome[Result]]:
    """Do the work for each file, and return the outcomes in the order of the files."""
    outcomes: dict[Path, Outcome[Result]] = {}
    with ThreadPoolExecutor(thread_count(threads), "parsieve-file") as pool:
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
            # After an interrupt, do not start more files.
            pool.shutdown(cancel_futures=True)
    return [outcomes[path] for path in files]


def local_folder(source: Any) -> Path | None:
    """Return the path if the source is a local folder, or None for a file, a URI or anything else."""
    path = local_source(source)
    return path if path is not None and path.is_dir() else None


def over_folder(
    folder: Path,
    work: Callable[[Path], Result],
    combine: Callable[[dict[str, Result]], Any],
    *,
    threads: int | None = None,
    before: Callable[[list[Path]], None] | None = None,
) -> Any:
    """Process all Parquet files of a folder, and combine the results, which are keyed by path.

    If files fail, raise `FolderError` after the others are done. `before` may raise an error for the files before the
    first of them is processed.
    """
    files = parquet_files(folder)
    if not files:
        raise FileNotFoundError(errno.ENOENT, f"no Parquet files ({', '.join(SUFFIXES)}) in this folder", str(folder))
    if before is not None:
        before(files)
    outcomes = for_each_file(work, files, threads=threads)
    failed = {str(outcome.path): outcome.failure for outcome in outcomes if outcome.failure is not None}
    combined = combine({str(outcome.path): outcome.result for outcome in outcomes if outcome.result is not None})
    if failed:
        raise FolderError(str(folder), failed, combined, len(files))
    return combined

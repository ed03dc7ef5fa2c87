"""Find the Parquet files of a folder, and process them in parallel; a file that fails does not stop the others.

Each file is found once, by its name, which may end in upper case. To read files, all links are followed. To change
files, only links to files inside the folder are followed, so that no file outside of it changes by surprise.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from parsieve._core import ParsieveError
from parsieve.errors import FolderError, describe
from parsieve.io.names import NO_FILE, is_ignored, is_link_to_parent, kind_of_special
from parsieve.io.parallel import ProgressBar, thread_count
from parsieve.io.sources import local_source
from parsieve.observe.logs import FILTERS
from parsieve.wording import count

Result = TypeVar("Result")


SUFFIXES = (".parquet", ".parq", ".pq")
# How many paths a note lists for each reason.
LISTED = 5

NAME = f"the name ends in none of {', '.join(SUFFIXES)}"
OUTSIDE = "a link leads out of the folder; to change what is there, pass its own path"
EMPTY = "the file has 0 bytes, so a writer may have just created it"
BROKEN = "the link leads to no file"
PARENT = "the link leads to a folder that contains it"


class Change(Enum):
    """How files are changed: a new file replaces each of them, or their bytes change in place."""

    REPLACE = "replace"
    IN_PLACE = "in place"


def change_of(*, in_place: bool) -> Change:
    """Return how files are changed."""
    return Change.IN_PLACE if in_place else Change.REPLACE


@dataclass(frozen=True)
class Found:
    """The Parquet files of a folder, sorted, and the skipped names with the reasons."""

    files: list[Path]
    left_out: dict[Path, str] = field(default_factory=dict)

    def notes(self, folder: Path) -> list[str]:
        """Return a sentence for each reason, with some of its paths.

        >>> from pathlib import Path
        >>> Found([], {Path("lake/notes.txt"): "it is a text", Path("lake/x"): "it is a pipe"}).notes(Path("lake"))
        ['skipped 1 name (notes.txt): it is a text', 'skipped 1 name (x): it is a pipe']
        """
        by_reason: dict[str, list[str]] = {}
        for path, reason in sorted(self.left_out.items()):
            by_reason.setdefault(reason, []).append(_shown(os.path.relpath(path, folder)))
        notes = []
        for reason, paths in by_reason.items():
            more = f" and {len(paths) - LISTED:,} more" if len(paths) > LISTED else ""
            notes.append(f"skipped {count(len(paths), 'name')} ({', '.join(paths[:LISTED])}{more}): {reason}")
        return notes


def find_files(folder: Path, change: Change | None = None) -> Found:
    """Return the Parquet files in a folder and below it, without the names that engines ignore.

    A file that also has links in the folder is returned once. Raise an error if a folder cannot be listed.
    """
    search = _Search(folder, change)
    search.walk(folder)
    search.follow_links()
    paths = search.distinct()
    if change is Change.IN_PLACE:
        paths = _one_of_each_inode(paths)
    return Found(paths, search.left_out)


class _Search:
    """The search for files. First the folder itself is searched, then its links, so links do not hide real names."""

    def __init__(self, folder: Path, change: Change | None) -> None:
        self.left_out: dict[Path, str] = {}
        self._root = str(folder)
        self._real_root = os.path.realpath(folder)
        self._is_change = change is not None
        self._files: list[Path] = []
        self._linked_files: list[Path] = []
        self._linked_folders: list[Path] = []
        # The real paths of the folders that were searched. A folder with several links is searched once, so circles of
        # links end.
        self._searched: set[str] = set()

    def walk(self, folder: Path, files: list[Path] | None = None) -> None:
        """Search a folder and the folders below it, and collect its files and links."""
        files = self._files if files is None else files
        real_folder = os.path.realpath(folder)
        for parent, folders, names in os.walk(folder, onerror=_raise):
            # No link is followed below the folder.
            real = real_folder + parent[len(str(folder)) :]
            if real in self._searched:
                folders[:] = []
                continue
            self._searched.add(real)
            visible = sorted(name for name in folders if not is_ignored(name))
            links = {name for name in visible if Path(parent, name).is_symlink()}
            self._linked_folders += [Path(parent, name) for name in visible if name in links]
            folders[:] = [name for name in visible if name not in links]
            for name in names:
                if not is_ignored(name):
                    self._sort(Path(parent, name), files)

    def _sort(self, path: Path, files: list[Path]) -> None:
        """Decide about a name that is no folder."""
        is_link = path.is_symlink()
        try:
            state = path.stat()
            mode, size = state.st_mode, state.st_size
        except OSError as error:
            if error.errno not in NO_FILE:
                # Opening the file raises the error, and the other files are processed.
                mode, size = stat.S_IFREG, 1
            elif is_link:
                self.left_out[path] = BROKEN
                return
            else:
                # Removed since the folder was listed.
                return
        if not stat.S_ISREG(mode):
            self.left_out[path] = f"it is {kind_of_special(mode) or 'no file'}"
        elif not path.name.lower().endswith(SUFFIXES):
            self.left_out[path] = NAME
        elif size == 0:
            self.left_out[path] = EMPTY
        else:
            (self._linked_files if is_link else files).append(path)

    def follow_links(self) -> None:
        """Search the folders that links lead to."""
        while self._linked_folders:
            path = self._linked_folders.pop(0)
            if os.path.realpath(path) in self._searched:
                continue
            if is_link_to_parent(str(path), self._root):
                self.left_out[path] = PARENT
            elif self._is_change and not self._is_inside(path):
                self.left_out[path] = OUTSIDE
            else:
                self.walk(path, self._linked_files)

    def distinct(self) -> list[Path]:
        """Return the files, each once. A name that is no link comes before links."""
        by_file = {os.path.realpath(path): path for path in self._files} if self._linked_files else {}
        for link in sorted(self._linked_files):
            if self._is_change and not self._is_inside(link):
                self.left_out[link] = OUTSIDE
            else:
                by_file.setdefault(os.path.realpath(link), link)
        return sorted(by_file.values() if self._linked_files else self._files)

    def _is_inside(self, path: Path) -> bool:
        """Return whether a link leads to a file or folder inside the folder."""
        return Path(os.path.realpath(path)).is_relative_to(self._real_root)


def _one_of_each_inode(paths: Iterable[Path]) -> list[Path]:
    """Return one of the names of each file. A change in place shows in all hard links of a file."""
    by_inode: dict[tuple[int, int], Path] = {}
    for path in paths:
        state = path.stat()
        by_inode.setdefault((state.st_dev, state.st_ino), path)
    return list(by_inode.values())


def _raise(error: OSError) -> None:
    raise error


def _shown(path: str) -> str:
    """Return a path for one line of text."""
    return path if path.isprintable() else ascii(path)


class Outcome(NamedTuple, Generic[Result]):
    """The result for one file, or its error."""

    path: Path
    result: Result | None
    error: str | None
    failure: Exception | None = None


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder and below it, as `find_files` does for reading."""
    return find_files(folder).files


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
                except (ParsieveError, OSError, ValueError, MemoryError, RuntimeError) as error:
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
    combine: Callable[[dict[str, Result], dict[str, str]], Any],
    *,
    change: Change | None = None,
    threads: int | None = None,
    before: Callable[[list[Path]], None] | None = None,
) -> Any:
    """Process all Parquet files of a folder, and combine the results, which are keyed by path.

    `change` says how the files are changed; by default, they are only read. `combine` also gets the skipped
    names with the reasons. If files fail, raise `FolderError` after the others are done. `before` may raise an error
    for the files before the first of them is processed.
    """
    found = find_files(folder, change)
    if not found.files:
        problem = "; ".join([f"no Parquet files ({', '.join(SUFFIXES)}) in this folder", *found.notes(folder)])
        raise FileNotFoundError(errno.ENOENT, problem, str(folder))
    if before is not None:
        before(found.files)
    for note in found.notes(folder):
        FILTERS.warning("%s: %s", folder, note)
    outcomes = for_each_file(work, found.files, threads=threads)
    failed = {str(outcome.path): outcome.failure for outcome in outcomes if outcome.failure is not None}
    results = {str(outcome.path): outcome.result for outcome in outcomes if outcome.result is not None}
    combined = combine(results, {str(path): reason for path, reason in found.left_out.items()})
    if failed:
        raise FolderError(str(folder), failed, combined, len(found.files))
    return combined

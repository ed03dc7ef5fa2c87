"""Where a rewritten file goes: which paths may be written, and whether the file is replaced or changed in place."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from parsieve._core import UnsupportedError
from parsieve.filters.renewal_notes import note_same_rows
from parsieve.io import in_place
from parsieve.io.fd import detects_writes, identity
from parsieve.io.index_location import indexed_folder
from parsieve.io.replace import Replacement
from parsieve.io.sources import Range, local_source

# The folders that mark a table whose metadata records the sizes of its files. Only with metadata of Iceberg in it, a
# folder `metadata` is such a mark.
TABLE_FOLDERS = {
    "_delta_log": "Delta",
    ".hoodie": "Hudi",
    "metadata": "Iceberg",
    "_spark_metadata": "Spark Structured Streaming",
}


class RewriteTarget:
    """The file to read, its identity before anything was read, the path to write, and the unfinished new file."""

    def __init__(self, source: Any, dest: Any, hard_links: str, change_in_place: bool, dry_run: bool) -> None:
        if source is None:
            raise TypeError("source must be the path of a local file or folder, not None")
        path, dest_path = local_source(source), local_source(dest)
        for place, local in ((source, path), (dest, dest_path)):
            if place == "":
                raise ValueError("the path is empty; for the current folder, write '.'")
            if place is not None and local is None:
                raise UnsupportedError(
                    f"{place} is not the path of a local file, and objects of a store cannot be changed in place: pass "
                    'upload=True to replace the whole object, or use open_table(...).build_index(..., kind="bloom")'
                )
        assert path is not None
        if change_in_place and dest is not None:
            raise ValueError("in_place changes the source itself, so it takes no dest")
        self.source = Path(os.path.realpath(path))
        self.dry_run = dry_run
        self.is_copy = dest is not None
        # Other hard links of a file that changes in place show the change, so none of them keeps the old file.
        hard_links = "break" if change_in_place and hard_links == "refuse" else hard_links
        self.path = target_path(path, dest_path, hard_links)
        self.keep_footer = change_in_place
        self._in_place: in_place.InPlaceChange | None = None
        self._replacement: Replacement | None = None
        if change_in_place and not dry_run:
            self._in_place = in_place.InPlaceChange(self.source)
        else:
            in_place.recover(self.source)
        now, state = time.time_ns(), self.source.stat()
        self.size = state.st_size
        self._identity, self._detects_writes = identity(state), detects_writes(state, now)

    def __enter__(self) -> RewriteTarget:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for unfinished in (self._in_place, self._replacement):
            if unfinished is not None:
                unfinished.__exit__(kind, error, trace)

    def replacement(self) -> Replacement:
        """Return the new file; the first call creates it."""
        if self._replacement is None:
            self._replacement = Replacement(self.source, self._identity, self.path, self._detects_writes)
        return self._replacement

    def write(self, copy: int, wipe: list[Range], tail: Callable[[], Iterator[bytes]], verify: Any) -> int:
        """Write the new file as planned, and return its size. See `Replacement.finish` for the arguments."""
        if self._in_place is not None:
            return self._in_place.finish(self._identity, wipe, tail, verify)
        replacement = self.replacement()
        size = replacement.finish(copy, wipe, tail(), verify)
        if replacement.proven_versions is not None and not self.is_copy and indexed_folder(self.path) is not None:
            note_same_rows(self.path, *replacement.proven_versions)
        return size


def target_path(source: Path, dest: Path | None, hard_links: str) -> Path:
    """Return the path to write, with links resolved; raise an error if writing there would break something."""
    if hard_links not in ("refuse", "break"):
        raise ValueError(f'hard_links must be "refuse" or "break", not {hard_links!r}')
    requested = source if dest is None else dest
    target = Path(os.path.realpath(requested))
    exists = target.exists()
    # If the paths are the same, another process may replace the file between two looks at it.
    if exists and target != Path(os.path.realpath(source)) and not target.samefile(source):
        raise FileExistsError(f"{requested} already exists; remove it first, or choose another dest")
    if dest is not None and not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder for the new file", str(target.parent))
    if exists and not target.is_file():
        raise UnsupportedError(f"{requested} is {'a folder' if target.is_dir() else 'not a regular file'}")
    if exists and target.stat().st_nlink > 1 and hard_links == "refuse":
        raise UnsupportedError(
            f'{requested} has other hard links, which would keep the old file; pass hard_links="break" or a dest'
        )
    # Check the path before and after links are resolved.
    for path in {Path(os.path.abspath(requested)), target}:  # noqa: PTH100 - Path.absolute() keeps ".."
        refuse_table_file(path)
    return target


def refuse_table_file(path: Path) -> None:
    """Raise an error for a file of a table: the table's metadata records file sizes, so the files must not grow."""
    table = table_around(path)
    if table is not None:
        kind, folder = table
        raise table_error(path, folder, kind)


def refuse_table_files(paths: Iterable[Path]) -> None:
    """Raise an error if any of these files belongs to a table, before one of them changes."""
    for parent in dict.fromkeys(path.resolve().parent for path in paths):
        refuse_table_file(parent / "*.parquet")


def table_around(path: Path) -> tuple[str, Path] | None:
    """Return the format and the folder of the table in whose folder a path is, or None."""
    for folder in path.parents:
        for name, kind in TABLE_FOLDERS.items():
            if (folder / name).is_dir() and (kind != "Iceberg" or any((folder / name).glob("*.metadata.json*"))):
                return kind, folder
    return None


def table_error(path: object, folder: object, kind: str) -> UnsupportedError:
    """Return the error for a file of a table."""
    return UnsupportedError(
        f"{path} belongs to the {kind} table {folder}, whose metadata records file sizes, so its files must "
        f'not change; use open_table({str(folder)!r}).build_index(..., kind="bloom"), or a dest outside of it'
    )

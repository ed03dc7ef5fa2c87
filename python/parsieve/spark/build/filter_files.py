"""Tasks that add Bloom filters to the files of a plain Parquet table on Spark's executors.

A task replaces each file atomically, as `parsieve.add_filters` does. If Spark runs a task again, or twice at the same
time, the later attempt finds the filters of the earlier one and keeps them. If two attempts finish at the same time,
one fails, looks again, and finds the filters of the other.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from parsieve._core import UnsupportedError
from parsieve.errors import ColumnNotFoundError, ConflictError
from parsieve.filters import rewrite
from parsieve.filters.folder_run import OUTSIDE
from parsieve.filters.options import AddOptions
from parsieve.filters.upload import is_remote
from parsieve.spark.runtime import executors

if TYPE_CHECKING:
    from parsieve.filters.report import RewriteReport
    from parsieve.lake.folder.table import ParquetDir
    from parsieve.lake.storage.listing import ListedFile
    from parsieve.lake.storage.storage import Storage

# How often to try again if another process changes the file.
ATTEMPTS = 5
# Errors of the caller's arguments, not of a file.
ARGUMENT_ERRORS = (ColumnNotFoundError, TypeError)


class FileResult(NamedTuple):
    """A row of the summary: the result for one file."""

    path: str
    # "added", "unchanged" if there was nothing to add, or "failed".
    status: str
    filters: int
    bytes: int
    seconds: float
    error: str | None


@dataclass(frozen=True)
class _AddTask:
    storage: Storage
    files: Sequence[ListedFile]
    options: Mapping[str, Any]
    replace: bool


def add_to_files(spark: Any, lake: ParquetDir, options: Mapping[str, Any], replace: bool) -> list[FileResult]:
    """Add filters to the files of a table, and return the result for each file."""
    storage = lake.storage
    if not storage.is_local and not options["upload"]:
        raise UnsupportedError(
            f"{lake.uri} is in an object store, whose objects can only be replaced: pass upload=True to upload each "
            "file again, or build an index instead"
        )
    options = {**options, "upload": not storage.is_local, "threads": 1}
    files, outside = _inside(storage, [file for file in storage.list() if file.size])
    tasks = [
        _AddTask(storage, files[start:end], options, replace)
        for start, end in executors.shares(spark, [file.size for file in files])
    ]
    answers = executors.run(spark, f"add filters to the files of {lake.uri}", _add, tasks)
    results = [result for answer in answers for result in answer]
    argument_errors = [error for _, error in results if error is not None]
    if results and len(argument_errors) == len(results):
        # The arguments fit no file, so they are wrong.
        raise argument_errors[0]
    return sorted([done for done, _ in results] + outside)


def _inside(storage: Storage, files: Sequence[ListedFile]) -> tuple[list[ListedFile], list[FileResult]]:
    """Return each file once, and a failure for each file that is outside of the folder, behind a link."""
    if not storage.is_local:
        return list(files), []
    root = os.path.realpath(storage.root)
    real_folders: dict[str, str] = {}
    inside: dict[str, ListedFile] = {}
    outside: list[FileResult] = []
    # Names that are links come last, so that the result names the file itself.
    for is_link, file in sorted((os.path.islink(file.path), file) for file in files):  # noqa: PTH114
        folder, name = os.path.split(file.path)
        if folder not in real_folders:
            real_folders[folder] = os.path.realpath(folder)
        real = os.path.realpath(file.path) if is_link else os.path.join(real_folders[folder], name)  # noqa: PTH118
        if os.path.commonpath((root, real)) == root:
            inside.setdefault(real, file)
        else:
            outside.append(FileResult(storage.address(file.path), "failed", 0, 0, 0.0, OUTSIDE))
    return sorted(inside.values()), outside


def _add(task: _AddTask) -> list[tuple[FileResult, Exception | None]]:
    """Add filters to some files, on an executor. Also return the errors of the caller's arguments."""
    return [add_to_file(task.storage, file, task.options, task.replace) for file in task.files]


def add_to_file(
    storage: Storage, file: ListedFile, options: Mapping[str, Any], replace: bool
) -> tuple[FileResult, Exception | None]:
    """Add filters to one file. Also return the error if the caller's arguments are wrong."""
    started = time.monotonic()
    path = storage.address(file.path)
    try:
        report = _add_with_retries(storage, file, options, replace)
    except Exception as error:
        # The file has not changed. Report any error, and continue with the other files.
        argument_error = error if isinstance(error, ARGUMENT_ERRORS) else None
        return FileResult(path, "failed", 0, 0, time.monotonic() - started, text_of(error)), argument_error
    size = sum(added.length for added in report.added)
    status = "added" if report.written else "unchanged"
    return FileResult(path, status, len(report.added), size, time.monotonic() - started, None), None


def _add_with_retries(storage: Storage, file: ListedFile, options: Mapping[str, Any], replace: bool) -> RewriteReport:
    # Open remote files with obstore, because other filesystems cannot replace an object on a condition.
    source = storage.source(file.path)
    address = storage.address(file.path)
    if is_remote(source) and not hasattr(source[0], "get_range"):
        source = address
    for attempt in range(ATTEMPTS):
        existing = partial(_existing_filters, storage, file, replace and not attempt)
        try:
            return rewrite.add_to_file(source, None, AddOptions(**options), existing)
        except ConflictError:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(random.uniform(0.1, 0.5) * (attempt + 1))
    raise AssertionError("unreachable")


def _existing_filters(storage: Storage, file: ListedFile, replace: bool) -> str:
    """Decide whether to replace the filters of a file: keep them if another attempt has added them since the listing.

    This is called after the identity of the file was recorded, so a change after this decision is detected.
    """
    is_unchanged = replace and (not file.token or storage.stat(file.path) == file.token)
    return "replace" if is_unchanged else "keep"


def text_of(error: Exception) -> str:
    """Return the type and the message of an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())

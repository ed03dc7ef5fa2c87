"""Add Bloom filters to every file of a table on Spark's executors: inside the files, or in an index if files are fixed.

A task replaces each file of a plain table atomically, as `parsieve.add_filters` does. If Spark runs a task again, or
twice at the same time, the later attempt finds the filters of the earlier one and keeps them. If two attempts finish at
the same time, one fails, looks again, and finds the filters of the other.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from parsieve._core import UnsupportedError
from parsieve.errors import ColumnNotFoundError, ConflictError
from parsieve.filters import rewrite
from parsieve.filters.rates import checked_fpp
from parsieve.filters.report import RewriteReport
from parsieve.filters.upload import is_remote
from parsieve.index.bloom.build import build as build_bloom
from parsieve.index.bloom.update import update as update_bloom
from parsieve.index.build.settle import path_of_slice, settle
from parsieve.index.build.target import Target
from parsieve.index.log.columns import paths_of
from parsieve.index.log.commit import Log
from parsieve.lake.base import Lake
from parsieve.lake.folder.table import ParquetDir
from parsieve.lake.storage.listing import ListedFile
from parsieve.lake.storage.storage import Storage
from parsieve.spark.build.executor import SparkExecutor
from parsieve.spark.runtime import executors
from parsieve.spark.tables import lake_and_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUMMARY = "path string, status string, filters int, bytes long, seconds double, error string"
# How often to try again if another process changes the file.
ATTEMPTS = 5
# Errors of the caller's arguments, not of a file.
ARGUMENT_ERRORS = (ColumnNotFoundError, TypeError)


class Done(NamedTuple):
    """A row of the summary: the result for one file."""

    path: str
    # "added", "unchanged" if there was nothing to add, or "failed".
    status: str
    filters: int
    bytes: int
    seconds: float
    error: str | None


def add_filters(
    spark: SparkSession,
    table: Any,
    columns: Any = "auto",
    fpp: float = 0.01,
    *,
    max_bytes: int = rewrite.MAX_BYTES,
    existing: str = "keep",
    hard_links: str = "refuse",
    upload: bool = False,
    index_location: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Add Bloom filters to every file of a table on Spark's executors. Return a DataFrame with a row for each file.

    In a folder of plain Parquet files, the filters are added to the files. Each file is replaced atomically, so readers
    see either the old file or the complete new one, even after a crash. If a run is interrupted, start it again.
    Afterwards, create new DataFrames of the folder, because existing ones have the old file sizes, and call
    `update_index` if the table has an index.

    Hudi, Delta and Iceberg record the sizes of their files, so the files must not change. Their filters are stored in a
    Bloom index instead, as by `build_index(kind="bloom")`.

    The summary has one row for each file: `path`; `status`, which is "added", "unchanged" (there was nothing to add) or
    "failed"; `filters` and `bytes`, the number and the size of the new filters; `seconds`; and the `error`, if any. A
    file that fails does not affect the others.

    Args:
        spark: your own session, or one from `pss.session()`. Its settings and views do not change.
        table: a path or URI, a name in Spark's catalog, a table from `open_table`, or an argument of `open_table`.
        columns: one column or several. For plain Parquet files also "auto", which chooses the columns that benefit, or
            a dict of options by column, as for `parsieve.add_filters`.
        fpp: the false positive rate of the filters.
        max_bytes: the maximum size of the filter of a row group; for plain Parquet files only.
        existing: "keep" keeps existing filters, "replace" replaces them.
        hard_links: "refuse" fails for a file with several hard links. "break" replaces the file under this name only.
        upload: for plain Parquet files in an object store: download each object, and upload it with filters unless
            another process changed it.
        index_location: where to store the index of a Hudi, Delta or Iceberg table; None is the default place.
        storage_options: options to access the object store of the table and of the index.

    >>> import tempfile, parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> folder = tempfile.mkdtemp() + "/t"
    >>> spark.range(1000).coalesce(1).write.parquet(folder)
    >>> [(row.status, row.filters) for row in pss.add_filters(spark, folder, "id").collect()]
    [('added', 1)]
    >>> [(row.status, row.filters) for row in pss.add_filters(spark, folder, "id").collect()]
    [('unchanged', 0)]
    """
    if existing not in ("keep", "replace"):
        raise ValueError(f'existing is "keep" or "replace", not {existing!r}')
    fpp = checked_fpp(fpp)
    lake, store = lake_and_store(spark, table, index_location, storage_options)
    if isinstance(lake, ParquetDir):
        options = {"columns": columns, "fpp": fpp, "max_bytes": max_bytes, "hard_links": hard_links, "upload": upload}
        done = _to_files(spark, lake, options, existing == "replace")
    else:
        if not isinstance(columns, (str, Sequence)) or columns == "auto":
            raise ValueError(f"name the columns to index: the table's format is {lake.format}")
        names = [columns] if isinstance(columns, (str, tuple)) else columns
        done = _to_index(SparkExecutor(spark, store), lake, names, fpp, keep=existing == "keep")
    return spark.createDataFrame([tuple(row) for row in done], SUMMARY)


@dataclass(frozen=True)
class _AddTask:
    storage: Storage
    files: Sequence[ListedFile]
    options: Mapping[str, Any]
    replace: bool


def _to_files(spark: Any, lake: ParquetDir, options: Mapping[str, Any], replace: bool) -> list[Done]:
    storage = lake.storage
    if not storage.is_local and not options["upload"]:
        raise UnsupportedError(
            f"{lake.uri} is in an object store, whose objects can only be replaced: pass upload=True to upload each "
            "file again, or build an index instead"
        )
    options = {**options, "upload": not storage.is_local, "threads": 1}
    files = [file for file in storage.list() if file.size]
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
    return [done for done, _ in results]


def _add(task: _AddTask) -> list[tuple[Done, Exception | None]]:
    """Add filters to some files, on an executor. Also return the errors of the caller's arguments."""
    return [_add_one(task.storage, file, task.options, task.replace) for file in task.files]


def _add_one(
    storage: Storage, file: ListedFile, options: Mapping[str, Any], replace: bool
) -> tuple[Done, Exception | None]:
    started = time.monotonic()
    path = storage.address(file.path)
    try:
        report = _add_with_retries(storage, file, options, replace)
    except Exception as error:
        # The file has not changed. Report any error, and continue with the other files.
        argument_error = error if isinstance(error, ARGUMENT_ERRORS) else None
        return Done(path, "failed", 0, 0, time.monotonic() - started, _text_of(error)), argument_error
    size = sum(added.length for added in report.added)
    status = "added" if report.written else "unchanged"
    return Done(path, status, len(report.added), size, time.monotonic() - started, None), None


def _add_with_retries(storage: Storage, file: ListedFile, options: Mapping[str, Any], replace: bool) -> RewriteReport:
    # Open remote files with obstore, because other filesystems cannot replace an object on a condition.
    source = storage.source(file.path)
    address = storage.address(file.path)
    if is_remote(source) and not hasattr(source[0], "get_range"):
        source = address
    columns, fpp = options["columns"], options["fpp"]
    more = {name: value for name, value in options.items() if name not in ("columns", "fpp")}
    for attempt in range(ATTEMPTS):
        existing = partial(_existing_filters, storage, file, replace and not attempt)
        try:
            return rewrite.added(source, None, columns, fpp, existing, **more)
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


def _to_index(executor: SparkExecutor, lake: Lake, columns: Iterable[Any], fpp: float, *, keep: bool) -> list[Done]:
    log = Log(executor.store)
    snapshot = settle(lake, lake.snapshot())
    paths = paths_of(list(columns))
    newest = log.newest()
    indexed = newest.blooms if newest is not None and keep else {}
    missing = [path for path in paths if path not in indexed]
    if missing:
        build_bloom(log, lake, snapshot, missing, executor, fpp=fpp)
    if len(missing) < len(paths):
        update_bloom(log, lake, snapshot, executor)
    done: dict[Any, Done] = {}
    reasons = snapshot.unsettled or {}
    covered = Target.of(snapshot).tokens
    for file_slice in snapshot.slices:
        location, path = file_slice.location, path_of_slice(file_slice)
        if location in covered:
            done[location] = Done(path, "unchanged", 0, 0, 0.0, None)
        else:
            done[location] = Done(path, "failed", 0, 0, 0.0, reasons.get(location, "it cannot be indexed now"))
    for outcome in executor.outcomes:
        before = done[outcome.file_slice.location]
        error = None if outcome.error is None else _text_of(outcome.error)
        done[outcome.file_slice.location] = Done(
            before.path,
            "failed" if error or before.status == "failed" else "added",
            before.filters + (0 if error else outcome.filters),
            before.bytes + outcome.num_bytes,
            before.seconds + outcome.seconds,
            error or before.error,
        )
    return list(done.values())


def _text_of(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())

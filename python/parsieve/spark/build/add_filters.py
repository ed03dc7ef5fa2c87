"""Bloom filters for every file of a table, by Spark's executors: in the files where they may change, else beside them.

A file of a plain table is replaced at once by whoever adds to it, as `parsieve.add_filters` does it; so a task that is
tried again, or runs twice at once, finds the filters that are there already and leaves them. Of two that end together
one loses, looks again, and finds the winner's.
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
from parsieve.filters.options import MAX_BYTES, AddOptions, checked_fpp
from parsieve.filters.report import RewriteReport
from parsieve.filters.rewrite import add_to_file
from parsieve.filters.upload import is_remote
from parsieve.index.bloom import build as bloom
from parsieve.index.log.columns import path_of
from parsieve.index.log.commit import Log
from parsieve.index.settling import settle
from parsieve.index.sieve.build import bindable
from parsieve.lake.base import Lake, Slice
from parsieve.lake.folder.table import ParquetDir
from parsieve.lake.storage.listing import ListedFile
from parsieve.lake.storage.storage import Storage
from parsieve.spark.build.bloom import Executors
from parsieve.spark.runtime import executors
from parsieve.spark.tables import lake_and_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUMMARY = "path string, status string, filters int, bytes long, seconds double, error string"
# A file whose writer was faster is looked at again.
ATTEMPTS = 5
# What no table can mend: the caller's arguments are wrong.
WRONG = (ColumnNotFoundError, TypeError)


class Done(NamedTuple):
    """A row of the summary: what became of one file."""

    path: str
    # "added", "unchanged" where nothing was to be added, or "failed".
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
    max_bytes: int = MAX_BYTES,
    existing: str = "keep",
    hard_links: str = "refuse",
    upload: bool = False,
    index_location: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Give every file of a table Bloom filters, by Spark's executors; a DataFrame tells what became of each file.

    In a folder of plain Parquet the filters are added to the files themselves, each of which is replaced at once: who
    reads sees the old file or the complete new one, whatever crashes. A run that was interrupted is simply started
    again. Make DataFrames of the folder anew afterwards, for those made before remember the old sizes; an index of the
    table is brought up to date by `update_index`.

    Hudi, Delta and Iceberg record the sizes of their files, which so must not change. Their filters go into the Bloom
    index beside the table, as by `build_index(kind="bloom")`, whose files the executors write.

    The summary has a row for each file: `path`; `status`, which is "added", "unchanged" (nothing was to be added) or
    "failed"; `filters`, their number, and `bytes`, their size; `seconds`; and the `error` of what failed. A file that
    fails does not keep the others from theirs.

    Args:
        spark: a session of your own, or of `pss.session()`. Its settings and views are left alone.
        table: a path or URI, a name in Spark's catalog, a table from `open_table`, or whatever that takes.
        columns: one or several; for plain Parquet also "auto", those that deserve it, or a dict of options by column,
            as `parsieve.add_filters` takes them.
        fpp: the rate of false positives that each filter keeps.
        max_bytes: the largest filter of a row group; plain Parquet only.
        existing: filters that are there are kept, or replaced (`"replace"`).
        hard_links: `"break"` lets other names of a file keep the old bytes; by default such a file fails.
        upload: for plain Parquet in an object store: fetch each object, and put it anew if nobody changed it.
        index_location: where the index of a Hudi, Delta or Iceberg table lies; None: beside the table.
        storage_options: of the table's and the index's object store.

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
        log = Log(store)
        done = _beside(spark, log, lake, [columns] if isinstance(columns, (str, tuple)) else columns, fpp, existing)
    return spark.createDataFrame([tuple(one) for one in done], SUMMARY)


@dataclass(frozen=True)
class _Adding:
    storage: Storage
    files: Sequence[ListedFile]
    options: Mapping[str, Any]
    replace: bool


def _to_files(spark: Any, lake: ParquetDir, options: Mapping[str, Any], replace: bool) -> list[Done]:
    storage = lake.storage
    if not storage.is_local and not options["upload"]:
        raise UnsupportedError(
            f"{lake.uri} lies in an object store, whose objects cannot be changed, only put anew as a whole: "
            "upload=True does that; or build an index beside the table"
        )
    options = {**options, "upload": not storage.is_local, "threads": 1}
    files = [file for file in storage.list() if file.size]
    tasks = [
        _Adding(storage, files[start:end], options, replace)
        for start, end in executors.shares(spark, [file.size for file in files])
    ]
    answers = executors.run(spark, f"add filters to the files of {lake.uri}", _add, tasks)
    done = [one for several in answers for one in several]
    wrong = [error for _, error in done if error is not None]
    if done and len(wrong) == len(done):
        # Fits no file: it was asked for wrongly.
        raise wrong[0]
    return [one for one, _ in done]


def _add(task: _Adding) -> list[tuple[Done, Exception | None]]:
    """On an executor: filters for some files, one after the other; with what was asked for wrongly."""
    return [_add_one(task.storage, file, task.options, task.replace) for file in task.files]


def _add_one(
    storage: Storage, file: ListedFile, options: Mapping[str, Any], replace: bool
) -> tuple[Done, Exception | None]:
    started = time.monotonic()
    path = storage.address(file.path)
    try:
        report = _until_nobody_interferes(storage, file, options, replace)
    except Exception as error:
        # One file of many: whatever is wrong with it is told, and it is as it was.
        said = " ".join(f"{type(error).__name__}: {error}".split())
        wrong = error if isinstance(error, WRONG) else None
        return Done(path, "failed", 0, 0, time.monotonic() - started, said), wrong
    size = sum(one.length for one in report.added)
    status = "added" if report.written else "unchanged"
    return Done(path, status, len(report.added), size, time.monotonic() - started, None), None


def _until_nobody_interferes(
    storage: Storage, file: ListedFile, options: Mapping[str, Any], replace: bool
) -> RewriteReport:
    # What a URI names is opened through obstore, which alone can put an object on a condition.
    source = storage.source(file.path)
    address = storage.address(file.path)
    if is_remote(source) and not hasattr(source[0], "get_range"):
        source = address
    for attempt in range(ATTEMPTS):
        existing = partial(_of_those_that_are_there, storage, file, replace and not attempt)
        try:
            return add_to_file(source, None, AddOptions(**options), existing)
        except ConflictError:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(random.uniform(0.1, 0.5) * (attempt + 1))
    raise AssertionError("unreachable")


def _of_those_that_are_there(storage: Storage, file: ListedFile, replace: bool) -> str:
    """What becomes of a file's filters: one that is not as the driver saw it got them from another attempt or a twin.

    Asked once the file was seen, so that a twin who ends right after the answer is noticed.
    """
    untouched = replace and (not file.token or storage.stat(file.path) == file.token)
    return "replace" if untouched else "keep"


def _beside(spark: Any, log: Log, lake: Lake, columns: Iterable[Any], fpp: float, existing: str) -> list[Done]:
    snapshot = settle(lake, lake.snapshot())
    reasons = snapshot.unsettled or {}
    paths = list(dict.fromkeys(path_of(column) for column in columns))
    newest = log.newest()
    known = newest.blooms if newest is not None and existing == "keep" else {}
    hands = Executors(spark, lake, log.store)
    if missing := [path for path in paths if path not in known]:
        bloom.build_by(log, snapshot, missing, hands, fpp)
    if len(missing) < len(paths):
        bloom.update_by(log, snapshot, hands)
    done: dict[Any, Done] = {}
    bound = {piece.location for piece in bindable(snapshot)}
    for piece in snapshot.slices:
        why = None if piece.location in bound else reasons.get(piece.location, "it cannot be indexed now")
        done[piece.location] = Done(_name(piece), "unchanged" if why is None else "failed", 0, 0, 0.0, why)
    for one in hands.outcomes:
        before = done[one.piece.location]
        said = None if one.error is None else " ".join(f"{type(one.error).__name__}: {one.error}".split())
        done[one.piece.location] = Done(
            before.path,
            "failed" if said or before.status == "failed" else "added",
            before.filters + (0 if said else one.filters),
            before.bytes + one.num_bytes,
            before.seconds + one.seconds,
            said or before.error,
        )
    return list(done.values())


def _name(piece: Slice) -> str:
    """The base file, or the group of log files without one."""
    return piece.path or "/".join(filter(None, [piece.partition, piece.group]))

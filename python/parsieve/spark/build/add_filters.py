"""`add_filters`: add Bloom filters to every file of a table on Spark, inside the files or in a Bloom index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from parsieve.filters.options import MAX_BYTES, checked_fpp
from parsieve.index.bloom.build import build as build_bloom
from parsieve.index.bloom.update import update as update_bloom
from parsieve.index.build.settle import path_of_slice, settle
from parsieve.index.build.target import Target
from parsieve.index.log.columns import paths_of
from parsieve.index.log.log import Log
from parsieve.lake.folder.table import ParquetDir
from parsieve.lake.rows.columns import indexable_path
from parsieve.observe.logs import SPARK, place
from parsieve.spark.build.executor import SparkExecutor
from parsieve.spark.build.filter_files import FileResult, add_to_files, text_of
from parsieve.spark.tables import lake_and_store
from parsieve.wording import count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from parsieve.lake.base import Lake

SUMMARY = "path string, status string, filters int, bytes long, seconds double, error string"


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
    """Add Bloom filters to every file of a table on Spark's executors. Return a DataFrame with a row for each file.

    In a folder of plain Parquet files, the filters are added to the files. Each file is replaced atomically, so readers
    see either the old file or the complete new one, even after a crash. If a run is interrupted, start it again.
    Afterwards, create new DataFrames of the folder, because existing ones have the old file sizes, and call
    `update_index` if the table has an index.

    Hudi, Delta and Iceberg record the sizes of their files, so the files must not change. Their filters are stored in a
    Bloom index instead, as by `build_index(kind="bloom")`.

    The summary has one row for each file: `path`; `status`, which is "added", "unchanged" (there was nothing to add) or
    "failed"; `filters` and `bytes`, the number and the size of the new filters; `seconds`; and the `error`, if any. A
    file that fails does not affect the others. A file with links in a folder is changed once. A file that only a link
    out of the folder leads to is not changed, and is "failed".

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
        raise ValueError(f'existing must be "keep" or "replace", not {existing!r}')
    fpp = checked_fpp(fpp)
    lake, store = lake_and_store(spark, table, index_location, storage_options)
    if isinstance(lake, ParquetDir):
        options = {"columns": columns, "fpp": fpp, "max_bytes": max_bytes, "hard_links": hard_links, "upload": upload}
        done = add_to_files(spark, lake, options, existing == "replace")
    else:
        if not isinstance(columns, (str, Sequence)) or columns == "auto":
            raise ValueError(f"name the columns to index: the table's format is {lake.format}")
        names = [columns] if isinstance(columns, (str, tuple)) else columns
        done = _to_index(SparkExecutor(spark, store), lake, names, fpp, keep=existing == "keep")
    SPARK.info("add filters to %s: %s", place(lake.uri), count(len(done), "file"))
    return spark.createDataFrame([tuple(row) for row in done], SUMMARY)


def _to_index(
    executor: SparkExecutor, lake: Lake, columns: Iterable[Any], fpp: float, *, keep: bool
) -> list[FileResult]:
    log = Log(executor.store)
    snapshot = settle(lake, lake.snapshot())
    paths = [indexable_path(snapshot.schema, path) for path in paths_of(list(columns))]
    newest = log.newest()
    indexed = newest.blooms if newest is not None and keep else {}
    missing = [path for path in paths if path not in indexed]
    if missing:
        build_bloom(log, lake, snapshot, missing, executor, fpp=fpp)
    if len(missing) < len(paths):
        update_bloom(log, lake, snapshot, executor)
    done: dict[Any, FileResult] = {}
    reasons = snapshot.unsettled or {}
    covered = Target.of(snapshot).tokens
    for file_slice in snapshot.slices:
        location, path = file_slice.location, path_of_slice(file_slice)
        if location in covered:
            done[location] = FileResult(path, "unchanged", 0, 0, 0.0, None)
        else:
            done[location] = FileResult(path, "failed", 0, 0, 0.0, reasons.get(location, "it cannot be indexed now"))
    for outcome in executor.outcomes:
        before = done[outcome.file_slice.location]
        error = None if outcome.error is None else text_of(outcome.error)
        done[outcome.file_slice.location] = FileResult(
            before.path,
            "failed" if error or before.status == "failed" else "added",
            before.filters + (0 if error else outcome.filters),
            before.bytes + outcome.num_bytes,
            before.seconds + outcome.seconds,
            error or before.error,
        )
    return list(done.values())

"""An index kept in step with its table by Spark's executors: brought up to date, compacted, expired.

An update reads whole slices that are new or changed, by our own adapters: where rows were deleted, or changed by logs
or deletion vectors, nothing less says which keys a slice holds now. Its deltas replace what was said of them before.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from parsieve.index.bloom import build as bloom
from parsieve.index.bloom.shelf import SHELF_BYTES
from parsieve.index.log.commit import Base, ColumnState, Commit, DeltaPart, Log
from parsieve.index.settling import settle, unsettled, warn_of
from parsieve.index.sieve import compact as upkeep
from parsieve.index.sieve.update import Changes, follow, overgrown
from parsieve.index.table_index import TableIndex
from parsieve.index.view import View
from parsieve.io.store.base import Store
from parsieve.lake.base import AsOf, ColumnPath, Lake, Slice
from parsieve.spark.build import runs
from parsieve.spark.build.bloom import Executors
from parsieve.spark.build.build import MEMORY, Column, Found, build_at, paths_of, read
from parsieve.spark.build.runs import Run
from parsieve.spark.runtime import executors
from parsieve.spark.tables import lake_and_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def update_index(
    spark: SparkSession,
    table: Any,
    *,
    as_of: AsOf = None,
    index_location: Any = None,
    storage_options: Mapping[str, str] | None = None,
    compaction: bool = True,
    memory: int = MEMORY,
) -> View:
    """Bring every indexed column to the table as it is now: executors read the slices that are new or changed.

    Nothing is read or written where nothing changed. Call it after a write, or in `foreachBatch` of a streaming query;
    until it is done, whatever changed is kept by every answer. The arguments are those of `build_index`.

    Columns whose deltas have grown too many are compacted afterwards, unless `compaction` is false.

    >>> import tempfile, parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> folder = tempfile.mkdtemp() + "/t"
    >>> spark.range(10).write.parquet(folder)
    >>> view = pss.build_index(spark, folder, "id")
    >>> spark.range(10, 20).write.mode("append").parquet(folder)
    >>> pss.update_index(spark, folder).version
    2
    """
    lake, store = lake_and_store(spark, table, index_location, storage_options)
    log = Log(store)
    snapshot = settle(lake, lake.snapshot(as_of))
    warn_of(unsettled(snapshot), f"the index in {log.store}")
    hands = _Hands(spark, lake, log.store, memory)
    try:
        done, rebuild = follow(log, snapshot, hands)
    finally:
        runs.delete(log.store, hands.written)
    if rebuild:
        done = build_at(spark, log, lake, snapshot, rebuild, memory=memory).commit
    if done.blooms:
        filters = Executors(spark, lake, log.store, min(SHELF_BYTES, memory))
        done = bloom.update_by(log, snapshot, filters) or done
    due = overgrown(done)
    if compaction and due:
        done = _compacted(spark, log, due)
    return View(log.store, done, TableIndex(log.store).refresh)


@dataclass
class _Hands:
    """Executors that read, and that write deltas."""

    spark: Any
    lake: Lake
    store: Store
    memory: int
    written: list[Run] = field(default_factory=list)

    def read(self, slices: Sequence[Slice], columns: Mapping[ColumnPath, pa.DataType]) -> dict[ColumnPath, Found]:
        """Runs in the store."""
        found = read(self.spark, self.store, self.lake, slices, columns, self.memory)
        self.written += [run for one in found.values() for run in one.runs]
        return found

    def put(self, changes: Changes, found: Found | None) -> DeltaPart:
        """The delta, made of the runs by one task: a version has one delta of a column."""
        if found is None or not found.runs:
            return changes.put(self.store)
        [part] = executors.run(self.spark, "write the changes", _merge, [(self.store, changes, found.runs)])
        return part


def _merge(task: tuple[Store, Changes, Sequence[Run]]) -> DeltaPart:
    """On an executor: runs into a delta."""
    store, changes, found = task
    return changes.put(store, [piece for run in runs.pieces(store, found, None, None) for piece in run])


def compact(
    spark: SparkSession,
    table: Any,
    columns: Column | Sequence[Column] | None = None,
    *,
    index_location: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> View:
    """Make one base of each column's base and deltas, on the executors: equal to a build from scratch.

    >>> import tempfile, parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> folder = tempfile.mkdtemp() + "/t"
    >>> spark.range(10).write.parquet(folder)
    >>> view = pss.build_index(spark, folder, "id")
    >>> spark.range(10, 20).write.mode("append").parquet(folder)
    >>> view = pss.update_index(spark, folder)
    >>> pss.compact(spark, folder).version
    3
    """
    log = Log(lake_and_store(spark, table, index_location, storage_options)[1])
    done = _compacted(spark, log, None if columns is None else paths_of(columns))
    return View(log.store, done, TableIndex(log.store).refresh)


def _compacted(spark: Any, log: Log, paths: Sequence[ColumnPath] | None) -> Commit:
    def make(states: Sequence[ColumnState]) -> list[Base]:
        tasks = [(log.store, state) for state in states]
        return executors.run(spark, f"compact {', '.join('.'.join(one.path) for one in states)}", _compact, tasks)

    return upkeep.compact(log, paths, make=make)


def _compact(task: tuple[Store, ColumnState]) -> Base:
    """On an executor: the new base of a column."""
    store, state = task
    return upkeep.compacted(store, state, None)


def expire(
    spark: SparkSession,
    table: Any,
    older_than: dt.timedelta | dt.datetime,
    *,
    index_location: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[int, int]:
    """Remove old versions of an index and files that none of them names; how many of each. The newest version stays.

    Keep as much as the table itself keeps: an older snapshot is answered by the version that was made for it.

    >>> import datetime, tempfile, parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> folder = tempfile.mkdtemp() + "/t"
    >>> spark.range(10).write.parquet(folder)
    >>> view = pss.build_index(spark, folder, "id")
    >>> pss.expire(spark, folder, datetime.timedelta(days=30))
    (0, 0)
    """
    report = TableIndex(lake_and_store(spark, table, index_location, storage_options)[1]).expire(older_than)
    return report.versions_removed, report.files_removed

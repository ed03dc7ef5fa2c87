"""Update, compact and expire the index of a table on Spark's executors.

An update reads new and changed slices completely, because after deletes or with log files and deletion vectors nothing
less shows which keys a slice has now. Its deltas replace the earlier rows of these slices.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from parsieve.index.accounts import Account
from parsieve.index.bloom.update import update as update_bloom
from parsieve.index.build.expired import repeat_if_expired
from parsieve.index.log.columns import paths_of
from parsieve.index.log.log import Log
from parsieve.index.log.parts import naming_remedy
from parsieve.index.pages import maintain
from parsieve.index.sieve.compact import compact as compact_sieve
from parsieve.index.sieve.update import update as update_sieve
from parsieve.index.table_index import TableIndex
from parsieve.observe.logs import SPARK, place, summary
from parsieve.spark.build.executor import MEMORY, SparkExecutor
from parsieve.spark.tables import lake_and_store, lake_and_writable_store, view_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from parsieve.index.log.commit import Commit
    from parsieve.index.view import View
    from parsieve.lake.base import AsOf

Column = str | Sequence[str]


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
    """Bring the index up to date with the table. The executors read only new and changed files.

    If the table did not change, this reads and writes nothing. Call it after a write, or in `foreachBatch` of a
    streaming query. Until it is done, every query reads the changed files. The arguments are the same as for
    `build_index`.

    Columns that have too many updates are compacted, unless `compaction` is false. A column is built again if its
    changes do not fit into `memory`, because one task writes them.

    >>> import tempfile, parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> folder = tempfile.mkdtemp() + "/t"
    >>> spark.range(10).write.parquet(folder)
    >>> view = pss.build_index(spark, folder, "id")
    >>> spark.range(10, 20).write.mode("append").parquet(folder)
    >>> pss.update_index(spark, folder).version
    2
    """
    lake, store = lake_and_writable_store(spark, table, index_location, storage_options)
    log = Log(store)
    account = Account()
    snapshot = account.settle(lake, lake.snapshot(as_of))
    executor = SparkExecutor(spark, store, memory, account=account)

    def update(_: View | None) -> Commit:
        with naming_remedy():
            version = update_sieve(log, lake, snapshot, executor, compaction=compaction)
            version = update_bloom(log, lake, snapshot, executor) or version
            return maintain.update(log, lake, snapshot, executor).version or version

    view = view_of(log, repeat_if_expired(TableIndex(store), update))
    account.warn(store)
    SPARK.info("update index of %s: version %d", place(lake.uri), view.version)
    return view


def compact(
    spark: SparkSession,
    table: Any,
    columns: Column | Sequence[Column] | None = None,
    *,
    purge: bool = False,
    index_location: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> View:
    """Merge the index and its updates into one set of files on the executors, equal to a build from scratch.

    The executors read the table again, unless the index stores its keys. With `purge` they always read it, so that the
    new index has no trace of deleted rows.

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
    lake, store = lake_and_writable_store(spark, table, index_location, storage_options)
    log = Log(store)
    paths = None if columns is None else paths_of([columns] if isinstance(columns, str) else columns)
    executor = SparkExecutor(spark, store)

    def merge(_: View | None) -> Commit:
        with naming_remedy():
            version = compact_sieve(log, executor, paths, lake, lake.snapshot(), purge=purge)
            return maintain.compact(log, purge=purge) or version

    view = view_of(log, repeat_if_expired(TableIndex(store), merge))
    executor.account.warn(store)
    SPARK.info("compact index of %s: version %d", place(lake.uri), view.version)
    return view


def expire(
    spark: SparkSession,
    table: Any,
    older_than: dt.timedelta | dt.datetime,
    *,
    index_location: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[int, int]:
    """Remove old versions of an index, and files that no version references. Return how many of each were removed.

    The newest version stays. Keep versions as long as the table keeps its snapshots: a query of an older snapshot uses
    the version that was built for it.

    >>> import datetime, tempfile, parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> folder = tempfile.mkdtemp() + "/t"
    >>> spark.range(10).write.parquet(folder)
    >>> view = pss.build_index(spark, folder, "id")
    >>> pss.expire(spark, folder, datetime.timedelta(days=30))
    (0, 0)
    """
    _, store = lake_and_store(spark, table, index_location, storage_options)
    report = TableIndex(store).expire(older_than)
    SPARK.info("expire index in %s: %s", place(store), summary(report))
    return report.versions_removed, report.files_removed

"""Find the table that a caller of `parsieve.spark` means, and its index."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parsieve._core import UnsupportedError
from parsieve.index.log.commit import Commit
from parsieve.index.log.log import Log
from parsieve.index.table_index import TableIndex
from parsieve.index.view import View
from parsieve.io.store.base import Store
from parsieve.lake import open_lake
from parsieve.lake.base import Lake
from parsieve.table import Table

FORMATS = ("delta", "hudi", "iceberg", "parquet")


def lake_of(spark: Any, table: Any, storage_options: Mapping[str, str] | None = None) -> Lake:
    """Open a table: a path or URI, an object of a library, or a name in Spark's catalog."""
    if isinstance(table, Lake):
        return table
    if not is_name(table):
        return open_lake(table, storage_options=storage_options)
    description = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()}
    provider, location = str(description.get("Provider", "")).lower(), description.get("Location")
    if not location or provider not in FORMATS:
        raise UnsupportedError(f"{table} is a table of {provider or 'no provider'}, not of {', '.join(FORMATS)}")
    if provider == "iceberg":
        location = _metadata_file(spark, table)
    return open_lake(location, provider, storage_options)


def _metadata_file(spark: Any, table: str) -> str:
    """Return the current metadata file of an Iceberg table, which only the catalog knows."""
    from pyspark.errors import AnalysisException

    try:
        log = spark.sql(f"SELECT file FROM {table}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1")
    except AnalysisException as error:
        if state := _STATE.fullmatch(table):
            raise UnsupportedError(
                f"{table} is a state of the table {state[1]}; pass the name of the table, and the {state[2]} as as_of"
            ) from error
        raise
    return str(log.first().file)


# The name of a state of an Iceberg table, as Spark takes it.
_STATE = re.compile(r"(.+)\.`?(branch|tag|snapshot_id|at_timestamp)_.+", re.IGNORECASE | re.DOTALL)


def is_name(table: Any) -> bool:
    """Return whether a table is a name in Spark's catalog, and not a path or URI."""
    return isinstance(table, str) and not ("/" in table or os.sep in table or Path(table).exists())


def lake_and_store(
    spark: Any, table: Any, index_location: Any = None, storage_options: Mapping[str, str] | None = None
) -> tuple[Lake, Store]:
    """Open a table and the store of its index, at the given location or at the default one."""
    if isinstance(table, Table):
        refuse_second_place(index_location, storage_options)
        table.opened.index.refresh()
        return table.opened.lake, table.opened.index.store
    lake = lake_of(spark, table, storage_options)
    options = lake.storage_options if storage_options is None else storage_options
    index = TableIndex.of(lake, index_location, options)
    # Load the newest version, because an older version of the package may have stored the index elsewhere.
    index.refresh()
    return lake, index.store


def lake_and_writable_store(
    spark: Any, table: Any, index_location: Any = None, storage_options: Mapping[str, str] | None = None
) -> tuple[Lake, Store]:
    """Do the same before a change of the index. Raises `ValueError` if the index would break readers of the table."""
    lake, store = lake_and_store(spark, table, index_location, storage_options)
    if problem := lake.problem_with_index(store):
        raise ValueError(problem)
    return lake, store


def refuse_second_place(index_location: Any, storage_options: Mapping[str, str] | None) -> None:
    """Raise `ValueError` if the caller passes a location or options for a table from `open_table`."""
    if index_location is not None or storage_options is not None:
        raise ValueError("the table was already opened: pass index_location and storage_options to open_table instead")


def view_of(log: Log, version: Commit) -> View:
    """Return a view of a version, which can load newer versions."""
    return View(log.store, version, TableIndex(log.store).refresh)

"""Which table a caller means: a path or URI, a library's object, a lake that is open, or a name in Spark's catalog."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parsieve._core import UnsupportedError
from parsieve.index.table_index import TableIndex
from parsieve.io.store.base import Store
from parsieve.lake import open_lake
from parsieve.lake.base import Lake
from parsieve.table import Table

FORMATS = ("delta", "hudi", "iceberg", "parquet")


def lake_of(spark: Any, table: Any, storage_options: Mapping[str, str] | None = None) -> Lake:
    """The table as our own adapters read it."""
    if isinstance(table, Lake):
        return table
    if not is_name(table):
        return open_lake(table, storage_options=storage_options)
    found = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()}
    provider, location = str(found.get("Provider", "")).lower(), found.get("Location")
    if not location or provider not in FORMATS:
        raise UnsupportedError(f"{table} is a table of {provider or 'no provider'}, not of {', '.join(FORMATS)}")
    if provider == "iceberg":
        # The folder alone does not say which of its metadata files the catalog holds for the current one.
        log = spark.sql(f"SELECT file FROM {table}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1")
        location = log.first().file
    return open_lake(location, provider, storage_options)


def is_name(table: Any) -> bool:
    """Whether a table is named as Spark's catalog does, not by where it lies."""
    return isinstance(table, str) and not ("/" in table or os.sep in table or Path(table).exists())


def lake_and_store(
    spark: Any, table: Any, index_location: Any = None, storage_options: Mapping[str, str] | None = None
) -> tuple[Lake, Store]:
    """The table, and where its index lies: beside it unless the caller says otherwise."""
    if isinstance(table, Table):
        refuse_second_place(index_location, storage_options)
        table.opened.index.refresh()
        return table.opened.lake, table.opened.index.store
    lake = lake_of(spark, table, storage_options)
    options = lake.storage_options if storage_options is None else storage_options
    index = TableIndex.of(lake, index_location, options)
    # The newest version is looked for, since an older version of the package stored it elsewhere.
    index.refresh()
    return lake, index.store


def refuse_second_place(index_location: Any, storage_options: Mapping[str, str] | None) -> None:
    """`ValueError` where a table from `open_table` is told once more where its index lies."""
    if index_location is not None or storage_options is not None:
        raise ValueError("a table from open_table has its index and its options already")

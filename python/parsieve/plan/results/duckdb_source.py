"""Read the rows of a plan with DuckDB's own reader, from files that are held open in one version."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from parsieve.lake.rows.checked_files import CheckedFiles, OpenFile
from parsieve.sharing import Lock

# The most bytes of rows that are read ahead. Larger results are read lazily, as a dataset.
MOST_BYTES = 256 << 20
_BATCH_ROWS = 100_000
# DuckDB's virtual column with the number of a row's row group, and the most scans that one plan uses.
_ROW_GROUP = "file_row_group_number"
MOST_SCANS = 32
# A path in this folder opens the file of a descriptor, even if another file has replaced it under its name.
_DESCRIPTORS = Path("/proc/self/fd")
_LOCK = Lock()


class _NotForDuckDB(Exception):  # noqa: N818 - private to this module
    """Raised if a file has other types than the table, or if the rows take more memory than allowed."""


def scans_of(con: Any, paths: Sequence[str], row_groups: Sequence[Sequence[int] | None]) -> list[Any]:
    """Return relations that together read these row groups of files, or None for all row groups of a file.

    DuckDB skips row groups only by a filter on their numbers alone. So the files with the same row groups share a
    relation. If there are many, the rest share a relation that reads all their row groups in each of these files.
    """
    files: dict[tuple[int, ...] | None, list[str]] = {}
    for path, groups in zip(paths, row_groups, strict=True):
        files.setdefault(None if groups is None else tuple(groups), []).append(path)
    files.pop((), None)
    if not _knows_row_groups(con, paths):
        files = {None: [path for some in files.values() for path in some]} if files else {}
    chosen = [(groups, some) for groups, some in files.items() if groups is not None]
    first, rest = chosen[: MOST_SCANS - 2], chosen[MOST_SCANS - 2 :]
    if rest:
        together = {group for groups, _ in rest for group in groups}
        rest = [(tuple(sorted(together)), [path for _, some in rest for path in some])]
    scans = [_scan(con, files[None])] if None in files else []
    for groups, some in [*first, *rest]:
        scans.append(_scan(con, some).filter(f"{_ROW_GROUP} IN ({', '.join(map(str, groups))})"))
    return scans


def _scan(con: Any, paths: Sequence[str]) -> Any:
    return con.read_parquet(list(paths), hive_partitioning=False, union_by_name=False)


def _knows_row_groups(con: Any, paths: Sequence[str]) -> bool:
    """Return whether this version of DuckDB numbers row groups, and no column of the files has that name."""
    relation = _scan(con, paths[:1])
    if _ROW_GROUP in (name.lower() for name in relation.columns):
        return False
    try:
        relation.project(_ROW_GROUP)
    except duckdb.BinderException:
        return False
    return True


def rows_of(files: CheckedFiles, condition: str, names: str) -> pa.Table | None:
    """Return the matching rows of local files, or None if DuckDB cannot read them here or they are too many.

    `condition` and `names` are SQL. DuckDB opens a file more than once, so it must not open it by its name.
    """
    if not _DESCRIPTORS.is_dir():
        return None
    batches: list[pa.RecordBatch] = []
    schema: pa.Schema | None = None
    size = 0

    def read(opened: list[OpenFile]) -> Iterator[pa.RecordBatch]:
        if not all(map(files.has_table_types, opened)):
            raise _NotForDuckDB
        nonlocal schema
        paths = [str(_DESCRIPTORS / str(file.pinned.descriptor)) for file in opened]
        with _cursor() as cursor:
            room = MOST_BYTES - size
            for relation in scans_of(cursor, paths, [file.row_groups for file in opened]):
                reader = relation.filter(condition).project(names).to_arrow_reader(_BATCH_ROWS)
                schema = reader.schema
                for batch in reader:
                    room -= batch.nbytes
                    if room < 0:
                        raise _NotForDuckDB
                    yield batch

    try:
        for window in files.windows(hold=True):
            for batch in files.checked(window, True, read, (duckdb.Error,)):
                batches.append(batch)
                size += batch.nbytes
    except (_NotForDuckDB, duckdb.Error):
        # Reading the file as a dataset will raise the right error.
        return None
    return None if schema is None else pa.Table.from_batches(batches, schema)


@contextmanager
def _cursor() -> Iterator[Any]:
    with _LOCK:
        cursor = _connection(os.getpid()).cursor()
    try:
        yield cursor
    finally:
        cursor.close()


@cache
def _connection(process: int) -> Any:
    """Return a database of this process. It must not cache files, because descriptor numbers are reused."""
    connection = duckdb.connect(":memory:")
    for setting in ("enable_external_file_cache", "parquet_metadata_cache", "enable_object_cache"):
        try:
            connection.execute(f"SET {setting} = false")
        except duckdb.Error:
            # This version of DuckDB does not have this cache.
            continue
    return connection

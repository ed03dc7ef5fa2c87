"""Write the same rows as tables of all four formats, with files of several row groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import WriterProperties, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from parsieve.lake import Lake, open_lake
from support.aging import wait_until_old
from support.hudi_tables import HudiTable


def folder(path: Path, files: Sequence[pa.Table], rows: int) -> Lake:
    """Write a plain folder."""
    path.mkdir()
    for number, file in enumerate(files):
        pq.write_table(file, path / f"{number}.parquet", row_group_size=rows)
    wait_until_old(path)
    return open_lake(str(path))


def delta(path: Path, files: Sequence[pa.Table], rows: int) -> Lake:
    """Write a Delta table."""
    for file in files:
        write_deltalake(str(path), file, mode="append", writer_properties=WriterProperties(max_row_group_size=rows))
    return open_lake(str(path))


def iceberg(path: Path, files: Sequence[pa.Table], rows: int) -> Lake:
    """Write an Iceberg table."""
    path.mkdir()
    with catalog_at(path) as catalog:
        properties = {"write.parquet.row-group-limit": str(rows)}
        table = catalog.create_table("n.t", files[0].schema, properties=properties)
        for file in files:
            table.append(file)
        return open_lake(table)


@contextmanager
def catalog_at(path: Path) -> Iterator[SqlCatalog]:
    """Return a catalog in a folder."""
    catalog = SqlCatalog("test", uri=f"sqlite:///{path}/catalog.db", warehouse=(path / "house").as_uri())
    catalog.create_namespace_if_not_exists("n")
    try:
        yield catalog
    finally:
        catalog.close()


def hudi(path: Path, files: Sequence[pa.Table], rows: int) -> Lake:
    """Write a copy-on-write Hudi table."""
    path.mkdir()
    table = HudiTable(path, files[0].schema)
    instant = table.begin()
    table.finish(instant, [table.write(instant, f"g{number}", file, rows) for number, file in enumerate(files)])
    return open_lake(str(path))


# For each format, a function that writes files. Its last argument is the greatest number of rows of a row group.
FORMATS: Mapping[str, Callable[[Path, Sequence[pa.Table], int], Any]] = {
    "folder": folder,
    "delta": delta,
    "iceberg": iceberg,
    "hudi": hudi,
}

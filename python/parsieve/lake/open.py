"""Detect the format of a table and open it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from parsieve._core import UnsupportedError
from parsieve.errors import ParsieveWarning
from parsieve.filters.target import table_around
from parsieve.lake.base import Lake
from parsieve.lake.folder.table import ParquetDir
from parsieve.lake.rows.file_rows import ICEBERG_METADATA
from parsieve.lake.storage.keys import TableKeys
from parsieve.lake.storage.storage import Storage


def _delta() -> type[Lake]:
    from parsieve.lake.delta.table import Delta

    return Delta


def _iceberg() -> type[Lake]:
    from parsieve.lake.iceberg.table import Iceberg

    return Iceberg


def _hudi() -> type[Lake]:
    from parsieve.lake.hudi.table import Hudi

    return Hudi


# Adapters import their libraries, so each is imported when the first table of its format is opened.
_ADAPTERS: dict[str, Callable[[], Callable[[Any, Mapping[str, str] | None], Lake]]] = {
    "parquet": lambda: ParquetDir,
    "delta": _delta,
    "iceberg": _iceberg,
    "hudi": _hudi,
}


def open_lake(
    source: Any,
    format: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    decryption: Any = None,
) -> Lake:
    """Open the table at a path, URI or (filesystem, path) pair, or the table of a `DeltaTable` or pyiceberg `Table`.

    Without `format`, the format is detected from the folders in the table's folder: `_delta_log`, `.hoodie` or
    `metadata`. `decryption` contains the keys for the encrypted files of a plain folder.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> from parsieve.lake import open_lake
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [1, 2]}), folder + "/part-0.parquet")
    >>> open_lake(folder).snapshot().slices[0].group
    'part-0.parquet'
    """
    if isinstance(source, str) and not source:
        raise ValueError("the path of the table is empty; for the current folder, write '.'")
    given: object = storage_options
    if not isinstance(given, Mapping | None):
        kind = type(given).__name__
        raise TypeError(f'storage_options must be a dict such as {{"aws_region": "eu-west-1"}}, not {kind}')
    format = format or _format_of_object(source) or _format_of_folder(source, storage_options)
    if format not in _ADAPTERS:
        raise ValueError(f"format must be one of {', '.join(_ADAPTERS)}, not {format!r}")
    if decryption is None:
        return _ADAPTERS[format]()(source, storage_options)
    keys = TableKeys(decryption)
    if format != "parquet":
        raise UnsupportedError(
            f"cannot read encrypted files of {format.capitalize()} tables, because their library accepts no keys; "
            "read them with Spark, or omit decryption; conditions on encrypted columns then skip no file"
        )
    return ParquetDir(source, storage_options, keys=keys)


def _format_of_object(source: Any) -> str | None:
    """Return the format of a library's table object. It is recognized by class name, without importing a library."""
    names = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(source).__mro__}
    if "deltalake.DeltaTable" in names:
        return "delta"
    return "iceberg" if "pyiceberg.Table" in names else None


def _format_of_folder(source: Any, storage_options: Mapping[str, str] | None) -> str:
    if isinstance(source, str | os.PathLike) and os.fsdecode(source).endswith(ICEBERG_METADATA):
        return "iceberg"
    storage = Storage(source, storage_options)
    if storage.is_local and not os.path.exists(storage.root):  # noqa: PTH110
        raise storage.missing()
    contained = storage.contained("_delta_log", ".hoodie", "metadata")
    formats = [name for name, folder in (("delta", "_delta_log"), ("hudi", ".hoodie")) if folder in contained]
    if "metadata" in contained and any(name.endswith(ICEBERG_METADATA) for name in storage.names("metadata")):
        formats.append("iceberg")
    if len(formats) > 1:
        raise ValueError(
            f"{storage.uri} contains tables of several formats ({', '.join(formats)}); choose with format="
        )
    if formats:
        return formats[0]
    table = table_around(Path(storage.root)) if storage.is_local else None
    # A sink of Structured Streaming never deletes rows.
    if table is not None and table[0] in ("Delta", "Hudi", "Iceberg"):
        kind, folder = table
        warnings.warn(
            f"{storage.uri} is a part of the {kind} table {folder}, and may have rows that the table has deleted or "
            'replaced. Open the table instead, or read all rows of these files with format="parquet"',
            ParsieveWarning,
            stacklevel=4,
        )
    return "parquet"

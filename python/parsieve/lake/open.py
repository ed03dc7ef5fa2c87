"""Which format a table is of, by what lies in its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from parsieve._core import UnsupportedError
from parsieve.lake.base import Lake
from parsieve.lake.folder.table import ParquetDir
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


# Each adapter is loaded when a table of its format is opened, and its library with it.
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
    """The table at a path, URI or (filesystem, path) pair, or that of a `DeltaTable` or pyiceberg `Table`.

    `decryption` are the keys of encrypted files, in a plain folder of them.

    The format is found by the table's own folder (`_delta_log`, `.hoodie`, `metadata`), or said by `format`.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> from parsieve.lake import open_lake
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [1, 2]}), folder + "/part-0.parquet")
    >>> open_lake(folder).snapshot().slices[0].group
    'part-0.parquet'
    """
    found = format or _of_object(source) or _of_folder(source, storage_options)
    if found not in _ADAPTERS:
        raise ValueError(f"format is one of {', '.join(_ADAPTERS)}, not {found!r}")
    if decryption is None:
        return _ADAPTERS[found]()(source, storage_options)
    keys = TableKeys(decryption)
    if found != "parquet":
        raise UnsupportedError(
            f"tables of {found.capitalize()} with encrypted files cannot be read: their library takes no keys; read "
            "them with Spark, or leave decryption out, so that what is encrypted is kept unread"
        )
    return ParquetDir(source, storage_options, keys=keys)


def _of_object(source: Any) -> str | None:
    """The format of a library's own object, told by its class so that no library is imported."""
    names = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(source).__mro__}
    if "deltalake.DeltaTable" in names:
        return "delta"
    return "iceberg" if "pyiceberg.Table" in names else None


def _of_folder(source: Any, storage_options: Mapping[str, str] | None) -> str:
    if isinstance(source, str) and source.endswith(".metadata.json"):
        return "iceberg"
    storage = Storage(source, storage_options)
    if storage.is_local and not os.path.exists(storage.root):  # noqa: PTH110
        raise storage.missing()
    names = storage.names()
    found = [kind for kind, mark in (("delta", "_delta_log"), ("hudi", ".hoodie")) if mark in names]
    if "metadata" in names and any(name.endswith(".metadata.json") for name in storage.names("metadata")):
        found.append("iceberg")
    if len(found) > 1:
        raise ValueError(f"{storage.uri} is a table of {' and of '.join(found)}; say which with format=")
    return found[0] if found else "parquet"

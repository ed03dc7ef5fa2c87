"""Replace a Parquet file by a newer one, as other programs do."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def parquet(rows: int, size: int | None = None, first: int = 7, **options: Any) -> bytes:
    """Return a Parquet file, which has exactly `size` bytes if a size is given."""
    sink = pa.BufferOutputStream()
    table = pa.table({"id": range(first, first + rows), "other": range(rows)})
    pq.write_table(table, sink, compression="none", **options)
    content: bytes = sink.getvalue().to_pybytes()
    if size is None:
        return content
    # Unused bytes between the pages and the footer are allowed.
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    assert size >= len(content)
    return content[:start] + bytes(size - len(content)) + content[start:]


def overwrite(path: Path, content: bytes) -> None:
    """Write to the same inode, as `open(path, "wb")` does."""
    inode = path.stat().st_ino
    path.write_bytes(content)
    assert path.stat().st_ino == inode


def rename(path: Path, content: bytes) -> None:
    """Rename a new file over the path."""
    newer = path.with_name("newer")
    newer.write_bytes(content)
    newer.replace(path)


WRITERS = pytest.mark.parametrize("write", [overwrite, rename])

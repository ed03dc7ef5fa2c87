"""Rows as streams of batches whose errors reach the caller.

Never call `to_reader()` of pyarrow's own `Scanner`: it starts to read while it holds the GIL. If a filesystem or a
generator written in Python then raises, the thread that reports the error may hold a lock of Arrow's and wait for the
GIL, while `to_reader` waits for that lock: a deadlock. `to_batches()` releases the GIL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa


def matching(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, columns: Sequence[str], filter: Any
) -> pa.RecordBatchReader:
    """The rows of some batches that match, with the columns asked for."""

    def kept() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = batch if filter is None else batch.filter(filter)
            if found.num_rows:
                yield found.select(columns)

    return pa.RecordBatchReader.from_batches(pa.schema([schema.field(name) for name in columns]), kept())

"""Return rows as streams of batches.

Never call `to_reader()` of pyarrow's own `Scanner`, which can cause a deadlock: it starts to read while it holds the
GIL. If a filesystem or a generator in Python then raises an error, the thread that reports the error may hold a lock of
Arrow and wait for the GIL, while `to_reader` waits for that lock. `to_batches()` releases the GIL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa


def matching(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, columns: Sequence[str], filter: Any
) -> pa.RecordBatchReader:
    """Return the matching rows of some batches with the given columns."""

    def filter_batches() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            matches = batch if filter is None else batch.filter(filter)
            if matches.num_rows:
                yield matches.select(columns)

    return pa.RecordBatchReader.from_batches(pa.schema([schema.field(name) for name in columns]), filter_batches())

"""Return rows as streams of batches.

Never call `to_reader()` of pyarrow's own `Scanner`, which can cause a deadlock: it starts to read while it holds the
GIL. If a filesystem or a generator in Python then raises an error, the thread that reports the error may hold a lock of
Arrow and wait for the GIL, while `to_reader` waits for that lock. `to_batches()` releases the GIL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def filtered(batch: pa.RecordBatch, condition: pc.Expression | None) -> pa.RecordBatch | None:
    """Return the matching rows of a batch, or None if no row matches.

    `RecordBatch.filter` makes an empty batch then, which pyarrow cannot do for lists and structs of extension types.
    """
    if condition is None:
        return batch if batch.num_rows else None
    matches = pa.Table.from_batches([batch]).filter(condition)
    return matches.combine_chunks().to_batches()[0] if matches.num_rows else None


def matching(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, columns: Sequence[str], filter: Any
) -> pa.RecordBatchReader:
    """Return the matching rows of some batches with the given columns."""

    def filter_batches() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            matches = filtered(batch, filter)
            if matches is not None:
                yield matches.select(columns)

    return pa.RecordBatchReader.from_batches(pa.schema([schema.field(name) for name in columns]), filter_batches())

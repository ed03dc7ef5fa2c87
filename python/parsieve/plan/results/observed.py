"""Count and trace the rows that a plan returns."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from parsieve.observe import counters, spans
from parsieve.observe.logs import place


def observed(stream: pa.RecordBatchReader, uri: str) -> pa.RecordBatchReader:
    """Return the same rows. Counts them, and the time that their consumer waits for them."""
    return pa.RecordBatchReader.from_batches(stream.schema, _counted(stream, uri))


def _counted(stream: pa.RecordBatchReader, uri: str) -> Iterator[pa.RecordBatch]:
    # The consumer may be in another context when the stream ends, so the span is not the current one.
    span = spans.start("parsieve.read")
    rows, seconds = 0, 0.0
    begun = time.perf_counter()
    try:
        for batch in stream:
            rows += batch.num_rows
            seconds += time.perf_counter() - begun
            yield batch
            begun = time.perf_counter()
        seconds += time.perf_counter() - begun
    finally:
        counters.add(rows_returned=rows, read_seconds=seconds)
        if span is not None:
            spans.end(span, {"parsieve.table": place(uri), "parsieve.rows": rows})

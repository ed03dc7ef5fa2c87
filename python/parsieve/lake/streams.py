"""Rows as streams of batches, whose errors come to whoever reads them.

Never by `Scanner.to_reader()`: it begins to read while it holds Python's lock. Where that ends in an error of Python's,
be it of a filesystem or of a generator of batches, the thread that tells of it may hold a lock of Arrow's and wait for
Python's while `to_reader` waits for Arrow's: for ever. `to_batches()` lets Python's lock go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads


def streamed(scanner: pads.Scanner) -> pa.RecordBatchReader:
    """The rows of a scan of files."""
    return pa.RecordBatchReader.from_batches(scanner.projected_schema, scanner.to_batches())


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

"""One scan of a table: pyarrow's columns and filter, on the rows that parsieve finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from parsieve.integrations.live_table import LiveTable
from parsieve.lake.base import Snapshot
from parsieve.lake.rows.checked_files import request_of
from parsieve.plan.plan import Plan

# Filtering a batch takes about as long as filtering a thousand rows, so small batches are combined.
SMALL = 1_000


@dataclass(frozen=True)
class Scan:
    """The arguments of a scan: the columns, as `pyarrow.dataset.Dataset.scanner` accepts them, and the filter."""

    schema: pa.Schema
    columns: Any = None
    filter: pc.Expression | None = None
    batch_size: int | None = None
    threads: int | None = None

    @classmethod
    def of(cls, schema: pa.Schema, columns: Any, filter: Any, options: dict[str, Any]) -> Scan:
        """Return a scan with the arguments of `pyarrow.dataset.Dataset.scanner`."""
        # This also accepts filters in Substrait, which pyarrow converts to an expression.
        filter = pads.dataset(schema.empty_table())._scanner_options({"filter": filter})["filter"]
        threads = None if options.get("use_threads", True) else 1
        return cls(schema, columns, filter, options.get("batch_size"), threads)

    @cached_property
    def projected(self) -> pa.Schema:
        """Return the schema of the rows. Raises pyarrow's errors about columns and types."""
        return self.apply(self.schema.empty_table()).schema

    @property
    def needed(self) -> list[str]:
        """Return the columns of the table to read."""
        needed = request_of(self.schema, self._names, self.filter).needed(self.schema)
        # A batch without columns would lose its number of rows.
        return needed if self._names != [] or self.filter is not None else self.schema.names[:1]

    @property
    def _names(self) -> list[str] | None:
        """Return the requested columns, or None if pyarrow must find them."""
        if self.columns is None or isinstance(self.columns, dict) or not set(self.columns) <= set(self.schema.names):
            return None
        return list(self.columns)

    def apply(self, rows: pa.Table) -> pa.Table:
        """Filter rows of the table, and select the columns, with pyarrow."""
        columns = self.schema.names if self.columns is None else self.columns
        return pads.dataset(rows).to_table(columns=columns, filter=self.filter)


class TableScanner:
    """One scan of a table, with the methods of `pyarrow.dataset.Scanner`. All of them see the same state."""

    def __init__(self, table: LiveTable, scan: Scan, read: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]) -> None:
        """`read` returns the rows that may match, with some columns."""
        self._table = table
        self._scan = scan
        self._read = read
        # Like pyarrow's scanner, raise errors about wrong columns and types now.
        self._projected = scan.projected

    @classmethod
    def of(cls, table: LiveTable, scan: Scan) -> TableScanner:
        """Return a scan of the state that a table has now."""
        needed = scan.needed
        snapshot = table.snapshot(needed)
        return cls(table, scan, lambda names: planned(table, snapshot, scan).to_batches(names, threads=scan.threads))

    @property
    def dataset_schema(self) -> pa.Schema:
        """Return the columns of the table."""
        return self._scan.schema

    @property
    def projected_schema(self) -> pa.Schema:
        """Return the columns of the rows."""
        return self._projected

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as batches."""
        for rows in _combined(self._read(self._scan.needed)):
            yield from self._scan.apply(rows.combine_chunks()).to_batches(max_chunksize=self._scan.batch_size)

    def scan_batches(self) -> Iterator[pads.TaggedRecordBatch]:
        """Raise an error: rows of a table have no pyarrow fragment."""
        from parsieve.integrations.dataset.refusal import refuse

        refuse()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream."""
        return pa.RecordBatchReader.from_batches(self._projected, self.to_batches())

    def to_table(self) -> pa.Table:
        """Return all rows."""
        return pa.Table.from_batches(self.to_batches(), self._projected)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        batches: list[pa.RecordBatch] = []
        missing = num_rows
        for batch in self.to_batches() if num_rows > 0 else ():
            batches.append(batch.slice(0, missing))
            missing -= batches[-1].num_rows
            if missing <= 0:
                break
        return pa.Table.from_batches(batches, self._projected)

    def take(self, indices: Any) -> pa.Table:
        """Return the rows at some positions."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """Count the rows."""
        return sum(batch.num_rows for batch in self.to_batches())


def planned(table: LiveTable, snapshot: Snapshot, scan: Scan) -> Plan:
    """Plan the filter of a scan."""
    return table.plan(snapshot, scan.filter)


def _combined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield batches as tables of at least `SMALL` rows, except for the last one."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= SMALL:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)

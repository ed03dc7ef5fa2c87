"""One scan of a table: pyarrow's columns and filter, on the rows that parsieve finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from parsieve.integrations.live_table import LiveTable
from parsieve.lake.base import Snapshot
from parsieve.lake.rows.arrow_scan import refuse_added_columns
from parsieve.lake.rows.checked_files import request_of
from parsieve.lake.rows.columns import no_rows
from parsieve.plan.plan import Plan
from parsieve.sharing import cached_property

# Filtering a batch takes about as long as filtering a thousand rows, so small batches are combined. The first ones are
# returned sooner, because an engine with a LIMIT stops when it has enough rows.
SMALL, FIRST = 1_000, 8


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
        empty = pads.InMemoryDataset(no_rows(schema))
        # This also accepts filters in Substrait, which pyarrow converts to an expression.
        filter = pads.Dataset._scanner_options(empty, {"filter": filter})["filter"]
        # pyarrow checks the arguments, also the options that have no effect here.
        empty.scanner(columns=columns, filter=filter, **options)
        refuse_added_columns(columns)
        threads = None if options.get("use_threads", True) else 1
        return cls(schema, columns, filter, options.get("batch_size"), threads)

    @cached_property
    def projected(self) -> pa.Schema:
        """Return the schema of the rows. Raises pyarrow's errors about columns and types."""
        return self.apply(no_rows(self.schema)).schema

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

    @property
    def _is_selection(self) -> bool:
        """Return whether the scan has no filter, and returns some columns unchanged."""
        names: list[str] = self.schema.names if self.columns is None else self._names or []
        return self.filter is None and bool(names) and len(set(names)) == len(names)

    def apply(self, rows: pa.Table) -> pa.Table:
        """Filter rows of the table, and select the columns, with pyarrow."""
        columns = self.schema.names if self.columns is None else self.columns
        if self._is_selection:
            return rows.select(columns)
        # A batch is small, and the next batches are already being read by other threads.
        return pads.dataset(rows).to_table(columns=columns, filter=self.filter, use_threads=False)


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
        """Return the rows at some positions. It keeps only these rows in memory, and reads nothing after the last."""
        wanted = indices if isinstance(indices, pa.Array | pa.ChunkedArray) else pa.array(indices, pa.int64())
        places = pc.unique(wanted.cast(pa.int64())).sort()
        if places.null_count or (len(places) and places[0].as_py() < 0):
            raise IndexError("the positions of rows are numbers from 0, without nulls")
        found = self._at(places)
        if found.num_rows < len(places):
            raise IndexError(f"there is no row {places[found.num_rows]}: the scan has fewer rows")
        return found.take(pc.index_in(wanted.cast(pa.int64()), value_set=places))

    def _at(self, places: pa.Array) -> pa.Table:
        """Return the rows at some positions in ascending order."""
        parts: list[pa.RecordBatch] = []
        numbers, start, done = places.to_numpy(), 0, 0
        batches = self.to_batches()
        while done < len(numbers) and (batch := next(batches, None)) is not None:
            stop = int(numbers.searchsorted(start + batch.num_rows))
            parts.append(batch.take(pa.array(numbers[done:stop] - start)))
            start, done = start + batch.num_rows, stop
        return pa.Table.from_batches(parts, self._projected)

    def count_rows(self) -> int:
        """Count the rows."""
        return sum(batch.num_rows for batch in self.to_batches())


def planned(table: LiveTable, snapshot: Snapshot, scan: Scan) -> Plan:
    """Plan the filter of a scan."""
    return table.plan(snapshot, scan.filter)


def _combined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield batches as tables whose least number of rows grows from `FIRST` to `SMALL`, except for the last one."""
    waiting: list[pa.RecordBatch] = []
    rows, least = 0, FIRST
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= least:
            yield pa.Table.from_batches(waiting)
            waiting, rows, least = [], 0, min(2 * least, SMALL)
    if waiting:
        yield pa.Table.from_batches(waiting)

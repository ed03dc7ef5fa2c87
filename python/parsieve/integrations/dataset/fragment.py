"""The files of a table as fragments, for engines such as DataFusion that read several at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.integrations.dataset.scanner import Scan, TableScanner
from parsieve.integrations.live_table import LiveTable
from parsieve.lake.rows.file_rows import foreign
from parsieve.plan.plan import Plan
from parsieve.plan.results.engines import Rows

# An engine starts a task for each fragment, so the fragments of large tables have several files.
MOST_FRAGMENTS = 256


@dataclass(frozen=True)
class Parts:
    """The fragments of one state of a table that may have a row that matches a condition."""

    table: LiveTable
    # The plan of the condition.
    plan: Plan
    condition: pc.Expression | None
    # The part of the condition that all rows of the dataset match.
    added: pc.Expression | None

    def fragments(self) -> Iterator[TableFragment]:
        """Yield the fragments. There is at least one, because DataFusion cannot read a dataset without fragments."""
        kept = self.plan.record.kept
        size = -(-len(kept) // MOST_FRAGMENTS) or 1
        for start in range(0, len(kept) or 1, size):
            yield TableFragment(self, kept[start : start + size])

    def plan_of(self, filter: pc.Expression | None) -> Plan:
        """Return the plan of the condition, or of another filter on the same state."""
        is_same = filter is self.condition
        if filter is not None and self.condition is not None:
            is_same = filter.equals(self.condition)
        return self.plan if is_same else self.table.plan(self.plan.record.snapshot, filter)


class TableFragment:
    """The rows of one file of a table, or of several, with the methods of `pyarrow.dataset.Fragment`.

    It contains only the rows of the files that the table still has. As in pyarrow, a scan returns the rows that match
    the scan's own filter, also if they do not match the filter of `get_fragments`.
    """

    def __init__(self, parts: Parts, numbers: Sequence[int]) -> None:
        """`numbers` has the numbers of files in the plan."""
        self._parts = parts
        self._table = parts.table
        self._numbers = numbers

    @property
    def physical_schema(self) -> pa.Schema:
        """Return the columns of the table, which a file may store in another form."""
        return self._table.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """Return an expression that is true for all rows."""
        return pc.scalar(True)

    def scanner(
        self, schema: pa.Schema | None = None, columns: Any = None, filter: Any = None, **options: Any
    ) -> TableScanner:
        """Return a scan, with the arguments of `pyarrow.dataset.Fragment.scanner`."""
        if schema is not None and not schema.equals(self._table.schema):
            raise ValueError("the schema of a fragment is the table's schema; select and cast columns after reading")
        scan = Scan.of(self._table.schema, columns, both(self._parts.added, filter), options)
        return TableScanner(self._table, scan, partial(self._read, scan))

    def _read(self, scan: Scan, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        record = self._parts.plan_of(scan.filter).record
        own = set(self._numbers)
        numbers = [number for number in record.kept if number in own]
        with foreign(self._table.uri):
            yield from Rows.of(record, numbers).reader(names, threads=1)

    def to_batches(self, schema: pa.Schema | None = None, **options: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows as batches."""
        return self.scanner(schema, **options).to_batches()

    def to_table(self, schema: pa.Schema | None = None, **options: Any) -> pa.Table:
        """Return the rows."""
        return self.scanner(schema, **options).to_table()

    def head(self, num_rows: int, **options: Any) -> pa.Table:
        """Return the first rows."""
        return self.scanner(**options).head(num_rows)

    def take(self, indices: Any, **options: Any) -> pa.Table:
        """Return the rows at some positions."""
        return self.scanner(**options).take(indices)

    def count_rows(self, **options: Any) -> int:
        """Count the rows."""
        return self.scanner(**options).count_rows()

    def __repr__(self) -> str:
        groups = [file_slice.group for file_slice in self._parts.plan.record.slices(self._numbers)]
        return f"<parsieve.TableFragment {', '.join(groups)}>"


def both(left: pc.Expression | None, right: pc.Expression | None) -> pc.Expression | None:
    """Return the conjunction of two filters; None is true."""
    if left is None or right is None:
        return right if left is None else left
    return left & right

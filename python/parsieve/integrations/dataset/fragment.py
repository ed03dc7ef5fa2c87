"""The files of a table as fragments, for engines such as DataFusion that read several at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.integrations.dataset.scanner import Scan, TableScanner
from parsieve.integrations.live_table import LiveTable
from parsieve.lake.rows.file_rows import foreign
from parsieve.plan.plan import Plan
from parsieve.plan.results.engines import Rows


class TableFragment:
    """The rows of one file of a table, with the methods of `pyarrow.dataset.Fragment`.

    It contains only the rows of the file that the table still has, and with the filter of `get_fragments`.
    """

    def __init__(self, table: LiveTable, plan: Plan, numbers: Sequence[int], added: pc.Expression | None) -> None:
        """`numbers` has the number of a file in the plan, or nothing. `added` is the filter of the rows."""
        self._table = table
        self._plan = plan
        self._numbers = numbers
        self._added = added

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
        scan = Scan.of(self._table.schema, columns, both(self._added, filter), options)
        return TableScanner(self._table, scan, self._read)

    def _read(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with foreign(self._table.uri):
            yield from Rows.of(self._plan.record, self._numbers).reader(names, threads=1)

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
        groups = [file_slice.group for file_slice in self._plan.record.slices(self._numbers)]
        return f"<parsieve.TableFragment {', '.join(groups)}>"


def both(left: pc.Expression | None, right: pc.Expression | None) -> pc.Expression | None:
    """Return the conjunction of two filters; None is true."""
    if left is None or right is None:
        return right if left is None else left
    return left & right

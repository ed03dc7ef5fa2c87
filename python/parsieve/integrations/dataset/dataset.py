"""A table as a pyarrow dataset that plans each scan."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from parsieve._core import UnsupportedError
from parsieve.integrations.dataset.fragment import Parts, both
from parsieve.integrations.dataset.refusal import refuse, refusing_dataset
from parsieve.integrations.dataset.scanner import Scan, TableScanner
from parsieve.integrations.live_table import LiveTable
from parsieve.lake.rows.arrow_scan import refuse_reserved_names
from parsieve.lake.rows.fields import refuse_nul


class TableDataset(pads.UnionDataset):  # type: ignore[misc]
    """A table as a `pyarrow.dataset.Dataset`, as `Table.dataset` returns it. Threads may share it.

    Each scan sees the table as it is at that moment, makes a plan for its filter, and returns exactly the rows for
    which pyarrow's filter is true. So engines that pass their filters on to datasets, such as DuckDB, Polars and
    DataFusion, skip files and row groups.

    Functions that would scan the files without parsieve raise `UnsupportedError`.
    """

    def __init__(self, table: LiveTable, added: pc.Expression | None = None) -> None:
        refuse_nul(table.schema)
        refuse_reserved_names(table.schema)
        # The C++ object inside refuses all reads. Without one, a method that is not overridden would crash.
        super().__init__(table.schema, [refusing_dataset(table.schema)])
        self._table = table
        self._added = added

    def pin(self) -> TableDataset:
        """Return the table in the state that it has now, for several scans.

        If a query reads a table twice, such as a join of the table with itself, and another process commits in
        between, the two scans of a live dataset may see two states.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2]}), folder + "/part-0.parquet")
        >>> live = ps.open_table(folder).dataset()
        >>> pinned = live.pin()
        >>> pq.write_table(pa.table({"id": [3]}), folder + "/part-1.parquet")
        >>> live.count_rows(), pinned.count_rows()
        (3, 2)
        """
        return TableDataset(self._table.pin(), self._added)

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """Return a scan of the table's current state, with the arguments of `pyarrow.dataset.Dataset.scanner`."""
        scan = Scan.of(self._table.schema, columns, filter, options)
        scan = replace(scan, filter=both(self._added, scan.filter))
        scanner = TableScanner.of(self._table, scan)
        # Engines call this from separate threads, where no Python function is the caller.
        caller = sys._getframe().f_back
        if caller is not None and caller.f_code is pads.write_dataset.__code__:
            # `write_dataset` accepts only pyarrow's own scanners.
            return pads.Scanner.from_batches(scanner.to_reader())
        return scanner

    def filter(self, expression: pc.Expression) -> TableDataset:
        """Return the rows that also match this expression."""
        scan = Scan.of(self._table.schema, None, expression, {})
        return TableDataset(self._table, both(self._added, scan.filter))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Any]:
        """Yield the files that may have a matching row. All of them are of one state of the table."""
        condition = both(self._added, Scan.of(self._table.schema, None, filter, {}).filter)
        names = Scan(self._table.schema, columns=[], filter=condition).needed
        plan = self._table.plan(self._table.snapshot(names), condition)
        return Parts(self._table, plan, condition, self._added).fragments()

    def count_rows(self, filter: Any = None, **options: Any) -> int:
        """Count the rows that match. Without a filter, footers are enough if files have exactly the table's rows."""
        if filter is not None or self._added is not None:
            return int(self.scanner([], filter, **options).count_rows())
        plan = self._table.plan(self._table.snapshot([]), None)
        try:
            return int(plan.to_dataset().count_rows())
        except UnsupportedError:
            return int(self.scanner([], **options).count_rows())

    def replace_schema(self, schema: pa.Schema) -> TableDataset:
        """Return the same table, if the schema is the table's. Other schemas raise `UnsupportedError`."""
        if schema.equals(self._table.schema):
            return self
        raise UnsupportedError("cannot replace the schema of a table; select and cast columns in the query")

    def sort_by(self, sorting: Any, **options: Any) -> pads.InMemoryDataset:
        """Read the rows now, and return them in order."""
        return pads.InMemoryDataset(self.to_table()).sort_by(sorting, **options)

    def join(self, right_dataset: pads.Dataset, *arguments: Any, **options: Any) -> pads.InMemoryDataset:
        """Read the rows now, and join them with another dataset."""
        return pads.InMemoryDataset(self.to_table()).join(_in_memory(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: pads.Dataset, *arguments: Any, **options: Any) -> pads.InMemoryDataset:
        """Read the rows now, and join them with another dataset by the nearest key."""
        return pads.InMemoryDataset(self.to_table()).join_asof(_in_memory(right_dataset), *arguments, **options)

    _scanner_options = _scan_options = _get_fragments = refuse

    @property
    def children(self) -> list[pads.Dataset]:
        """Return nothing: a table is not a union of pyarrow's datasets."""
        return []

    @property
    def partition_expression(self) -> pc.Expression:
        """Return an expression that is true for all rows."""
        return pc.scalar(True)

    def __reduce__(self) -> tuple[Callable[..., TableDataset], tuple[Any, ...]]:
        return TableDataset, (self._table, self._added)

    def __repr__(self) -> str:
        return f"<parsieve.TableDataset {self._table.opened.lake.format} {self._table.uri}>"


def _in_memory(dataset: pads.Dataset) -> pads.Dataset:
    """Return a table of parsieve as rows in memory, so that pyarrow can join it."""
    return pads.InMemoryDataset(dataset.to_table()) if isinstance(dataset, TableDataset) else dataset

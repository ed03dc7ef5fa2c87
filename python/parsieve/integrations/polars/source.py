"""A table as a LazyFrame: Polars hands over filters, columns and limits, and each query makes a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from parsieve._core import UnsupportedError
from parsieve.integrations.live_table import LiveTable
from parsieve.lake.base import Snapshot
from parsieve.lake.rows.columns import no_rows
from parsieve.lake.rows.fields import refuse_nul
from parsieve.plan.order.any_rows import AnyRows
from parsieve.plan.results.polars_predicates import without_dynamic_parts
from parsieve.plan.results.polars_source import check_time_zones, columns_of, frame_of_source
from parsieve.predicate.column_names import column_name


def frame_of_table(table: LiveTable) -> pl.LazyFrame:
    """Return a table as a LazyFrame that makes a plan each time Polars collects it."""
    # A pinned table gives the same rows each time, so Polars may read it once for two parts of a query.
    return frame_of_source(_Source(table), _polars_schema(table.schema), is_pure=table.pinned is not None)


def _polars_schema(schema: pa.Schema) -> pl.Schema:
    """Return the types that Polars gives the table's columns."""
    for field in schema:
        # Refuse a name that several columns have.
        column_name(schema, field.name)
        if not field.name:
            raise UnsupportedError("Polars renames a column without a name; rename it, or use plan and to_arrow")
        if pa.types.is_decimal256(field.type):
            raise UnsupportedError(
                f"Polars has no decimals of more than 38 digits, the type of column {field.name}; use plan and to_arrow"
            )
    refuse_nul(schema)
    check_time_zones(schema)
    return pl.DataFrame(pl.from_arrow(no_rows(schema))).schema


@dataclass(frozen=True)
class _Source:
    """Plans and reads a table each time Polars asks for rows."""

    table: LiveTable

    def __call__(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows that Polars requests. It counts `n_rows` before it applies the predicate."""
        predicate = None if predicate is None else without_dynamic_parts(predicate)
        columns = self.table.schema.names if with_columns is None else with_columns
        roots = [] if predicate is None else predicate.meta.root_names()
        # A batch without columns has no number of rows.
        needed = list(dict.fromkeys([*columns, *roots])) or self.table.schema.names[:1]
        snapshot = self.table.snapshot(needed)
        # Do not use a LazyFrame of the plan here: queries inside of queries can wait for each other forever.
        for rows in self._rows(snapshot, needed, predicate, n_rows):
            frame = pl.DataFrame(pl.from_arrow(rows))
            # A plan skips what cannot match. Polars decides what does match.
            yield columns_of(frame if predicate is None else frame.filter(predicate), columns)

    def _rows(
        self, snapshot: Snapshot, names: list[str], predicate: pl.Expr | None, n_rows: int | None
    ) -> Iterator[pa.RecordBatch | pa.Table]:
        """Yield the rows that may match, or the first rows without regard to the predicate."""
        if n_rows is None:
            return self.table.plan(snapshot, predicate).to_batches(names)
        return AnyRows(self.table.plan(snapshot, None).record, n_rows).tables(names)

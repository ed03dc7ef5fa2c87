"""A table as a LazyFrame: Polars hands over filters, columns and limits, and each query makes a plan."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from parsieve._core import UnsupportedError
from parsieve.errors import ConflictError
from parsieve.integrations.polars.predicates import without_dynamic_parts
from parsieve.lake.base import AsOf, Snapshot
from parsieve.plan.open_table import OpenTable
from parsieve.plan.pickling import restore_table, table_state
from parsieve.plan.results.polars_source import frame_of_source
from parsieve.predicate.bind import BoundPredicate, bind
from parsieve.predicate.builder import explain_unknown
from parsieve.predicate.normalize import understood_part

if TYPE_CHECKING:
    from parsieve.plan.plan import Plan

_log = logging.getLogger("parsieve.plan")


def frame_of_table(opened: OpenTable, as_of: AsOf = None, *, pin: bool = False) -> pl.LazyFrame:
    """Return a table as a LazyFrame that makes a plan each time Polars collects it."""
    snapshot = opened.snapshot(as_of)
    source = _TableSource(opened, as_of, snapshot.schema, snapshot if pin else None)
    # A pinned table gives the same rows each time, so Polars may read it once for two parts of a query.
    return frame_of_source(source, _polars_schema(snapshot.schema), is_pure=pin)


def _polars_schema(schema: pa.Schema) -> pl.Schema:
    """Return the types that Polars gives the table's columns."""
    for field in schema:
        if pa.types.is_decimal256(field.type):
            raise UnsupportedError(
                f"Polars has no decimals of more than 38 digits, the type of column {field.name}; use plan and to_arrow"
            )
    return pl.DataFrame(pl.from_arrow(schema.empty_table())).schema


@dataclass(frozen=True)
class _TableSource:
    """Plans and reads a table each time Polars asks for rows."""

    opened: OpenTable
    as_of: AsOf
    # The columns that the LazyFrame has.
    schema: pa.Schema
    # The state to read. None is the state at the time of the query.
    pinned: Snapshot | None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.pinned is not None:
            raise TypeError("cannot pickle a pinned scan; make it in the other process, with as_of=")
        lake, index = self.opened.lake, self.opened.index
        return _restore, (*table_state(lake, index, "the scan"), self.as_of, self.schema)

    def __call__(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows that Polars requests. It counts `n_rows` before it applies the predicate."""
        predicate = None if predicate is None else without_dynamic_parts(predicate)
        columns = self.schema.names if with_columns is None else with_columns
        roots = [] if predicate is None else predicate.meta.root_names()
        # A batch without columns has no number of rows.
        needed = list(dict.fromkeys([*columns, *roots])) or self.schema.names[:1]
        snapshot = self.opened.snapshot(self.as_of) if self.pinned is None else self.pinned
        self._require_columns(snapshot, needed)
        plan = self._plan(snapshot, None if n_rows is not None else predicate)
        # Do not use a LazyFrame of the plan here: queries inside of queries can wait for each other forever.
        for frame in _frames(plan.to_batches(needed), n_rows):
            # A plan skips what cannot match. Polars decides what does match.
            yield (frame if predicate is None else frame.filter(predicate)).select(columns)

    def _plan(self, snapshot: Snapshot, predicate: pl.Expr | None) -> Plan:
        bound = bind(predicate, snapshot.schema)
        for part in bound.unknown:
            _log.debug("%s", explain_unknown(part))
        return self.opened.plan(BoundPredicate(understood_part(bound.expr)), snapshot)

    def _require_columns(self, snapshot: Snapshot, names: Sequence[str]) -> None:
        """Raise an error if columns have another type than at the time of the scan, or are gone."""
        if snapshot.schema is self.schema:
            return
        for name in names:
            index = snapshot.schema.get_field_index(name)
            if index < 0 or snapshot.schema.field(index).type != self.schema.field(name).type:
                change = "no longer exists" if index < 0 else f"is now of type {snapshot.schema.field(index).type}"
                raise ConflictError(
                    f"column {name} of {self.opened.lake.uri} {change}: the table has changed since scan_polars; "
                    "call it again"
                )


def _restore(opening: Any, store: Any, as_of: AsOf, schema: pa.Schema) -> _TableSource:
    return _TableSource(restore_table(OpenTable.of, opening, store), as_of, schema, None)


def _frames(batches: Iterator[pa.RecordBatch], n_rows: int | None) -> Iterator[pl.DataFrame]:
    """Yield batches as DataFrames, until there are `n_rows` rows."""
    missing = n_rows
    for batch in batches:
        yield pl.DataFrame(pl.from_arrow(batch if missing is None else batch.slice(0, missing)))
        missing = None if missing is None else missing - batch.num_rows
        if missing is not None and missing <= 0:
            return

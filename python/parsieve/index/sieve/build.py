"""Build a Sieve index of some columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from parsieve import _core
from parsieve.index.build.executor import Executor
from parsieve.index.build.flow import BoundColumn, build_columns
from parsieve.index.build.target import require_readable
from parsieve.index.build.units import units_of
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.columns import paths_of
from parsieve.index.log.commit import Base, ColumnState, Commit, Layout, TableState
from parsieve.index.log.log import Log
from parsieve.index.log.publish import Transaction
from parsieve.index.scan.column_rows import ColumnRows
from parsieve.index.scan.units import Unit
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.lake.slices import locations_of

# Ranges of rows are the finest units. Files that have none are answered as a whole.
DEFAULT = Layout("rows")


def build(
    log: Log,
    lake: Lake,
    snapshot: Snapshot,
    columns: Sequence[str | Sequence[str]],
    executor: Executor[Any],
    *,
    layouts: Mapping[ColumnPath, Layout] | None = None,
    operation: str = "build",
) -> Commit:
    """Build and commit a Sieve index of some columns in one scan. This replaces their existing Sieve index.

    A column that is not in `layouts` gets the default layout.
    """
    paths = paths_of(columns)
    chosen = {path: (layouts or {}).get(path, DEFAULT) for path in paths}
    with executor:
        return build_columns(log, lake, snapshot, paths, _Sieve(executor, chosen, operation))


def rebuild(
    log: Log, lake: Lake, snapshot: Snapshot, layouts: Mapping[ColumnPath, Layout | None], executor: Executor[Any]
) -> Commit | None:
    """Build columns again that an update cannot bring up to date. They keep their layouts and their format."""
    version = None
    for in_format_1 in (True, False):
        chosen = {path: layout for path, layout in layouts.items() if (layout is None) == in_format_1}
        if chosen:
            with executor:
                version = build_columns(log, lake, snapshot, list(chosen), _Sieve(executor, chosen, "build"))
    return version


@dataclass(frozen=True)
class _Sieve:
    executor: Executor[Any]
    # None for columns in format 1.
    layouts: Mapping[ColumnPath, Layout | None]
    operation: str

    def check(self, field: pa.Field) -> None:
        _core.SieveAxis(field.type)

    def states(self, version: Commit | None) -> Mapping[ColumnPath, ColumnState]:
        return {} if version is None else version.columns

    def write(
        self, lake: Lake, slices: Sequence[Slice], fields: Mapping[ColumnPath, pa.Field], instant: int
    ) -> tuple[dict[ColumnPath, Base], dict[Location, Exception]]:
        kinds: dict[ColumnPath, Unit] = {
            path: "file" if layout is None else layout.unit for path, layout in self.layouts.items()
        }
        units = units_of(lake, slices, kinds, self.executor)
        types = {path: field.type for path, field in fields.items()}
        rows = self.executor.read_rows(lake, slices, types, units)
        # A slice that cannot be read fails for all columns, because one scan reads them all.
        failed = failed_locations(slices, next(iter(rows.values())))
        require_readable(slices, failed)
        locations = locations_of(slices)
        return self.executor.build_bases(rows, units, self.layouts, locations, instant), failed

    def bindings(self, slices: Sequence[Slice], tokens: Mapping[Location, str]) -> Bindings:
        if None in self.layouts.values():
            return Bindings(tokens)
        return Bindings.fresh(locations_of(slices), tokens)

    def state(self, column: BoundColumn, files: Base) -> ColumnState:
        layout = self.layouts[column.path]
        return ColumnState(
            path=column.path,
            field_id=column.field_id,
            type=column.type,
            table=column.table,
            bindings=column.bindings,
            base=files,
            layout=layout,
            column_ids=column.column_ids,
        )

    def commit(
        self, transaction: Transaction, table: TableState, states: Mapping[ColumnPath, ColumnState]
    ) -> Commit | None:
        return transaction.commit(table, columns=states)


def failed_locations(slices: Sequence[Slice], rows: ColumnRows) -> dict[Location, Exception]:
    """Return why slices could not be read, by location."""
    return {slices[number].location: error for number, error in rows.failed.items()}

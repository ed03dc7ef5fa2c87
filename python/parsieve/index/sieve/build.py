"""Build a Sieve index of some columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from parsieve import _core
from parsieve.index.build.executor import ColumnRows, Executor
from parsieve.index.build.flow import BoundColumn, build_columns
from parsieve.index.build.target import require_readable
from parsieve.index.log.columns import paths_of
from parsieve.index.log.commit import Base, ColumnState, Commit, Log, TableState
from parsieve.index.log.publish import Transaction
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot


def build(
    log: Log, lake: Lake, snapshot: Snapshot, columns: Sequence[str | Sequence[str]], executor: Executor[Any]
) -> Commit:
    """Build and commit a Sieve index of some columns in one scan. This replaces their existing Sieve index."""
    paths = paths_of(columns)
    with executor:
        return build_columns(log, lake, snapshot, paths, _Sieve(executor))


@dataclass(frozen=True)
class _Sieve:
    executor: Executor[Any]
    operation: str = "build"

    def check(self, field: pa.Field) -> None:
        _core.SieveAxis(field.type)

    def states(self, version: Commit | None) -> Mapping[ColumnPath, ColumnState]:
        return {} if version is None else version.columns

    def write(
        self, lake: Lake, slices: Sequence[Slice], fields: Mapping[ColumnPath, pa.Field], instant: int
    ) -> tuple[dict[ColumnPath, Base], dict[Location, Exception]]:
        rows = self.executor.read_rows(lake, slices, {path: field.type for path, field in fields.items()})
        # A slice that cannot be read fails for all columns, because one scan reads them all.
        failed = failed_locations(slices, next(iter(rows.values())))
        require_readable(slices, failed)
        locations = [file_slice.location for file_slice in slices]
        return self.executor.build_bases(rows, locations, instant), failed

    def state(self, column: BoundColumn, files: Base) -> ColumnState:
        return ColumnState(*column, base=files)

    def commit(
        self, transaction: Transaction, table: TableState, states: Mapping[ColumnPath, ColumnState]
    ) -> Commit | None:
        return transaction.commit(table, columns=states)


def failed_locations(slices: Sequence[Slice], rows: ColumnRows) -> dict[Location, Exception]:
    """Return why slices could not be read, by location."""
    return {slices[number].location: error for number, error in rows.failed.items()}

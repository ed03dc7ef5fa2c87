"""Build a Bloom index of some columns.

A Bloom index has one filter for each slice and column. It answers queries for keys, with false positives. It serves
tables whose files must not change, so that their filters cannot be inside the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from parsieve import _core
from parsieve._core import UnsupportedError
from parsieve.filters.options import checked_fpp
from parsieve.index.build.executor import Executor, Shelves
from parsieve.index.build.flow import BoundColumn, build_columns
from parsieve.index.build.target import require_readable
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.columns import paths_of
from parsieve.index.log.commit import BloomState, Commit, TableState
from parsieve.index.log.log import Log
from parsieve.index.log.publish import Transaction
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.lake.rows.columns import leaf_field
from parsieve.predicate.expressions.expression import computed


def build(
    log: Log,
    lake: Lake,
    snapshot: Snapshot,
    columns: Sequence[str | Sequence[str]],
    executor: Executor[Any],
    *,
    fpp: float = 0.01,
) -> Commit:
    """Build and commit a Bloom index of some columns in one scan. This replaces their existing Bloom index."""
    paths = paths_of(columns)
    return build_columns(log, lake, snapshot, paths, _Bloom(executor, checked_fpp(fpp)))


@dataclass(frozen=True)
class _Bloom:
    executor: Executor[Any]
    fpp: float
    operation: str = "build bloom"

    def check(self, field: pa.Field) -> None:
        check_type(field)

    def states(self, version: Commit | None) -> Mapping[ColumnPath, BloomState]:
        return {} if version is None else version.blooms

    def write(
        self, lake: Lake, slices: Sequence[Slice], fields: Mapping[ColumnPath, pa.Field], instant: int
    ) -> tuple[dict[ColumnPath, Shelves], dict[Location, Exception]]:
        shelves, failed = self.executor.fill_shelves(lake, slices, dict.fromkeys(fields, self.fpp))
        require_readable(slices, failed)
        return shelves, failed

    def bindings(self, slices: Sequence[Slice], tokens: Mapping[Location, str]) -> Bindings:
        return Bindings(tokens)

    def state(self, column: BoundColumn, files: Shelves) -> BloomState:
        return BloomState(
            path=column.path,
            field_id=column.field_id,
            type=column.type,
            table=column.table,
            fpp=self.fpp,
            bindings=column.bindings,
            shelves=files,
        )

    def commit(
        self, transaction: Transaction, table: TableState, states: Mapping[ColumnPath, BloomState]
    ) -> Commit | None:
        return transaction.commit(table, blooms=states)


def fields_of(schema: pa.Schema, paths: Sequence[ColumnPath]) -> dict[ColumnPath, pa.Field]:
    """Return the fields of some columns. Raises an error if Bloom filters do not support a column's type."""
    fields = {path: leaf_field(schema, path) for path in paths}
    for path, field in fields.items():
        if computed(path, schema) is not None:
            raise UnsupportedError(f'{path[0]} is an expression, which only a Sieve index can have; pass kind="sieve"')
        check_type(field)
    return fields


def check_type(field: pa.Field) -> None:
    """Raise an error if Bloom filters do not support the type of a column."""
    _core.BloomFilter(num_bytes=32, type=field.type)

"""Build a text index of some columns.

A text index has one filter of trigrams for each slice and column. It answers queries for text inside strings: LIKE
with any pattern, and regular expressions with a fixed part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from parsieve._core import UnsupportedError
from parsieve.filters.options import checked_fpp
from parsieve.index.build.executor import Executor, Shelves
from parsieve.index.build.flow import BoundColumn, build_columns
from parsieve.index.build.target import require_readable
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.columns import paths_of
from parsieve.index.log.commit import Commit, Log, TableState, TextState
from parsieve.index.log.publish import Transaction
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.lake.rows.columns import leaf_field
from parsieve.predicate.builder import is_text
from parsieve.predicate.expr import value_type
from parsieve.predicate.expressions.expression import computed


def build(
    log: Log,
    lake: Lake,
    snapshot: Snapshot,
    columns: Sequence[str | Sequence[str]],
    executor: Executor[Any],
    *,
    fpp: float = 0.02,
) -> Commit:
    """Build and commit a text index of some columns in one scan. This replaces their existing text index."""
    paths = paths_of(columns)
    return build_columns(log, lake, snapshot, paths, _Text(executor, checked_fpp(fpp)))


@dataclass(frozen=True)
class _Text:
    executor: Executor[Any]
    fpp: float
    operation: str = "build text"

    def check(self, field: pa.Field) -> None:
        check_type(field)

    def states(self, version: Commit | None) -> Mapping[ColumnPath, TextState]:
        return {} if version is None else version.texts

    def write(
        self, lake: Lake, slices: Sequence[Slice], fields: Mapping[ColumnPath, pa.Field], instant: int
    ) -> tuple[dict[ColumnPath, Shelves], dict[Location, Exception]]:
        shelves, failed = self.executor.fill_shelves(lake, slices, dict.fromkeys(fields, self.fpp), texts=True)
        require_readable(slices, failed)
        return shelves, failed

    def bindings(self, slices: Sequence[Slice], tokens: Mapping[Location, str]) -> Bindings:
        return Bindings(tokens)

    def state(self, column: BoundColumn, files: Shelves) -> TextState:
        return TextState(
            path=column.path,
            field_id=column.field_id,
            type=column.type,
            table=column.table,
            fpp=self.fpp,
            bindings=column.bindings,
            shelves=files,
        )

    def commit(
        self, transaction: Transaction, table: TableState, states: Mapping[ColumnPath, TextState]
    ) -> Commit | None:
        return transaction.commit(table, texts=states)


def check_columns(schema: pa.Schema, paths: Sequence[ColumnPath]) -> None:
    """Raise an error if a text index does not support one of some columns."""
    for path in paths:
        if computed(path, schema) is not None:
            raise UnsupportedError(f'{path[0]} is an expression, which only a Sieve index can have; pass kind="sieve"')
        check_type(leaf_field(schema, path))


def check_type(field: pa.Field) -> None:
    """Raise an error if a text index does not support the type of a column."""
    if not is_text(value_type(field.type)):
        raise UnsupportedError(
            f"{field.name} is of type {field.type}, but a text index has only columns of strings; choose another kind"
        )

"""Build a text index of some columns.

A text index has one filter for each unit of a slice and each column. A filter of trigrams answers queries for text
inside strings: LIKE with any pattern, and regular expressions with a fixed part. A filter of words answers queries for
whole words.
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
from parsieve.index.build.unit_choice import REQUEST_BYTES, check_unit, mean_bytes
from parsieve.index.build.units import units_of
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.columns import paths_of
from parsieve.index.log.commit import Commit, TableState, TextContent, TextState
from parsieve.index.log.log import Log
from parsieve.index.log.publish import Transaction
from parsieve.index.scan.units import UNITS, Unit
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
    units: Mapping[ColumnPath, Unit] | None = None,
    fpp: float = 0.02,
    content: TextContent = "trigrams",
) -> Commit:
    """Build and commit a text index of some columns in one scan. This replaces their text index of the same content.

    A column that is not in `units` has files as units.
    """
    paths = paths_of(columns)
    return build_columns(log, lake, snapshot, paths, _Text(executor, checked_fpp(fpp), content, units or {}))


@dataclass(frozen=True)
class _Text:
    executor: Executor[Any]
    fpp: float
    content: TextContent
    units: Mapping[ColumnPath, Unit]
    operation: str = "build text"

    def check(self, field: pa.Field) -> None:
        check_type(field)

    def states(self, version: Commit | None) -> Mapping[ColumnPath, TextState]:
        texts = {} if version is None else version.texts
        return {path: state for (path, content), state in texts.items() if content == self.content}

    def write(
        self, lake: Lake, slices: Sequence[Slice], fields: Mapping[ColumnPath, pa.Field], instant: int
    ) -> tuple[dict[ColumnPath, Shelves], dict[Location, Exception]]:
        units = units_of(lake, slices, {path: self._unit(path) for path in fields}, self.executor)
        rates = dict.fromkeys(fields, self.fpp)
        shelves, failed = self.executor.fill_shelves(lake, slices, rates, content=self.content, units=units)
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
            content=self.content,
            unit=self._unit(column.path),
        )

    def _unit(self, path: ColumnPath) -> Unit:
        return self.units.get(path, "file")

    def commit(
        self, transaction: Transaction, table: TableState, states: Mapping[ColumnPath, TextState]
    ) -> Commit | None:
        newest = transaction.newest
        others = {} if newest is None else newest.texts
        texts = {key: state for key, state in others.items() if key[1] != self.content}
        texts |= {(path, self.content): state for path, state in states.items()}
        return transaction.commit(table, texts=texts)


def units_for(lake: Lake, snapshot: Snapshot, paths: Sequence[ColumnPath], unit: str) -> dict[ColumnPath, Unit]:
    """Return the units of a text index of some columns. "auto" chooses ranges of rows if the files are large."""
    check_unit(unit)
    finest: Unit = "file" if mean_bytes(snapshot) <= REQUEST_BYTES else "rows"
    chosen: Unit = next((kind for kind in UNITS if kind == unit), finest)
    return dict.fromkeys(paths, chosen)


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
            f"{field.name} is of type {field.type}, but only columns of strings can have a text or words index; choose "
            "another kind"
        )

"""Build an index of either kind and commit it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa

from parsieve.errors import ConflictError
from parsieve.index.build.target import Target
from parsieve.index.log import bindings
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.columns import column_ids_of, field_id_of
from parsieve.index.log.commit import BloomState, ColumnState, Commit, TableState, TextState
from parsieve.index.log.log import Log
from parsieve.index.log.parts import Part
from parsieve.index.log.publish import Transaction
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.lake.rows.columns import leaf_field

StateT = TypeVar("StateT", ColumnState, BloomState, TextState)
FilesT = TypeVar("FilesT")


class BoundColumn(NamedTuple):
    """A column of a table snapshot, with the files that bind it to the tokens of the slices."""

    path: ColumnPath
    field_id: int | None
    type: pa.DataType
    table: TableState
    bindings: tuple[Part, ...]
    # The field ids of the columns of an expression.
    column_ids: tuple[int, ...]


class Kind(Protocol[StateT, FilesT]):
    """One kind of index: how its files are written, and where a version stores its columns."""

    @property
    def operation(self) -> str:
        """Return the name of a build in the log."""

    def check(self, field: pa.Field) -> None:
        """Raise an error if a column of this type cannot be indexed."""

    def states(self, version: Commit | None) -> Mapping[ColumnPath, StateT]:
        """Return the columns of a version that have an index of this kind."""

    def write(
        self, lake: Lake, slices: Sequence[Slice], fields: Mapping[ColumnPath, pa.Field], instant: int
    ) -> tuple[dict[ColumnPath, FilesT], dict[Location, Exception]]:
        """Read the slices in one scan and write the index; also return why slices could not be read."""

    def bindings(self, slices: Sequence[Slice], tokens: Mapping[Location, str]) -> Bindings:
        """Bind the slices, which were read in this order, to their tokens."""

    def state(self, column: BoundColumn, files: FilesT) -> StateT:
        """Combine a column and its files into the state that a version stores."""

    def commit(self, transaction: Transaction, table: TableState, states: Mapping[ColumnPath, StateT]) -> Commit | None:
        """Commit a version in which these columns have an index of this kind."""


def build_columns(
    log: Log, lake: Lake, snapshot: Snapshot, paths: Sequence[ColumnPath], kind: Kind[StateT, FilesT]
) -> Commit:
    """Index some columns of a snapshot and commit them. This replaces their existing index of the same kind.

    Raises `ConflictError` if another process indexed one of the columns during the build.
    """
    fields = {path: leaf_field(snapshot.schema, path) for path in paths}
    for field in fields.values():
        kind.check(field)
    target = Target.of(snapshot)
    before = _named(log.newest(), snapshot)
    instant = 1 if before is None else before.version + 1
    files, failed = kind.write(lake, target.slices, fields, instant)
    bound = kind.bindings(target.slices, target.bindings(failed))
    chain = bindings.write(log.store, (), bindings.NOTHING, bound)
    built = {
        path: kind.state(
            BoundColumn(
                path, field_id_of(field), field.type, target.table, chain, column_ids_of(snapshot.schema, path)
            ),
            files[path],
        )
        for path, field in fields.items()
    }
    transaction = Transaction(log, kind.operation)
    while True:
        newest = _named(transaction.begin(), snapshot)
        for path in built:
            if kind.states(newest).get(path) != kind.states(before).get(path):
                raise ConflictError(
                    f"{'.'.join(path)} was indexed by another process during this build; nothing was committed"
                )
        if version := kind.commit(transaction, target.table, {**kind.states(newest), **built}):
            return version


def _named(version: Commit | None, snapshot: Snapshot) -> Commit | None:
    """Return a version with the current names of its columns, so that a new column cannot replace a renamed one."""
    return None if version is None else version.named(snapshot.schema)

"""`open_table` opens a table of Parquet files in any format; a `Table` makes plans and maintains the index."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from parsieve._core import ParsieveError
from parsieve._typing import ColumnName
from parsieve.index.advice import Advice, advise_column
from parsieve.index.indexed_table import IndexedTable
from parsieve.index.table_index import TableIndex
from parsieve.index.view import View
from parsieve.lake.base import AsOf, Lake, Snapshot
from parsieve.lake.open import open_lake
from parsieve.plan.evidence.footers import Footers
from parsieve.plan.evidence.questions import Among, ask, leaves
from parsieve.plan.make import check_arguments, log_plan, make_plan, refuse_stale, report_unknown
from parsieve.plan.pickling import restore_table, table_state
from parsieve.plan.plan import Plan
from parsieve.predicate.column_names import Names
from parsieve.predicate.expr import Expr, unknowns
from parsieve.predicate.expr import columns as columns_of
from parsieve.predicate.parse import Params, parse

if TYPE_CHECKING:
    from parsieve._typing import IndexLocation, TableKeysArgument, TableSource, Where


class Table(IndexedTable):
    """A table, as `open_table` returns it. Threads may share it, and each plan reuses what earlier plans have read.

    Tables pickle, without their caches. A table that was opened with `decryption=`, or on a filesystem that cannot be
    pickled, raises `TypeError`.
    """

    def __init__(self, lake: Lake, index_location: IndexLocation | TableIndex = None) -> None:
        self._lake = lake
        self._footers = Footers()
        self._last: Snapshot | None = None
        self._index = TableIndex.of(lake, index_location, lake.storage_options or None)

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_table, (type(self), *table_state(self))

    def __repr__(self) -> str:
        return f"<parsieve.Table {self.format} {self.uri}>"

    @property
    def format(self) -> str:
        """`parquet`, `delta`, `iceberg` or `hudi`."""
        return self._lake.format

    @property
    def uri(self) -> str:
        """The table's folder."""
        return self._lake.uri

    @property
    def schema(self) -> pa.Schema:
        """The columns that the table has now."""
        return self._lake.snapshot().schema

    def plan(
        self,
        where: Where = None,
        as_of: AsOf = None,
        *,
        keys: Mapping[Any, Any] | None = None,
        row_groups: bool | None = None,
        timezone: str | None = None,
        stale: Literal["keep", "error"] = "keep",
        params: Params | None = None,
        on_unknown: Literal["warn", "error", "ignore"] = "warn",
    ) -> Plan:
        """Find the files and row groups that can contain a row for which `where` is true.

        Args:
            where: A SQL condition, a pyarrow or Polars expression, or `[(column, op, value)]` tuples. None selects
                every row.
            as_of: The state of the table to plan on: a Delta version, an Iceberg snapshot id, a Hudi instant, or a
                `datetime`. None is the current state.
            keys: A mapping of column names to Arrow columns. Rows match if each column has one of the given values (a
                semi-join).
            row_groups: True opens every kept file, and skips row groups by min/max statistics and Bloom filters. False
                opens no file. None opens files for which no other evidence has an answer, and others if that is
                expected to pay.
            timezone: The time zone to assume for timestamps in `where` that have none, if their column has one.
            stale: What to do if the index does not cover the current version of a file. "keep" keeps the file; "error"
                raises `StaleIndexError`, also if there is no index.
            params: The values of `?` in SQL text, as a list, or of `:name`, as a dict.
            on_unknown: What to do if parsieve does not understand a part of `where`, which then skips no file. "warn"
                emits a `ParsieveWarning` that says how to write it, "error" raises `UnsupportedError`, "ignore" does
                neither.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> for part in range(3):
        ...     ids = range(part * 100, part * 100 + 100)
        ...     pq.write_table(pa.table({"id": ids}), f"{folder}/part-{part}.parquet")
        >>> plan = ps.open_table(folder).plan("id = 142")
        >>> [path.rpartition("/")[2] for path in plan.files]
        ['part-1.parquet']
        >>> plan.to_arrow()["id"].to_pylist()
        [142]
        """
        if stale not in ("keep", "error"):
            raise ValueError(f'stale is "keep" or "error", not {stale!r}')
        check_arguments(as_of, on_unknown)
        plan = self._plan(self._snapshot(as_of), where, keys, row_groups, timezone, params)
        report_unknown(plan, on_unknown)
        if stale == "error":
            refuse_stale(plan, not self._index.is_empty)
        return plan

    def _plan(
        self,
        snapshot: Snapshot,
        where: Where,
        keys: Mapping[Any, Any] | None = None,
        row_groups: bool | None = None,
        timezone: str | None = None,
        params: Params | None = None,
    ) -> Plan:
        """Plan on a snapshot that was taken before."""
        started = time.perf_counter()
        before = self._index.cost
        view, notes = self._view(snapshot)
        plan = make_plan(
            self._lake, snapshot, self._footers, view, where, keys, row_groups, timezone, notes, params=params
        )
        requests, num_bytes = self._index.cost
        plan._count(requests - before[0], num_bytes - before[1])
        log_plan(plan, time.perf_counter() - started)
        return plan

    def _snapshot(self, as_of: AsOf) -> Snapshot:
        """A snapshot; while nothing changes its slices are the same objects, by which others know what they know."""
        snapshot = self._lake.snapshot(as_of)
        last = self._last
        if last is not None and snapshot.slices is not last.slices and _same_slices(last, snapshot):
            snapshot = replace(snapshot, slices=last.slices)
        self._last = snapshot
        return snapshot

    def _view(self, snapshot: Snapshot) -> tuple[View | None, list[str]]:
        """Return the index version that covers most of a snapshot. A broken index only costs speed."""
        try:
            self._index.refresh()
            return self._index.at(snapshot), []
        except (ParsieveError, OSError) as error:
            return None, [f"the index cannot be used: {error}"]

    def advise(
        self,
        columns: ColumnName | Sequence[ColumnName] | None = None,
        queries: str | Sequence[Where] = (),
        *,
        expose: ColumnName | Sequence[ColumnName] = (),
        timezone: str | None = None,
    ) -> list[Advice]:
        """Estimate what an index of each column would cost and save, from a sample of the table's files.

        Args:
            columns: The columns to judge. None takes those of the queries, or without queries all columns.
            queries: Typical predicates, as for `plan`. Without any, point and range queries count equally.
            expose: Encrypted columns that may be indexed, as for `build_index`.
            timezone: The time zone to assume for timestamps in `queries` that have none, as for `plan`.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> for part in range(9):
        ...     pq.write_table(pa.table({"id": range(part, 900, 9), "n": [7] * 100}), f"{folder}/part-{part}.parquet")
        >>> [(one.column, one.recommendation) for one in ps.open_table(folder).advise()]
        [('id', 'sieve'), ('n', 'none')]
        """
        snapshot = self._lake.snapshot()
        asked = [parse(one, snapshot.schema, timezone) for one in ([queries] if isinstance(queries, str) else queries)]
        if columns is not None:
            paths = self._paths(columns, snapshot.schema)
        elif asked:
            paths = list(dict.fromkeys(column.path for one in asked for column in columns_of(one)))
            if not paths:
                raise ValueError(f"the queries name no column in a condition that is understood{_left_out(asked)}")
        else:
            paths = [(field.name,) for field in snapshot.schema if not pa.types.is_nested(field.type)]
        intervals = {leaf.column.path for one in asked for leaf in leaves(ask(one)) if not isinstance(leaf, Among)}
        lake = self._lake.exposing(self._paths(expose, snapshot.schema))
        return [advise_column(lake, snapshot, path, ranges=not asked or path in intervals) for path in paths]

    def _paths(self, columns: ColumnName | Sequence[ColumnName], schema: pa.Schema) -> list[tuple[str, ...]]:
        # A name may be empty; `()` is no columns.
        listed = [columns] if columns != () and isinstance(columns, str | tuple) else list(columns)
        names = Names(schema)
        return [names.find([one] if isinstance(one, str) else one).path for one in listed]


def _same_slices(one: Snapshot, other: Snapshot) -> bool:
    """Whether the slices of two snapshots are the same files with the same live rows, read by the same schema."""
    if len(one.slices) != len(other.slices) or not one.schema.equals(other.schema, check_metadata=True):
        return False
    return one.slices.same_rows(other.slices)


def open_table(
    source: TableSource,
    format: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    index_location: IndexLocation = None,
    decryption: TableKeysArgument = None,
) -> Table:
    """Open a table: a path or URI, a `(filesystem, path)` pair, a `DeltaTable`, or a pyiceberg `Table`.

    parsieve detects plain folders of Parquet files (hive-partitioned or not), Delta Lake, Iceberg and Hudi by the
    contents of the folder. Pass `format` to override this. The index of a plain folder
    `lake/orders` is stored in `lake/.parsieve/orders`, that of another table in its `_parsieve` folder, or at
    `index_location`.

    In a plain folder every file counts as Parquet unless its name starts with `_` or `.`. A single file is a table
    too; to index it, pass `index_location`. Globs and lists of files are not accepted.

    `storage_options` use the names of obstore for a plain folder (`aws_region`, `aws_endpoint`, `aws_allow_http`), and
    those of the format's library for Delta Lake, Iceberg and Hudi.

    `decryption` holds the keys of a plain folder's encrypted files: a dict of `footer_key`, `column_keys` and
    `aad_prefix`; or `(kms, connection)`, with a `KmsClient` (or a function that makes one) and the
    `KmsConnectionConfig` of pyarrow's `CryptoFactory`; or `FileKeys`, which can read footers and filters but no rows.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [1, 2]}), folder + "/part-0.parquet")
    >>> ps.open_table(folder).format
    'parquet'
    """
    return Table(open_lake(source, format, storage_options, decryption), index_location)


def _left_out(asked: Sequence[Expr]) -> str:
    parts = [f"{part.text!r} is not ({part.reason})" for one in asked for part in unknowns(one)]
    return "".join(f"; {part}" for part in parts)


def advise(
    table: Table | TableSource,
    columns: ColumnName | Sequence[ColumnName] | None = None,
    queries: str | Sequence[Where] = (),
    *,
    decryption: TableKeysArgument = None,
    expose: ColumnName | Sequence[ColumnName] = (),
    timezone: str | None = None,
) -> list[Advice]:
    """Estimate what an index of each column would cost and save, before you build it. See `Table.advise`.

    `table` is a `Table`, or anything that `open_table` accepts; `decryption` is passed on to it.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(9):
    ...     pq.write_table(pa.table({"id": range(part, 900, 9)}), f"{folder}/part-{part}.parquet")
    >>> [advice] = ps.advise(folder, queries=["id = 42"])
    >>> round(advice.minmax_reads), round(advice.sieve_reads)
    (9, 1)
    """
    opened = table if isinstance(table, Table) else open_table(table, decryption=decryption)
    return opened.advise(columns, queries, expose=expose, timezone=timezone)

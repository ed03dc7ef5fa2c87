"""`open_table` opens a table of Parquet files in any format; a `Table` makes plans and maintains the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from parsieve.index.indexed_table import IndexedTable
from parsieve.index.log.columns import column_paths
from parsieve.index.table_index import TableIndex
from parsieve.lake.base import AsOf, ColumnPath, Lake
from parsieve.lake.open import open_lake
from parsieve.observe.notebook import html_of
from parsieve.plan.evidence.questions import (
    HasAnyOf,
    HasMatch,
    HasWord,
    Question,
    leaves,
    question_tree,
    trigrams_of_question,
    words_of_question,
)
from parsieve.plan.lookup import LookupResult, look_up
from parsieve.plan.make import PlanOptions
from parsieve.plan.open_table import OpenTable
from parsieve.plan.order.ordered_plan import Order, OrderedPlan
from parsieve.plan.pickling import restore_table, table_state
from parsieve.plan.plan import Plan
from parsieve.plan.refusals import check_arguments, refuse_stale, report_unknown
from parsieve.predicate.bind import bind
from parsieve.predicate.expr import Expr, unknowns, value_columns
from parsieve.predicate.parse import Params, parse

if TYPE_CHECKING:
    from parsieve._typing import ColumnName, IndexLocation, TableKeysArgument, TableSource, Where
    from parsieve.index.advice import Advice, ColumnUsage
    from parsieve.integrations.dataset.dataset import TableDataset


class Table(IndexedTable):
    """A table, as `open_table` returns it. Threads may share it, and each plan reuses what earlier plans have read.

    You can pickle a table. The pickle contains no caches. A table that was opened with `decryption=`, or on a
    filesystem that cannot be pickled, raises `TypeError`.
    """

    # For the other parts of parsieve; not public.
    opened: OpenTable

    def __init__(self, lake: Lake, index_location: IndexLocation | TableIndex = None) -> None:
        self.opened = OpenTable.of(lake, index_location)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name != "opened"]

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_table, (type(self), *table_state(self.opened.lake, self.opened.index, repr(self)))

    def _repr_html_(self) -> str | None:
        return html_of(self)

    def __repr__(self) -> str:
        return f"<parsieve.Table {self.format} {self.uri}>"

    @property
    def format(self) -> str:
        """`parquet`, `delta`, `iceberg` or `hudi`."""
        return self.opened.lake.format

    @property
    def schema(self) -> pa.Schema:
        """The columns that the table has now."""
        return self.opened.lake.snapshot().schema

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
        order_by: str | Sequence[str] | None = None,
        descending: bool = False,
        nulls: Literal["first", "last"] = "last",
        limit: int | None = None,
    ) -> Plan:
        """Find the files and row groups that can contain a row for which `where` is true.

        Args:
            where: A SQL condition, a pyarrow or Polars expression, or `[(column, op, value)]` tuples. None selects
                every row.
            as_of: The state of the table to plan on: a Delta version, an Iceberg snapshot id, a Hudi instant, or a
                `datetime`. None is the current state.
            keys: A mapping of column names to Arrow columns. Rows match if each column has one of the given values (a
                semi-join). A name may be an expression such as `lower(email)`. The keys of a composite key such as
                `tenant, id` are a table with its columns, or a list of tuples.
            row_groups: True opens every kept file, and skips row groups by min/max statistics and Bloom filters. False
                opens no file. None lets parsieve decide: it opens files for which there is no other evidence, and other
                files if that is expected to save time.
            timezone: The time zone to assume for timestamps in `where` and `keys` that have none, if their column has
                one.
            stale: What to do if the index does not cover the current version of a file. "keep" keeps the file; "error"
                raises `StaleIndexError`, also if there is no index.
            params: The values of `?` in SQL text, as a list, or of `:name`, as a dict.
            on_unknown: What to do if parsieve does not understand a part of `where`. Such a part skips no file. "warn"
                emits a `ParsieveWarning` that says how to write it, "error" raises `UnsupportedError`, and "ignore"
                does neither. A plan with a `limit` always raises.
            order_by: The column to sort the rows by. `files` then starts with the file to read first, so that reading
                can stop early. A field of a struct is a dotted name, or a list of names.
            descending: Whether the greatest values come first. NaN is greater than all numbers.
            nulls: Whether nulls come "first" or "last", in both directions. The default is "last", as in DuckDB; Polars
                has nulls first.
            limit: The number of rows to return. Only as many files are read as needed.

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
            raise ValueError(f'stale must be "keep" or "error", not {stale!r}')
        check_arguments(as_of, on_unknown)
        order = Order(order_by, limit, descending=descending, nulls=nulls)
        snapshot = self.opened.snapshot(as_of)
        bound = bind(where, snapshot.schema, keys=keys, timezone=timezone, params=params)
        options = PlanOptions(row_groups)
        if order.is_given:
            plan: Plan = OrderedPlan.of(self.opened, snapshot, bound, options, order)
        else:
            plan = self.opened.plan(bound, snapshot, options)
        report_unknown(bound, on_unknown)
        if stale == "error":
            refuse_stale(plan.record, not self.opened.index.is_empty)
        return plan

    def dataset(self, *, as_of: AsOf = None) -> TableDataset:
        """Return the table as a pyarrow dataset. Queries of engines on it skip files and row groups.

        DuckDB, Polars (`scan_pyarrow_dataset`), DataFusion and others pass their filters on to datasets. Each scan sees
        the current state of the table, or its state at `as_of`. `pin()` fixes the state for several scans.

        >>> import tempfile, duckdb, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> for part in range(3):
        ...     pq.write_table(pa.table({"id": [part], "name": ["abc"[part]]}), f"{folder}/part-{part}.parquet")
        >>> orders = ps.open_table(folder).dataset()
        >>> duckdb.sql("SELECT name FROM orders WHERE id = 1").fetchall()
        [('b',)]
        """
        from parsieve.integrations.dataset.dataset import TableDataset
        from parsieve.integrations.live_table import LiveTable

        return TableDataset(LiveTable.of(self.opened, as_of))

    def lookup(
        self,
        column: str | Sequence[str],
        keys: Any,
        columns: Sequence[str] | None = None,
        *,
        as_of: AsOf = None,
        timezone: str | None = None,
        threads: int | None = None,
    ) -> LookupResult:
        """Return the rows of one or many keys, in the order of the keys, and the keys without a row.

        This reads the index once for all keys, and each page of the table at most once. It also reads the files that
        the index does not cover. If a key is in `keys` several times, its rows are returned as many times. Nulls match
        nothing.

        Args:
            column: The column with the keys. A field of a struct is a dotted name, or a list of names. Expressions and
                composite keys are accepted as in `plan`.
            keys: An Arrow array, a column of a DataFrame, or a list of values.
            columns: The columns to return. None returns all columns.
            as_of: The state of the table, as for `plan`.
            timezone: The time zone to assume for keys that are timestamps without one, if the column has one.
            threads: The number of files to read at the same time. None means one for each processor.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": range(100), "square": [n * n for n in range(100)]}), folder + "/0.parquet")
        >>> result = ps.open_table(folder).lookup("id", [7, 7, 500], columns=["square"])
        >>> result.table["square"].to_pylist(), result.missing.to_pylist()
        ([49, 49], [500])
        """
        check_arguments(as_of, "warn")
        return look_up(self.opened, column, keys, columns, as_of=as_of, timezone=timezone, threads=threads)

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
            columns: The columns to judge. None judges the columns of the queries, or without queries all columns.
            queries: Typical predicates, as for `plan`. If they look for text inside the values, as in LIKE '%text%',
                the advice is about a text or words index. Without queries, point and range queries have equal weight,
                and a text or words index is recommended for log lines and other prose if it pays off.
            expose: Encrypted columns that may be indexed, as for `build_index`.
            timezone: The time zone to assume for timestamps in `queries` that have none, as for `plan`.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> for part in range(9):
        ...     pq.write_table(pa.table({"id": range(part, 900, 9), "n": [7] * 100}), f"{folder}/part-{part}.parquet")
        >>> [(advice.column, advice.recommendation) for advice in ps.open_table(folder).advise()]
        [('id', 'sieve'), ('n', 'none')]
        """
        from parsieve.index.advice import ColumnUsage, advise_column

        snapshot = self.opened.lake.snapshot()
        listed = [queries] if isinstance(queries, str) else queries
        predicates = [parse(query, snapshot.schema, timezone) for query in listed]
        if columns is not None:
            paths = column_paths(columns, snapshot.schema)
        elif predicates:
            paths = list(dict.fromkeys(column.path for expr in predicates for column in value_columns(expr)))
            if not paths:
                raise ValueError(
                    f"the queries name no column in a condition that parsieve understands{_not_understood(predicates)}"
                )
        else:
            paths = [(field.name,) for field in snapshot.schema if not pa.types.is_nested(field.type)]
        questions = [question for expr in predicates for question in leaves(question_tree(expr))]
        lake = self.opened.lake.exposing(column_paths(expose, snapshot.schema))
        usage = {path: _usage_of(path, questions) if predicates else ColumnUsage() for path in paths}
        return [advise_column(lake, snapshot, path, usage[path]) for path in paths]


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
    contents of the folder. Pass `format` to override this.

    The index of a plain folder `lake/orders` is stored in `lake/.parsieve/orders`. The index of any other table is
    stored in its `_parsieve` folder. Pass `index_location` to store it in another place. A place holds the index of one
    table.

    A path or URI always shows the current version of the table. A `DeltaTable` or pyiceberg `Table` is read at the
    version that it has loaded, until you update or refresh it.

    In a plain folder, every file counts as Parquet unless its name starts with `_` or `.`. You can also open a single
    file. To index it, pass `index_location`. Globs and lists of files are not accepted.

    `storage_options` use the names of obstore for a plain folder (`aws_region`, `aws_endpoint`, `aws_allow_http`), and
    the names of the format's library for Delta Lake, Iceberg and Hudi.

    `decryption` has the keys of a plain folder's encrypted files, in one of three forms:

    - a dict of `footer_key`, `column_keys` and `aad_prefix`
    - `(kms, connection)`, with a `KmsClient` (or a function that makes one) and the `KmsConnectionConfig` of pyarrow's
      `CryptoFactory`
    - `FileKeys`, with which parsieve can read footers and filters but no rows

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [1, 2]}), folder + "/part-0.parquet")
    >>> ps.open_table(folder).format
    'parquet'
    """
    return Table(open_lake(source, format, storage_options, decryption), index_location)


def _usage_of(path: ColumnPath, questions: Sequence[Question]) -> ColumnUsage:
    """Return how the questions of some queries use one column."""
    from parsieve.index.advice import ColumnUsage
    from parsieve.index.text.advice import Needle

    own = [question for question in questions if question.column.path == path]
    inside = [question for question in own if isinstance(question, HasMatch | HasWord)]
    return ColumnUsage(
        keys=len(inside) < len(own) or not own,
        ranges=any(not isinstance(question, HasAnyOf) for question in own if question not in inside),
        needles=tuple(Needle(trigrams_of_question(one) or (), words_of_question(one) or ()) for one in inside),
    )


def _not_understood(predicates: Sequence[Expr]) -> str:
    parts = [f"{part.text!r} is not understood ({part.reason})" for expr in predicates for part in unknowns(expr)]
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

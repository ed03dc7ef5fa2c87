"""A plan of the first rows in an order."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from parsieve._core import UnsupportedError
from parsieve.errors import ColumnNotFoundError
from parsieve.lake.rows.fields import refuse_nul
from parsieve.lake.rows.file_rows import foreign
from parsieve.plan.evidence.index.apply import note_about
from parsieve.plan.make import PlanOptions
from parsieve.plan.order.any_rows import AnyRows
from parsieve.plan.order.first_rows import FirstRows, Narrow
from parsieve.plan.order.ordering import Nulls, Ordering
from parsieve.plan.order.ranking import Ranking, rank
from parsieve.plan.plan import Plan
from parsieve.predicate.bind import BoundPredicate
from parsieve.predicate.builder import explain_unknown
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.expr import And, Column, Expr
from parsieve.predicate.read.keys import find_compared
from parsieve.sharing import cached_property
from parsieve.wording import count

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow.dataset as pads
    from pyspark.sql import DataFrame, SparkSession

    from parsieve.index.view import View
    from parsieve.lake.base import Snapshot
    from parsieve.plan.open_table import OpenTable
    from parsieve.plan.record import PlanRecord


class OrderedPlan(Plan):
    """A plan of the first rows in an order: `Table.plan` with `order_by` or `limit`.

    `files` are all files that can contain a match, in the order to read them. Reading stops when no other file can hold
    one of the first rows.
    """

    def __init__(self, record: PlanRecord, ordering: Ordering | None, limit: int | None, ranking: Ranking) -> None:
        super().__init__(record)
        self.ordering = ordering
        self.limit = limit
        self.ranking = ranking
        # What plans need. A pickled copy has none, and reads all candidates.
        self._table: OpenTable | None = None
        self._options = PlanOptions()

    @classmethod
    def of(
        cls, table: OpenTable, snapshot: Snapshot, bound: BoundPredicate, options: PlanOptions, order: Order
    ) -> OrderedPlan:
        """Plan a predicate, and rank the kept files."""
        if order.limit is not None and bound.unknown:
            parts = "; ".join(dict.fromkeys(explain_unknown(part) for part in bound.unknown))
            raise UnsupportedError(f"a plan with a limit must know which rows match, but {parts}")
        ordering = order.resolved(snapshot.schema)
        record = table.plan(bound, snapshot, options).record
        if ordering is None:
            ranking = Ranking(record.kept, "", 0)
        else:
            view = table.view(snapshot)[0] if options.use_index else None
            ranking = rank(table, view, record, ordering, footers=options.row_groups is not False)
            record = _with_problems(record, view, ordering, ranking)
        plan = cls(record, ordering, order.limit, ranking)
        plan._table, plan._options = table, options
        return plan

    def __getstate__(self) -> dict[str, Any]:
        more = {"ordering": self.ordering, "limit": self.limit, "ranking": self.ranking}
        return super().__getstate__() | {"order": more}

    def __setstate__(self, state: dict[str, Any]) -> None:
        order = state.pop("order")
        super().__setstate__(state)
        self.__dict__.update(order)
        self._table, self._options = None, PlanOptions()

    @cached_property
    def files(self) -> list[str]:
        """The paths or URIs of all files that can contain a match, in the order to read them."""
        paths = self.record.paths()
        return [paths[number] for number in self.ranking.numbers if number in paths]

    def explain(self) -> str:
        """Explain the plan, and the order of its files."""
        return "\n".join([super().explain(), *self.order_lines()])

    def to_json(self) -> str:
        """Return the plan as JSON, for programs. The files are in the order to read them."""
        order: dict[str, Any] = {"order_by": None, "limit": self.limit}
        if self.ordering is not None:
            column, descending, nulls = str(self.ordering.column), self.ordering.descending, self.ordering.nulls
            order |= {"order_by": column, "descending": descending, "nulls": nulls}
        return json.dumps(json.loads(super().to_json()) | {"files": self.files} | order, indent=2)

    def order_lines(self) -> list[str]:
        """Describe the order of the rows and of the files."""
        first = "all rows" if self.limit is None else f"the first {count(self.limit, 'row')}"
        if self.ordering is None:
            return [f"order: none; reading stops after {first}"]
        lines = [f"order: {self.ordering}; {first}"]
        if self.ranking.unknown < len(self.ranking.numbers):
            lines.append(f"  files are read in the order of {self.ranking.source}")
        if self.ranking.unknown:
            unknown = count(self.ranking.unknown, "file")
            lines.append(f"  {unknown} without bounds of {self.ordering.column} must be read first")
        return lines

    def first_rows(self) -> FirstRows | AnyRows:
        """Return the reader of the rows."""
        if self.ordering is None:
            assert self.limit is not None
            return AnyRows(self.record, self.limit)
        return FirstRows(self.record, self.ranking.numbers, self.ordering, self.limit, self._narrower())

    def last_value(self) -> pa.Scalar | None:
        """Read the value of the last row. Return None if there are fewer rows than the limit, or no order."""
        if self.ordering is None or not self.limit:
            return None
        with foreign(self.record.lake.uri):
            rows = self.first_rows().read([self.ordering.column.path[0]], None)
        return self.ordering.values(rows)[-1] if len(rows) == self.limit else None

    def narrowed(self, condition: Expr) -> PlanRecord:
        """Return a plan of the same predicate, without the files whose rows never meet a condition."""
        narrow = self._narrower()
        return self.record if narrow is None else replace(narrow(condition), expr=self.record.expr)

    def _narrower(self) -> Narrow | None:
        table, options = self._table, self._options
        if table is None:
            return None

        def narrow(condition: Expr) -> PlanRecord:
            bound = BoundPredicate(And((self.record.expr, condition)))
            return table.plan(bound, self.record.snapshot, options).record

        return narrow

    def to_arrow(self, columns: Sequence[str] | None = None, *, threads: int | None = None) -> pa.Table:
        """Read the first rows in the order, with the given columns (None: all). Rows with equal values have no order.

        Files are read in the order of `files`, a few at a time. After each step, the table is planned again for rows
        that come before the last of the first rows. When no file is left, reading stops.
        """
        with foreign(self.record.lake.uri):
            return self.first_rows().read(columns, threads)

    def to_batches(
        self, columns: Sequence[str] | None = None, *, threads: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the first rows as record batches, once all of them are read."""
        yield from self.to_arrow(columns, threads=threads).to_batches()

    def _for_engines(self) -> pa.Table:
        refuse_nul(self.schema)
        return self.to_arrow()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the first rows as an Arrow C stream, cast to `requested_schema` if it is given."""
        stream: object = self._for_engines().__arrow_c_stream__(requested_schema)
        return stream

    def to_dataset(self) -> pads.Dataset:
        """Read the first rows, and return them as a pyarrow dataset in memory."""
        import pyarrow.dataset as pads

        from parsieve.lake.rows.arrow_scan import refuse_reserved_names

        refuse_reserved_names(self.schema)
        return pads.dataset(self._for_engines())

    def to_polars(self) -> pl.LazyFrame:
        """Read the first rows, and return them as a LazyFrame."""
        import polars as pl

        from parsieve.plan.results.engines import check_polars_types

        check_polars_types(self.record.snapshot.schema)
        return pl.DataFrame(self._for_engines()).lazy()

    def to_duckdb(self, con: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Read the first rows, and return them as a relation of a DuckDB connection (None: the default one)."""
        import duckdb

        from parsieve.plan.results.engines import check_duckdb_types

        check_duckdb_types(self.record.snapshot.schema)
        connection = duckdb if con is None else con
        relation: duckdb.DuckDBPyRelation = connection.from_arrow(self._for_engines())
        return relation

    def to_spark(self, spark: SparkSession, name: str | None = None) -> DataFrame:
        """Return the first rows as a Spark DataFrame.

        parsieve reads the value of the last row now. Spark then opens only the files with rows up to that value, and
        sorts these rows. See `Plan.to_spark` for changes of the table, and for `name`.
        """
        return super().to_spark(spark, name)

    def __repr__(self) -> str:
        first = "" if self.limit is None else f", the first {count(self.limit, 'row')}"
        order = "" if self.ordering is None else f" by {self.ordering}"
        return f"{super().__repr__()[:-1]}{first}{order}>"


def _with_problems(record: PlanRecord, view: View | None, ordering: Ordering, ranking: Ranking) -> PlanRecord:
    """Return a record that lists the problems of the index which the ranking met."""
    damaged = {} if view is None else view.doubts
    failed = {} if ranking.problem is None else {str(ordering.column): ranking.problem}
    notes = [note_about(part, problem) for part, problem in {**damaged, **failed}.items()]
    new = [note for note in notes if note not in record.notes]
    if not new:
        return record
    return replace(record, notes=(*record.notes, *new), health="damaged" if damaged else "unusable")


class Order:
    """The arguments of `Table.plan` about the order of rows."""

    def __init__(
        self, order_by: str | Sequence[str] | None, limit: int | None, *, descending: bool, nulls: Nulls
    ) -> None:
        if nulls not in ("first", "last"):
            raise ValueError(f'nulls must be "first" or "last", not {nulls!r}')
        if limit is not None and not hasattr(limit, "__index__"):
            raise TypeError(f"limit must be a number of rows, not {limit!r}")
        if limit is not None and operator.index(limit) < 0:
            raise ValueError(f"limit must be a number of rows, not {limit!r}")
        if order_by is None and (descending or nulls != "last"):
            raise ValueError("descending and nulls need a column: pass order_by")
        self.order_by = order_by
        self.descending = descending
        self.nulls: Nulls = nulls
        self.limit = None if limit is None else operator.index(limit)

    @property
    def is_given(self) -> bool:
        """Whether a plan has an order or a limit."""
        return self.order_by is not None or self.limit is not None

    def resolved(self, schema: pa.Schema) -> Ordering | None:
        """Return the order of a column of the table, or None if there is only a limit."""
        if self.order_by is None:
            return None
        try:
            column = find_compared(ColumnNames(schema), self.order_by)
        except ColumnNotFoundError as error:
            raise ColumnNotFoundError(
                f"{error}. order_by takes one column; for the greatest values first, pass descending=True"
            ) from None
        if not isinstance(column, Column):
            raise UnsupportedError(f"cannot sort by the expression {column}; pass a column as order_by")
        return Ordering(column, self.descending, self.nulls)

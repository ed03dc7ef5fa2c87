"""`spark.read.format("parsieve")`: a table by our own reader, for sessions that show no lists of files (Spark Connect).

The rows go through Python, and Spark asks such a source for all columns: several times slower than `pss.read`, which
leaves reading to Spark. PySpark 4.1 and newer also hand over conditions, by which files are left out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from parsieve._core import ParsieveError
from parsieve.lake.base import Lake, Slice, Snapshot
from parsieve.predicate.arrow import parse_expression
from parsieve.predicate.expr import Always, Expr, Unknown, both
from parsieve.predicate.place import UnlikeError
from parsieve.table import Table

OPTIONS = ("path", "as_of", "index_location")
# Slices that one task reads.
SLICES_OF_A_TASK = 4
# Moments are left out: which zone Spark means does not come with them.
KNOWN = (bool, int, float, str, bytes, Decimal, dt.date)


class ParsieveSource(datasource.DataSource):  # type: ignore[misc]
    """A table by its path, with `as_of` and `index_location` as `pss.read` takes them."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "parsieve"

    def table(self) -> Table:
        """The table of the options."""
        from parsieve.lake.detect import open_lake

        path = self.options.get("path")
        if path is None:
            raise ValueError('say which table to load: spark.read.format("parsieve").load(path)')
        return Table(open_lake(path), self.options.get("index_location"))

    def snapshot(self, table: Table) -> Snapshot:
        """The state that is read."""
        as_of: Any = self.options.get("as_of")
        numbers = table.format in ("delta", "iceberg") and as_of is not None
        return table._snapshot(int(as_of) if numbers else as_of)

    def schema(self) -> Any:
        """The columns of the state that is read."""
        return from_arrow_schema(_plain(self.snapshot(self.table()).schema))

    def reader(self, schema: Any) -> ParsieveReader:
        """What plans and reads."""
        return ParsieveReader(self, schema)


class ParsieveReader(datasource.DataSourceReader):  # type: ignore[misc]
    """One read: the files that the conditions leave, a few for each task."""

    def __init__(self, source: ParsieveSource, schema: Any) -> None:
        """Nothing is looked at yet."""
        self._source = source
        self._schema = schema
        self._filters: list[Any] = []

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802
        """Take them for choosing files; Spark puts all of them to the rows."""
        self._filters = list(filters)
        return filters

    def partitions(self) -> Sequence[Any]:
        """The files that can hold a row of the answer."""
        table = self._source.table()
        snapshot = self._source.snapshot(table)
        parts = [part for one in self._filters if (part := _typed(one, snapshot.schema)) is not None]
        plan = table._plan(snapshot, both(*parts) if parts else Always(True))
        kept = [snapshot.slices[number] for number in plan._kept]
        state = Snapshot(snapshot.id, snapshot.instant, snapshot.schema, ())
        starts = range(0, len(kept), SLICES_OF_A_TASK)
        return [Part(table._lake, state, kept[start : start + SLICES_OF_A_TASK]) for start in starts] or [None]

    def read(self, partition: Part | None) -> Iterator[pa.RecordBatch]:
        """The rows of some files, on an executor."""
        if partition is None:
            return
        wanted = to_arrow_schema(self._schema)
        reader = partition.lake.read(partition.snapshot, partition.slices, wanted.names)
        for batch in reader:
            columns = [_cast(batch.column(number), field.type) for number, field in enumerate(wanted)]
            yield pa.RecordBatch.from_arrays(columns, wanted.names)


class Part(datasource.InputPartition):  # type: ignore[misc]
    """Some files of a table in one state."""

    def __init__(self, lake: Lake, snapshot: Snapshot, slices: Sequence[Slice]) -> None:
        """The state has no slices but these."""
        self.lake, self.snapshot, self.slices = lake, snapshot, slices


def _plain(schema: pa.Schema) -> pa.Schema:
    """A schema of types that Spark knows, for what it can hold."""
    fields = []
    for field in schema:
        kind = field.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_timestamp(kind):
            kind = pa.timestamp("us", kind.tz)
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        # Spark knows no nanoseconds, and cuts them off wherever it reads them.
        column = pc.floor_temporal(column, unit="microsecond")
    return column.cast(kind)


def _typed(asked: Any, schema: pa.Schema) -> Expr | None:
    """A condition of Spark's in our terms; None where it is not certain that both mean the same."""
    try:
        expression = _expression(asked)
        if expression is None:
            return None
        found = parse_expression(expression, schema, None, nan_is_greatest=True)
    except (ParsieveError, UnlikeError, pa.ArrowException):
        return None
    return None if isinstance(found, Unknown) else found


def _expression(asked: Any) -> pc.Expression | None:
    match asked:
        case datasource.Not(child):
            # Null where the condition is, as in SQL.
            inner = None if isinstance(child, datasource.EqualNullSafe) else _expression(child)
            return None if inner is None else ~inner
        case datasource.IsNull(path):
            return pc.field(*path).is_null()
        case datasource.IsNotNull(path):
            return pc.field(*path).is_valid()
        case datasource.In(path, values):
            present = [value for value in values if value is not None]
            if len(present) < len(values) or not present or not all(map(_is_known, present)):
                return None
            return pc.field(*path).isin(pa.array(present))
        case datasource.StringStartsWith(path, prefix) if _is_known(prefix):
            return pc.starts_with(pc.field(*path), prefix)
        case _:
            compare = _COMPARISONS.get(type(asked).__name__)
            if compare is None or not _is_known(asked.value):
                return None
            return compare(pc.field(*asked.attribute), pa.scalar(asked.value))


_COMPARISONS = {
    "EqualTo": pc.Expression.__eq__,
    "EqualNullSafe": pc.Expression.__eq__,
    "GreaterThan": pc.Expression.__gt__,
    "GreaterThanOrEqual": pc.Expression.__ge__,
    "LessThan": pc.Expression.__lt__,
    "LessThanOrEqual": pc.Expression.__le__,
}


def _is_known(value: Any) -> bool:
    """Whether a value is of a kind that means the same here, and came unchanged."""
    known = isinstance(value, KNOWN) and not isinstance(value, dt.datetime)
    return known and value == value and "\ufffd" not in str(value) and not _is_of_old(value)


def _is_of_old(value: Any) -> bool:
    return isinstance(value, dt.date) and value < dt.date(1582, 10, 16)

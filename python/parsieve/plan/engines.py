"""The rows of a plan, for pyarrow, Polars and DuckDB: by the engine's own scan of the files where that is exact."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads

from parsieve._core import UnsupportedError
from parsieve.lake.base import Lake, Slice, Snapshot
from parsieve.lake.rows.arrow_scan import without_dictionaries
from parsieve.lake.rows.checked_files import CheckedFiles, Request, files_of
from parsieve.lake.rows.dataset import PlannedDataset
from parsieve.lake.rows.streams import matching
from parsieve.plan.evidence.questions import HasNan, ask, leaves
from parsieve.plan.record import PlanRecord
from parsieve.predicate.builder import is_bytes, is_text
from parsieve.predicate.column_names import column_name
from parsieve.predicate.expr import Always, Expr, IsNull, columns, walk
from parsieve.predicate.normalize import normalize
from parsieve.predicate.render import to_duckdb, to_pyarrow

if TYPE_CHECKING:
    import polars as pl

    from parsieve.plan.plan import Plan


# Spark's side of `Plan.to_spark`. The package imports upward only here, and by name: parsieve.spark builds on plans.
_SPARK = "parsieve.spark.scan.from_plan"


def rows_of(record: PlanRecord, numbers: Sequence[int] | None = None) -> Rows:
    """Return the rows of some kept files of a plan by their numbers, or of all of them."""
    numbers = record.kept if numbers is None else numbers
    groups = [record.groups_to_read(number) for number in numbers]
    return Rows(record.lake, record.snapshot, record.expr, record.slices(numbers), groups)


def to_spark(plan: Plan, spark: Any, name: str | None) -> Any:
    """Return the rows of a plan as a Spark DataFrame."""
    return import_module(_SPARK).frame_of(plan, spark, name)


class Rows:
    """The rows of some slices for which a predicate is true.

    A copy in another process, where it comes as a pickle, knows of no other slices.
    """

    def __init__(
        self,
        lake: Lake,
        snapshot: Snapshot,
        expr: Expr,
        slices: Sequence[Slice],
        row_groups: Sequence[Sequence[int] | None],
    ) -> None:
        """`row_groups` are those of each slice that may hold such rows; None is all."""
        self._lake = lake
        self._snapshot = snapshot
        self._expr = expr
        self._slices = slices
        self._row_groups = row_groups

    def __getstate__(self) -> dict[str, Any]:
        whole = self._snapshot
        kept = {name: value for name, value in self.__dict__.items() if name != "_files"}
        return kept | {"_snapshot": Snapshot(whole.id, whole.instant, whole.schema, ())}

    def _filter(self) -> Any:
        """The predicate for pyarrow; None where every row is wanted."""
        return None if normalize(self._expr) == Always(True) else to_pyarrow(self._expr)

    @cached_property
    def _wants_nan(self) -> bool:
        """Whether NaN is among the rows: pyarrow and DuckDB lose it, by statistics that say nothing of it."""
        return any(isinstance(question, HasNan) for question in leaves(ask(self._expr)))

    @cached_property
    def _is_filtered_late(self) -> bool:
        """Whether pyarrow must not bring statistics to the filter: for NaN, and for types that it fails to compare."""
        extended = any(isinstance(column.type, pa.BaseExtensionType) for column in columns(self._expr))
        return self._wants_nan or extended

    @cached_property
    def _files(self) -> CheckedFiles | None:
        """The kept files with their row groups; None if a slice is more than one Parquet file of live rows."""
        found = self._lake.files(self._snapshot, self._slices) if self._slices else None
        return None if found is None else found.choosing(self._row_groups)

    def _conditions(self) -> tuple[Any, Any]:
        """Return the predicate as pyarrow may compare it with statistics, and as it must not; one of them is None."""
        condition = self._filter()
        return (None, condition) if self._is_filtered_late else (condition, None)

    def _wanted(self, names: Sequence[str] | str | None) -> list[str]:
        """Return the columns that a caller asks for."""
        schema = self._snapshot.schema
        wanted = [names] if isinstance(names, str) else list(schema.names if names is None else names)
        known = set(schema.names)
        return [name if name in known else column_name(schema, name) for name in wanted]

    def dataset(self) -> pads.Dataset | None:
        """Return the rows as a dataset; None if a file is not exactly the table's rows."""
        if not self._slices:
            return PlannedDataset.planned(files_of((), self._snapshot.schema), None, None)
        if self._files is None or not self._files.are_exact():
            return None
        return PlannedDataset.planned(self._files, *self._conditions())

    def reader(self, names: Sequence[str] | None, hold: bool = False) -> pa.RecordBatchReader:
        """Return the rows as a stream, with some columns.

        With `hold`, for callers who keep all rows anyway, any file that changes is read again. Without, a large file
        that is overwritten after some of its rows were given out is a `ConflictError`.
        """
        schema = self._snapshot.schema
        wanted = self._wanted(names)
        condition = self._filter()
        if not self._slices:
            return pa.RecordBatchReader.from_batches(pa.schema([schema.field(name) for name in wanted]), [])
        named = list(dict.fromkeys(column.path[0] for column in columns(self._expr)))
        if self._files is not None:
            return self._files.reader(Request(wanted, *self._conditions(), named), hold)
        if condition is None:
            return self._lake.read(self._snapshot, self._slices, wanted)
        # Filter after reading, so that no statistics are involved, and read no column that is not needed.
        read = list(dict.fromkeys([*wanted, *named]))
        stream = self._lake.read(self._snapshot, self._slices, read)
        if normalize(self._expr) == Always(False):
            # True of no row, unless a file has values that the table's type has not: then reading it is an error.
            for _ in stream:
                pass
        return matching(stream, stream.schema, wanted, condition)

    def _plain_files(self) -> CheckedFiles | None:
        """Return the files if every engine reads the table's rows from them by itself: local, whole and alike."""
        if self._files is None or any(piece.partition_values or not piece.clean for piece in self._slices):
            return None
        # A path of another filesystem may be that of a file here.
        if not all(file.storage.is_local for file in self._files.files) or not self._files.are_exact():
            return None
        wanted = {field.name: without_dictionaries(field.type) for field in self._snapshot.schema}
        for physical in self._files.physical_schemas():
            held = {field.name: without_dictionaries(field.type) for field in physical}
            if any(held.get(name) != kind for name, kind in wanted.items()):
                return None
        return self._files

    def polars(self) -> pl.LazyFrame:
        """Return the rows as a LazyFrame."""
        import polars as pl

        from parsieve.plan.polars_source import frame_of, frame_of_dataset

        schema = self._snapshot.schema
        if _has(schema, pa.types.is_decimal256):
            raise UnsupportedError("Polars has no decimals of more than 38 digits; use to_arrow")
        by_name = not any(map(_is_no_name, schema.names))
        if by_name and not _has(schema, _not_for_polars):
            files = self._plain_files()
            frame = None if files is None else frame_of(files, None if self._filter() is None else self._expr)
            if frame is not None:
                return frame
        scan = self.dataset()
        # A column without a name is not found in a dataset.
        if scan is not None and self._slices and "" not in schema.names:
            # Polars lets pyarrow filter by its own comparisons, which find no NaN.
            return frame_of_dataset(scan) if _has(schema, pa.types.is_floating) else pl.scan_pyarrow_dataset(scan)
        return pl.LazyFrame(pl.from_arrow(self.reader(None, hold=True).read_all()))

    def duckdb(self, con: Any) -> Any:
        """Return the rows as a relation."""
        import duckdb

        schema = self._snapshot.schema
        if _has(schema, _never_in_duckdb):
            raise UnsupportedError("DuckDB has no half floats and no decimals of more than 38 digits; use to_arrow")
        if con is None:
            con = duckdb.default_connection()
        native = self._duckdb_native(con)
        if native is not None:
            return native
        rows = self._duckdb_rows(con)
        if rows is not None:
            return con.from_arrow(rows)
        # DuckDB gives a column without a name another one.
        scan = None if "" in schema.names or not self._slices else self.dataset()
        # Filtered by pyarrow: what DuckDB cannot hold is compared before it gets there.
        return con.from_arrow(self.reader(None, hold=True).read_all() if scan is None else scan)

    def _duckdb_native(self, con: Any) -> Any:
        """Return the rows as DuckDB reads them itself; None if that would not be exact.

        DuckDB opens a file once for its footer and once for its rows, and does not notice if the file was replaced in
        between. So it reads only files that the table's format never replaces. It also trusts statistics too much:
        `c <= maximum` is true of NaN, and `IS NULL` of all text in a row group with a single value and nulls.
        """
        if self._lake.format == "parquet":
            return None
        files, text = self._plain_files(), self._duckdb_text()
        if files is None or text is None or not files.are_planned():
            return None
        if any(set(file.path) & _PATTERNS for file in files.files):
            return None
        paths = [file.path for file in files.files]
        relation = con.read_parquet(paths, hive_partitioning=False, union_by_name=False)
        names = self._duckdb_names()
        if relation.project(names).types != self._duckdb_types(con):
            return None
        return relation.project(names) if self._filter() is None else relation.filter(text).project(names)

    def _duckdb_rows(self, con: Any) -> pa.Table | None:
        """Return the rows that match, read by DuckDB now; None if that would not be exact, or if they are many.

        The files of plain folders may be replaced at any time, so DuckDB reads them while they are held open.
        """
        if self._lake.format != "parquet" or self._filter() is None:
            return None
        files, text = self._plain_files(), self._duckdb_text()
        if files is None or text is None:
            return None
        from parsieve.plan.duckdb_source import rows_of

        rows = rows_of(files, text, self._duckdb_names())
        # What DuckDB makes of the files must be what it makes of the table's types.
        if rows is None or con.from_arrow(rows.slice(0, 0)).types != self._duckdb_types(con):
            return None
        return rows

    def _duckdb_text(self) -> str | None:
        """Return the predicate as SQL; None if DuckDB, reading the files itself, would find other rows."""
        schema = self._snapshot.schema
        if "" in schema.names or _has(schema, _not_for_duckdb) or _tests_text(self._expr):
            return None
        if any(pa.types.is_floating(column.value_type) for column in columns(self._expr)):
            return None
        try:
            return to_duckdb(self._expr)
        except UnsupportedError:
            return None

    def _duckdb_names(self) -> str:
        return ", ".join('"' + name.replace('"', '""') + '"' for name in self._snapshot.schema.names)

    def _duckdb_types(self, con: Any) -> Any:
        return con.from_arrow(self._snapshot.schema.empty_table()).types


def _tests_text(expr: Expr) -> bool:
    """Tell whether a predicate asks for nulls of text or bytes, be it as a part of another comparison."""
    tested = [one.column.value_type for one in walk(expr) if isinstance(one, IsNull)]
    return any(is_text(kind) or is_bytes(kind) for kind in tested)


# With one of these a path is a pattern to DuckDB, which reads all files that it fits, and maybe not the one meant.
_PATTERNS = set("[*?\\")


def _is_no_name(name: str) -> bool:
    """Whether Polars finds no column by a name, or many."""
    return name in ("", "*") or (name.startswith("^") and name.endswith("$"))


def _has(schema: pa.Schema, test: Any) -> bool:
    waiting = [field.type for field in schema]
    while waiting:
        kind = waiting.pop()
        if test(kind):
            return True
        waiting.extend(kind.field(number).type for number in range(kind.num_fields))
    return False


def _not_for_polars(kind: pa.DataType) -> bool:
    """Types that Polars reads from files as something else."""
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_map(kind):
        return True
    return bool(pa.types.is_fixed_size_binary(kind) or pa.types.is_float16(kind))


def _never_in_duckdb(kind: pa.DataType) -> bool:
    return bool(pa.types.is_float16(kind) or pa.types.is_decimal256(kind))


def _not_for_duckdb(kind: pa.DataType) -> bool:
    """Types that DuckDB reads from files as something else."""
    if isinstance(kind, pa.BaseExtensionType):
        return True
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "ns" and kind.tz is not None

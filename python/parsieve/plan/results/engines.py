"""Hand the rows of a plan to pyarrow, Polars and DuckDB. Engines scan the files themselves if that is exact."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from parsieve._core import UnsupportedError
from parsieve.lake.base import Slice
from parsieve.lake.rows.arrow_scan import (
    has_misleading_statistics,
    has_reserved_names,
    refuse_reserved_names,
    without_dictionaries,
)
from parsieve.lake.rows.checked_files import CheckedFiles, Request, files_of
from parsieve.lake.rows.columns import no_rows
from parsieve.lake.rows.dataset import PlannedDataset
from parsieve.lake.rows.fields import refuse_nul
from parsieve.lake.rows.streams import matching
from parsieve.plan.results.matches import Matches
from parsieve.predicate.builder import is_bytes, is_text
from parsieve.predicate.evaluate import conditions_of
from parsieve.predicate.expr import Always, Expr, IsNull, columns, element_tests, walk
from parsieve.predicate.normalize import normalize, without_element_tests
from parsieve.predicate.render import to_duckdb, to_pyarrow
from parsieve.sharing import cached_property

if TYPE_CHECKING:
    import polars as pl


class Rows(Matches):
    """The rows of some slices for which a predicate is true, for engines."""

    @cached_property
    def _slices(self) -> list[Slice]:
        return [candidates.file_slice for candidates in self._candidates]

    @cached_property
    def _row_groups(self) -> list[Sequence[int] | None]:
        """The row groups of each slice that may contain such rows; None means all of them."""
        return [candidates.row_groups for candidates in self._candidates]

    def _filter(self) -> Any:
        """Return the predicate for pyarrow, or None if every row matches."""
        return None if normalize(self._expr) == Always(True) else to_pyarrow(self._expr)

    @cached_property
    def _is_filtered_late(self) -> bool:
        """Whether to filter after the scan: pruning by statistics may lose rows, and fails on extension types."""
        return any(
            has_misleading_statistics(column.value_type) or isinstance(column.type, pa.BaseExtensionType)
            for column in columns(self._expr)
        )

    @cached_property
    def _files(self) -> CheckedFiles | None:
        """The kept files with their row groups; None if a slice is more than one Parquet file of live rows."""
        files = self._lake.files(self._snapshot, self._slices) if self._slices else None
        if files is None:
            return None
        # A file may be replaced by one with other types after the plan.
        return replace(files.choosing(self._row_groups), checked_columns=tuple(self.columns_of_other_types))

    @cached_property
    def _tests_elements(self) -> bool:
        """Whether the predicate tests elements of lists or maps. pyarrow has no expression for that."""
        return bool(element_tests(self._expr))

    def _conditions(self) -> tuple[Any, Any]:
        """Return the predicate to apply with statistics, and the one to apply after the scan. One of them is None."""
        condition = self._filter()
        return (None, condition) if self._is_filtered_late else (condition, None)

    def dataset(self) -> pads.Dataset | None:
        """Return the rows as a dataset, or None if a file does not contain exactly the table's rows."""
        if not self._slices:
            return PlannedDataset.planned(files_of((), self._snapshot.schema), None, None)
        if self._tests_elements:
            return None
        if self._files is None or not self._files.are_exact():
            return None
        return PlannedDataset.planned(self._files, *self._conditions())

    def certain_dataset(self) -> pads.Dataset:
        """Return the rows as a dataset, or raise `UnsupportedError` with the reason why there is none."""
        refuse_nul(self.schema)
        refuse_reserved_names(self.schema)
        dataset = self.dataset()
        if dataset is not None:
            return dataset
        mismatch = None if self._files is None else self._files.mismatch()
        if self._tests_elements:
            why = "pyarrow cannot test elements of lists and expressions"
        elif mismatch is None:
            why = "pyarrow cannot scan some of its files (deletes, logs, encryption or obstore)"
        else:
            why = mismatch
        raise UnsupportedError(f"cannot make a dataset of this plan, because {why}; use to_arrow, or Table.dataset")

    def scan(self, output: list[str], hold: bool) -> pa.RecordBatchReader:
        """Return the rows as a stream, by decoding complete row groups."""
        schema = self._snapshot.schema
        if self._tests_elements:
            return self._scan_lists(output, hold)
        condition = self._filter()
        if not self._slices:
            return pa.RecordBatchReader.from_batches(pa.schema([schema.field(name) for name in output]), [])
        filtered = list(dict.fromkeys(column.path[0] for column in columns(self._expr)))
        if self._files is not None:
            # Filter after the scan, because only without a filter can its rows be counted.
            return self._files.reader(Request(output, None, condition, filtered), hold)
        if condition is None:
            return self._lake.read(self._snapshot, self._slices, output, row_groups=self._row_groups)
        # Filter after reading, so that no statistics are involved, and read only the columns that are needed.
        needed = list(dict.fromkeys([*output, *filtered]))
        stream = self._lake.read(self._snapshot, self._slices, needed, row_groups=self._row_groups)
        if normalize(self._expr) == Always(False):
            # No row matches. But if a file has values that are not of the table's type, reading it must raise an error.
            for _ in stream:
                pass
        return matching(stream, stream.schema, output, condition)

    def _scan_lists(self, output: list[str], hold: bool) -> pa.RecordBatchReader:
        """Return the rows as a stream. pyarrow applies the conditions that it can, and the evaluator all of them."""
        schema = self._snapshot.schema
        needed = list(dict.fromkeys([*output, *(column.path[0] for column in columns(self._expr))]))
        weaker = type(self)(self._lake, self._snapshot, without_element_tests(self._expr), self._candidates)
        conditions = conditions_of(self._expr)

        def matches() -> Iterator[pa.RecordBatch]:
            for batch in weaker.scan(needed, hold) if self._slices else ():
                masks = [condition.evaluate(batch) for condition in conditions]
                rows = batch.filter(functools.reduce(pc.and_kleene, masks))
                if rows.num_rows:
                    yield rows.select(output)

        return pa.RecordBatchReader.from_batches(pa.schema([schema.field(name) for name in output]), matches())

    def _plain_files(self) -> CheckedFiles | None:
        """Return the files, or None if an engine could not read exactly the table's rows and types from them itself."""
        if self._files is None or any(piece.partition_values or not piece.clean for piece in self._slices):
            return None
        # A path on another filesystem may also be the path of a local file.
        if not all(file.storage.is_local for file in self._files.files) or not self._files.are_exact():
            return None
        if self._files.has_wrong_statistics() and self._filter() is not None:
            return None
        table_types = {field.name: without_dictionaries(field.type) for field in self._snapshot.schema}
        for schema in self._files.physical_schemas():
            file_types = {field.name: without_dictionaries(field.type) for field in schema}
            if any(file_types.get(name) != kind for name, kind in table_types.items()):
                return None
        return self._files

    def polars(self) -> pl.LazyFrame:
        """Return the rows as a LazyFrame."""
        import polars as pl

        from parsieve.plan.results.polars_source import frame_of, frame_of_dataset

        schema = self._snapshot.schema
        # Refuse names that several columns have.
        self._columns(None)
        refuse_nul(schema)
        check_polars_types(schema)
        reads_pages = self.are_few and self.reads_pages(schema.names)
        if "" not in schema.names and (reads_pages or has_reserved_names(schema)):
            return frame_of_dataset(PageRows(self))
        by_name = not self._tests_elements and not any(map(_is_ambiguous_name, schema.names))
        if by_name and not _has(schema, _not_for_polars):
            files = self._plain_files()
            frame = None if files is None else frame_of(files, None if self._filter() is None else self._expr)
            if frame is not None:
                return frame
        # pyarrow cannot find a column without a name in a dataset.
        if self._slices and "" not in schema.names:
            scan = self.dataset()
            if scan is not None:
                return frame_of_dataset(scan)
            if not self.columns_of_other_types:
                return frame_of_dataset(PageRows(self))
        return pl.LazyFrame(pl.from_arrow(self.reader(None, hold=True).read_all()))

    def duckdb(self, con: Any) -> Any:
        """Return the rows as a relation."""
        import duckdb

        schema = self._snapshot.schema
        # Refuse names that several columns have.
        self._columns(None)
        refuse_nul(schema)
        check_duckdb_types(schema)
        if con is None:
            con = duckdb.default_connection()
        if not hasattr(con, "from_arrow"):
            raise TypeError(f"con must be a connection of DuckDB, such as duckdb.connect(), not {con!r}")
        rows = self._few_rows()
        if rows is not None:
            return con.from_arrow(rows)
        native = self._duckdb_native(con)
        if native is not None:
            return native
        rows = self._duckdb_rows(con)
        if rows is not None:
            return con.from_arrow(rows)
        # DuckDB renames a column without a name.
        scan = None if "" in schema.names or not self._slices else self.dataset()
        # pyarrow filters the dataset, because it can compare values that DuckDB cannot represent.
        return con.from_arrow(self.reader(None, hold=True).read_all() if scan is None else scan)

    def _few_rows(self) -> pa.Table | None:
        """Read the rows now if they are probably few; None if they are too many."""
        schema = self._snapshot.schema
        if not self.are_few or not self.reads_pages(schema.names):
            return None
        from parsieve.plan.results.duckdb_source import MOST_BYTES

        batches: list[pa.RecordBatch] = []
        size = 0
        for batch in self.reader(None, hold=True):
            size += batch.nbytes
            if size > MOST_BYTES:
                return None
            batches.append(batch)
        return pa.Table.from_batches(batches, schema)

    def _duckdb_native(self, con: Any) -> Any:
        """Return the rows as a scan by DuckDB itself, or None if that would not be exact.

        DuckDB opens a file once for its footer and once for its rows, and does not notice if the file was replaced in
        between. So it reads only files that the table's format never replaces. It also trusts statistics too much:
        it takes `c <= maximum` to be true for NaN, and `IS NULL` for all text in a row group of one value and nulls.
        """
        if self._lake.files_may_be_replaced:
            return None
        files, text = self._plain_files(), self._duckdb_text()
        if files is None or text is None or not files.are_planned():
            return None
        # The user's own filters use statistics too.
        if files.has_wrong_statistics() or any(set(file.path) & _PATTERNS for file in files.files):
            return None
        paths = [file.path for file in files.files]
        from parsieve.plan.results.duckdb_source import scans_of

        scans = scans_of(con, paths, files.row_groups)
        names, types = self._duckdb_names(), self._duckdb_types(con)
        if not scans or any(scan.project(names).types != types for scan in scans):
            return None
        relations = [scan if self._filter() is None else scan.filter(text) for scan in scans]
        return functools.reduce(lambda left, right: left.union(right), [part.project(names) for part in relations])

    def _duckdb_rows(self, con: Any) -> pa.Table | None:
        """Let DuckDB read the matching rows now; None if that would not be exact, or if there are too many rows.

        The files of plain folders may be replaced at any time, so DuckDB reads them while they are held open.
        """
        if self._tests_elements or not self._lake.files_may_be_replaced or self._filter() is None:
            return None
        files, text = self._plain_files(), self._duckdb_text()
        if files is None or text is None:
            return None
        from parsieve.plan.results.duckdb_source import rows_of

        rows = rows_of(files, text, self._duckdb_names())
        # DuckDB must map the files to the same types as the table.
        if rows is None or con.from_arrow(rows.slice(0, 0)).types != self._duckdb_types(con):
            return None
        return rows

    def _duckdb_text(self) -> str | None:
        """Return the predicate as SQL, or None if DuckDB's own scan would find other rows or be slower."""
        schema = self._snapshot.schema
        if self._tests_elements or _tests_text_for_null(self._expr):
            return None
        if "" in schema.names or _has(schema, _not_for_duckdb):
            return None
        if any(has_misleading_statistics(column.value_type) for column in columns(self._expr)):
            return None
        try:
            text = to_duckdb(self._expr)
        except UnsupportedError:
            return None
        return text if len(text) <= _LONGEST_TEXT else None

    def _duckdb_names(self) -> str:
        return ", ".join('"' + name.replace('"', '""') + '"' for name in self._snapshot.schema.names)

    def _duckdb_types(self, con: Any) -> Any:
        return con.from_arrow(no_rows(self._snapshot.schema)).types


class PageRows:
    """The rows of a plan for `frame_of_dataset`: a schema, and batches with some columns."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.schema = rows.schema

    def to_batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows. Each call checks the files again."""
        yield from self._rows.reader(columns, hold=True)


def _tests_text_for_null(expr: Expr) -> bool:
    """Return whether a predicate, or a part of it, tests text or bytes for null."""
    tested_types = [part.column.value_type for part in walk(expr) if isinstance(part, IsNull)]
    return any(is_text(kind) or is_bytes(kind) for kind in tested_types)


# DuckDB treats a path with one of these characters as a pattern, and reads all files that match it.
_PATTERNS = set("[*?\\")
# DuckDB parses a condition several times, which takes seconds for a list of 100,000 values. pyarrow evaluates longer
# conditions than this.
_LONGEST_TEXT = 32_768


def check_polars_types(schema: pa.Schema) -> None:
    """Raise `UnsupportedError` if Polars lacks a type of a schema."""
    from parsieve.plan.results.polars_source import check_time_zones

    if _has(schema, pa.types.is_decimal256):
        raise UnsupportedError("Polars has no decimals of more than 38 digits; use to_arrow")
    check_time_zones(schema)


def check_duckdb_types(schema: pa.Schema) -> None:
    """Raise `UnsupportedError` if DuckDB lacks a type of a schema."""
    if _has(schema, _never_in_duckdb):
        raise UnsupportedError("DuckDB has no half floats and no decimals of more than 38 digits; use to_arrow")


def _is_ambiguous_name(name: str) -> bool:
    """Return whether a name selects no column or several columns in Polars."""
    return name in ("", "*") or (name.startswith("^") and name.endswith("$"))


def _has(schema: pa.Schema, test: Any) -> bool:
    pending = [field.type for field in schema]
    while pending:
        kind = pending.pop()
        if test(kind):
            return True
        pending.extend(kind.field(number).type for number in range(kind.num_fields))
    return False


def _not_for_polars(kind: pa.DataType) -> bool:
    """Return whether Polars reads a type from files as another type."""
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_map(kind):
        return True
    return bool(pa.types.is_fixed_size_binary(kind) or pa.types.is_float16(kind))


def _never_in_duckdb(kind: pa.DataType) -> bool:
    return bool(pa.types.is_float16(kind) or pa.types.is_decimal256(kind))


def _not_for_duckdb(kind: pa.DataType) -> bool:
    """Return whether DuckDB reads a type from files as another type."""
    if isinstance(kind, pa.BaseExtensionType):
        return True
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "ns" and kind.tz is not None

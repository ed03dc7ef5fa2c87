"""Read the files of a plan as a LazyFrame, with Polars' own reader, from files held open in one version."""

from __future__ import annotations

import inspect
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
from polars.io.plugins import register_io_source

from parsieve._core import FormatError, UnsupportedError
from parsieve.lake.rows.arrow_scan import has_misleading_statistics
from parsieve.lake.rows.checked_files import CheckedFiles, OpenFile, Request
from parsieve.lake.rows.columns import no_rows
from parsieve.plan.results.polars_predicates import without_dynamic_parts
from parsieve.predicate.expr import columns
from parsieve.predicate.normalize import understood_part, without_element_tests
from parsieve.predicate.parse import parse
from parsieve.predicate.render import to_polars, to_pyarrow

if TYPE_CHECKING:
    from parsieve.predicate.expr import Expr

# Polars panics if a file is truncated while it reads it.
_FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException)


_OFFSET = re.compile(r"([+-]\d\d):?(\d\d)")

# Polars 1 cannot show a source's name in query plans.
_HAS_NAMES = "explain_name" in inspect.signature(register_io_source).parameters


def check_time_zones(schema: pa.Schema) -> None:
    """Raise `UnsupportedError` if a column has an offset from UTC that Polars does not know."""
    for field in schema:
        pending = [field.type]
        while pending:
            kind = pending.pop()
            pending.extend(kind.field(number).type for number in range(kind.num_fields))
            offset = _OFFSET.fullmatch(kind.tz) if pa.types.is_timestamp(kind) and kind.tz else None
            # Polars converts offsets to zones such as Etc/GMT-2, which have whole hours.
            if offset is not None and (offset[2] != "00" or not -12 <= int(offset[1]) <= 14):
                raise UnsupportedError(
                    f"Polars has no time zone {kind.tz}, the one of column {field.name}; use plan and to_arrow"
                )


def frame_of_source(source: Callable[..., Iterator[pl.DataFrame]], schema: pl.Schema, *, is_pure: bool) -> pl.LazyFrame:
    """Return a LazyFrame that reads from a source. Polars reads a pure source once for equal parts of a query."""
    options: dict[str, Any] = {"explain_name": "parsieve"} if _HAS_NAMES else {}
    return register_io_source(source, schema=schema, is_pure=is_pure, **options)


def columns_of(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Return some columns by their names. `select` would take `*` and names such as `^a$` for patterns."""
    # Without names, an index would return all columns.
    return frame[names] if names else frame.select()


def frame_of(files: CheckedFiles, expr: Expr | None) -> pl.LazyFrame | None:
    """Return the matching rows as a LazyFrame, or None if Polars reads the files as other types than the table's."""
    # Polars must map the files to the same types as the table.
    expected = pl.DataFrame(pl.from_arrow(no_rows(files.schema))).schema
    if files.files and _schema_of_first(files) != expected:
        return None
    source = _Source(files, expected, expr, files.has_wrong_statistics())
    return frame_of_source(source, expected, is_pure=True)


def _schema_of_first(files: CheckedFiles) -> pl.Schema:
    """Return the schema that Polars gives the first file, which may be replaced at any moment."""

    def read(opened: list[OpenFile]) -> Iterator[pl.Schema]:
        with opened[0].pinned.handle() as file:
            yield pl.scan_parquet(io.BytesIO(_footer_of(file))).select(files.schema.names).collect_schema()

    return next(files.checked([0], True, read, _FAILURES))


def _footer_of(file: BinaryIO) -> bytes:
    """Return a Parquet file that has only the footer of another one.

    Polars maps the file itself into memory to read its schema. If another process then truncates the file, the
    operating system kills this process.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8))
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if size < 12 or not 0 < length <= size - 12:
        raise FormatError("not a Parquet file (invalid footer)")
    file.seek(size - 8 - length)
    return b"PAR1" + file.read(length) + end


def frame_of_dataset(dataset: pads.Dataset) -> pl.LazyFrame:
    """Return the rows of a dataset as a LazyFrame, which Polars itself filters."""
    expected = pl.DataFrame(pl.from_arrow(no_rows(dataset.schema))).schema
    return frame_of_source(_DatasetSource(dataset), expected, is_pure=True)


@dataclass
class _DatasetSource:
    """Reads the columns that Polars needs, each time Polars collects the frame."""

    dataset: pads.Dataset

    def __call__(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows that Polars requests. It counts `n_rows` before it applies the predicate."""
        predicate = None if predicate is None else without_dynamic_parts(predicate)
        columns = self.dataset.schema.names if with_columns is None else with_columns
        roots = [] if predicate is None else predicate.meta.root_names()
        # A batch without columns has no number of rows.
        needed = list(dict.fromkeys([*columns, *roots])) or self.dataset.schema.names
        missing = n_rows
        for batch in self._batches(needed, predicate if n_rows is None else None):
            frame = pl.DataFrame(pl.from_arrow(batch if missing is None else batch.slice(0, missing)))
            missing = None if missing is None else missing - frame.height
            yield columns_of(frame if predicate is None else frame.filter(predicate), columns)
            if missing is not None and missing <= 0:
                return

    def _batches(self, names: list[str], predicate: pl.Expr | None) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the rows that may match, so that pyarrow skips row groups.

        Polars' own translation for pyarrow fails for some conditions, and has another meaning for null in others.
        """
        options = {}
        if predicate is not None and isinstance(self.dataset, pads.Dataset):
            understood = understood_part(parse(predicate, self.dataset.schema))
            options["filter"] = to_pyarrow(without_element_tests(understood))
        yield from self.dataset.to_batches(columns=names, **options)


def _scan(sources: Sequence[Any], schema: pl.Schema, use_statistics: bool) -> pl.LazyFrame:
    # Without a schema, Polars maps the first file into memory. See `_footer_of`.
    frame = pl.scan_parquet(list(sources), schema=schema, extra_columns="ignore", use_statistics=use_statistics)
    return frame.select(schema.names())


@dataclass
class _Source:
    """Reads the files each time Polars collects the frame."""

    files: CheckedFiles
    schema: pl.Schema
    expr: Expr | None
    # Whether a planned file is by a writer that stores wrong statistics.
    has_wrong_statistics: bool

    def __call__(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows that Polars requests. It counts `n_rows` before it applies the predicate."""
        predicate = None if predicate is None else without_dynamic_parts(predicate)
        columns = self.files.schema.names if with_columns is None else with_columns
        missing = n_rows
        for window in self.files.windows(hold=False):
            read = partial(self._read, columns, predicate, missing, self.files.is_small(window))
            for frame in self.files.checked(window, n_rows is not None, read, _FAILURES):
                if missing is None:
                    yield frame
                    continue
                missing -= frame.height
                frame = frame if predicate is None else frame.filter(predicate)
                yield frame.select(columns)
            if missing is not None and missing <= 0:
                return

    def _read(
        self,
        columns: list[str],
        predicate: pl.Expr | None,
        missing: int | None,
        at_once: bool,
        opened: list[OpenFile],
    ) -> Iterator[pl.DataFrame]:
        with ExitStack() as stack:
            frame = self._frame(opened, columns, predicate, stack)
            if missing is not None:
                roots = [] if predicate is None else predicate.meta.root_names()
                yield frame.select(list(dict.fromkeys([*columns, *roots]))).head(missing).collect()
                return
            frame = frame if predicate is None else frame.filter(predicate)
            yield from _collected(frame.select(columns), at_once)

    def _needed(self, selected: list[str], predicate: pl.Expr | None) -> list[str]:
        """Return the columns to read, so that Polars can filter and select them."""
        roots = [] if predicate is None else predicate.meta.root_names()
        # A batch without columns has no number of rows.
        return list(dict.fromkeys([*selected, *roots])) or list(self.files.schema.names)

    def _has_right_statistics(self, opened: list[OpenFile], predicate: pl.Expr | None) -> bool:
        """Return whether Polars loses no rows if it skips row groups by statistics, all of which it trusts."""
        if self.has_wrong_statistics or any(file.has_wrong_statistics for file in opened):
            return False
        names = set() if predicate is None else set(predicate.meta.root_names())
        names |= set() if self.expr is None else {column.path[0] for column in columns(self.expr)}
        return not any(has_misleading_statistics(self.files.schema.field(name).type) for name in names)

    def _frame(
        self, opened: list[OpenFile], selected: list[str], predicate: pl.Expr | None, stack: ExitStack
    ) -> pl.LazyFrame:
        """Return the matching rows of files that are held open, with at least the columns that Polars needs."""
        # Polars cannot read some row groups of a file.
        if any(file.row_groups is not None for file in opened) or not all(map(self.files.has_table_types, opened)):
            condition = None if self.expr is None else to_pyarrow(self.expr)
            filtered = [] if self.expr is None else [column.path[0] for column in columns(self.expr)]
            needed = self._needed(selected, predicate)
            # Filter after reading, because statistics do not cover NaN.
            request = Request(needed, late=condition, named=filtered)
            batches = self.files.rows(opened, request)
            schema = pa.schema([self.files.schema.field(name) for name in needed])
            return pl.DataFrame(pl.from_arrow(pa.Table.from_batches(batches, schema))).lazy()
        handles = [stack.enter_context(file.pinned.handle()) for file in opened]
        frame = _scan(handles, self.schema, self._has_right_statistics(opened, predicate))
        return frame if self.expr is None else frame.filter(to_polars(self.expr))


def _collected(frame: pl.LazyFrame, at_once: bool) -> Iterator[pl.DataFrame]:
    if at_once or not hasattr(frame, "collect_batches"):
        yield frame.collect()
    else:
        yield from frame.collect_batches(maintain_order=True)

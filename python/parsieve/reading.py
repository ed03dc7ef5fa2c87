"""The rows of a plan, for pyarrow, Polars and DuckDB: by the engine's own scan of the files where that is exact."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow import fs

from parsieve._core import UnsupportedError
from parsieve.errors import no_column
from parsieve.lake.base import Lake, Slice, Snapshot
from parsieve.lake.scan import without_dictionaries
from parsieve.lake.streams import matching, streamed
from parsieve.predicate.expr import Always, Expr, columns
from parsieve.predicate.normalize import normalize
from parsieve.predicate.render import to_duckdb, to_polars, to_pyarrow
from parsieve.prune.questions import HasNan, ask, leaves

if TYPE_CHECKING:
    import polars as pl


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
        return self.__dict__ | {"_snapshot": Snapshot(whole.id, whole.instant, whole.schema, ())}

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

    def _scan(self) -> pads.FileSystemDataset | None:
        """The kept files and row groups as a dataset, unfiltered; None where that would not be exact."""
        if not self._slices:
            return None
        whole = self._lake.dataset(self._snapshot, self._slices)
        chosen = [
            # Row groups were chosen of the file that was there; another one is read whole.
            groups if groups is not None and self._lake.is_unchanged(piece) else None
            for piece, groups in zip(self._slices, self._row_groups, strict=True)
        ]
        if whole is None or all(groups is None for groups in chosen):
            return whole
        fragments = [
            fragment if groups is None else fragment.subset(row_group_ids=groups)
            for fragment, groups in zip(whole.get_fragments(), chosen, strict=True)
        ]
        return pads.FileSystemDataset(fragments, whole.schema, whole.format, whole.filesystem)

    def dataset(self) -> pads.Dataset | None:
        """The rows as a dataset; None where a file is not exactly the table's rows."""
        condition = self._filter()
        if not self._slices:
            return pads.dataset(self._snapshot.schema.empty_table())
        scan = self._scan()
        if scan is None or condition is None:
            return scan
        if self._is_filtered_late:
            return pads.dataset(self.reader(None).read_all())
        return scan.filter(condition)

    def reader(self, names: Sequence[str] | None) -> pa.RecordBatchReader:
        """The rows as a stream, with some columns."""
        schema = self._snapshot.schema
        wanted = [names] if isinstance(names, str) else list(schema.names if names is None else names)
        for name in wanted:
            if name not in schema.names:
                raise no_column(name, schema.names)
        condition = self._filter()
        if not self._slices:
            return pa.RecordBatchReader.from_batches(pa.schema([schema.field(name) for name in wanted]), [])
        scan = self._scan()
        if scan is not None and not self._is_filtered_late:
            return streamed(scan.scanner(columns=wanted, filter=condition))
        if condition is None:
            return self._lake.read(self._snapshot, self._slices, wanted)
        # Read first, filtered then, so that no statistics come between, and no column is read that nobody asks for.
        read = list(dict.fromkeys([*wanted, *(column.path[0] for column in columns(self._expr))]))
        if scan is None:
            stream = self._lake.read(self._snapshot, self._slices, read)
            if normalize(self._expr) == Always(False):
                # True of no row, unless a file has values that the table's type has not: then reading it is an error.
                for _ in stream:
                    pass
            return matching(stream, stream.schema, wanted, condition)
        batches = scan.scanner(columns=read).to_batches()
        held = pa.schema([schema.field(name) for name in read])
        return matching(batches, held, wanted, condition)

    def _plain_files(self) -> list[str] | None:
        """The files' paths where every engine reads the table's rows from them by itself: local, whole and alike."""
        paths = [piece.path for piece in self._slices]
        if not paths or any(piece.partition_values or not piece.clean for piece in self._slices):
            return None
        local = [path for path in paths if path is not None and "://" not in path]
        scan = self._lake.dataset(self._snapshot, self._slices) if len(local) == len(paths) else None
        # A path of another filesystem may be that of a file here.
        if scan is None or not isinstance(scan.filesystem, fs.LocalFileSystem):
            return None
        wanted = [(field.name, without_dictionaries(field.type)) for field in self._snapshot.schema]
        for fragment in scan.get_fragments():
            held = {field.name: without_dictionaries(field.type) for field in fragment.physical_schema}
            if any(held.get(name) != kind for name, kind in wanted):
                return None
        return local

    def polars(self) -> pl.LazyFrame:
        """The rows as a LazyFrame."""
        import polars as pl

        if _has(self._snapshot.schema, pa.types.is_decimal256):
            raise UnsupportedError("Polars has no decimals of more than 38 digits; use to_arrow")
        files = self._plain_files()
        by_name = not any(map(_is_no_name, self._snapshot.schema.names))
        if files is not None and by_name and not _has(self._snapshot.schema, _not_for_polars):
            frame = pl.scan_parquet(files, hive_partitioning=False, glob=False, extra_columns="ignore")
            frame = frame.select(self._snapshot.schema.names)
            # What Polars makes of the files must be what it makes of the table's types.
            if frame.collect_schema() == pl.DataFrame(pl.from_arrow(self._snapshot.schema.empty_table())).schema:
                return frame if self._filter() is None else frame.filter(to_polars(self._expr))
        scan = self.dataset()
        # A column without a name is not found in a dataset.
        if scan is not None and self._slices and "" not in self._snapshot.schema.names:
            return pl.scan_pyarrow_dataset(scan)
        return pl.LazyFrame(pl.from_arrow(self.reader(None).read_all()))

    def duckdb(self, con: Any) -> Any:
        """The rows as a relation."""
        import duckdb

        if _has(self._snapshot.schema, _never_in_duckdb):
            raise UnsupportedError("DuckDB has no half floats and no decimals of more than 38 digits; use to_arrow")
        if con is None:
            con = duckdb.default_connection()
        condition = self._filter()
        files = self._plain_files()
        if files is not None and any(set(path) & _PATTERNS for path in files):
            files = None
        # By a file's maximum DuckDB believes `c <= maximum` of every row, NaN among them, and no longer looks.
        by_floats = any(pa.types.is_floating(column.value_type) for column in columns(self._expr))
        if files is not None and not by_floats and not _has(self._snapshot.schema, _not_for_duckdb):
            try:
                text = to_duckdb(self._expr)
            except UnsupportedError:
                text = None
            # A column without a name is called otherwise by DuckDB.
            if text is not None and "" not in self._snapshot.schema.names:
                relation = con.read_parquet(files, hive_partitioning=False, union_by_name=False)
                names = ", ".join('"' + name.replace('"', '""') + '"' for name in self._snapshot.schema.names)
                meant = con.from_arrow(self._snapshot.schema.empty_table()).types
                if relation.project(names).types == meant:
                    return relation.filter(text).project(names) if condition is not None else relation.project(names)
        # Filtered by pyarrow: what DuckDB cannot hold is compared before it comes there.
        return con.from_arrow(self.reader(None).read_all())


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

"""Read rows the same way for all adapters: slice by slice, or with pyarrow's own scan if that is exact."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from parsieve.lake.base import ColumnPath, Lake, Slice, Snapshot
from parsieve.lake.rows.columns import leaf_field, pruned
from parsieve.lake.rows.file_rows import CheckedRows, Rows, leaves, selected

if TYPE_CHECKING:
    import pyarrow.dataset as pads


class Adapter(Lake):
    """A lake whose slices have the table's schema in `native.schema`."""

    @abstractmethod
    def rows(self, file_slice: Slice) -> Rows:
        """Return the live rows of a slice. Raise `UnsupportedError` if they cannot be read correctly."""

    def read_keys(self, file_slice: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of one slice."""
        schema: pa.Schema = file_slice.native.schema
        for path in columns:
            leaf_field(schema, path)
        return leaves(self.listed_rows(file_slice).batches(pruned(schema, columns)), columns)

    def listed_rows(self, file_slice: Slice) -> Rows:
        """Return the live rows of a slice for an index, which binds them to the slice's token."""
        return self.rows(file_slice)

    def read(
        self,
        snapshot: Snapshot,
        slices: Sequence[Slice],
        columns: Sequence[str] | None = None,
        filter: Any = None,
        row_groups: Sequence[Sequence[int] | None] = (),
    ) -> pa.RecordBatchReader:
        """Return the live rows of some slices."""
        files = self.files(snapshot, slices)
        if files is not None:
            from parsieve.lake.rows.checked_files import request_of

            return files.choosing(row_groups).reader(request_of(snapshot.schema, columns, filter))
        # `rows` may raise an error. Call it now, before the stream returns its first row.
        rows = [
            CheckedRows(
                self.rows(file_slice),
                partial(self.version, file_slice),
                _name(file_slice),
                row_groups[position] if row_groups else None,
                file_slice.token if self.files_may_be_replaced else None,
            )
            for position, file_slice in enumerate(slices)
        ]
        return selected(rows, snapshot.schema, columns, filter)

    def dataset(self, snapshot: Snapshot, slices: Sequence[Slice]) -> pads.Dataset | None:
        """Return the slices as a pyarrow dataset, or None if its rows might differ from the table's rows."""
        from parsieve.lake.rows.dataset import PlannedDataset

        files = self.files(snapshot, slices)
        return PlannedDataset(files) if files is not None and files.are_exact() else None


def _name(file_slice: Slice) -> str:
    return file_slice.path or f"{file_slice.partition}/{file_slice.group}"

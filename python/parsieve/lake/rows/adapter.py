"""Reading as all adapters do it: slice by slice as rows of the table, or by pyarrow's own scan where that is exact."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from parsieve.lake.base import ColumnPath, Lake, Slice, Snapshot
from parsieve.lake.rows.checked_files import request_of
from parsieve.lake.rows.columns import leaf_field, pruned
from parsieve.lake.rows.dataset import PlannedDataset
from parsieve.lake.rows.file_rows import CheckedRows, Rows, leaves, selected


class Adapter(Lake):
    """A lake whose slices know the table's schema: their `native.schema`."""

    @abstractmethod
    def rows(self, piece: Slice) -> Rows:
        """The live rows of a slice; `UnsupportedError` where they cannot be read right."""

    def read_keys(self, piece: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        """The live rows of one slice."""
        schema: pa.Schema = piece.native.schema
        for path in columns:
            leaf_field(schema, path)
        return leaves(self.rows(piece).batches(pruned(schema, columns)), columns)

    def read(
        self,
        snapshot: Snapshot,
        slices: Sequence[Slice],
        columns: Sequence[str] | None = None,
        filter: Any = None,
    ) -> pa.RecordBatchReader:
        """The live rows of some slices."""
        found = self.files(snapshot, slices)
        if found is not None:
            return found.reader(request_of(snapshot.schema, columns, filter))
        # Asked before the first row, not in the midst of a stream.
        files = [CheckedRows(self.rows(piece), partial(self.version, piece), _name(piece)) for piece in slices]
        return selected(files, snapshot.schema, columns, filter)

    def dataset(self, snapshot: Snapshot, slices: Sequence[Slice]) -> pads.Dataset | None:
        """Return the slices as a pyarrow dataset with the snapshot's schema; None if that would not be exact."""
        files = self.files(snapshot, slices)
        return PlannedDataset(files) if files is not None and files.are_exact() else None


def _name(piece: Slice) -> str:
    return piece.path or f"{piece.partition}/{piece.group}"

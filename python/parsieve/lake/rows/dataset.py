"""Return the files of a plan as a pyarrow dataset, for all libraries that read pyarrow datasets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyarrow import fs

from parsieve._core import UnsupportedError
from parsieve.lake.rows.arrow_scan import guarantee
from parsieve.lake.rows.checked_files import CheckedFiles, Request, request_of
from parsieve.lake.rows.columns import no_rows


class PlannedDataset(pads.FileSystemDataset):  # type: ignore[misc]
    """The matching rows of a plan. Each read checks the versions of the files; see `CheckedFiles`.

    `pushed` and `late` are the plan's condition. pyarrow compares only `pushed` with statistics.

    The C++ dataset inside this object has the same files, but would cache their footers from one scan to the next. So
    all operations that would scan it directly raise an error: `Scanner.from_dataset`, unions, and joins of another
    dataset with this one. Use the table from `to_table()` for them.
    """

    def __init__(
        self, files: CheckedFiles, pushed: pc.Expression | None = None, late: pc.Expression | None = None
    ) -> None:
        super().__init__(_fragments(files), files.schema, pads.ParquetFileFormat(), _filesystem(files))
        self._set(files, pushed, late, None)

    def _set(
        self,
        files: CheckedFiles,
        pushed: pc.Expression | None,
        late: pc.Expression | None,
        added: pc.Expression | None,
    ) -> PlannedDataset:
        self._files = files
        self._pushed = pushed
        self._late = late
        # The filter that the user added.
        self._added = added
        return self

    @classmethod
    def planned(cls, files: CheckedFiles, pushed: pc.Expression | None, late: pc.Expression | None) -> PlannedDataset:
        """Return the matching rows of some files."""
        condition = _both(pushed, late)
        # pyarrow refuses to make a union of a dataset with a filter, so always set one.
        unfiltered = cls(files)
        dataset: PlannedDataset = pads.FileSystemDataset.filter(
            unfiltered, pc.scalar(True) if condition is None else condition
        )
        return dataset._set(files, pushed, late, None)

    def filter(self, expression: pc.Expression) -> PlannedDataset:
        """Return the rows that also match this expression."""
        dataset: PlannedDataset = super().filter(expression)
        return dataset._set(self._files, self._pushed, self._late, _both(self._added, expression))

    def _scanner_options(self, options: Any) -> NoReturn:
        raise UnsupportedError(
            "this call would read the files of a plan without checking their versions; use the dataset's scanner(), "
            "or pyarrow.dataset.dataset(plan.to_arrow())"
        )

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """Return a scan, with the arguments of `pyarrow.dataset.Dataset.scanner`."""
        # This also accepts filters in Substrait, which pyarrow converts to an expression.
        filter = pads.FileSystemDataset._scanner_options(pads.dataset(no_rows(self.schema)), {"filter": filter})[
            "filter"
        ]
        added = request_of(self.schema, columns, _both(self._added, filter))
        pushed, late = _both(self._pushed, added.pushed), _both(self._late, added.late)
        named = request_of(self.schema, columns, _both(pushed, late)).named
        request = Request(columns, pushed, late, named, options)
        # Engines call this from separate threads, where no Python function is the caller.
        caller = sys._getframe().f_back
        if caller is not None and caller.f_code is pads.write_dataset.__code__:
            # `write_dataset` only accepts pyarrow's own scanners.
            return pads.Scanner.from_batches(self._files.reader(request))
        return PlannedScanner(self._files, request)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[pads.Fragment]:
        """Return the files as fragments without cached footers. As in pyarrow, a filtered dataset raises an error."""
        if _both(_both(self._pushed, self._late), self._added) is not None:
            refused: Iterator[pads.Fragment] = super().get_fragments(filter)
            return refused
        files = self._files
        fresh = pads.FileSystemDataset(_fragments(files), self.schema, self.format, _filesystem(files))
        fragments: Iterator[pads.Fragment] = fresh.get_fragments(filter)
        return fragments

    def replace_schema(self, schema: pa.Schema) -> PlannedDataset:
        """Return the same files with another schema."""
        files = replace(self._files, schema=schema)
        return _restore(files, self._pushed, self._late, self._added)

    def sort_by(self, sorting: Any, **options: Any) -> pads.InMemoryDataset:
        """Read the rows now, and return them in order."""
        return pads.InMemoryDataset(self.to_table()).sort_by(sorting, **options)

    def join(self, right_dataset: pads.Dataset, *arguments: Any, **options: Any) -> pads.InMemoryDataset:
        """Read the rows now, and join them with another dataset."""
        return pads.InMemoryDataset(self.to_table()).join(right_dataset, *arguments, **options)

    def join_asof(self, right_dataset: pads.Dataset, *arguments: Any, **options: Any) -> pads.InMemoryDataset:
        """Read the rows now, and join them with another dataset by the nearest key."""
        return pads.InMemoryDataset(self.to_table()).join_asof(right_dataset, *arguments, **options)

    def __reduce__(self) -> tuple[Callable[..., PlannedDataset], tuple[Any, ...]]:
        return _restore, (self._files, self._pushed, self._late, self._added)


def _restore(
    files: CheckedFiles, pushed: pc.Expression | None, late: pc.Expression | None, added: pc.Expression | None
) -> PlannedDataset:
    dataset = PlannedDataset.planned(files, pushed, late)
    return dataset if added is None else dataset.filter(added)


class PlannedScanner:
    """One scan of a `PlannedDataset`, with the methods of `pyarrow.dataset.Scanner`. Each call checks the files."""

    def __init__(self, files: CheckedFiles, request: Request) -> None:
        self._files = files
        self._request = request
        # Like pyarrow's scanner, raise errors about wrong columns and types now.
        self._projected = files.projected(request)

    @property
    def dataset_schema(self) -> pa.Schema:
        """Return the schema of the files."""
        return self._files.schema

    @property
    def projected_schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        return self._projected

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as batches."""
        return self._files.batches(self._request)

    def scan_batches(self) -> Iterator[pads.TaggedRecordBatch]:
        """Yield the rows as batches, each with its file."""
        for number, file in enumerate(self._files.files):
            groups = self._files.row_groups[number : number + 1]
            single_file = CheckedFiles((file,), self._files.schema, groups)
            for batch in single_file.batches(self._request):
                yield pads.TaggedRecordBatch(batch, _fragments(single_file)[0])

    def to_table(self) -> pa.Table:
        """Return all rows."""
        return self._files.reader(self._request, hold=True).read_all()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream."""
        return self._files.reader(self._request)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        batches: list[pa.RecordBatch] = []
        missing = num_rows
        for batch in self.to_batches() if num_rows > 0 else ():
            batches.append(batch.slice(0, missing))
            missing -= batches[-1].num_rows
            if missing <= 0:
                break
        return pa.Table.from_batches(batches, self._projected)

    def take(self, indices: Any) -> pa.Table:
        """Return the rows at some positions."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """Count the rows."""
        return self._files.count(self._request)


def _both(left: pc.Expression | None, right: pc.Expression | None) -> pc.Expression | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _fragments(files: CheckedFiles) -> list[pads.ParquetFileFragment]:
    kind = pads.ParquetFileFormat()
    return [kind.make_fragment(file.path, _filesystem(files), guarantee(file.constants)) for file in files.files]


def _filesystem(files: CheckedFiles) -> fs.FileSystem:
    filesystem = files.files[0].storage.arrow() if files.files else None
    return fs.LocalFileSystem() if filesystem is None else filesystem

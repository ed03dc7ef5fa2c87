"""The files of a plan as a pyarrow dataset, for every library that reads one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyarrow import fs

from parsieve._core import UnsupportedError
from parsieve.lake.rows.arrow_scan import guarantee
from parsieve.lake.rows.checked_files import CheckedFiles, Request, request_of


class PlannedDataset(pads.FileSystemDataset):  # type: ignore[misc]
    """The matching rows of a plan. Each read checks the versions of the files; see `CheckedFiles`.

    `pushed` and `late` are the plan's condition; pyarrow compares only the former with statistics.

    Arrow's own object below this one has the same files, but would remember their footers from one scan to the next.
    So whatever would scan that object directly is refused: `Scanner.from_dataset`, unions, and joins of another
    dataset with this one. Put the table of `to_table()` in their place.
    """

    def __init__(
        self, files: CheckedFiles, pushed: pc.Expression | None = None, late: pc.Expression | None = None
    ) -> None:
        super().__init__(_fragments(files), files.schema, pads.ParquetFileFormat(), _filesystem(files))
        self._become(files, pushed, late, None)

    def _become(
        self,
        files: CheckedFiles,
        pushed: pc.Expression | None,
        late: pc.Expression | None,
        asked: pc.Expression | None,
    ) -> PlannedDataset:
        self._files = files
        self._pushed = pushed
        self._late = late
        # The filter that the user has added.
        self._asked = asked
        return self

    @classmethod
    def planned(cls, files: CheckedFiles, pushed: pc.Expression | None, late: pc.Expression | None) -> PlannedDataset:
        """Return the rows of some files that match."""
        condition = _both(pushed, late)
        # With any filter at all, pyarrow refuses to make a union of it.
        whole = cls(files)
        found: PlannedDataset = pads.FileSystemDataset.filter(
            whole, pc.scalar(True) if condition is None else condition
        )
        return found._become(files, pushed, late, None)

    def filter(self, expression: pc.Expression) -> PlannedDataset:
        """Return the rows that also match this expression."""
        found: PlannedDataset = super().filter(expression)
        return found._become(self._files, self._pushed, self._late, _both(self._asked, expression))

    def _scanner_options(self, options: Any) -> NoReturn:
        raise UnsupportedError(
            "this call would read the files of a plan without checking their versions; use the dataset's scanner(), "
            "or pyarrow.dataset.dataset(plan.to_arrow())"
        )

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        """Return a scan, with the arguments of `pyarrow.dataset.Dataset.scanner`."""
        # pyarrow takes the expression out of what Substrait gives.
        filter = pads.FileSystemDataset._scanner_options(pads.dataset(self.schema.empty_table()), {"filter": filter})[
            "filter"
        ]
        asked = request_of(self.schema, columns, _both(self._asked, filter))
        pushed, late = _both(self._pushed, asked.pushed), _both(self._late, asked.late)
        named = request_of(self.schema, columns, _both(pushed, late)).named
        request = Request(columns, pushed, late, named, options)
        if sys._getframe(1).f_code is pads.write_dataset.__code__:
            # It hands the scanner on to Arrow, and takes none but Arrow's own.
            return pads.Scanner.from_batches(self._files.reader(request))
        return PlannedScanner(self._files, request)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[pads.Fragment]:
        """Return the files as fragments that remember nothing yet; a filtered dataset has none, as in pyarrow."""
        if _both(_both(self._pushed, self._late), self._asked) is not None:
            refused: Iterator[pads.Fragment] = super().get_fragments(filter)
            return refused
        files = self._files
        fresh = pads.FileSystemDataset(_fragments(files), self.schema, self.format, _filesystem(files))
        found: Iterator[pads.Fragment] = fresh.get_fragments(filter)
        return found

    def replace_schema(self, schema: pa.Schema) -> PlannedDataset:
        """Return the same files, read as another schema."""
        files = CheckedFiles(self._files.files, schema, self._files.row_groups)
        found = PlannedDataset.planned(files, self._pushed, self._late)
        return found if self._asked is None else found.filter(self._asked)

    def sort_by(self, sorting: Any, **options: Any) -> pads.InMemoryDataset:
        """Return the rows in order, read now."""
        return pads.InMemoryDataset(self.to_table()).sort_by(sorting, **options)

    def join(self, right_dataset: pads.Dataset, *arguments: Any, **options: Any) -> pads.InMemoryDataset:
        """Join with another dataset, read now."""
        return pads.InMemoryDataset(self.to_table()).join(right_dataset, *arguments, **options)

    def join_asof(self, right_dataset: pads.Dataset, *arguments: Any, **options: Any) -> pads.InMemoryDataset:
        """Join with another dataset by the nearest key, read now."""
        return pads.InMemoryDataset(self.to_table()).join_asof(right_dataset, *arguments, **options)

    def __reduce__(self) -> tuple[Callable[..., PlannedDataset], tuple[Any, ...]]:
        return _restored, (self._files, self._pushed, self._late, self._asked)


def _restored(
    files: CheckedFiles, pushed: pc.Expression | None, late: pc.Expression | None, asked: pc.Expression | None
) -> PlannedDataset:
    found = PlannedDataset.planned(files, pushed, late)
    return found if asked is None else found.filter(asked)


class PlannedScanner:
    """One scan of a `PlannedDataset`, with the methods of `pyarrow.dataset.Scanner`. Each call checks the files."""

    def __init__(self, files: CheckedFiles, request: Request) -> None:
        self._files = files
        self._request = request
        # Wrong columns and types are an error now, as with pyarrow's own.
        self._projected = files.projected(request)

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the files."""
        return self._files.schema

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._projected

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as batches."""
        return self._files.batches(self._request)

    def scan_batches(self) -> Iterator[pads.TaggedRecordBatch]:
        """Yield the rows as batches with the files that they come from."""
        for number, file in enumerate(self._files.files):
            groups = self._files.row_groups[number : number + 1]
            alone = CheckedFiles((file,), self._files.schema, groups)
            for batch in alone.batches(self._request):
                yield pads.TaggedRecordBatch(batch, _fragments(alone)[0])

    def to_table(self) -> pa.Table:
        """Return all rows."""
        return self._files.reader(self._request, hold=True).read_all()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream."""
        return self._files.reader(self._request)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        found: list[pa.RecordBatch] = []
        missing = num_rows
        for batch in self.to_batches() if num_rows > 0 else ():
            found.append(batch.slice(0, missing))
            missing -= found[-1].num_rows
            if missing <= 0:
                break
        return pa.Table.from_batches(found, self._projected)

    def take(self, indices: Any) -> pa.Table:
        """Return the rows at some positions."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """Count the rows."""
        return self._files.count(self._request)


def _both(one: pc.Expression | None, other: pc.Expression | None) -> pc.Expression | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _fragments(files: CheckedFiles) -> list[pads.ParquetFileFragment]:
    kind = pads.ParquetFileFormat()
    return [kind.make_fragment(one.path, _filesystem(files), guarantee(one.constants)) for one in files.files]


def _filesystem(files: CheckedFiles) -> fs.FileSystem:
    found = files.files[0].storage.arrow() if files.files else None
    return fs.LocalFileSystem() if found is None else found

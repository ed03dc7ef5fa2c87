"""Files of a plan as a pyarrow dataset that never mixes two versions of a file.

pyarrow remembers a file's footer with the fragment, and a plan chooses row groups. Both belong to one version of the
file. So every reading opens the files again, compares their versions with the plan, and checks them once more after the
last batch. A file that was replaced since the plan is read whole, by its own footer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyarrow import fs

from parsieve.errors import ConflictError
from parsieve.io.sources import REQUESTS_AT_ONCE
from parsieve.lake.rows.arrow_scan import ScanFile, guarantee, is_exact, names_floats, without_dictionaries
from parsieve.lake.rows.file_rows import FileRows, foreign
from parsieve.lake.storage.pinned import ATTEMPTS, FAILURES, HELD_BYTES, Pinned, changed_since

# How many files to hold open at the same time. Each takes two descriptors.
FILES_AT_ONCE = 32
LARGE_FILES_AT_ONCE = 8

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Request:
    """The columns and rows that one read requests."""

    # Names, expressions by name, or None for all columns, as `Dataset.scanner` takes them.
    columns: Any = None
    # What pyarrow may compare with the statistics of row groups.
    pushed: pc.Expression | None = None
    # What it must evaluate on the values alone.
    late: pc.Expression | None = None
    # Columns that `pushed` and `late` name; None for all.
    named: Sequence[str] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def filter(self) -> pc.Expression | None:
        """The whole condition."""
        if self.pushed is None or self.late is None:
            return self.late if self.pushed is None else self.pushed
        return self.pushed & self.late

    def needed(self, schema: pa.Schema) -> list[str]:
        """Return the columns to read if the condition is evaluated after reading."""
        if self.columns is None or isinstance(self.columns, dict) or self.named is None:
            return list(schema.names)
        # Without any column a batch would not know its number of rows.
        return list(dict.fromkeys([*self.columns, *self.named])) or list(schema.names)


@dataclass(slots=True)
class Opened:
    """An open file and its fragment."""

    file: ScanFile
    pinned: Pinned
    is_planned: bool
    fragment: pads.ParquetFileFragment
    # The row groups to read; None if all.
    row_groups: Sequence[int] | None = None
    # Whether pyarrow's scan of the file returns the table's rows.
    is_exact: bool = True

    def select_row_groups(self) -> None:
        """Reduce the fragment to the row groups to read. This reads the footer, which may have changed by now."""
        if self.row_groups is not None:
            self.fragment = self.fragment.subset(row_group_ids=self.row_groups)

    @property
    def is_moved(self) -> bool:
        """Return whether this is certainly not the file that was planned."""
        return not self.is_planned and (self.file.token != "" or self.pinned.version.size != self.file.size)


@dataclass(frozen=True)
class CheckedFiles:
    """Files whose rows are all live, with the row groups that a plan chose of each (None: all)."""

    files: tuple[ScanFile, ...]
    schema: pa.Schema
    row_groups: tuple[Sequence[int] | None, ...] = ()

    def choosing(self, row_groups: Sequence[Sequence[int] | None]) -> CheckedFiles:
        """Return the same files, limited to these row groups in files that did not change."""
        return replace(self, row_groups=tuple(row_groups))

    def are_exact(self) -> bool:
        """Tell whether pyarrow's scan gives exactly the table's rows, as the footers say at the first call."""
        return all(is_exact for is_exact, _ in self._seen)

    def physical_schemas(self) -> list[pa.Schema]:
        """Return the schema that each file has at the first call."""
        return [physical for _, physical in self._seen]

    @cached_property
    def _seen(self) -> list[tuple[bool, pa.Schema]]:
        def seen(files: list[Opened]) -> Iterator[tuple[bool, pa.Schema]]:
            self.look(files)
            for one in files:
                yield one.is_exact, one.fragment.physical_schema

        return [one for window in self.windows(hold=True) for one in self.checked(window, True, seen)]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_seen"}

    def are_planned(self) -> bool:
        """Tell whether all files are those that were planned."""

        def planned(files: list[Opened]) -> Iterator[bool]:
            yield all(one.is_planned for one in files)

        return all(answer for window in self.windows(hold=True) for answer in self.checked(window, True, planned))

    def projected(self, request: Request) -> pa.Schema:
        """Return the schema of the batches of a request; raise where it does not fit the table."""
        empty = pads.FileSystemDataset([], self.schema, pads.ParquetFileFormat(), fs.LocalFileSystem())
        return empty.scanner(columns=request.columns, filter=request.filter, **request.options).projected_schema

    def batches(self, request: Request, hold: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows. With `hold`, a file of any size is read again if it changes while it is read."""
        schema = self.projected(request)
        for window in self.windows(hold):
            yield from self.checked(window, hold, self._reader(request, schema))

    def reader(self, request: Request, hold: bool = False) -> pa.RecordBatchReader:
        """Return the rows as a stream, which opens no file before the first batch is asked for."""
        return pa.RecordBatchReader.from_batches(self.projected(request), self.batches(request, hold))

    def rows(self, opened: list[Opened], request: Request) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files that are held open."""
        return self._reader(request, self.projected(request))(opened)

    def count(self, request: Request) -> int:
        """Count the rows, from footers alone if there is no condition."""
        # pyarrow counts a whole row group if its statistics satisfy the condition, but they say nothing of NaN.
        names_nan = request.pushed is not None and names_floats(self.schema, str(request.pushed))
        by_footers = request.late is None and not names_nan

        def counts(files: list[Opened]) -> Iterator[int]:
            self.look(files)
            exact = [one.fragment for one in files if one.is_exact]
            if by_footers:
                options = {"columns": [], "filter": request.pushed, **request.options}
                yield self._dataset(exact).scanner(**options).count_rows()
                files = [one for one in files if not one.is_exact]
            narrow = replace(request, columns=[])
            for batch in self._reader(narrow, self.projected(narrow))(files):
                yield batch.num_rows

        return sum(sum(self.checked(window, True, counts)) for window in self.windows(hold=True))

    def _dataset(self, fragments: Sequence[Any]) -> pads.FileSystemDataset:
        filesystem = None if fragments else fs.LocalFileSystem()
        return pads.FileSystemDataset(fragments, self.schema, pads.ParquetFileFormat(), filesystem)

    def windows(self, hold: bool) -> Iterator[list[int]]:
        """Yield the numbers of files that are read together: many small files, or a few large ones."""
        window: list[int] = []
        size, most = 0, FILES_AT_ONCE
        for number, file in enumerate(self.files):
            is_large = not hold and file.size > HELD_BYTES
            wanted = LARGE_FILES_AT_ONCE if is_large else FILES_AT_ONCE
            is_full = not (hold or is_large) and size + file.size > HELD_BYTES
            if window and (len(window) >= most or wanted != most or is_full):
                yield window
                window, size = [], 0
            window.append(number)
            size, most = size + file.size, wanted
        if window:
            yield window

    def is_small(self, window: Sequence[int]) -> bool:
        """Tell whether the rows of some files are held back until the files are known to be unchanged."""
        return sum(self.files[number].size for number in window) <= HELD_BYTES

    def checked(
        self,
        window: Sequence[int],
        hold: bool,
        read: Callable[[list[Opened]], Iterator[_T]],
        failures: tuple[type[BaseException], ...] = (),
    ) -> Iterator[_T]:
        """Yield what is read of some files, if they did not change meanwhile; else read them again.

        `failures` are the errors that `read` raises of bytes that change, besides those of pyarrow.
        """
        hold = hold or self.is_small(window)
        changed: list[str] = []
        moved: list[Opened] = []
        cause: BaseException | None = None
        for attempt in range(ATTEMPTS):
            held, began = [], False
            with self._opened(window, attempt) as files:
                failure = None
                try:
                    for one in files:
                        one.select_row_groups()
                    for item in read(files):
                        if hold:
                            held.append(item)
                        else:
                            began = True
                            yield item
                except (*FAILURES, *failures) as error:
                    failure = error
                changed = [one.file.name for one in files if not one.pinned.is_unchanged()]
                moved = [one for one in files if one.is_moved]
                is_old = all(one.is_planned for one in files)
            if not changed and failure is None:
                yield from held
                return
            if failure is not None and not changed and not moved and (is_old or attempt):
                raise failure
            # Whatever is wrong with a file now, it is not the one that was planned.
            cause = failure or cause
            if began or (attempt and failure is not None and not changed):
                break
        if isinstance(cause, ConflictError):
            raise cause
        if not changed and moved and cause is not None:
            name = moved[0].file.name
            raise ConflictError(
                f"{name} was changed since the plan, and cannot be read now ({cause}); plan again"
            ) from cause
        named = changed or [one.file.name for one in moved] or [self.files[window[0]].name]
        raise changed_since(named[0]) from cause

    @contextmanager
    def _opened(self, window: Sequence[int], attempt: int) -> Iterator[list[Opened]]:
        files: list[Opened] = []
        numbers = list(window)
        try:
            if len(numbers) > 1 and not self.files[numbers[0]].storage.is_local:
                with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
                    files.extend(pool.map(lambda number: self._open(number, attempt), numbers))
            else:
                for number in numbers:
                    files.append(self._open(number, attempt))
            yield files
        finally:
            for one in files:
                one.pinned.close()

    def _open(self, number: int, attempt: int) -> Opened:
        file = self.files[number]
        try:
            pinned = Pinned(file.storage, file.path)
        except FileNotFoundError as error:
            raise ConflictError(f"{file.name} was removed since the plan; plan again") from error
        is_planned = file.is_planned(pinned.version)
        if not is_planned and (file.token or attempt):
            # Somebody is writing here, maybe again in a moment.
            pinned.settle()
        size = None if pinned.filesystem is None else pinned.version.size
        fragment = pads.ParquetFileFormat().make_fragment(
            pinned.source, pinned.filesystem, guarantee(file.constants), **({} if size is None else {"file_size": size})
        )
        groups = self.row_groups[number] if self.row_groups and is_planned else None
        return Opened(file, pinned, is_planned, fragment, groups)

    def look(self, files: list[Opened]) -> None:
        """Read the footers, which the fragments keep for the scan, and see how each file is to be read."""

        def footer(one: Opened) -> None:
            with foreign(one.file.name):
                one.fragment.ensure_complete_metadata()

        if len(files) > 1:
            with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
                list(pool.map(footer, files))
        else:
            for one in files:
                footer(one)
        for one in files:
            physical = one.fragment.physical_schema
            one.is_exact = is_exact(physical, self.schema, one.file)
            if not one.is_planned and one.file.lacks(physical, self.schema):
                raise ConflictError(f"{one.file.name} was replaced by a file with other columns; plan again")

    def has_table_types(self, one: Opened) -> bool:
        """Tell whether a file still has the table's types, if they were compared when the plan was handed over."""
        if one.is_planned:
            return True
        self.look([one])
        held = {field.name: without_dictionaries(field.type) for field in one.fragment.physical_schema}
        return all(held.get(field.name) == without_dictionaries(field.type) for field in self.schema)

    def _reader(self, request: Request, schema: pa.Schema) -> Callable[[list[Opened]], Iterator[pa.RecordBatch]]:
        def read(files: list[Opened]) -> Iterator[pa.RecordBatch]:
            self.look(files)
            exact: list[Any] = []
            for one in files:
                if one.is_exact:
                    exact.append(one.fragment)
                    continue
                yield from self._scan(exact, request)
                exact = []
                for batch in self._converted(one, request):
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema) if len(schema) else batch
            yield from self._scan(exact, request)

        return read

    def _scan(self, fragments: list[Any], request: Request) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files by pyarrow's own scan."""
        if not fragments:
            return
        dataset = self._dataset(fragments)
        if request.late is None:
            yield from dataset.scanner(columns=request.columns, filter=request.pushed, **request.options).to_batches()
            return
        needed = request.needed(self.schema)
        for batch in dataset.scanner(columns=needed, filter=request.pushed, **request.options).to_batches():
            yield from _matching(batch, request.late, request.columns)

    def _converted(self, one: Opened, request: Request) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file whose columns or types are not those of the table."""
        file = one.file
        rows = FileRows(one.pinned.open, file.name, file.matching, file.constants)
        needed = pa.schema([self.schema.field(name) for name in request.needed(self.schema)])
        for batch in rows.batches(needed):
            yield from _matching(batch, request.filter, request.columns)


def _matching(batch: pa.RecordBatch, filter: pc.Expression | None, columns: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch that match, compared value by value."""
    if isinstance(columns, dict):
        yield from pads.InMemoryDataset([batch]).scanner(columns=columns, filter=filter).to_batches()
        return
    found = batch if filter is None else batch.filter(filter)
    if found.num_rows:
        yield found if columns is None else found.select(list(columns))


def request_of(schema: pa.Schema, columns: Sequence[str] | None, filter: pc.Expression | None) -> Request:
    """Return a request for the rows that match a condition of which nothing but its text is known."""
    text = "" if filter is None else str(filter)
    # A path by numbers counts all columns in their order.
    named = None if "FieldPath" in text else [name for name in schema.names if name in text]
    # The statistics of row groups know nothing of NaN, so pyarrow would lose rows by them.
    if filter is not None and names_floats(schema, text):
        return Request(columns, None, filter, named)
    return Request(columns, filter, None, named)


def files_of(files: Sequence[ScanFile], schema: pa.Schema) -> CheckedFiles:
    """Return files as they are scanned together."""
    return CheckedFiles(tuple(files), schema)

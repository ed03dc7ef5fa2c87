"""Read the files of a plan with pyarrow, without ever mixing two versions of a file.

A pyarrow fragment caches the footer of its file, and a plan chooses row groups. Both belong to one version of the file.
So each read opens the files again, compares their versions with the plan, and checks them once more after the last
batch. If a file was replaced after the plan, all row groups of the new file are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyarrow import fs

from parsieve._core import has_wrong_statistics
from parsieve.errors import ConflictError
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.lake.rows.arrow_scan import (
    ScanFile,
    guarantee,
    has_reserved_names,
    may_lose_rows,
    mismatch,
    refuse_added_columns,
    without_dictionaries,
)
from parsieve.lake.rows.file_rows import FileRows, check_complete, foreign
from parsieve.lake.rows.streams import filtered
from parsieve.lake.storage.pinned import (
    ATTEMPTS,
    FAILURES,
    HELD_BYTES,
    HELD_MEMORY,
    Pinned,
    changed_since,
    removed_since,
)
from parsieve.sharing import cached_property

# The number of files that are open at the same time. Each needs two descriptors.
FILES_AT_ONCE = 32
LARGE_FILES_AT_ONCE = 8

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Request:
    """The columns and rows that one read returns."""

    # For `Dataset.scanner`: column names, or expressions by name, or None for all columns.
    columns: Any = None
    # The condition that pyarrow may compare with the statistics of row groups.
    pushed: pc.Expression | None = None
    # The condition that pyarrow must evaluate on values only.
    late: pc.Expression | None = None
    # The columns in `pushed` and `late`, or None for all columns.
    named: Sequence[str] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def filter(self) -> pc.Expression | None:
        """Return the conjunction of both conditions."""
        if self.pushed is None or self.late is None:
            return self.late if self.pushed is None else self.pushed
        return self.pushed & self.late

    def needed(self, schema: pa.Schema) -> list[str]:
        """Return the columns to read if the condition is evaluated after reading."""
        if self.columns is None or isinstance(self.columns, dict) or self.named is None:
            return list(schema.names)
        # A batch without columns would lose its number of rows.
        return list(dict.fromkeys([*self.columns, *self.named])) or list(schema.names)


# A nonce and a tag.
SIGNATURE_BYTES = 12 + 16


@dataclass(slots=True)
class OpenFile:
    """An open file and its fragment."""

    file: ScanFile
    pinned: Pinned
    is_planned: bool
    fragment: pads.ParquetFileFragment
    # The row groups to read, or None for all.
    row_groups: Sequence[int] | None = None
    # Why pyarrow's scan of the file may not return exactly the table's rows, or None.
    mismatch: str | None = None
    # Whether the file is by a writer that stores wrong statistics.
    has_wrong_statistics: bool = False

    def select_row_groups(self) -> None:
        """Reduce the fragment to the row groups to read. This reads the footer, which may have changed meanwhile."""
        if self.row_groups is not None:
            self.fragment = self.fragment.subset(row_group_ids=self.row_groups)

    def has_encrypted_columns(self) -> bool:
        """Return whether a file encrypts some of its columns, but not its footer.

        Such a footer is followed by a signature. pyarrow can hang or abort the process if it looks at the statistics of
        an encrypted column without a key, so its scan must not read the file.
        """
        size: int = self.fragment.metadata.serialized_size
        return self.pinned.footer_length() - size == SIGNATURE_BYTES

    @property
    def is_exact(self) -> bool:
        """Return whether pyarrow's scan returns exactly the table's rows."""
        return self.mismatch is None

    @property
    def is_moved(self) -> bool:
        """Return whether this is certainly another file than the planned one."""
        return not self.is_planned and (self.file.token != "" or self.pinned.version.size != self.file.size)


@dataclass(frozen=True)
class CheckedFiles:
    """Files whose rows are all live, with the row groups of each file to read (None: all)."""

    files: tuple[ScanFile, ...]
    schema: pa.Schema
    row_groups: tuple[Sequence[int] | None, ...] = ()
    # Columns whose values must have the table's types, also if no row of a file matches.
    checked_columns: tuple[str, ...] = ()

    def choosing(self, row_groups: Sequence[Sequence[int] | None]) -> CheckedFiles:
        """Return the same files, limited to these row groups. Changed files are still read completely."""
        return replace(self, row_groups=tuple(row_groups))

    def are_exact(self) -> bool:
        """Return whether pyarrow's scan returns exactly the table's rows, by the footers at the first call."""
        return self.mismatch() is None

    def mismatch(self) -> str | None:
        """Return the first file whose rows pyarrow's scan may not return exactly, with the reason, or None."""
        files = zip(self.files, self._footers, strict=True)
        return next((f"{file.name} {reason}" for file, (reason, _, _) in files if reason is not None), None)

    def physical_schemas(self) -> list[pa.Schema]:
        """Return the schema of each file at the first call."""
        return [physical for _, _, physical in self._footers]

    def has_wrong_statistics(self) -> bool:
        """Return whether a writer of the files stores wrong statistics, by the footers at the first call."""
        return any(is_wrong for _, is_wrong, _ in self._footers)

    @cached_property
    def _footers(self) -> list[tuple[str | None, bool, pa.Schema]]:
        """Return why pyarrow's scan of each file may not be exact, whether its statistics are wrong, and its schema."""

        def read(files: list[OpenFile]) -> Iterator[tuple[str | None, bool, pa.Schema]]:
            self.read_footers(files)
            for opened in files:
                yield opened.mismatch, opened.has_wrong_statistics, opened.fragment.physical_schema

        return [footer for window in self.windows(hold=True) for footer in self.checked(window, True, read)]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_footers"}

    def are_planned(self) -> bool:
        """Return whether no file was replaced after the plan."""

        def compare(files: list[OpenFile]) -> Iterator[bool]:
            yield all(opened.is_planned for opened in files)

        return all(answer for window in self.windows(hold=True) for answer in self.checked(window, True, compare))

    def projected(self, request: Request) -> pa.Schema:
        """Return the schema of the batches of a request. Raise an error if the request does not fit the table."""
        if has_reserved_names(self.schema):
            return pa.schema([self.schema.field(name) for name in request.columns])
        empty = pads.FileSystemDataset([], self.schema, pads.ParquetFileFormat(), fs.LocalFileSystem())
        scanner = empty.scanner(columns=request.columns, filter=request.filter, **request.options)
        refuse_added_columns(request.columns)
        return scanner.projected_schema

    def batches(self, request: Request, hold: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows. With `hold`, files of any size are read again if they change during the read."""
        schema = self.projected(request)
        for window in self.windows(hold):
            yield from self.checked(window, hold, self._reader(request, schema))

    def reader(self, request: Request, hold: bool = False) -> pa.RecordBatchReader:
        """Return the rows as a stream. It opens no file before you read the first batch."""
        return pa.RecordBatchReader.from_batches(self.projected(request), self.batches(request, hold))

    def rows(self, opened: list[OpenFile], request: Request) -> Iterator[pa.RecordBatch]:
        """Yield the rows of open files."""
        return self._reader(request, self.projected(request))(opened)

    def count(self, request: Request) -> int:
        """Count the rows. Without a condition, this reads only footers."""
        # pyarrow counts a whole row group if its statistics satisfy the condition.
        pushed = request.pushed
        is_uncertain = pushed is not None and may_lose_rows(self.schema, _text_of(pushed, self.schema))
        by_footers = request.late is None and not is_uncertain

        def counts(files: list[OpenFile]) -> Iterator[int]:
            self.read_footers(files)
            if by_footers:
                countable = [
                    opened.is_exact and not (opened.has_wrong_statistics and pushed is not None) for opened in files
                ]
                exact = [opened.fragment for opened in compress(files, countable)]
                options = {"columns": [], "filter": pushed, **request.options}
                yield self._dataset(exact).scanner(**options).count_rows()
                files = [opened for opened, is_counted in zip(files, countable, strict=True) if not is_counted]
            narrow = replace(request, columns=[])
            for batch in self._reader(narrow, self.projected(narrow))(files):
                yield batch.num_rows

        return sum(sum(self.checked(window, True, counts)) for window in self.windows(hold=True))

    def _dataset(self, fragments: Sequence[Any]) -> pads.FileSystemDataset:
        filesystem = None if fragments else fs.LocalFileSystem()
        return pads.FileSystemDataset(fragments, self.schema, pads.ParquetFileFormat(), filesystem)

    def windows(self, hold: bool) -> Iterator[list[int]]:
        """Yield the numbers of files to read together: many small files, or a few large files."""
        window: list[int] = []
        size, limit = 0, FILES_AT_ONCE
        for number, file in enumerate(self.files):
            is_large = not hold and file.size > HELD_BYTES
            file_limit = LARGE_FILES_AT_ONCE if is_large else FILES_AT_ONCE
            is_full = not (hold or is_large) and size + file.size > HELD_BYTES
            if window and (len(window) >= limit or file_limit != limit or is_full):
                yield window
                window, size = [], 0
            window.append(number)
            size, limit = size + file.size, file_limit
        if window:
            yield window

    def is_small(self, window: Sequence[int]) -> bool:
        """Return whether the rows of some files can wait in memory until the files are known to be unchanged."""
        return sum(self.files[number].size for number in window) <= HELD_BYTES

    def checked(
        self,
        window: Sequence[int],
        hold: bool,
        read: Callable[[list[OpenFile]], Iterator[_T]],
        failures: tuple[type[BaseException], ...] = (),
    ) -> Iterator[_T]:
        """Yield the items that `read` returns for some files. If a file changes meanwhile, read the files again.

        Reads of changing bytes may fail with the errors of pyarrow, or with the errors in `failures`.
        """
        is_held = hold or self.is_small(window)
        changed: list[str] = []
        moved: list[OpenFile] = []
        cause: BaseException | None = None
        for attempt in range(ATTEMPTS):
            pending, has_yielded, memory = [], False, 0
            with self._open_all(window, attempt) as files:
                failure = None
                try:
                    for opened in files:
                        opened.select_row_groups()
                    for item in read(files):
                        pending.append(item)
                        memory += getattr(item, "nbytes", 0)
                        # The rows of a small file may take far more memory than the file.
                        if not is_held or (memory > HELD_MEMORY and not hold):
                            is_held, has_yielded = False, True
                            yield from pending
                            pending = []
                except (*FAILURES, *failures) as error:
                    failure = error
                changed = [opened.file.name for opened in files if not opened.pinned.is_unchanged()]
                moved = [opened for opened in files if opened.is_moved]
                are_planned = all(opened.is_planned for opened in files)
            if not changed and failure is None:
                yield from pending
                return
            if failure is not None and not changed and not moved and (are_planned or attempt):
                raise failure
            # The file that failed may not be the planned one, so read it again.
            cause = failure or cause
            if has_yielded or (attempt and failure is not None and not changed):
                break
        if isinstance(cause, ConflictError):
            raise cause
        if not changed and moved and cause is not None:
            name = moved[0].file.name
            raise ConflictError(
                f"{name} was changed since the plan, and cannot be read now ({cause}); plan again, and if that fails "
                "too, restore the file"
            ) from cause
        names = changed or [opened.file.name for opened in moved] or [self.files[window[0]].name]
        raise changed_since(names[0]) from cause

    @contextmanager
    def _open_all(self, window: Sequence[int], attempt: int) -> Iterator[list[OpenFile]]:
        files: list[OpenFile] = []
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
            for opened in files:
                opened.pinned.close()

    def _open(self, number: int, attempt: int) -> OpenFile:
        file = self.files[number]
        try:
            pinned = Pinned(file.storage, file.path)
            is_planned = file.is_planned(pinned.version)
            if not is_planned and (file.token or attempt):
                # Another process just replaced the file, and may write to it again.
                pinned.settle()
        except FileNotFoundError as error:
            raise removed_since(file.name) from error
        size = None if pinned.filesystem is None else pinned.version.size
        fragment = pads.ParquetFileFormat().make_fragment(
            pinned.source, pinned.filesystem, guarantee(file.constants), file_size=size
        )
        groups = self.row_groups[number] if self.row_groups and is_planned else None
        return OpenFile(file, pinned, is_planned, fragment, groups)

    def read_footers(self, files: list[OpenFile]) -> None:
        """Read the footers, which the fragments cache for the scan, and set `mismatch` for each file."""

        def read_footer(opened: OpenFile) -> None:
            with foreign(opened.file.name):
                opened.fragment.ensure_complete_metadata()
                opened.mismatch = "is encrypted" if opened.has_encrypted_columns() else None
                opened.has_wrong_statistics = has_wrong_statistics(opened.fragment.metadata.created_by)

        if len(files) > 1:
            with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
                list(pool.map(read_footer, files))
        else:
            for opened in files:
                read_footer(opened)
        for opened in files:
            physical = opened.fragment.physical_schema
            opened.mismatch = opened.mismatch or mismatch(physical, self.schema, opened.file)
            if not opened.is_planned and opened.file.lacks(physical, self.schema):
                raise ConflictError(f"{opened.file.name} was replaced by a file without some columns; plan again")

    def has_table_types(self, opened: OpenFile) -> bool:
        """Return whether a file has the table's types. Planned files do: the caller compared them before."""
        if opened.is_planned:
            return True
        self.read_footers([opened])
        types = {field.name: without_dictionaries(field.type) for field in opened.fragment.physical_schema}
        return all(types.get(field.name) == without_dictionaries(field.type) for field in self.schema)

    def _reader(self, request: Request, schema: pa.Schema) -> Callable[[list[OpenFile]], Iterator[pa.RecordBatch]]:
        def read(files: list[OpenFile]) -> Iterator[pa.RecordBatch]:
            self.read_footers(files)
            exact: list[OpenFile] = []
            for opened in files:
                if opened.is_exact and not (opened.has_wrong_statistics and request.pushed is not None):
                    exact.append(opened)
                    continue
                yield from self._scan(exact, request)
                exact = []
                if opened.is_exact:
                    yield from self._scan([opened], replace(request, pushed=None, late=request.filter))
                    continue
                for batch in self._convert(opened, request):
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema) if len(schema) else batch
            yield from self._scan(exact, request)

        return read

    def _scan(self, files: list[OpenFile], request: Request) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files with pyarrow's own scan."""
        if not files:
            return
        dataset = self._dataset([opened.fragment for opened in files])
        columns = request.columns if request.late is None else request.needed(self.schema)
        found = 0
        for batch in dataset.scanner(columns=columns, filter=request.pushed, **request.options).to_batches():
            found += batch.num_rows
            if request.late is None:
                yield batch
            else:
                yield from _matching(batch, request.late, request.columns)
        if request.pushed is None:
            names = files[0].file.name if len(files) == 1 else f"one of {len(files)} files ({files[0].file.name}, ...)"
            # The footers that the scan used. dataset.count_rows() would read those of files that were replaced since.
            expected = sum(group.num_rows for opened in files for group in opened.fragment.row_groups)
            check_complete(names, found, expected)

    def _convert(self, opened: OpenFile, request: Request) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file whose columns or types differ from the table's."""
        file = opened.file
        groups = opened.row_groups
        rows = FileRows(opened.pinned.open, file.name, file.matching, file.constants, row_groups=groups)
        names = dict.fromkeys([*request.needed(self.schema), *self.checked_columns])
        needed = pa.schema([self.schema.field(name) for name in names])
        for batch in rows.batches(needed):
            yield from _matching(batch, request.filter, request.columns)


def _matching(batch: pa.RecordBatch, filter: pc.Expression | None, columns: Any) -> Iterator[pa.RecordBatch]:
    """Yield the matching rows of a batch. This compares values and uses no statistics."""
    if isinstance(columns, dict):
        yield from pads.InMemoryDataset([batch]).scanner(columns=columns, filter=filter).to_batches()
        return
    matches = filtered(batch, filter)
    if matches is not None:
        yield matches if columns is None else matches.select(list(columns))


def request_of(schema: pa.Schema, columns: Sequence[str] | None, filter: pc.Expression | None) -> Request:
    """Return a request for the rows that match a pyarrow condition."""
    text = _text_of(filter, schema)
    # A path by numbers may refer to any column.
    named = None if "FieldPath" in text else [name for name in schema.names if name in text]
    if filter is not None and may_lose_rows(schema, text):
        return Request(columns, None, filter, named)
    return Request(columns, filter, None, named)


def _text_of(filter: pc.Expression | None, schema: pa.Schema) -> str:
    """Return a text with the names of all columns of a condition.

    pyarrow has no function that returns the columns of an expression, but its text has their names.
    """
    try:
        return "" if filter is None else str(filter)
    except UnicodeDecodeError:
        # The text of a literal with other bytes is not UTF-8. Any column may be named.
        return " ".join(["FieldPath", *schema.names])


def files_of(files: Sequence[ScanFile], schema: pa.Schema) -> CheckedFiles:
    """Return the given files, with all their row groups, as files of a table with this schema."""
    return CheckedFiles(tuple(files), schema)

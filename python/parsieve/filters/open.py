"""Open the Bloom filters of a Parquet file: their ranges, their bits, and the row groups that they exclude."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

from parsieve import _core
from parsieve._typing import LeafPath
from parsieve.errors import ColumnNotFoundError, no_column
from parsieve.io.ranges import Answer, RangeReader, Step, run_step
from parsieve.io.sources import Range
from parsieve.observe.notebook import html_of
from parsieve.sharing import cached_property
from parsieve.wording import count

# The magic number twice, and the length of the footer between them.
SMALLEST_FILE = 12

Decryption = _core.FileKeys | Mapping[str, Any]
ColumnName = str | tuple[str, ...]
# The numbers of a row group and a column.
Chunk = tuple[int, int]


class FilterRange(NamedTuple):
    """The position of a filter, as the metadata of the file states it. It has not been verified."""

    row_group: int
    column: ColumnName
    offset: int
    length: int | None


class UnusableFilter(NamedTuple):
    """A filter that is damaged, unsupported, encrypted without a key, or not trusted. It excludes nothing."""

    row_group: int
    column: ColumnName
    # Whether the column is encrypted but its filter is not, so that anyone could have written the filter.
    is_plaintext: bool
    reason: str


class ParquetFile:
    """An open Parquet file with its footer; the other modules of this package use it to read and rewrite filters.

    Columns have numbers, in the order of the footer.
    """

    def __init__(self, source: Any, decryption: Decryption | None = None) -> None:
        """Read the footer."""
        if decryption is not None and not isinstance(decryption, _core.FileKeys):
            decryption = _core.FileKeys(**decryption)
        self.reader = RangeReader(source)
        try:
            size = self.reader.size
            if size < SMALLEST_FILE:
                name = "" if self.reader.name is None else f": {self.reader.name}"
                raise _core.FormatError(f"not a Parquet file{name} (only {count(size, 'byte')})")
            footer = run(self.reader, lambda fetched: _core.FileReader.open(size, fetched, decryption))
            assert footer is not None
            self.footer: _core.FileReader = footer
        except BaseException:
            self.reader.close()
            raise
        self.paths = [tuple(path) for path in self.footer.columns]
        # The type of each column as `BloomFilter.column_type` spells it; None if the column cannot have a filter.
        self.types = self.footer.column_types
        self.num_row_groups = len(self.footer.num_rows)
        # The columns that each path and each dotted name denotes. Names with dots in them can make one ambiguous.
        self._numbers: dict[ColumnName, list[int]] = {}
        for number, path in enumerate(self.paths):
            self._numbers.setdefault(path, []).append(number)
            self._numbers.setdefault(".".join(path), []).append(number)

    def __enter__(self) -> ParquetFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.reader.close()

    def has_column(self, name: str) -> bool:
        """Return whether a dotted name denotes at least one column."""
        return name in self._numbers

    def number_of(self, column: LeafPath) -> int:
        """Return the number of the column of this name, or else of the only one whose name differs only in case.

        Raises `ColumnNotFoundError` if the name is unknown or ambiguous.
        """
        name = column if isinstance(column, str) else tuple(column)
        numbers = self._numbers.get(name, []) or self._numbers_by_folded_name.get(_folded(name), [])
        if len(numbers) == 1:
            return numbers[0]
        if len(numbers) > 1:
            paths = ", ".join(str(self.paths[number]) for number in numbers)
            raise ColumnNotFoundError(f"{column!r} matches several columns; give one of them as a tuple: {paths}")
        raise no_column(name if isinstance(name, str) else ".".join(name), [str(name) for name in self.names()])

    @cached_property
    def _numbers_by_folded_name(self) -> dict[ColumnName, list[int]]:
        """The columns by their names without regard to case."""
        folded: dict[ColumnName, list[int]] = {}
        for name, numbers in self._numbers.items():
            folded.setdefault(_folded(name), []).extend(numbers)
        return folded

    def name_of(self, number: int) -> ColumnName:
        """Return the name of a column: dotted, or a tuple if the dotted name is ambiguous."""
        path = self.paths[number]
        dotted = ".".join(path)
        return dotted if len(self._numbers[dotted]) == 1 else path

    def names(self) -> list[ColumnName]:
        """Return the names of all columns."""
        return [self.name_of(number) for number in range(len(self.paths))]

    def ranges(self) -> list[FilterRange]:
        """Return where the filters are, according to the footer."""
        return [
            FilterRange(row_group, self.name_of(column), offset, length)
            for row_group, column, offset, length in self.footer.ranges()
        ]

    def chunks_with_filters(self) -> list[Chunk]:
        """Return the column chunks that have a filter."""
        return [(row_group, column) for row_group, column, _, _ in self.footer.ranges()]

    def filter(self, row_group: int, column: int) -> _core.BloomFilter | None:
        """Read a filter by the numbers of its row group and column; return None if there is none."""
        with self.unchanged():
            return self.run(lambda fetched: self.footer.filter(row_group, column, fetched))

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise `ConflictError` if the file has changed since it was opened, also if it changes while it is read.

        Bytes of a newer file at the offsets in the old footer would give a wrong answer.
        """
        self.reader.check_unchanged()
        requests = self.reader.requests
        try:
            yield
        finally:
            if self.reader.requests > requests:
                self.reader.check_unchanged()

    def run(self, step: Step[Answer], fetched: _core.Fetched | None = None) -> Answer | None:
        """Call `step` until it returns an answer, and read the ranges that it needs in between.

        Errors of the core get the name of the file.
        """
        return run(self.reader, step, self.footer.fetched() if fetched is None else fetched)


class FileFilters:
    """The filters of one file, from `open_filters`. Threads may share it; as a context manager it closes the file."""

    def __init__(self, source: Any, decryption: Decryption | None = None) -> None:
        """Read the footer of `source`; see `open_filters` for the arguments."""
        self._parquet = ParquetFile(source, decryption)

    @property
    def columns(self) -> list[ColumnName]:
        """The columns that hold data, by the names that other methods take.

        A name is dotted text, or a tuple if the dotted text would also denote another column.

        >>> import io, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> file = io.BytesIO()
        >>> pq.write_table(pa.table({"id": [1], "point": [{"x": 1.5}]}), file)
        >>> ps.open_filters(file).columns
        ['id', 'point.x']
        """
        return self._parquet.names()

    @property
    def num_row_groups(self) -> int:
        """The number of row groups."""
        return self._parquet.num_row_groups

    @property
    def num_rows(self) -> list[int]:
        """The number of rows of each row group."""
        return self._parquet.footer.num_rows

    @property
    def created_by(self) -> str | None:
        """The program that wrote the file."""
        return self._parquet.footer.created_by

    @property
    def encrypted(self) -> bool:
        """Whether the file is encrypted or signed."""
        return self._parquet.footer.encrypted

    @property
    def bytes_fetched(self) -> int:
        """The number of bytes read from the file so far."""
        return self._parquet.reader.bytes_fetched

    @property
    def requests(self) -> int:
        """The number of reads so far, not counting the look-up of the file's size."""
        return self._parquet.reader.requests

    def column_type(self, column: LeafPath) -> str | None:
        """Return the physical and logical type of a column, as `BloomFilter.column_type` spells them.

        `None` means that filters of the column never exclude anything: BOOLEAN, INTERVAL, and types that this version
        does not know.
        """
        return self._parquet.types[self._parquet.number_of(column)]

    def ranges(self) -> list[FilterRange]:
        """Return where the filters are: row group, column, offset, and the length if the writer stored it.

        This neither reads nor verifies the filters. Columns with encrypted metadata are missing unless their key was
        given.
        """
        return self._parquet.ranges()

    def filter(self, row_group: int, column: LeafPath) -> _core.BloomFilter | None:
        """Read the filter of one column of one row group; return `None` only if there is none.

        The filter knows the column's type, so a probe with a value of another type converts it exactly or raises.

        Raises:
            FormatError: The filter is damaged.
            UnsupportedError: The filter cannot be used: it is compressed, it belongs to a BOOLEAN column, or it is in
                plaintext although the column is encrypted.
            DecryptionError: The key is missing or wrong.
        """
        number = self._parquet.number_of(column)
        if not 0 <= row_group < self.num_row_groups:
            raise IndexError(f"row group {row_group} does not exist; the file has {self.num_row_groups}")
        return self._parquet.filter(row_group, number)

    def might_contain(self, values: Mapping[Any, Any]) -> list[bool]:
        """Return for each row group whether it may hold a row that has one of the values in every column.

        `False` is certain. Pass one value per column, or a list, tuple, set or Arrow column of values. In a nested
        column, one matching element per row is enough. The result is `True` whenever there is doubt: the filter is
        missing, damaged or encrypted without a key, the column type cannot represent the value exactly, or the value
        is null or NaN. Of a large filter, only the header and the blocks in question are read.

        >>> import io, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> file = io.BytesIO()
        >>> table = pa.table({"id": [1, 2, 3, 4]})
        >>> pq.write_table(table, file, row_group_size=2, bloom_filter_options={"id": {"ndv": 2, "fpp": 0.001}})
        >>> ps.open_filters(file).might_contain({"id": [4, 5]})
        [False, True]
        """
        if not isinstance(values, Mapping):
            raise TypeError(f"values must be a dict such as {{'id': [1, 2]}}, not {type(values).__qualname__}")
        may_contain, unusable = probe(self, values)
        columns = sorted({str(filter.column) for filter in unusable if filter.is_plaintext})
        if columns:
            warnings.warn(
                f"not trusted: the filters of {', '.join(columns)} are not encrypted, but the columns are",
                stacklevel=2,
            )
        return may_contain

    def close(self) -> None:
        """Close what `open_filters` opened; a file object of the caller stays open."""
        self._parquet.reader.close()

    def __enter__(self) -> FileFilters:
        """Return the filters."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def _repr_html_(self) -> str | None:
        return html_of(self)

    def __repr__(self) -> str:
        return (
            f"<parsieve.FileFilters: {len(self.ranges())} filters, {self.num_row_groups} row groups, "
            f"{len(self._parquet.paths)} columns>"
        )


def probe(filters: FileFilters, values: Mapping[Any, Any]) -> tuple[list[bool], list[UnusableFilter]]:
    """Return the answers of `FileFilters.might_contain`, and the filters that could not be used."""
    file = filters._parquet
    numbered = [(file.number_of(column), of_column) for column, of_column in values.items()]
    probes = [file.footer.probe(number, _values(of_column)) for number, of_column in numbered]
    may_contain: list[bool] = []
    unusable: list[UnusableFilter] = []
    with file.unchanged():
        while len(may_contain) < filters.num_row_groups:
            answer = file.run(partial(file.footer.might_contain, probes, len(may_contain)))
            assert answer is not None
            may_contain += answer[0]
            unusable += [
                UnusableFilter(row_group, file.name_of(column), is_plaintext, reason)
                for row_group, column, is_plaintext, reason in answer[1]
            ]
    return may_contain, unusable


def run(reader: RangeReader, step: Step[Answer], fetched: _core.Fetched | None = None) -> Answer | None:
    """Run a step like `run_step`. Its errors get the name of the file."""

    def named_step(fetched: _core.Fetched) -> tuple[list[Range], Answer | None]:
        try:
            return step(fetched)
        except _core.ParsieveError as error:
            if reader.name is not None:
                error.args = (_with_name(str(error), reader.name), *error.args[1:])
            raise

    return run_step(reader, named_step, fetched)


def check_unchanged(filters: FileFilters) -> None:
    """Raise `ConflictError` if the file has changed since it was opened."""
    filters._parquet.reader.check_unchanged()


def version_of(filters: FileFilters) -> str:
    """Return the file's version in the form that tokens of plain folders begin with."""
    return filters._parquet.reader.version


def _with_name(message: str, name: str) -> str:
    """Add the name of the file to a message of the core."""
    problem = "not a Parquet file"
    if message.startswith(problem):
        return f"{problem}: {name}{message[len(problem) :]}"
    return f"{name}: {message}"


def _values(values: Any) -> Any:
    """Return Python values as a list; leave Arrow and numpy columns unchanged."""
    if isinstance(values, (list, tuple, set, frozenset, range)):
        return list(values)
    is_column = any(hasattr(values, name) for name in ("__arrow_c_array__", "__arrow_c_stream__", "__array__"))
    # A numpy scalar is an array without dimensions.
    return values if is_column and getattr(values, "ndim", 1) > 0 else [values]


def _folded(name: ColumnName) -> ColumnName:
    """Return a name without regard to case."""
    return name.casefold() if isinstance(name, str) else tuple(part.casefold() for part in name)


def open_filters(source: Any, decryption: Decryption | None = None) -> FileFilters:
    """Open the Bloom filters of a Parquet file. This reads only the footer.

    `source` is a path, bytes, a seekable binary file, a URI, or a `(filesystem, path)` pair of pyarrow.fs, fsspec or
    obstore. `decryption` has the keys of an encrypted file: `FileKeys`, or a dict with the same names. Without the keys
    of some columns, the filters of the other columns still work. If the footer is not encrypted, `decryption` is
    optional.

    >>> import io, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"sku": ["a", "b"]}), file, bloom_filter_options={"sku": {"ndv": 2}})
    >>> with ps.open_filters(file) as filters:
    ...     "a" in filters.filter(0, "sku"), filters.requests
    (True, 1)
    """
    try:
        return FileFilters(source, decryption)
    except IsADirectoryError as error:
        hint = "is a folder, and open_filters takes one file; for the files of a folder, use open_table(...).plan(...)"
        raise IsADirectoryError(error.errno, hint, error.filename) from None

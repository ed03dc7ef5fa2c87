"""The Bloom filters of Parquet files that exist: where they lie, what they hold, which row groups they exclude."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from parsieve import _core
from parsieve._typing import LeafPath
from parsieve.errors import ColumnNotFoundError, no_column
from parsieve.io.sources import Range, RangeReader

# Magic, length of the footer, magic again.
LEAST = 12

Answer = TypeVar("Answer")
Step = Callable[[_core.Fetched], tuple[list[Range], Answer | None]]
Decryption = _core.FileKeys | Mapping[str, Any]


class FilterRange(NamedTuple):
    """Where one filter lies by the file's own metadata, which nobody has checked yet."""

    row_group: int
    column: str | tuple[str, ...]
    offset: int
    length: int | None


class FileFilters:
    """The filters of one file, from `open_filters`. Threads may share it; as a context manager it closes the file."""

    def __init__(self, source: Any, decryption: Decryption | None = None) -> None:
        """Read the footer of `source`; `open_filters` says what that may be."""
        if decryption is not None and not isinstance(decryption, _core.FileKeys):
            decryption = _core.FileKeys(**decryption)
        self._reader = RangeReader(source)
        try:
            size = self._reader.size
            if size < LEAST:
                name = "" if self._reader.name is None else f": {self._reader.name}"
                raise _core.FormatError(f"not a Parquet file{name} (only {size} bytes)")
            opened = self._drive(lambda fetched: _core.FileReader.open(size, fetched, decryption), _core.Fetched())
            assert opened is not None
            self._file = opened
        except BaseException:
            self._reader.close()
            raise
        self._paths = [tuple(path) for path in self._file.columns]
        self._types = self._file.column_types
        # A dotted name stands for the columns that it fits, which are several where names hold dots.
        self._named: dict[str | tuple[str, ...], list[int]] = {}
        for number, path in enumerate(self._paths):
            self._named.setdefault(path, []).append(number)
            self._named.setdefault(".".join(path), []).append(number)

    @property
    def columns(self) -> list[str | tuple[str, ...]]:
        """The columns that hold data, by the names that other methods take.

        That is dotted text, or a tuple for a column whose dotted text would fit another one too.

        >>> import io, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> file = io.BytesIO()
        >>> pq.write_table(pa.table({"id": [1], "point": [{"x": 1.5}]}), file)
        >>> ps.open_filters(file).columns
        ['id', 'point.x']
        """
        return [self._name(number) for number in range(len(self._paths))]

    @property
    def num_row_groups(self) -> int:
        """Row groups of the file."""
        return len(self._file.num_rows)

    @property
    def num_rows(self) -> list[int]:
        """Rows of each row group."""
        return self._file.num_rows

    @property
    def created_by(self) -> str | None:
        """The program that wrote the file."""
        return self._file.created_by

    @property
    def encrypted(self) -> bool:
        """Whether the file is encrypted or signed."""
        return self._file.encrypted

    @property
    def bytes_fetched(self) -> int:
        """Bytes read of the file so far."""
        return self._reader.bytes_fetched

    @property
    def requests(self) -> int:
        """Reads of the file so far, not counting the look-up of its size."""
        return self._reader.requests

    def column_type(self, column: LeafPath) -> str | None:
        """Physical type and meaning of a column, as `BloomFilter.column_type` names them.

        `None` for a column whose filters never exclude anything: BOOLEAN, INTERVAL, and types that this version does
        not know.
        """
        return self._types[self._number(column)]

    def ranges(self) -> list[FilterRange]:
        """Where the filters lie: row group, column, offset, and length where the writer says it.

        Nothing is read for that, and nothing checked. Columns whose metadata are closed for want of a key are left out.
        """
        return [
            FilterRange(row_group, self._name(column), offset, length)
            for row_group, column, offset, length in self._file.ranges()
        ]

    def filter(self, row_group: int, column: LeafPath) -> _core.BloomFilter | None:
        """Read the filter of one column of one row group; `None` only where there is none.

        It knows the column's type, so a probe of another type converts exactly or raises. A damaged filter is a
        `FormatError`; one that cannot be used (of a BOOLEAN, compressed, in plaintext for an encrypted column) an
        `UnsupportedError`; without the right key it is a `DecryptionError`.
        """
        number = self._number(column)
        if not 0 <= row_group < self.num_row_groups:
            raise IndexError(f"row group {row_group} does not exist; the file has {self.num_row_groups}")
        self._reader.check()
        return self._drive(lambda fetched: self._file.filter(row_group, number, fetched))

    def might_contain(self, values: Mapping[Any, Any]) -> list[bool]:
        """Tell for each row group whether it may hold a row that has one of the values in every column.

        `False` is certain. Values are one, or a list, tuple, set or Arrow column of them; of a nested column, one
        element in a row is enough. Whatever leaves a doubt is `True`: no filter, or one that is broken or closed; a
        value that the column cannot hold exactly; a null; a NaN. Of a large filter only the header and the blocks in
        question are read.

        >>> import io, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> file = io.BytesIO()
        >>> table = pa.table({"id": [1, 2, 3, 4]})
        >>> pq.write_table(table, file, row_group_size=2, bloom_filter_options={"id": {"ndv": 2, "fpp": 0.001}})
        >>> ps.open_filters(file).might_contain({"id": [4, 5]})
        [False, True]
        """
        if not isinstance(values, Mapping):
            raise TypeError(f"values must be a dict such as {{'id': [1, 2]}}, not {type(values).__qualname__}")
        numbered = [(self._number(column), of) for column, of in values.items()]
        probes = [self._file.probe(number, _values(of)) for number, of in numbered]
        self._reader.check()
        may_contain: list[bool] = []
        plaintext: list[tuple[int, int]] = []
        while len(may_contain) < self.num_row_groups:
            first = len(may_contain)
            answer = self._drive(partial(self._file.might_contain, probes, first))
            assert answer is not None
            may_contain += answer[0]
            plaintext += answer[1]
        if plaintext:
            columns = sorted({str(self._name(column)) for _, column in plaintext})
            warnings.warn(
                f"not trusted: the filters of {', '.join(columns)} are not encrypted, but the columns are",
                stacklevel=2,
            )
        return may_contain

    def close(self) -> None:
        """Close what was opened for reading; a file object of the caller's stays open."""
        self._reader.close()

    def __enter__(self) -> FileFilters:
        """Give the filters themselves."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def __repr__(self) -> str:
        return (
            f"<parsieve.FileFilters: {len(self.ranges())} filters, {self.num_row_groups} row groups, "
            f"{len(self._paths)} columns>"
        )

    def _drive(self, step: Step[Answer], fetched: _core.Fetched | None = None) -> Answer | None:
        """Bring what a step needs until it answers."""
        if fetched is None:
            fetched = self._file.fetched()
        while True:
            try:
                needed, answer = step(fetched)
            except _core.ParsieveError as error:
                # The core knows offsets, and no files.
                if self._reader.name is not None:
                    error.args = (_with_name(str(error), self._reader.name), *error.args[1:])
                raise
            if not needed:
                return answer
            self._reader.fetch(needed, fetched)

    def _number(self, column: LeafPath) -> int:
        name = column if isinstance(column, str) else tuple(column)
        found = self._named.get(name, [])
        if len(found) == 1:
            return found[0]
        if len(found) > 1:
            paths = ", ".join(str(self._paths[number]) for number in found)
            raise ColumnNotFoundError(f"{column!r} fits several columns; give one of them as a tuple: {paths}")
        raise no_column(name if isinstance(name, str) else ".".join(name), [str(one) for one in self.columns])

    def _name(self, number: int) -> str | tuple[str, ...]:
        path = self._paths[number]
        dotted = ".".join(path)
        return dotted if len(self._named[dotted]) == 1 else path


def _with_name(message: str, name: str) -> str:
    """A message of the core with the name of the file."""
    problem = "not a Parquet file"
    if message.startswith(problem):
        return f"{problem}: {name}{message[len(problem) :]}"
    return f"{name}: {message}"


def _values(values: Any) -> Any:
    """A list of Python values, or an Arrow or numpy column as it is."""
    if isinstance(values, (list, tuple, set, frozenset, range)):
        return list(values)
    is_column = any(hasattr(values, name) for name in ("__arrow_c_array__", "__arrow_c_stream__", "__array__"))
    # A numpy number is an array of no dimension.
    return values if is_column and getattr(values, "ndim", 1) > 0 else [values]


def open_filters(source: Any, decryption: Decryption | None = None) -> FileFilters:
    """Open the Bloom filters of a Parquet file; only its footer is read.

    `source` is a path, bytes, a seekable binary file, a URI, or a `(filesystem, path)` pair of pyarrow.fs, fsspec or
    obstore. `decryption` are the keys of an encrypted file: `FileKeys`, or a dict of the same names. With a plaintext
    footer or without the keys of some columns, the others can be asked.

    >>> import io, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"sku": ["a", "b"]}), file, bloom_filter_options={"sku": {"ndv": 2}})
    >>> with ps.open_filters(file) as filters:
    ...     "a" in filters.filter(0, "sku"), filters.requests
    (True, 1)
    """
    return FileFilters(source, decryption)

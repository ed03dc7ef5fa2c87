"""Read a Parquet file as rows of its table: match columns, convert types exactly, and skip deleted rows."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from parsieve._core import DecryptionError, FormatError, UnsupportedError
from parsieve.io import interrupts
from parsieve.lake.rows.columns import BY_NAME, Matching, conform, constant, leaf_of
from parsieve.lake.rows.streams import matching
from parsieve.lake.storage.pinned import checked
from parsieve.lake.storage.version import Version
from parsieve.predicate.column_names import ColumnPath

BATCH_ROWS = 64 * 1024
# How the names of Iceberg's metadata files end. Old versions of Iceberg wrote the second one.
ICEBERG_METADATA = (".metadata.json", ".metadata.json.gz")
# What the message about an encrypted file without keys says before its advice.
ENCRYPTED = "is encrypted"
# What pyarrow's object stores say if a request fails. These errors have no errno.
_STORE_ERROR = re.compile("AWS Error|Azure Error|google::cloud::Status")


@contextmanager
def foreign(what: str, keyed: bool = False) -> Iterator[None]:
    """Map a library's errors about malformed data to parsieve errors. I/O errors pass unchanged.

    Set `keyed` if the library had decryption keys, so that errors about encryption mean that they were wrong.
    """
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"{what}: {error}") from error
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowKeyError,
        pa.ArrowIndexError,
        pa.ArrowSerializationError,
    ) as error:
        if keyed and "crypt" in str(error):
            raise DecryptionError(f"{what}: wrong decryption keys: {error}") from error
        if "magic bytes not found" in str(error):
            raise _not_parquet(what, "missing PAR1 footer") from error
        if "file size is 0 bytes" in str(error):
            raise _not_parquet(what, "empty file") from error
        if "smaller than the minimum file footer" in str(error):
            raise _not_parquet(what, "too short for a footer") from error
        raise FormatError(f"{what}: {error}") from error
    except OSError as error:
        if error.errno is not None or _is_raised_by_python(error) or _STORE_ERROR.search(str(error)):
            raise
        if keyed and _is_about_keys(str(error)):
            raise DecryptionError(
                f"{what}: a key is missing or wrong; pyarrow accepts keys of single columns only from a KMS "
                f"(decryption=(kms, connection)): {error}"
            ) from error
        if "crypt" in str(error):
            raise UnsupportedError(
                f"{what} {ENCRYPTED}; pass its keys as decryption= to open_table ({error})"
            ) from error
        raise FormatError(f"{what}: {error}") from error


def _not_parquet(what: str, why: str) -> FormatError:
    problem = f"not a Parquet file: {what} ({why})"
    if ".parquet" in what.rpartition("/")[2]:
        return FormatError(problem)
    folder = what.rpartition("/")[0]
    if what.endswith((*ICEBERG_METADATA, ".avro")) and folder.rpartition("/")[2] == "metadata":
        table = folder.rpartition("/")[0]
        return FormatError(f"{problem}. It seems to belong to an Iceberg table: open the table {table}")
    return FormatError(
        f"{problem}. In a plain folder, every file counts as Parquet unless its name starts with _ or a dot: move this "
        "one, or rename it"
    )


def _is_raised_by_python(error: BaseException) -> bool:
    """Return whether Python code raised the error. Filesystems in Python may raise I/O errors without an errno.

    Arrow also sets no errno if data is malformed.
    """
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and not traceback.tb_frame.f_code.co_filename.endswith((".pxi", ".pyx"))


def _is_about_keys(message: str) -> bool:
    # If the key of a column is missing, pyarrow reports a wrong key length.
    return "crypt" in message or "key length" in message


def check_complete(name: str, found: int, expected: int) -> None:
    """Raise `UnsupportedError` if pyarrow returned fewer rows of a file than its row groups have.

    pyarrow ends a row group without an error before a page without values.
    """
    if found != expected:
        raise UnsupportedError(
            f"{name}: pyarrow reads only {found:,} of {expected:,} rows, probably because a page has no values; write "
            "the file again, for example with DuckDB"
        )


class Rows(Protocol):
    """A source of rows of a table."""

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the live rows with the columns of a schema."""


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """The rows of one file that is opened by its name. All rows come from the same version of the file."""

    rows: Rows
    version: Callable[[], Version | None]
    name: str
    # The row groups to read in the planned version of the file; None for all. Other versions are read completely.
    row_groups: Sequence[int] | None = None
    # The token of the planned version, or None if the table's format never replaces a file.
    token: str | None = None

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the live rows with the columns of a schema."""

        def read(version: Version | None) -> Iterator[pa.RecordBatch]:
            is_planned = self.token is None or (version is not None and self.token == version.token != "")
            if self.row_groups is None or not is_planned or not isinstance(self.rows, FileRows):
                return self.rows.batches(schema)
            return replace(self.rows, row_groups=self.row_groups).batches(schema)

        return checked(read, self.version, self.name)


@dataclass(frozen=True, slots=True)
class FileRows:
    """Reads the rows of a file as rows of its table."""

    # Opens the file for pyarrow. Each read opens it again.
    open: Callable[[], Any]
    # The name of the file in messages.
    name: str
    matching: Matching = BY_NAME
    # Columns with a constant value. The file's columns of these names are ignored.
    constants: Mapping[str, object] = field(default_factory=dict)
    # Takes the number of rows of the file, and returns the positions of deleted rows in ascending order.
    deleted: Callable[[int], Sequence[int]] = lambda rows: ()
    # Returns the keys of an encrypted file for pyarrow.
    decryption: Callable[[], Any] | None = None
    # The row groups to read, if no rows are deleted; None for all.
    row_groups: Sequence[int] | None = None
    # Why the value of a column with a constant is not certain. Such a column cannot be read if its constant is null.
    doubtful: Mapping[str, str] = field(default_factory=dict)

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the live rows in the file's order, with the columns of a schema. Missing columns have defaults."""
        with foreign(self.name, keyed=self.decryption is not None), self._open_file() as file:
            fields = list(file.schema_arrow)
            numbers, paths = self._find(schema, fields)
            deleted, start = self.deleted(file.metadata.num_rows), 0
            # Positions of deleted rows count the rows of all row groups.
            groups = None if len(deleted) else self.row_groups
            targets = {fields[n].name: target.type for target, n in zip(schema, numbers, strict=True) if n is not None}
            for batch in self._read_all(file, paths, targets, groups):
                arrays = []
                for target, number in zip(schema, numbers, strict=True):
                    if number is None:
                        arrays.append(self.absent(target, batch.num_rows))
                        continue
                    places = batch.schema.get_all_field_indices(fields[number].name)
                    if len(places) != 1:
                        raise UnsupportedError(f"{self.name} has several columns named {fields[number].name!r}")
                    try:
                        arrays.append(conform(batch.column(places[0]), target.type, self.matching))
                    except UnsupportedError as error:
                        raise UnsupportedError(f"{self.name}, column {target.name}: {error}") from error
                all_rows = pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch
                yield _without_deleted(all_rows, start, deleted)
                start += batch.num_rows
            chosen = range(file.num_row_groups) if groups is None else groups
            check_complete(self.name, start, sum(file.metadata.row_group(group).num_rows for group in chosen))

    def count(self) -> int:
        """Return the number of rows from the file's footer, including deleted rows."""
        with foreign(self.name, keyed=self.decryption is not None), self._open_file() as file:
            return int(file.metadata.num_rows)

    def read_a_little(self, schema: pa.Schema) -> None:
        """Read one row of each row group, as a cheap way to raise the errors that reading all rows would raise."""
        with foreign(self.name), self._open_file() as file:
            fields = list(file.schema_arrow)
            _, paths = self._find(schema, fields)
            for group in range(file.num_row_groups):
                next(file.iter_batches(1, row_groups=[group], columns=paths), None)

    def _open_file(self, **options: Any) -> pq.ParquetFile:
        properties = None if self.decryption is None else self.decryption()
        return pq.ParquetFile(self.open(), decryption_properties=properties, **options)

    def _find(self, schema: pa.Schema, fields: Sequence[pa.Field]) -> tuple[list[int | None], list[str]]:
        """Return the number of the file's field for each column of a schema, or None, and the dotted paths to read."""
        try:
            find = self.matching.index(fields)
            numbers = [None if column.name in self.constants else find(column) for column in schema]
            found = [(fields[n], target) for target, n in zip(schema, numbers, strict=True) if n is not None]
            return numbers, [path for field, target in found for path in self._paths(field, target)]
        except UnsupportedError as error:
            raise UnsupportedError(f"{self.name}: {error}") from error

    def absent(self, target: pa.Field, rows: int) -> pa.Array:
        """Return the values of a column of the table that are not read from the file.

        Raises `UnsupportedError` if engines disagree about the value.
        """
        if target.name in self.constants:
            value = self.constants[target.name]
            if value is None and target.name in self.doubtful:
                raise UnsupportedError(f"{self.name}: {target.name} is {self.doubtful[target.name]}")
            return constant(value, target.type, rows)
        return self.matching.absent(target, rows)

    def _paths(self, field: pa.Field, target: pa.Field) -> list[str]:
        """Return the dotted paths below a field of the file that a column of the table needs."""
        if not (pt.is_struct(field.type) and pt.is_struct(target.type)):
            return [field.name]
        paths = []
        find = self.matching.index(list(field.type))
        for child in target.type:
            number = find(child)
            if number is not None:
                paths += [f"{field.name}.{below}" for below in self._paths(field.type.field(number), child)]
        # If the struct has none of the table's leaves, its other leaves still show which structs are null.
        return paths or [field.name]

    def _read_all(
        self,
        file: pq.ParquetFile,
        paths: list[str],
        targets: Mapping[str, pa.DataType],
        groups: Sequence[int] | None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some row groups, or of all of them.

        INT96 timestamps are in microseconds, or in nanoseconds if the table has nanoseconds.
        """
        leaves = [file.schema.column(number) for number in range(len(file.schema))]
        int96_paths = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
        int96_paths = [path for path in int96_paths if not set(paths).isdisjoint(_prefixes(path))]
        if not int96_paths:
            yield from file.iter_batches(BATCH_ROWS, row_groups=groups, columns=paths)
            return
        if any("." in path for path in int96_paths):
            raise UnsupportedError(f"{self.name}: {int96_paths[0]} is a nested INT96, which is not supported")
        with self._open_file(coerce_int96_timestamp_unit="us") as file_in_micros:

            def read(group: int) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
                nanos = file.iter_batches(BATCH_ROWS, row_groups=[group], columns=paths)
                micros = file_in_micros.iter_batches(BATCH_ROWS, row_groups=[group], columns=int96_paths)
                return zip(nanos, micros, strict=True)

            # pyarrow begins a batch with each row group only if it reads dictionaries, so read one at a time.
            pairs = chain.from_iterable(map(read, range(file.num_row_groups) if groups is None else groups))
            for batch, micros in pairs:
                for name in int96_paths:
                    place = batch.schema.get_field_index(name)
                    try:
                        values = _instants(batch.column(place), micros.column(name), targets.get(name))
                    except pa.ArrowInvalid as error:
                        # The timestamp is valid, so the file is not damaged.
                        raise UnsupportedError(
                            f"{self.name}: {error}; INT96 timestamps can only be read from 1678 to 2261"
                        ) from error
                    batch = batch.set_column(place, name, values)
                yield batch


def _prefixes(path: str) -> list[str]:
    """Return a dotted path, and the path of each column that may contain it."""
    return [path, *(path[:place] for place, character in enumerate(path) if character == ".")]


def _without_deleted(batch: pa.RecordBatch, start: int, deleted: Sequence[int]) -> pa.RecordBatch:
    """Return the live rows of a batch that begins at position `start` of the file."""
    first = bisect_left(deleted, start)
    last = bisect_left(deleted, start + batch.num_rows)
    if first == last:
        return batch
    kept = bytearray(b"\1") * batch.num_rows
    for position in deleted[first:last]:
        kept[position - start] = 0
    mask = pa.Array.from_buffers(pa.uint8(), len(kept), [None, pa.py_buffer(kept)])
    return batch.filter(mask.cast(pa.bool_()))


def _instants(nanos: pa.Array, micros: pa.Array, target: pa.DataType | None) -> pa.Array:
    if target is not None and pt.is_timestamp(target) and target.unit != "ns":
        values = micros
    else:
        # Nanoseconds overflow outside the years 1677 to 2262. The safe cast of the microseconds detects this.
        micros.cast(pa.timestamp("ns"), safe=True)
        values = nanos
    if target is not None and pt.is_timestamp(target) and target.tz is not None:
        return values.view(pa.int64()).view(pa.timestamp(values.type.unit, target.tz))
    return values


def leaves(batches: Iterator[pa.RecordBatch], columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
    """Yield batches with one column for each leaf, named by its dotted path."""
    names = [".".join(path) for path in columns]
    for batch in batches:
        # Index builds read keys in threads. On Ctrl-C, the threads stop here.
        interrupts.check()
        yield pa.RecordBatch.from_arrays([leaf_of(batch, path) for path in columns], names=names)


def selected(
    files: Iterable[Rows], schema: pa.Schema, columns: Sequence[str] | None, filter: Any
) -> pa.RecordBatchReader:
    """Return the matching rows of some files with the given columns."""
    names = list(schema.names if columns is None else columns)
    # pyarrow has no function that returns the columns of a filter, so read all columns.
    needed = schema if filter is not None else pa.schema([schema.field(name) for name in dict.fromkeys(names)])
    return matching((batch for file in files for batch in file.batches(needed)), needed, names, filter)

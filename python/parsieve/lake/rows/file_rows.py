"""The rows of one Parquet file as those of its table: columns matched, widened exactly, deleted positions left out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from parsieve._core import DecryptionError, FormatError, UnsupportedError
from parsieve.io import interrupts
from parsieve.lake.base import ColumnPath
from parsieve.lake.rows.columns import BY_NAME, Matching, conform, constant, leaf_of
from parsieve.lake.rows.streams import matching
from parsieve.lake.storage.pinned import Version, checked

BATCH_ROWS = 64 * 1024


@contextmanager
def foreign(what: str, keyed: bool = False) -> Iterator[None]:
    """Failures of a library on somebody's bytes, as ours; those of the disk and the network stay what they are.

    `keyed` tells that it had keys, so that what stays closed is for want of the right ones.
    """
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"{what}: {error}") from error
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError, pa.ArrowSerializationError) as error:
        if keyed and "crypt" in str(error):
            raise DecryptionError(f"{what}: not the right keys: {error}") from error
        if "magic bytes not found" in str(error):
            raise FormatError(f"not a Parquet file: {what} (missing PAR1 footer)") from error
        if "smaller than the minimum file footer" in str(error):
            raise FormatError(f"not a Parquet file: {what} (too short for a footer)") from error
        raise FormatError(f"{what}: {error}") from error
    except OSError as error:
        if error.errno is not None or _is_of_python(error):
            raise
        if keyed and _is_of_keys(str(error)):
            raise DecryptionError(
                f"{what}: a key is missing or wrong, or it is a column's own, which pyarrow takes from a KMS alone "
                f"(decryption=(kms, connection)): {error}"
            ) from error
        if "crypt" in str(error):
            raise UnsupportedError(f"{what} is encrypted: {error}") from error
        raise FormatError(f"{what}: {error}") from error


def _is_of_python(error: BaseException) -> bool:
    """Whether a filesystem written in Python raised it, which gives no number; Arrow gives none to damaged bytes."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and not at.tb_frame.f_code.co_filename.endswith((".pxi", ".pyx"))


def _is_of_keys(said: str) -> bool:
    # The second is what pyarrow says of a column without a key.
    return "crypt" in said or "key length" in said


class Rows(Protocol):
    """What can be read as rows of a table."""

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The live rows with the columns of a schema."""


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """The rows of one file that is opened by its name, all of the same version."""

    rows: Rows
    version: Callable[[], Version | None]
    name: str

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The live rows with the columns of a schema."""
        return checked(lambda: self.rows.batches(schema), self.version, self.name)


@dataclass(frozen=True, slots=True)
class FileRows:
    """How the rows of a file become rows of its table."""

    # Opens the file anew for each reading, as pyarrow takes it.
    open: Callable[[], Any]
    # How messages call the file.
    name: str
    matching: Matching = BY_NAME
    # Columns that do not come from the file, whatever it holds.
    constants: Mapping[str, object] = field(default_factory=dict)
    # Positions of deleted rows, ascending, of a file with so many rows.
    deleted: Callable[[int], Sequence[int]] = lambda rows: ()
    # What pyarrow decrypts the file by, if anything.
    decryption: Callable[[], Any] | None = None

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The live rows with the columns of a schema, in the file's order; columns that the file lacks are null."""
        with foreign(self.name, keyed=self.decryption is not None), self._opened() as file:
            held = list(file.schema_arrow)
            numbers = self._places(schema, held)
            wanted = [
                path
                for target, number in zip(schema, numbers, strict=True)
                if number is not None
                for path in self._paths(held[number], target)
            ]
            deleted, start = self.deleted(file.metadata.num_rows), 0
            targets = {held[n].name: one.type for one, n in zip(schema, numbers, strict=True) if n is not None}
            for batch in self._whole(file, wanted, targets):
                arrays = []
                for target, number in zip(schema, numbers, strict=True):
                    if number is None:
                        arrays.append(self._absent(target, batch.num_rows))
                        continue
                    place = batch.schema.get_all_field_indices(held[number].name)
                    if len(place) != 1:
                        raise UnsupportedError(f"{self.name} has several columns named {held[number].name!r}")
                    try:
                        arrays.append(conform(batch.column(place[0]), target.type, self.matching))
                    except UnsupportedError as error:
                        raise UnsupportedError(f"{self.name}, column {target.name}: {error}") from error
                whole = pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch
                yield _live(whole, start, deleted)
                start += batch.num_rows

    def count(self) -> int:
        """Return how many rows the file has by its footer, deleted ones included."""
        with foreign(self.name, keyed=self.decryption is not None), self._opened() as file:
            return int(file.metadata.num_rows)

    def read_a_little(self, schema: pa.Schema) -> None:
        """Read some rows of each row group: the same errors, at a small part of the price."""
        with foreign(self.name), self._opened() as file:
            held = list(file.schema_arrow)
            numbers = self._places(schema, held)
            paths = [
                path
                for target, number in zip(schema, numbers, strict=True)
                if number is not None
                for path in self._paths(held[number], target)
            ]
            for group in range(file.num_row_groups if paths else 0):
                next(file.iter_batches(1, row_groups=[group], columns=paths), None)

    def _opened(self, **options: Any) -> pq.ParquetFile:
        properties = None if self.decryption is None else self.decryption()
        return pq.ParquetFile(self.open(), decryption_properties=properties, **options)

    def _places(self, schema: pa.Schema, held: Sequence[pa.Field]) -> list[int | None]:
        """Return where the file holds each column of a schema."""
        find = self.matching.index(held)
        return [None if one.name in self.constants else find(one) for one in schema]

    def _absent(self, target: pa.Field, rows: int) -> pa.Array:
        if target.name in self.constants:
            return constant(self.constants[target.name], target.type, rows)
        return self.matching.absent(target, rows)

    def _paths(self, held: pa.Field, target: pa.Field) -> list[str]:
        """The dotted paths of a file's column that a column of the table needs."""
        if not (pt.is_struct(held.type) and pt.is_struct(target.type)):
            return [held.name]
        found = []
        find = self.matching.index(list(held.type))
        for child in target.type:
            number = find(child)
            if number is not None:
                found += [f"{held.name}.{below}" for below in self._paths(held.type.field(number), child)]
        # The struct's own nulls are told by any of its leaves.
        return found or [held.name]

    def _whole(
        self, file: pq.ParquetFile, wanted: list[str], targets: Mapping[str, pa.DataType]
    ) -> Iterator[pa.RecordBatch]:
        """All rows, with INT96 as what it is: an instant in microseconds unless it needs nanoseconds."""
        wanted_paths = set(wanted)
        leaves = [file.schema.column(number) for number in range(len(file.schema))]
        ancient = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
        ancient = [path for path in ancient if not wanted_paths.isdisjoint(_prefixes(path))]
        if not ancient:
            yield from file.iter_batches(BATCH_ROWS, columns=wanted)
            return
        if any("." in path for path in ancient):
            raise UnsupportedError(f"{self.name}: {ancient[0]} is a nested INT96, which is not supported")
        with self._opened(coerce_int96_timestamp_unit="us") as wide:
            pairs = zip(
                file.iter_batches(BATCH_ROWS, columns=wanted),
                wide.iter_batches(BATCH_ROWS, columns=ancient),
                strict=True,
            )
            for batch, micros in pairs:
                for name in ancient:
                    place = batch.schema.get_field_index(name)
                    try:
                        values = _instants(batch.column(place), micros.column(name), targets.get(name))
                    except pa.ArrowInvalid as error:
                        # As good a moment as any to who wrote it, so the file is not damaged.
                        raise UnsupportedError(
                            f"{self.name}: {error}; what is stored as INT96 is read as nanoseconds, of 1678 to 2261"
                        ) from error
                    batch = batch.set_column(place, name, values)
                yield batch


def _prefixes(path: str) -> list[str]:
    """Return a dotted path and everything that it may lie below."""
    return [path, *(path[:place] for place, sign in enumerate(path) if sign == ".")]


def _live(batch: pa.RecordBatch, start: int, deleted: Sequence[int]) -> pa.RecordBatch:
    """The rows of a batch that begins at a position, without those that are deleted."""
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
        found = micros
    else:
        # Nanoseconds wrap around outside the years 1677 to 2262; microseconds show it.
        micros.cast(pa.timestamp("ns"), safe=True)
        found = nanos
    if target is not None and pt.is_timestamp(target) and target.tz is not None:
        return found.view(pa.int64()).view(pa.timestamp(found.type.unit, target.tz))
    return found


def leaves(batches: Iterator[pa.RecordBatch], columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
    """Batches with one column for each leaf, named by its dotted path."""
    names = [".".join(path) for path in columns]
    for batch in batches:
        # Builds read keys in threads, which stop here on Ctrl-C.
        interrupts.check()
        yield pa.RecordBatch.from_arrays([leaf_of(batch, path) for path in columns], names=names)


def selected(
    files: Iterable[Rows], schema: pa.Schema, columns: Sequence[str] | None, filter: Any
) -> pa.RecordBatchReader:
    """The rows of some files that match, with the columns asked for."""
    names = list(schema.names if columns is None else columns)
    # What a filter names cannot be asked of it.
    needed = schema if filter is not None else pa.schema([schema.field(name) for name in dict.fromkeys(names)])
    return matching((batch for file in files for batch in file.batches(needed)), needed, names, filter)

"""Build the slices of a Delta table from the columns of its log."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parsieve.lake.delta.files import LogFiles
from parsieve.lake.delta.schema import DoubtfulValueError, partition_value, physical
from parsieve.lake.delta.statistics import row_counts
from parsieve.lake.rows.columns import Matching
from parsieve.lake.slices import PartitionColumn, Slices, repeated
from parsieve.lake.storage.storage import Storage
from parsieve.sharing import cached_property

# What precedes the path in the address of a local file.
_FILE = re.compile("file:(?://(?:localhost)?)?(?=/)|(?=/)")
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True, eq=False)
class DeltaFile:
    """The adapter's data for reading a data file."""

    storage: Storage
    path: str
    size: int
    vector: Mapping[str, Any] | None
    schema: pa.Schema
    matching: Matching
    constants: Mapping[str, object]
    # Columns whose values engines read in different ways, with the reason.
    doubtful: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class TableState:
    """The properties that all slices of a snapshot share."""

    storage: Storage
    schema: pa.Schema
    matching: Matching
    partitions: Sequence[pa.Field]


@dataclass(frozen=True, slots=True, eq=False)
class _Texts:
    """A partition column in the log: its distinct texts, and their values."""

    column: PartitionColumn
    meanings: Sequence[tuple[object, str]]

    @classmethod
    def of(cls, texts: pa.StringArray, kind: pa.DataType) -> _Texts:
        coded = texts.dictionary_encode()
        distinct: list[str | None] = [*coded.dictionary.to_pylist(), None]
        numbers = pc.fill_null(coded.indices, len(distinct) - 1)
        return cls(PartitionColumn(distinct, numbers), [_meaning(text, kind) for text in distinct])

    def values(self) -> PartitionColumn:
        """Return the values that all engines read in the same way."""
        certain = pa.array([None if doubt else at for at, (_, doubt) in enumerate(self.meanings)], pa.int32())
        return PartitionColumn([value for value, _ in self.meanings], certain.take(self.column.numbers))

    def meaning(self, number: int) -> tuple[object, str]:
        """Return the value of a column in a slice, and why it is doubtful, or ""."""
        position: int = self.column.numbers[number].as_py()
        return self.meanings[position]


def _meaning(text: str | None, kind: pa.DataType) -> tuple[object, str]:
    try:
        value, is_certain = partition_value(text, kind)
    except DoubtfulValueError as doubt:
        # The value is null, not missing, so that readers do not take it from the file.
        return None, str(doubt)
    return value, "" if is_certain else "a time without a zone"


class DeltaSlices(Slices):
    """The slices of a Delta table."""

    def __init__(self, table: TableState, files: LogFiles, texts: Mapping[str, _Texts] | None = None) -> None:
        self._table = table
        self._files = files
        self._texts = texts or {
            field.name: _Texts.of(files.texts(physical(field)), field.type) for field in table.partitions
        }

    def __len__(self) -> int:
        return len(self._files)

    @cached_property
    def partition(self) -> pa.StringArray:
        """The folder names of the partition columns, joined by slashes."""
        folders = []
        for field in self._table.partitions:
            column = self._texts[field.name].column
            names = [f"{physical(field)}={_NULL_FOLDER if text is None else text}" for text in column.values]
            folders.append(pa.array(names, pa.string()).take(column.numbers))
        return pc.binary_join_element_wise(*folders, "/") if folders else repeated("", len(self))

    @property
    def group(self) -> pa.StringArray:
        """The path of each file in the log."""
        return self._files.path

    @cached_property
    def token(self) -> pa.StringArray:
        """The token of each file: its size, its time, its deletion vector, and partition columns of doubles."""
        size, modified = self._files.size.cast(pa.string()), self._files.modified.cast(pa.string())
        # The log has the values of partitions as texts. A float column can become one of doubles, and then the text 0.1
        # is another number.
        doubles = [f"{physical(field)} is double" for field in self._table.partitions if pt.is_float64(field.type)]
        return pc.binary_join_element_wise(size, modified, self._files.vector_ids, *doubles, "-")

    @cached_property
    def path(self) -> pa.StringArray:
        """The path of each file for engines."""
        storage = self._table.storage
        inside = pc.binary_join_element_wise(storage.address(storage.join("")), self._files.path, "")
        outside = _is_outside(self._files.path)
        if not pc.any(outside).as_py():
            return inside
        places = [self._place(path) for path in self._files.path.filter(outside).to_pylist()]
        addresses = pa.array([storage.address(path) for storage, path in places], pa.string())
        return pc.replace_with_mask(inside, outside, addresses)

    @property
    def size(self) -> pa.Int64Array:
        """The bytes of each file."""
        return self._files.size

    @cached_property
    def num_rows(self) -> pa.Int64Array:
        """The number of rows of each file, from its statistics."""
        return row_counts(self._files.stats)

    @property
    def clean(self) -> pa.BooleanArray:
        """Whether each file has no deletion vector."""
        return self._files.clean

    @cached_property
    def partition_values(self) -> Mapping[str, PartitionColumn]:
        """The partition columns, with null positions for uncertain values."""
        return {name: texts.values() for name, texts in self._texts.items()}

    def native(self, number: int) -> DeltaFile:
        """Return the adapter's data for reading a file."""
        storage, path = self._place(self._files.path[number].as_py())
        meanings = {name: texts.meaning(number) for name, texts in self._texts.items()}
        return DeltaFile(
            storage=storage,
            path=path,
            size=self._files.size[number].as_py(),
            vector=self._files.vector[number].as_py(),
            schema=self._table.schema,
            matching=self._table.matching,
            constants={name: value for name, (value, _) in meanings.items()},
            doubtful={name: doubt for name, (_, doubt) in meanings.items() if doubt},
        )

    def select(self, numbers: pa.Array) -> Slices:
        """Return the slices at some positions."""
        texts = {
            name: _Texts(PartitionColumn(texts.column.values, texts.column.numbers.take(numbers)), texts.meanings)
            for name, texts in self._texts.items()
        }
        chosen = DeltaSlices(self._table, self._files.take(numbers), texts)
        if "num_rows" in self.__dict__:
            chosen.__dict__["num_rows"] = self.num_rows.take(numbers)
        return chosen

    def _place(self, path: str) -> tuple[Storage, str]:
        return place_of(self._table.storage, path)


def place_of(table: Storage, path: str) -> tuple[Storage, str]:
    """Return the storage of a file in the log, and its path there. The files of a clone may be in other folders.

    The path has no percent escapes, so an address is not a URI.
    """
    local = _FILE.match(path)
    if local or path.startswith("file:"):
        storage = Storage(Path(path[local.end() :]) if local else path, table.options)
        return storage, storage.root
    if "://" in path:
        # Only the bucket is opened as a URI: a filesystem would decode the rest once more.
        scheme, _, rest = path.partition("://")
        bucket, _, key = rest.partition("/")
        storage = table.bucket(f"{scheme}://{bucket}")
        return storage, storage.join(key)
    return table, table.join(path)


def _is_outside(paths: pa.StringArray) -> pa.BooleanArray:
    return pc.or_(pc.match_substring(paths, "://"), pc.or_(pc.starts_with(paths, "/"), pc.starts_with(paths, "file:")))

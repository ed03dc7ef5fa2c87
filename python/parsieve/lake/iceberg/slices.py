"""Build the slices of an Iceberg table from the columns of its manifests."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import quote
from urllib.request import url2pathname

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parsieve.lake.bounds import decimal_of
from parsieve.lake.iceberg.manifests import DataFiles, Deletes
from parsieve.lake.iceberg.statistics import partition_reader
from parsieve.lake.rows.columns import Find, Matching
from parsieve.lake.slices import PartitionColumn, Slices, repeated
from parsieve.predicate.elements import FIELD_ID
from parsieve.sharing import cached_property

_NO_DELETES = Deletes()
# What precedes the path in a local location.
_FILE = re.compile("^file:(?://[^/]*)?(?=/)")


@dataclass(frozen=True, slots=True, eq=False)
class IcebergFile:
    """The adapter's data for reading a data file."""

    path: str
    format: str
    is_encrypted: bool
    deletes: Deletes
    io: Any
    schema: pa.Schema
    matching: Matching


class TableState:
    """The properties that all slices of a snapshot share."""

    def __init__(
        self,
        table: Any,
        iceberg_schema: Any,
        schema: pa.Schema,
        names: Mapping[bytes, set[str]],
        find: Callable[..., Find],
        given_io: Any = None,
    ) -> None:
        self.io = table.io
        # The object that opens files, if the caller gave it.
        self.given_io = given_io
        # The names of columns in files without field IDs.
        self.names = names
        self.schema = schema
        self.location = table.location().rstrip("/") + "/"
        self.specs = table.metadata.specs()
        self._iceberg_schema = iceberg_schema
        self._find = find
        # The fields outside of lists and maps, by field ID, and the names of columns.
        self._fields = dict(_fields_by_id(schema))
        self._names = {number: field.name for number, field in _fields_by_id(schema, is_nested=False)}
        self._defaults = _defaults(iceberg_schema.fields)
        # A date that became a timestamp: the values of its partitions are days or microseconds.
        self._changed = {
            number
            for number, field in self._fields.items()
            if pt.is_timestamp(field.type) and any(_was_date(old, number) for old in table.metadata.schemas)
        }
        self._identities: dict[int, list[tuple[int, int, Callable[[Any], Any]]]] = {}

    @cached_property
    def token(self) -> str:
        """A text that changes if the same files are read in another way, or "" if that is impossible."""
        names = sorted((number.decode(), sorted(names)) for number, names in self.names.items())
        nested = {number for number in self._fields if number not in self._names}
        sources = {
            field.source_id
            for spec in self.specs.values()
            for field in spec.fields
            if str(field.transform) == "identity" and field.source_id in nested
        }
        outer = {str(number).encode() for number in self._fields}
        defaults = {number.decode(): repr(value) for number, value in self._defaults.items() if number not in outer}
        if not (names or sources or defaults):
            return ""
        text = json.dumps([names, sorted(sources), defaults], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def folder(self, spec_id: int, record: Any) -> str:
        """Return the path of a partition, "" in a table without partitions."""
        spec = self.specs[spec_id]
        try:
            folder: str = spec.partition_to_path(record, self._iceberg_schema) if spec.fields else ""
        except (ValueError, OverflowError):
            # Python has no dates outside of the years 1 to 9999.
            folder = "/".join(f"{field.name}={record[place]}" for place, field in enumerate(spec.fields))
        return folder

    def values(self, spec_id: int, record: Any) -> dict[int, Any]:
        """Return the values of the columns and nested fields with an identity partition, by field ID."""
        if spec_id not in self._identities:
            self._identities[spec_id] = [
                (place, field.source_id, partition_reader(self._fields[field.source_id].type))
                for place, field in enumerate(self.specs[spec_id].fields)
                if str(field.transform) == "identity"
                and field.source_id in self._fields
                and field.source_id not in self._changed
            ]
        return {number: read(record[place]) for place, number, read in self._identities[spec_id]}

    def is_column(self, number: int) -> bool:
        """Return whether a field ID is that of a column of the table, not of a field in a struct."""
        return number in self._names

    def name(self, number: int) -> str:
        """Return the name of a column by its field ID."""
        return str(self._names[number])

    def matching(self, values: Mapping[int, Any]) -> Matching:
        """Return how to find the columns of files in a partition with these values."""
        defaults = self._defaults | {str(number).encode(): value for number, value in values.items()}
        return Matching(self._find, defaults)


def _fields_by_id(fields: Iterable[pa.Field], is_nested: bool = True) -> Iterator[tuple[int, pa.Field]]:
    """Yield columns, and unless `is_nested` is false also fields in structs, with their field IDs."""
    for field in fields:
        if field.metadata and FIELD_ID in field.metadata:
            yield int(field.metadata[FIELD_ID]), field
        if is_nested and pt.is_struct(field.type):
            yield from _fields_by_id(field.type)


def _was_date(schema: Any, number: int) -> bool:
    """Return whether a field is a date in an Iceberg schema."""
    from pyiceberg.types import DateType

    return schema.find_column_name(number) is not None and isinstance(schema.find_type(number), DateType)


def _defaults(fields: Iterable[Any]) -> dict[bytes, object]:
    """Return the defaults of columns and of fields in structs, by field ID."""
    defaults: dict[bytes, object] = {}
    for field in fields:
        kind = field.field_type
        if (default := getattr(field, "initial_default", None)) is not None:
            if isinstance(default, Decimal):
                default = decimal_of(default, kind.precision, kind.scale)
            defaults[str(field.field_id).encode()] = default
        inner = [getattr(kind, name) for name in ("element_field", "key_field", "value_field") if hasattr(kind, name)]
        defaults |= _defaults([*getattr(kind, "fields", ()), *inner])
    return defaults


@dataclass(frozen=True, slots=True, eq=False)
class _Partition:
    """The properties that all files of a partition share."""

    folder: str
    values: Mapping[int, Any]
    matching: Matching


class IcebergSlices(Slices):
    """The slices of an Iceberg table."""

    def __init__(self, table: TableState, files: DataFiles, partitions: list[_Partition] | None = None) -> None:
        self._table = table
        self.files = files
        self._partitions = [] if partitions is None else partitions
        for (spec_id, _), record in files.partitions if partitions is None else ():
            values = table.values(spec_id, record)
            known = {number: value for number, value in values.items() if not isinstance(value, pa.Scalar)}
            self._partitions.append(_Partition(table.folder(spec_id, record), known, table.matching(values)))

    def __len__(self) -> int:
        return len(self.files)

    @cached_property
    def partition(self) -> pa.StringArray:
        """The path of each file's partition."""
        if not self._partitions:
            return repeated("", len(self))
        folders = pa.array([partition.folder for partition in self._partitions], pa.string())
        return folders.take(self.files["partition"])

    @cached_property
    def group(self) -> pa.StringArray:
        """The path of each file below the table's location, or its address if it is outside."""
        paths = self.files["path"]
        is_below = pc.starts_with(paths, self._table.location)
        length = len(self._table.location.encode())
        below = pc.binary_slice(paths.view(pa.binary()), length, (1 << 31) - 1).view(pa.string())
        return pc.if_else(is_below, below, paths)

    @cached_property
    def token(self) -> pa.StringArray:
        """The token of each file: its size, its number of rows, its commit, how it is read, and its deletes."""
        numbers = (self.files[name].cast(pa.string()) for name in ("size", "rows", "sequence", "snapshot"))
        tokens = pc.binary_join_element_wise(*numbers, "-")
        if self._table.token:
            tokens = pc.binary_join_element_wise(tokens, self._table.token, "-")
        if not self.files.deletes:
            return tokens
        texts = tokens.to_pylist()
        for number, deletes in self.files.deletes.items():
            texts[number] = "|".join([texts[number], *deletes.identities])
        return pa.array(texts, pa.string())

    @cached_property
    def path(self) -> pa.StringArray:
        """The path of each file for engines."""
        paths = self.files["path"]
        is_local = pc.starts_with(paths, "file:")
        if not pc.any(is_local).as_py():
            return paths
        local = pa.array(map(address_of, paths.filter(is_local).to_pylist()), pa.string())
        return pc.replace_with_mask(paths, is_local, local)

    @property
    def size(self) -> pa.Int64Array:
        """The bytes of each file."""
        return self.files["size"]

    @property
    def num_rows(self) -> pa.Int64Array:
        """The rows of each file."""
        return self.files["rows"]

    @cached_property
    def clean(self) -> pa.BooleanArray:
        """Whether each file has no deletes."""
        deletes = self.files.deletes
        return pa.array([number not in deletes for number in range(len(self))]) if deletes else _all_true(len(self))

    @cached_property
    def partition_values(self) -> Mapping[str, PartitionColumn]:
        """The columns with an identity partition."""
        columns = {}
        numbers = dict.fromkeys(number for partition in self._partitions for number in partition.values)
        for number in filter(self._table.is_column, numbers):
            positions = [at if number in partition.values else None for at, partition in enumerate(self._partitions)]
            values = [partition.values.get(number) for partition in self._partitions]
            places = pa.array(positions, pa.int32()).take(self.files["partition"])
            columns[self._table.name(number)] = PartitionColumn(values, places)
        return columns

    def native(self, number: int) -> IcebergFile:
        """Return the adapter's data for reading a file."""
        partition = self._partitions[self.files["partition"][number].as_py()]
        return IcebergFile(
            path=self.files["path"][number].as_py(),
            format=self.files["format"][number].as_py(),
            is_encrypted=self.files["is_encrypted"][number].as_py(),
            deletes=self.files.deletes.get(number, _NO_DELETES),
            io=self._table.io,
            schema=self._table.schema,
            matching=partition.matching,
        )

    def same_rows(self, other: Slices) -> bool:
        """Return whether both have the same locations and live rows, and read them in the same way."""
        if isinstance(other, IcebergSlices) and self._table.given_io is not other._table.given_io:
            return False
        return super().same_rows(other)

    def select(self, numbers: pa.Array) -> Slices:
        """Return the slices at some positions."""
        return IcebergSlices(self._table, self.files.take(numbers), self._partitions)


def address_of(location: str) -> str:
    """Return the path of a local location, or the location itself.

    Locations are not URIs: a percent sign in them is part of a name. Writers use it to escape partition values.
    """
    path = _FILE.sub("", location)
    return url2pathname(quote(path)) if os.name == "nt" and path != location else path


def _all_true(count: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(True), count)

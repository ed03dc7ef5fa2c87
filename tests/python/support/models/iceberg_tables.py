"""Iceberg tables whose manifests, lists and metadata are written by hand, and a model of their rows."""

from __future__ import annotations

import copy
import datetime as dt
import json
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile as Entry
from pyiceberg.manifest import (
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import Transform, parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField

from support.iceberg_manifests import ManifestFileWriter
from support.models.iceberg_files import (
    TYPES,
    DataFile,
    EqualityDeletes,
    IcebergColumn,
    PositionDeletes,
    WrittenFile,
    local,
)
from support.models.odd_values import EPOCH
from support.models.table_states import UID, LiveRow, State

_ADDED, _EXISTING, _DELETED = ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED
_START_MS = 1_767_225_600_000


@dataclass(frozen=True)
class PartitionRule:
    """A field of a partition specification."""

    source: int
    id: int
    transform: str

    @property
    def name(self) -> str:
        return f"p{self.id}"

    @property
    def is_void(self) -> bool:
        return self.transform == "void"

    def apply(self, kind: pa.DataType, value: Any) -> Any:
        """Return the value of the partition for a value of a type."""
        if self.transform == "identity" or value is None:
            return value
        transform: Transform[Any, Any] = parse_transform(self.transform)
        return transform.transform(TYPES[kind])(internal(value))


Spec = tuple[PartitionRule, ...]


def internal(value: Any) -> Any:
    """Convert a date or a time to the integer that Iceberg stores. Return other values unchanged."""
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    return (value - EPOCH.date()).days if isinstance(value, dt.date) else value


@dataclass
class Content:
    """The files of a snapshot."""

    files: list[DataFile] = field(default_factory=list)
    deletes: list[PositionDeletes | EqualityDeletes] = field(default_factory=list)

    def copied(self) -> Content:
        return Content(list(self.files), list(self.deletes))

    def positions(self) -> list[PositionDeletes]:
        return [deletes for deletes in self.deletes if isinstance(deletes, PositionDeletes)]

    def deleted_positions(self, file: DataFile) -> set[int]:
        """Return the rows of a file that position deletes or a deletion vector delete."""
        gone: set[int] = set()
        for deletes in self.positions():
            is_for_file = deletes.target is not None or deletes.place == file.place
            if deletes.sequence >= file.sequence and is_for_file:
                gone |= deletes.positions.get(file.path, set())
        return gone


@dataclass
class Version:
    """A snapshot with its columns."""

    content: Content
    columns: list[IcebergColumn]


class IcebergTable:
    """A table that commits the files that it is given."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        (folder / "metadata").mkdir(parents=True)
        (folder / "data").mkdir()
        self.folder, self.chance = folder, chance
        self.format_version: Literal[2, 3] = chance.choice([2, 3, 3])
        self.columns = [IcebergColumn(1, UID, pa.int64())]
        self.specs: list[Spec] = [()]
        self.content = Content()
        self.snapshots: dict[int, Version] = {}
        self.current: int | None = None
        # The names of columns in files without field IDs. They are unique, even among dropped columns.
        self.mapped_names = {1: UID}
        self.has_name_mapping = chance.random() < 0.4
        self.metadata_file = ""
        # The newest type of each column, including dropped ones.
        self.types: dict[int, pa.DataType] = {1: pa.int64()}
        self._schemas: list[list[IcebergColumn]] = []
        self._described: list[dict[str, Any]] = []
        self._location = f"file://{folder}"
        self._id = str(uuid.UUID(int=chance.getrandbits(128)))
        self._io = PyArrowFileIO()
        self.sequence = self.snapshot = 0
        self._named = self._written = 0

    # The model

    def value(self, file: DataFile, column: IcebergColumn, row: int) -> Any:
        """Return a value of a file: stored, or of its partition, or the default."""
        if column.id in file.values:
            return file.values[column.id][row]
        for rule, value in zip(self.specs[file.spec], file.partition, strict=True):
            if rule.source == column.id and rule.transform == "identity":
                return value
        return column.default

    def is_unpartitioned(self, spec: int) -> bool:
        return all(rule.is_void for rule in self.specs[spec])

    def equality_deletes(self, content: Content, file: DataFile) -> list[EqualityDeletes]:
        """Return the equality deletes that readers have to apply to a file."""
        return [
            deletes
            for deletes in content.deletes
            if isinstance(deletes, EqualityDeletes)
            and deletes.sequence > file.sequence
            and (self.is_unpartitioned(deletes.spec) or deletes.place == file.place)
        ]

    def _equals_key(self, deletes: EqualityDeletes, file: DataFile, row: int) -> bool:
        return tuple(self.value(file, column, row) for column in deletes.columns) in deletes.keys

    def live(self, content: Content, files: Sequence[DataFile], columns: Sequence[IcebergColumn]) -> list[LiveRow]:
        """Return the rows of some files that are not deleted."""
        found = []
        for file in files:
            gone, keyed = content.deleted_positions(file), self.equality_deletes(content, file)
            for row in range(file.count):
                if row not in gone and not any(self._equals_key(deletes, file, row) for deletes in keyed):
                    values = {column.id: self.value(file, column, row) for column in columns}
                    found.append(LiveRow(values, local(file.path)))
        return found

    def state(self, as_of: int | None = None) -> State:
        if as_of is None:
            content, columns = self.snapshots[self.current].content if self.current else Content(), self.columns
        else:
            content, columns = self.snapshots[as_of].content, self.snapshots[as_of].columns
        refused = {local(file.path) for file in content.files if self.equality_deletes(content, file)}
        return State(columns, self.live(content, content.files, columns), frozenset(refused))

    def versions(self) -> list[int]:
        return list(self.snapshots)

    # Files and commits

    def new_path(self, extension: str) -> str:
        """Return the path of a new file. Some have characters that URLs and partitions write in another way."""
        self._named += 1
        ending = self.chance.choice(["", "", " x", " y", "=ü", "%20", "%25z"])
        return f"{self._location}/data/f{self._named:05}{ending}.{extension}"

    def begin(self) -> None:
        """Begin a snapshot."""
        self.sequence += 1
        self.snapshot = self.chance.randrange(1, 1 << 62)

    def commit(self) -> None:
        """Write the manifests, the list and the metadata of the snapshot."""
        before = self.snapshots[self.current].content if self.current else Content()
        manifests = self._write_manifests(before.files, self.content.files, ManifestContent.DATA)
        manifests += self._write_manifests(before.deletes, self.content.deletes, ManifestContent.DELETES)
        listing = f"{self._location}/metadata/snap-{self.snapshot}.avro"
        output = self._io.new_output(listing)
        with write_manifest_list(2, output, self.snapshot, self.current, self.sequence, "null") as lists:
            lists.add_manifests(manifests)
        described = {"snapshot-id": self.snapshot, "sequence-number": self.sequence, "manifest-list": listing}
        described |= {"timestamp-ms": _START_MS + self.sequence, "summary": {"operation": "overwrite"}}
        described |= {"schema-id": self._schema_id()}
        described |= {"parent-snapshot-id": self.current} if self.current else {}
        described |= {"first-row-id": 0, "added-rows": 0} if self.format_version == 3 else {}
        self._described.append(described)
        self.current = self.snapshot
        self.snapshots[self.snapshot] = Version(self.content.copied(), copy.deepcopy(self.columns))
        self.write_metadata()

    def _write_manifests(
        self, before: Sequence[WrittenFile], files: Sequence[WrittenFile], kind: ManifestContent
    ) -> list[ManifestFile]:
        """Write manifests, each for some of the new, old or removed files of a specification."""
        listed = [(file, _ADDED if file.snapshot == self.snapshot else _EXISTING) for file in files]
        listed += [(file, _DELETED) for file in before if file not in files and self.chance.random() < 0.5]
        groups: dict[tuple[int, ManifestEntryStatus, int], list[WrittenFile]] = {}
        for file, status in listed:
            groups.setdefault((file.spec, status, self.chance.randrange(2)), []).append(file)
        return [self._write_manifest(kind, spec, status, group) for (spec, status, _), group in groups.items()]

    def _write_manifest(
        self, kind: ManifestContent, spec: int, status: ManifestEntryStatus, files: Sequence[WrittenFile]
    ) -> ManifestFile:
        place = f"{self._location}/metadata/m{uuid.UUID(int=self.chance.getrandbits(128))}.avro"
        schema = Schema(*[NestedField(id_, f"x{id_}", TYPES[kind]) for id_, kind in self.types.items()])
        arguments = (self._spec(spec), schema, self._io.new_output(place), self.snapshot)
        compression = self.chance.choice(["null", "gzip"])
        with ManifestFileWriter(kind, self.format_version, *arguments, compression) as writer:
            for file in files:
                writer.add_entry(self._entry(file, status))
        return writer.to_manifest_file()

    def _spec(self, number: int) -> PartitionSpec:
        fields = [
            PartitionField(rule.source, rule.id, parse_transform(rule.transform), rule.name)
            for rule in self.specs[number]
        ]
        return PartitionSpec(*fields, spec_id=number)

    def _entry(self, file: WrittenFile, status: ManifestEntryStatus) -> ManifestEntry:
        """Return the entry of a file. New files may inherit their snapshot and sequence number."""
        inherits = status == _ADDED and self.chance.random() < 0.6
        snapshot = self.snapshot if status == _DELETED else file.snapshot
        sequence = None if inherits else file.sequence
        described = Entry.from_args(
            _table_format_version=self.format_version,
            partition=Record(*map(internal, file.partition)),
            **file.entry,
        )
        return ManifestEntry.from_args(
            _table_format_version=self.format_version,
            status=status,
            snapshot_id=None if inherits and self.chance.random() < 0.5 else snapshot,
            sequence_number=sequence,
            file_sequence_number=sequence,
            data_file=described,
        )

    # Metadata

    def _schema_id(self) -> int:
        """Return the number of the schema of the present columns."""
        if self.columns not in self._schemas:
            self._schemas.append([replace(column) for column in self.columns])
        return self._schemas.index(self.columns)

    def write_metadata(self) -> None:
        """Write the metadata with the present columns, specifications and snapshots."""
        schema_id = self._schema_id()
        about: dict[str, Any] = {"format-version": self.format_version, "table-uuid": self._id}
        about |= {"location": self._location, "last-sequence-number": self.sequence}
        about |= {"last-updated-ms": _START_MS + self.sequence, "last-column-id": max(self.types)}
        about |= {"schemas": [_schema(number, columns) for number, columns in enumerate(self._schemas)]}
        about |= {"current-schema-id": schema_id, "default-spec-id": len(self.specs) - 1}
        about |= {"partition-specs": [_spec_fields(number, spec) for number, spec in enumerate(self.specs)]}
        about |= {"last-partition-id": max((rule.id for spec in self.specs for rule in spec), default=999)}
        about |= {"sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0}
        about |= {"snapshots": self._described, "properties": self._properties(), "metadata-log": [], "refs": {}}
        log = [{name: one[name] for name in ("snapshot-id", "timestamp-ms")} for one in self._described]
        about |= {"snapshot-log": log}
        about |= {"next-row-id": 10**6} if self.format_version == 3 else {}
        if self.current:
            about |= {"current-snapshot-id": self.current}
            about |= {"refs": {"main": {"snapshot-id": self.current, "type": "branch"}}}
        self._written += 1
        place = self.folder / "metadata" / f"v{self._written}.metadata.json"
        place.write_text(json.dumps(about))
        self.metadata_file = str(place)

    def _properties(self) -> dict[str, str]:
        if not self.has_name_mapping:
            return {}
        names = [{"field-id": id_, "names": [name]} for id_, name in self.mapped_names.items()]
        return {"schema.name-mapping.default": json.dumps(names)}


def _schema(number: int, columns: Sequence[IcebergColumn]) -> dict[str, Any]:
    return {"type": "struct", "schema-id": number, "fields": [_field(column) for column in columns]}


def _field(column: IcebergColumn) -> dict[str, Any]:
    described = {"id": column.id, "name": column.name, "required": False, "type": str(TYPES[column.type])}
    if column.default is None:
        return described
    default = _json_default(column.default)
    return described | {"initial-default": default, "write-default": default}


def _json_default(value: Any) -> Any:
    """Return a default value in the JSON form of the table's metadata."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="microseconds")
    return value if isinstance(value, bool | int | float | str) else str(value)


def _spec_fields(number: int, spec: Spec) -> Mapping[str, Any]:
    fields = [
        {"source-id": rule.source, "field-id": rule.id, "name": rule.name, "transform": rule.transform} for rule in spec
    ]
    return {"spec-id": number, "fields": fields}

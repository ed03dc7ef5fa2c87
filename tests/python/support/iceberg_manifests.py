"""Iceberg tables whose manifests contain what pyiceberg does not write: deletes, and partitions with any values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    read_manifest_list,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record, TableVersion

_DELETED_PATH = 2147483546


class ManifestFileWriter(ManifestWriterV2):
    """Write manifests of any content and format version. pyiceberg writes no delete manifests, and not version 3."""

    def __init__(self, content: ManifestContent, version: TableVersion, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._content, self._version = content, version

    def content(self) -> ManifestContent:
        return self._content

    @property
    def version(self) -> TableVersion:
        return self._version

    @property
    def _meta(self) -> dict[str, str]:
        return super()._meta | {"content": "data" if self._content == ManifestContent.DATA else "deletes"}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        # Entries have the fields of the version in which pyiceberg writes the file.
        schema = self._with_partition(self._version)
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=schema,
            record_schema=schema,
            schema_name="manifest_entry",
            metadata=self._meta,
        )

    def add_entry(self, entry: ManifestEntry) -> ManifestWriter:
        written = super().add_entry(entry)
        # pyiceberg cannot summarize NaN.
        self._partitions = []
        return written


class HandWrittenTable:
    """A table in a folder. Each call that adds a file commits a snapshot."""

    def __init__(self, folder: Path, schema: Schema, *specs: PartitionSpec) -> None:
        (folder / "metadata").mkdir(parents=True)
        self.folder, self.schema, self.specs = folder, schema, specs
        self._io = PyArrowFileIO()
        self._manifests: list[ManifestFile] = []
        self._snapshots: list[dict[str, Any]] = []

    @property
    def metadata(self) -> str:
        """The newest metadata file."""
        return str(self.folder / "metadata" / f"v{len(self._snapshots)}.metadata.json")

    def add_rows(self, rows: pa.Table, spec_id: int, *partition: Any) -> str:
        """Commit a data file, and return its path in the manifest."""
        fields = [
            pa.field(
                name,
                rows.schema.field(name).type,
                metadata={"PARQUET:field_id": str(self.schema.find_field(name).field_id)},
            )
            for name in rows.column_names
        ]
        return self._add(DataFileContent.DATA, rows.cast(pa.schema(fields)), spec_id, partition)

    def add_file(self, rows: pa.Table, spec_id: int, *partition: Any) -> str:
        """Commit a data file whose columns have only the field IDs in their metadata."""
        return self._add(DataFileContent.DATA, rows, spec_id, partition)

    def change_metadata(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the newest metadata file in place, as if another writer had written it."""
        about = json.loads(Path(self.metadata).read_text())
        change(about)
        Path(self.metadata).write_text(json.dumps(about))

    def delete_rows(
        self, path: str, rows: Sequence[int], spec_id: int, *partition: Any, bounds: str | None = None
    ) -> None:
        """Commit position deletes of a data file. `bounds` is the lower and the upper bound of the only path."""
        table = pa.table({"file_path": [path] * len(rows), "pos": pa.array(rows, pa.int64())})
        paths = None if bounds is None else {_DELETED_PATH: bounds.encode()}
        self._add(DataFileContent.POSITION_DELETES, table, spec_id, partition, lower_bounds=paths, upper_bounds=paths)

    def delete_keys(self, rows: pa.Table, spec_id: int, *partition: Any) -> None:
        """Commit equality deletes."""
        ids = [self.schema.find_field(name).field_id for name in rows.column_names]
        self._add(DataFileContent.EQUALITY_DELETES, rows, spec_id, partition, equality_ids=ids)

    def _add(
        self, content: DataFileContent, rows: pa.Table, spec_id: int, partition: Sequence[Any], **more: Any
    ) -> str:
        snapshot = len(self._snapshots) + 1
        house, place = f"file://{self.folder}/metadata", self.folder / f"{snapshot}.parquet"
        pq.write_table(rows, place)
        path = f"file://{place}"
        file = DataFile.from_args(
            content=content,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(*partition),
            record_count=rows.num_rows,
            file_size_in_bytes=place.stat().st_size,
            **more,
        )
        kind = ManifestContent.DATA if content == DataFileContent.DATA else ManifestContent.DELETES
        output = self._io.new_output(f"{house}/manifest-{snapshot}.avro")
        with ManifestFileWriter(kind, 2, self.specs[spec_id], self.schema, output, snapshot, "null") as writer:
            entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot, data_file=file)
            writer.add_entry(entry)
        listing = f"{house}/snap-{snapshot}.avro"
        with write_manifest_list(
            2, self._io.new_output(listing), snapshot, snapshot - 1 or None, snapshot, "null"
        ) as lists:
            lists.add_manifests([*self._manifests, writer.to_manifest_file()])
        self._manifests = list(read_manifest_list(self._io.new_input(listing)))
        self._snapshots.append(
            {"snapshot-id": snapshot, "sequence-number": snapshot, "timestamp-ms": snapshot, "manifest-list": listing}
            | {"summary": {"operation": "overwrite"}, "schema-id": 0}
        )
        self._write_metadata()
        return path

    def _write_metadata(self) -> None:
        last = len(self._snapshots)
        schema = self.schema.model_dump(mode="json", by_alias=True)
        about: dict[str, Any] = {"format-version": 2, "table-uuid": "1b2f3a4c-0000-4000-8000-000000000000"}
        about |= {"location": f"file://{self.folder}", "last-updated-ms": last, "last-sequence-number": last}
        about |= {"last-column-id": 99, "schemas": [schema | {"schema-id": 0}], "current-schema-id": 0}
        about |= {"partition-specs": [spec.model_dump(mode="json", by_alias=True) for spec in self.specs]}
        about |= {"default-spec-id": 0, "last-partition-id": 1999, "properties": {}}
        about |= {"sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0}
        about |= {"snapshots": self._snapshots, "current-snapshot-id": last}
        about |= {"refs": {"main": {"snapshot-id": last, "type": "branch"}}}
        Path(self.metadata).write_text(json.dumps(about))

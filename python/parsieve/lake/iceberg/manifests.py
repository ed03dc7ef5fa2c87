"""Read the data files and their deletes from Iceberg's manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pyarrow as pa

from parsieve._core import FormatError, UnsupportedError
from parsieve.io.remote_speed import REQUESTS_AT_ONCE

_COUNTS = pa.map_(pa.int32(), pa.int64())
_BOUNDS = pa.map_(pa.int32(), pa.binary())
# The ID of a partition's spec, and the partition's values.
Partition = tuple[int, tuple[Any, ...]]
# The columns of data files, in the order in which `_DataColumns` collects them.
_SCHEMA = pa.schema(
    {
        "path": pa.string(),
        "size": pa.int64(),
        "rows": pa.int64(),
        "added": pa.int64(),
        "sequence": pa.int64(),
        "format": pa.string(),
        "is_encrypted": pa.bool_(),
        "partition": pa.int32(),
        "lower": _BOUNDS,
        "upper": _BOUNDS,
        "null_count": _COUNTS,
        "value_count": _COUNTS,
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class DeleteFile:
    """A file of deletes."""

    # The entry from pyiceberg, with the fields of all format versions.
    file: Any
    kind: str
    sequence: int
    # Since format version 3: the data file of the deletes, and their position in a Puffin file.
    referenced: str | None
    offset: int | None
    length: int | None

    @property
    def identity(self) -> str:
        """A text that identifies the deletes."""
        return f"{self.file.file_path}@{self.offset}" if self.offset is not None else str(self.file.file_path)


@dataclass(frozen=True, slots=True, eq=False)
class Deletes:
    """The deletes that apply to a data file."""

    positions: tuple[DeleteFile, ...] = ()
    equality: tuple[DeleteFile, ...] = ()
    vector: DeleteFile | None = None

    def __bool__(self) -> bool:
        return bool(self.positions or self.equality or self.vector)

    @property
    def identities(self) -> list[str]:
        """The sorted texts that identify the deletes."""
        files = (*self.positions, *self.equality, *filter(None, [self.vector]))
        return sorted(file.identity for file in files)


@dataclass(frozen=True, slots=True, eq=False)
class DataFiles:
    """The data files of a snapshot, in the order of its manifests."""

    # The columns of `_SCHEMA`. `added` is the commit that added a file: a sequence number, or a snapshot ID in format
    # version 1. It is part of the token, because a later commit may write another file to the same path.
    columns: pa.RecordBatch
    # The partitions with their records. The column `partition` contains positions in this list.
    partitions: list[tuple[Partition, Any]]
    # The deletes by the positions of their data files. Files without deletes are missing.
    deletes: Mapping[int, Deletes]

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def __getitem__(self, name: str) -> pa.Array:
        return self.columns.column(name)

    def take(self, numbers: pa.Array) -> DataFiles:
        """Return the files at some positions."""
        chosen = enumerate(numbers.to_pylist()) if self.deletes else ()
        deletes = {at: self.deletes[number] for at, number in chosen if number in self.deletes}
        return DataFiles(self.columns.take(numbers), self.partitions, deletes)


def data_files(table: Any, snapshot: Any) -> DataFiles:
    """Return the live data files of a snapshot."""
    manifests = snapshot.manifests(table.io)
    with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
        parsed = list(pool.map(partial(_Manifest, table.io), manifests))
    # Each manifest numbers its own partitions.
    numbers: dict[Partition, int] = {}
    partitions: list[tuple[Partition, Any]] = []
    batches = []
    for manifest in parsed:
        mapping = []
        for key, record in manifest.partitions.items():
            number = numbers.setdefault(key, len(partitions))
            if number == len(partitions):
                partitions.append((key, record))
            mapping.append(number)
        at = _SCHEMA.get_field_index("partition")
        columns = list(manifest.columns)
        columns[at] = pa.array(mapping, pa.int32()).take(columns[at])
        batches.append(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
    joined = pa.Table.from_batches(batches, _SCHEMA).combine_chunks()
    files = DataFiles(_one_batch(joined), partitions, {})
    deletes = [entry for manifest in parsed for entry in manifest.deletes]
    return DataFiles(files.columns, partitions, _match_deletes(files, deletes)) if deletes else files


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    arrays = [
        pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type) for column in table.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def _match_deletes(files: DataFiles, entries: list[DeleteFile]) -> dict[int, Deletes]:
    """Return the deletes of each data file with deletes, by the file's position."""
    vectors: dict[str, list[DeleteFile]] = {}
    by_path: dict[str, list[DeleteFile]] = {}
    positions: dict[Partition, list[DeleteFile]] = {}
    equality: dict[Partition | None, list[DeleteFile]] = {}
    for entry in entries:
        if entry.kind == "EQUALITY_DELETES":
            # Equality deletes without a partition apply to all files.
            equality.setdefault(_partition(entry.file) if _values(entry.file) else None, []).append(entry)
        elif entry.offset is not None:
            vectors.setdefault(str(entry.referenced), []).append(entry)
        elif entry.referenced is not None:
            by_path.setdefault(entry.referenced, []).append(entry)
        else:
            positions.setdefault(_partition(entry.file), []).append(entry)
    matches = {}
    rows = zip(*(files[name].to_pylist() for name in ("path", "sequence", "partition")), strict=True)
    for number, (path, sequence, place) in enumerate(rows):
        partition = files.partitions[place][0]
        vector = [entry for entry in vectors.get(path, ()) if entry.sequence >= sequence]
        if len(vector) > 1:
            raise FormatError(f"{path} has {len(vector)} deletion vectors; a data file can have only one")
        deletes = Deletes(
            # A vector includes the rows of earlier position deletes.
            positions=()
            if vector
            else tuple(
                entry for entry in (*by_path.get(path, ()), *positions.get(partition, ())) if entry.sequence >= sequence
            ),
            equality=tuple(
                entry for entry in (*equality.get(None, ()), *equality.get(partition, ())) if entry.sequence > sequence
            ),
            vector=vector[0] if vector else None,
        )
        if deletes:
            matches[number] = deletes
    return matches


def _values(file: Any) -> tuple[Any, ...]:
    return tuple(file.partition[number] for number in range(len(file.partition)))


def _partition(file: Any) -> Partition:
    return (file.spec_id or 0, _values(file))


class _Manifest:
    """The live entries of a manifest: data files as columns, deletes as objects."""

    def __init__(self, io: Any, manifest: Any) -> None:
        self.deletes: list[DeleteFile] = []
        # The partitions with their records, in the order of their numbers.
        self.partitions: dict[Partition, Any] = {}
        self._numbers: dict[Partition, int] = {}
        self.columns = self._arrays(io, manifest)

    def _arrays(self, io: Any, manifest: Any) -> list[pa.Array]:
        rows: list[tuple[Any, ...]] = []
        parts: list[pa.RecordBatch] = []

        def flush() -> None:
            arrays = [
                pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)
            ]
            parts.append(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA))
            rows.clear()

        for entry, sequence in _entries(io, manifest):
            file, content = entry.data_file, entry.data_file.content
            # Format version 1 has only data files. pyiceberg returns a plain 0 for them.
            kind = str(content.name) if hasattr(content, "name") else {0: "DATA"}.get(content, str(content))
            if kind == "DATA":
                added = sequence or entry.snapshot_id or manifest.added_snapshot_id or 0
                rows.append((*self._row(file, sequence, added),))
                if len(rows) == _ROWS:
                    flush()
            elif kind in ("POSITION_DELETES", "EQUALITY_DELETES"):
                referenced, offset, length = (file[place] for place in _places())
                self.deletes.append(DeleteFile(file, kind, sequence, referenced, offset, length))
            else:
                raise UnsupportedError(f"{file.file_path} is a file of kind {kind}, which is not supported")
        if rows:
            flush()
        return [*_one_batch(pa.Table.from_batches(parts, _SCHEMA)).columns]

    def _row(self, file: Any, sequence: int, added: int) -> Iterator[Any]:
        partition = _partition(file)
        number = self._numbers.setdefault(partition, len(self._numbers))
        self.partitions.setdefault(partition, file.partition)
        yield from (str(file.file_path), file.file_size_in_bytes, file.record_count, added, sequence)
        yield from (file.file_format.name, bool(file.key_metadata), number)
        for values in (file.lower_bounds, file.upper_bounds, file.null_value_counts, file.value_counts):
            yield list((values or {}).items())


# The number of entries after which their objects are converted to columns.
_ROWS = 1 << 13


def _entries(io: Any, manifest: Any) -> Iterator[tuple[Any, int]]:
    """Yield the live entries of a manifest with their sequence numbers.

    pyiceberg reads manifests with the fields of format version 2, which has no deletion vectors. This function reads
    the fields of version 3.
    """
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.manifest import (
        MANIFEST_ENTRY_SCHEMAS,
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestEntry,
        ManifestEntryStatus,
    )

    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[3],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        for entry in reader:
            if entry.status == ManifestEntryStatus.DELETED:
                continue
            entry.data_file.spec_id = manifest.partition_spec_id
            sequence = entry.sequence_number
            # An entry without a number inherits it from its manifest. Format version 1 has no numbers.
            yield entry, manifest.sequence_number or 0 if sequence is None else sequence


@cache
def _places() -> tuple[int, ...]:
    """Return the positions of the fields of deletion vectors in an entry's data file."""
    from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS

    kind: Any = MANIFEST_ENTRY_SCHEMAS[3].find_field("data_file").field_type
    names = [field.name for field in kind.fields]
    return tuple(names.index(name) for name in ("referenced_data_file", "content_offset", "content_size_in_bytes"))

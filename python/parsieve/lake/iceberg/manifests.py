"""Read the data files and their deletes from Iceberg's manifests."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import FormatError, UnsupportedError
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.lake.iceberg.avro import decoder_of, manifest_class, read_columns, read_records
from parsieve.lake.iceberg.errors import readable
from parsieve.lake.rows.avro_codes import ENCODED

if TYPE_CHECKING:
    from pyiceberg.avro.file import AvroFile

_COUNTS = pa.map_(pa.int32(), pa.int64())
_BOUNDS = pa.map_(pa.int32(), pa.binary())
# The ID of a partition's spec, and the partition's values as keys of dictionaries.
Partition = tuple[int, tuple[Any, ...]]
# The field ID of the paths in files of position deletes.
_DELETED_PATH = 2147483546
# The columns of data files.
_SCHEMA = pa.schema(
    {
        "path": pa.string(),
        "size": pa.int64(),
        "rows": pa.int64(),
        "sequence": pa.int64(),
        "snapshot": pa.int64(),
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

    # The columns of `_SCHEMA`. `sequence` and `snapshot` are the commit that added a file: its sequence number, 0 in
    # format version 1, and its snapshot ID. Both are part of the token, because a later commit may write another file
    # to the same path. So may a table that is created again there, and its sequence numbers start again.
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
    with readable(str(snapshot.manifest_list)):
        manifests = snapshot.manifests(table.io)
    with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
        parsed = list(pool.map(partial(_Manifest, table.io), manifests))
    # Each manifest numbers its own partitions.
    numbers: dict[Partition, int] = {}
    partitions: list[tuple[Partition, Any]] = []
    batches = []
    for manifest in parsed:
        mapping = []
        for key, record in manifest.partitions:
            number = numbers.setdefault(key, len(partitions))
            if number == len(partitions):
                partitions.append((key, record))
            mapping.append(number)
        at = _SCHEMA.get_field_index("partition")
        columns = list(manifest.columns)
        columns[at] = pa.array(mapping, pa.int32()).take(columns[at])
        batches.append(columns)
    files = DataFiles(_one_batch(batches), partitions, {})
    deletes = [entry for manifest in parsed for entry in manifest.deletes]
    if not deletes:
        return files
    unpartitioned = {number for number, spec in table.metadata.specs().items() if _is_unpartitioned(spec)}
    return DataFiles(files.columns, partitions, _match_deletes(files, deletes, unpartitioned))


def _is_unpartitioned(spec: Any) -> bool:
    """Return whether a spec has no partition fields. In format version 1, dropped fields become void."""
    return all(str(field.transform) == "void" for field in spec.fields)


def _one_batch(batches: Sequence[Sequence[pa.Array]]) -> pa.RecordBatch:
    if not batches:
        return pa.RecordBatch.from_pylist([], _SCHEMA)
    return pa.RecordBatch.from_arrays([pa.concat_arrays(parts) for parts in zip(*batches, strict=True)], schema=_SCHEMA)


def _match_deletes(files: DataFiles, entries: list[DeleteFile], unpartitioned: Collection[int]) -> dict[int, Deletes]:
    """Return the deletes of each data file with deletes, by the file's position."""
    paths: list[str] = files["path"].to_pylist()
    known = set(paths)
    vectors: dict[str, list[DeleteFile]] = {}
    by_path: dict[str, list[DeleteFile]] = {}
    positions: dict[Partition, list[DeleteFile]] = {}
    equality: dict[Partition | None, list[DeleteFile]] = {}
    for entry in entries:
        if entry.kind == "EQUALITY_DELETES":
            # Equality deletes without a partition apply to all files.
            spec_id, values = partition = _partition(entry.file)
            equality.setdefault(partition if values and spec_id not in unpartitioned else None, []).append(entry)
        elif entry.offset is not None:
            if entry.referenced is None:
                raise FormatError(
                    f"the manifest does not name the data file of a deletion vector in {entry.file.file_path}, so it "
                    "is unknown which rows are deleted"
                )
            vectors.setdefault(entry.referenced, []).append(entry)
        elif entry.referenced is not None:
            by_path.setdefault(entry.referenced, []).append(entry)
        elif (path := _only_path(entry.file)) in known:
            by_path.setdefault(str(path), []).append(entry)
        else:
            positions.setdefault(_partition(entry.file), []).append(entry)
    matches = {}
    rows = zip(paths, *(files[name].to_pylist() for name in ("sequence", "partition")), strict=True)
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


def _values(record: Any) -> tuple[Any, ...]:
    return tuple(map(_key, (record[number] for number in range(len(record)))))


def _key(value: Any) -> Any:
    """Return a value that is equal for the same partition value, also for NaN. The two zeros are two partitions."""
    if not isinstance(value, float):
        return value
    return "NaN" if math.isnan(value) else struct.pack("<d", value)


def _partition(file: Any) -> Partition:
    return (file.spec_id or 0, _values(file.partition))


class _Manifest:
    """The live entries of a manifest: data files as columns, deletes as objects."""

    def __init__(self, io: Any, manifest: Any) -> None:
        from pyiceberg.manifest import ManifestContent

        self.deletes: list[DeleteFile] = []
        # The partitions with their records, by their numbers in the column `partition`.
        self.partitions: list[tuple[Partition, Any]] = []
        # The columns of `_SCHEMA`.
        self.columns: Sequence[pa.Array] = [pa.array([], kind) for kind in _SCHEMA.types]
        with readable(manifest.manifest_path), _opened(io, manifest) as file:
            if manifest.content == ManifestContent.DELETES:
                self.deletes = list(_deletes(file, manifest))
                _check_count(manifest, len(self.deletes))
            else:
                self._read_columns(file, manifest)

    def _read_columns(self, file: AvroFile[Any], manifest: Any) -> None:
        rows = _Rows(read_columns(file, _KINDS))
        rows = rows.filter(pc.not_equal(rows[_STATUS], _DELETED))
        _check_count(manifest, rows.count)
        if not rows.count:
            return
        if pc.any(pc.not_equal(rows[_CONTENT], 0)).as_py():
            raise FormatError(f"{manifest.manifest_path} is a manifest of data files, and lists a file of deletes")
        # An entry without a number inherits it from its manifest. Format version 1 has no numbers.
        sequence = pc.fill_null(rows[_SEQUENCE], manifest.sequence_number or 0)
        snapshot = pc.fill_null(rows[_SNAPSHOT], 0)
        snapshot = pc.if_else(pc.equal(snapshot, 0), manifest.added_snapshot_id or 0, snapshot)
        partition = rows[_PARTITION].dictionary_encode()
        spec_id = manifest.partition_spec_id or 0
        for record in _partitions(file, partition.dictionary.to_pylist()):
            self.partitions.append(((spec_id, _values(record)), record))
        self.columns = [
            rows[_PATH],
            rows[_SIZE],
            rows[_ROWS],
            sequence,
            snapshot,
            pc.utf8_upper(rows[_FORMAT]),
            pc.fill_null(pc.greater(pc.binary_length(rows[_KEY]), 0), False),
            partition.indices,
            *(rows[number] for number in (_LOWER, _UPPER, _NULL_COUNTS, _VALUE_COUNTS)),
        ]


def _check_count(manifest: Any, count: int) -> None:
    """Raise `FormatError` if a manifest has fewer files than the list of manifests says."""
    counts = (manifest.added_files_count, manifest.existing_files_count)
    if all(isinstance(number, int) for number in counts) and count < sum(counts):
        raise FormatError(
            f"{manifest.manifest_path} has {count} live files instead of {sum(counts)}; it may be cut off"
        )


# The IDs of the fields of an entry and of its data file, and the types of their columns.
_STATUS, _SNAPSHOT, _SEQUENCE, _CONTENT = 0, 1, 3, 134
_PATH, _FORMAT, _PARTITION, _ROWS, _SIZE = 100, 101, 102, 103, 104
_VALUE_COUNTS, _NULL_COUNTS, _LOWER, _UPPER, _KEY = 109, 110, 125, 128, 131
_KINDS = {
    **dict.fromkeys((_STATUS, _SNAPSHOT, _SEQUENCE, _CONTENT, _ROWS, _SIZE), pa.int64()),
    **dict.fromkeys((_PATH, _FORMAT), pa.string()),
    **dict.fromkeys((_VALUE_COUNTS, _NULL_COUNTS), _COUNTS),
    **dict.fromkeys((_LOWER, _UPPER), _BOUNDS),
    _PARTITION: ENCODED,
    _KEY: pa.binary(),
}
# The status of an entry whose file was removed.
_DELETED = 2


class _Rows:
    """The entries of a manifest. Fields that the manifest does not have are null, or empty maps."""

    def __init__(self, columns: Mapping[int, pa.Array]) -> None:
        self._columns = columns
        self.count = len(columns[_STATUS])

    def __getitem__(self, number: int) -> pa.Array:
        if number in self._columns:
            return self._columns[number]
        kind = _KINDS[number]
        if pa.types.is_map(kind):
            return pa.array([[]], kind).take(pa.repeat(pa.scalar(0, pa.int32()), self.count))
        return pa.nulls(self.count, kind)

    def filter(self, mask: pa.BooleanArray) -> _Rows:
        """Return some of the rows."""
        if mask.true_count == len(mask):
            return self
        return _Rows({number: column.filter(mask) for number, column in self._columns.items()})


def _partitions(file: AvroFile[Any], encoded: Sequence[bytes]) -> Iterator[Any]:
    """Decode partitions."""
    from pyiceberg.avro.resolver import construct_reader

    reader = construct_reader(file.schema.find_field(_PARTITION).field_type)
    decoder = decoder_of(file.schema)
    for data in encoded:
        yield reader.read(decoder(data))


def _deletes(file: AvroFile[Any], manifest: Any) -> Iterator[DeleteFile]:
    """Yield the live files of deletes of a manifest."""
    from pyiceberg.manifest import ManifestEntryStatus

    for entry in read_records(file):
        if entry.status == ManifestEntryStatus.DELETED:
            continue
        data_file = entry.data_file
        data_file.spec_id = manifest.partition_spec_id
        kind = str(getattr(data_file.content, "name", data_file.content))
        if kind not in ("POSITION_DELETES", "EQUALITY_DELETES"):
            raise UnsupportedError(f"{data_file.file_path} is a file of kind {kind}, which is not supported")
        sequence = manifest.sequence_number or 0 if entry.sequence_number is None else entry.sequence_number
        referenced, offset, length = (data_file[place] for place in _places())
        yield DeleteFile(data_file, kind, sequence, referenced, offset, length)


def _only_path(file: Any) -> str | None:
    """Return the path in a file of position deletes whose bounds are the same, or None.

    If the writer truncated both bounds, the result is not a path.
    """
    lower, upper = ((bounds or {}).get(_DELETED_PATH) for bounds in (file.lower_bounds, file.upper_bounds))
    return None if lower is None or lower != upper else bytes(lower).decode(errors="replace")


def _opened(io: Any, manifest: Any) -> AvroFile[Any]:
    """Return a manifest with the fields of format version 3.

    pyiceberg itself reads those of version 2, which have no deletion vectors.
    """
    from pyiceberg.manifest import (
        MANIFEST_ENTRY_SCHEMAS,
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestEntry,
        ManifestEntryStatus,
    )

    file: AvroFile[Any] = manifest_class()(
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[3],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    )
    return file


@cache
def _places() -> tuple[int, ...]:
    """Return the positions of the fields of deletion vectors in an entry's data file."""
    from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS

    kind: Any = MANIFEST_ENTRY_SCHEMAS[3].find_field("data_file").field_type
    names = [field.name for field in kind.fields]
    return tuple(names.index(name) for name in ("referenced_data_file", "content_offset", "content_size_in_bytes"))

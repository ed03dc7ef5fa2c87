"""Iceberg: snapshots, schemas and manifests by `pyiceberg`, files and their deletes read one by one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from parsieve._core import UnsupportedError
from parsieve.io.sources import local_path
from parsieve.lake.base import AsOf, Slice, Snapshot, utc
from parsieve.lake.iceberg.manifests import DataFile, Entry, data_files, partition_reader, statistics_of
from parsieve.lake.rows import deletion_vectors
from parsieve.lake.rows.adapter import Adapter
from parsieve.lake.rows.arrow_scan import ScanFile
from parsieve.lake.rows.checked_files import CheckedFiles, files_of
from parsieve.lake.rows.columns import FIELD_ID, Find, Matching, places_by_id
from parsieve.lake.rows.file_rows import FileRows, foreign
from parsieve.lake.slices import MadeSlices
from parsieve.lake.storage.pinned import Version
from parsieve.lake.storage.storage import Storage

_METADATA = re.compile(r"v?(\d+)(-[^/]*)?(\.gz)?\.metadata\.json(\.gz)?")


@dataclass(frozen=True, slots=True, eq=False)
class _Native:
    data: DataFile
    io: Any
    schema: pa.Schema
    matching: Matching


class Iceberg(Adapter):
    """A table of Iceberg by its folder, a metadata file, or pyiceberg's `Table`, which is taken as it stands.

    A folder alone does not say which metadata file a catalog holds for the current one: it is the one of
    `version-hint.text` or its successors, else the one with the highest number.
    """

    format = "iceberg"
    # What decides the files of a snapshot and how they are read, what opens them, and the snapshot.
    _last: tuple[tuple[Any, ...], Any, Snapshot] | None = None

    def __init__(self, source: Any, storage_options: Mapping[str, str] | None = None) -> None:
        try:
            import pyiceberg.table  # noqa: F401 - the rest needs it
        except ImportError:
            raise UnsupportedError(
                "tables of Iceberg need the package pyiceberg: pip install 'parsieve[iceberg]'"
            ) from None
        self.storage_options = dict(storage_options or {})
        self._given = source if hasattr(source, "metadata") and hasattr(source, "io") else None
        self._source = source
        table = self._table()
        self.uri = _address(table.location().rstrip("/"))

    def _table(self) -> Any:
        if self._given is not None:
            return self._given
        from pyiceberg.table import StaticTable

        if isinstance(self._source, tuple):
            raise UnsupportedError(
                "an Iceberg table is opened by its path or URI, with storage_options as pyiceberg takes"
            )
        uri = os.fspath(self._source).rstrip("/")
        address = uri if uri.endswith((".json", ".json.gz")) else self._newest(uri)
        with foreign(address):
            return StaticTable.from_metadata(address, dict(self.storage_options))

    @property
    def metadata_file(self) -> str:
        """The metadata file that says what the table is now; it never changes."""
        return str(self._table().metadata_location)

    def _newest(self, uri: str) -> str:
        from pyiceberg.io import load_file_io

        if "://" not in uri:
            storage = Storage(uri)
            return storage.join(f"metadata/{_newest(storage)}")
        # Listed by the filesystem that pyiceberg makes of its own options.
        place = _place(load_file_io(dict(self.storage_options), uri), uri)
        if place is None:
            raise UnsupportedError(f"{uri} cannot be listed; give the metadata file, or pyiceberg's Table")
        return f"{uri}/metadata/{_newest(Storage(place))}"

    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        """The table now, or at a snapshot's id, at the name of a branch or tag, or at a time of its history."""
        table = self._table()
        metadata = table.metadata
        found = table.current_snapshot() if as_of is None else _snapshot_at(table, as_of)
        said = metadata.schema()
        if as_of is not None and found.schema_id is not None:
            said = metadata.schema_by_id(found.schema_id) or said
        schema = _arrow(said)
        if found is None:
            return Snapshot(None, 0, schema, MadeSlices(()))
        # Manifests never change; the table's metadata decide how their files are read.
        mapping = metadata.name_mapping()
        key = (metadata.table_uuid, table.location(), found, said, metadata.specs(), mapping and mapping.root)
        # A `Table` that was refreshed may hold other credentials.
        io = None if self._given is None else table.io
        last = self._last
        if last is not None and last[0] == key and last[1] is io:
            return last[2]
        files = data_files(table, found)
        builder = _Slices(table, said, schema)
        slices = tuple(map(builder.build, files))
        instant = found.sequence_number or found.timestamp_ms
        snapshot = Snapshot(
            found.snapshot_id, instant, schema, MadeSlices(slices), partial(statistics_of, files, schema)
        )
        self._last = key, io, snapshot
        return snapshot

    def rows(self, piece: Slice) -> FileRows:
        """The live rows of one data file: deleted positions and deletion vectors applied."""
        native: _Native = piece.native
        data, path = native.data, native.data.file.file_path
        if data.equality:
            raise UnsupportedError(
                f"{piece.path} has equality deletes, which cannot be read here; read the table with Spark"
            )
        if data.file.file_format.name != "PARQUET":
            raise UnsupportedError(f"{piece.path} is {data.file.file_format.name}; only Parquet files can be read")
        if data.file.key_metadata:
            raise UnsupportedError(f"{piece.path} is encrypted by Iceberg, whose keys cannot be used here")
        return FileRows(
            lambda: native.io.new_input(path).open(),
            str(piece.path),
            native.matching,
            deleted=partial(_deleted, native),
        )

    def version(self, piece: Slice) -> Version | None:
        """What tells the data file from another one; None where pyiceberg reads by other means than pyarrow's."""
        native: _Native = piece.native
        place = _place(native.io, native.data.file.file_path)
        return None if place is None else Storage((place[0], "")).version(place[1])

    def files(self, snapshot: Snapshot, slices: Sequence[Slice]) -> CheckedFiles | None:
        """Return the data files; None if rows were deleted."""
        if not all(map(self.row_groups_usable, slices)):
            return None
        places = [_place(one.native.io, one.native.data.file.file_path) for one in slices]
        storages = {id(place[0]): Storage((place[0], "")) for place in places if place is not None}
        if len(storages) != 1 or None in places:
            return None
        files = [
            ScanFile(storages[id(place[0])], place[1], str(one.path), one.size or 0, matching=one.native.matching)
            for place, one in zip(places, slices, strict=True)
            if place is not None
        ]
        return files_of(files, snapshot.schema)

    def row_groups_usable(self, piece: Slice) -> bool:
        """Whether the data file is Parquet, open to all, and nothing of it was deleted."""
        file = piece.native.data.file
        return piece.clean and file.file_format.name == "PARQUET" and not file.key_metadata

    def open_base(self, piece: Slice) -> Any:
        """The data file, by the filesystem that pyiceberg opens it with."""
        native: _Native = piece.native
        path = native.data.file.file_path
        return _place(native.io, path) or native.io.new_input(path).open()


class _Slices:
    """Builds the slices of a snapshot."""

    def __init__(self, table: Any, said: Any, schema: pa.Schema) -> None:
        self._table = table
        self._schema = schema
        self._said = said
        self._location = table.location().rstrip("/") + "/"
        self._names = {
            int(one.metadata[FIELD_ID]): one.name for one in schema if one.metadata and FIELD_ID in one.metadata
        }
        mapping = table.metadata.name_mapping()
        self._find = partial(_find, _mapped(mapping.root) if mapping is not None else {})
        self._defaults = _defaults(said.fields)
        self._specs = table.metadata.specs()
        self._constants: dict[int, list[tuple[int, int, Callable[[Any], Any]]]] = {}

    def build(self, data: DataFile) -> Slice:
        """The slice of a data file."""
        file = data.file
        values = {number: read(file.partition[place]) for place, number, read in self._identities(file.spec_id or 0)}
        defaults = self._defaults | {str(number).encode(): value for number, value in values.items()}
        path = str(file.file_path)
        spec = self._specs[file.spec_id or 0]
        return Slice(
            partition=spec.partition_to_path(file.partition, self._said) if spec.fields else "",
            group=path.removeprefix(self._location),
            token=data.token,
            path=_address(path),
            size=file.file_size_in_bytes,
            num_rows=file.record_count,
            clean=not (data.positions or data.equality or data.vector),
            partition_values={self._names[number]: value for number, value in values.items()},
            native=_Native(data, self._table.io, self._schema, Matching(self._find, defaults)),
        )

    def _identities(self, spec_id: int) -> list[tuple[int, int, Callable[[Any], Any]]]:
        """Place, field id and reader of the top-level columns that a spec partitions by as they are."""
        if spec_id not in self._constants:
            self._constants[spec_id] = [
                (place, one.source_id, partition_reader(self._schema.field(self._names[one.source_id]).type))
                for place, one in enumerate(self._specs[spec_id].fields)
                if str(one.transform) == "identity" and one.source_id in self._names
            ]
        return self._constants[spec_id]


def _snapshot_at(table: Any, as_of: AsOf) -> Any:
    if isinstance(as_of, str) and not as_of.isdigit():
        found = table.snapshot_by_name(as_of)
    elif isinstance(as_of, (str, int)):
        found = table.snapshot_by_id(int(as_of))
    else:
        found = table.snapshot_as_of_timestamp(int(utc(as_of).timestamp() * 1000))
    if found is None:
        raise ValueError(f"{table.location()} has no snapshot, branch or tag {as_of}, or has it no more")
    return found


def _newest(storage: Storage) -> str:
    """The name of the current metadata file of a folder."""
    names = storage.names("metadata")
    numbered: dict[int, list[str]] = {}
    for name in names:
        if match := _METADATA.fullmatch(name):
            numbered.setdefault(int(match[1]), []).append(name)
    if not numbered:
        raise FileNotFoundError(f"no Iceberg table in {storage.uri}")
    number = max(numbered)
    if "version-hint.text" in names:
        with storage.open(storage.join("metadata/version-hint.text")) as file:
            hint = file.read().decode(errors="replace").strip()
        if not hint.isdigit() or int(hint) not in numbered:
            raise UnsupportedError(f"the version hint of {storage.uri} is {hint!r}; name the metadata file")
        number = int(hint)
        # A writer that stopped between a version and its hint.
        while number + 1 in numbered:
            number += 1
    if len(numbered[number]) > 1:
        raise UnsupportedError(
            f"{storage.uri} has {len(numbered[number])} metadata files of the number {number}, and only its catalog "
            "knows which one holds; give the metadata file, or pyiceberg's Table"
        )
    return numbered[number][0]


def _address(location: str) -> str:
    return local_path(location) if location.startswith("file:") else location


def _place(io: Any, path: str) -> tuple[Any, str] | None:
    """The filesystem and the path in it, where pyiceberg reads by pyarrow's filesystems."""
    if not hasattr(io, "fs_by_scheme"):
        return None
    scheme, netloc, place = io.parse_location(path, io.properties)
    return io.fs_by_scheme(scheme, netloc), place


def _deleted(native: _Native, rows: int) -> Sequence[int]:
    """The positions that the deletes of a data file hold."""
    data = native.data
    if data.vector is not None:
        return _vector(native.io, data.vector, rows)
    found: set[int] = set()
    for one in data.positions:
        found.update(_positions(native.io, one, data.file.file_path))
    return sorted(found)


def _vector(io: Any, entry: Entry, rows: int) -> Sequence[int]:
    path = entry.file.file_path
    if entry.offset is None or entry.length is None or entry.length < 8:
        raise UnsupportedError(f"the manifest does not say where the deletion vector lies in {path}")
    with io.new_input(path).open() as file:
        file.seek(entry.offset)
        framed: bytes = file.read(entry.length)
    found = deletion_vectors.positions(deletion_vectors.unframed(framed, entry.length - 8, path), rows)
    return found


def _positions(io: Any, entry: Entry, path: str) -> Iterable[int]:
    where = entry.file.file_path
    if entry.file.file_format.name != "PARQUET":
        raise UnsupportedError(f"deletes in {where} are {entry.file.file_format.name}; only Parquet can be read")
    with foreign(where), io.new_input(where).open() as file:
        # Sorted by path: statistics leave most row groups alone.
        table = pq.read_table(file, columns=["pos"], filters=[("file_path", "=", path)])
        found: list[int] = table["pos"].to_pylist()
    return found


def _arrow(said: Any) -> pa.Schema:
    """Iceberg's schema as Arrow's, with field ids, everything nullable and nothing of a large type."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    try:
        schema = schema_to_pyarrow(said)
    except (NotImplementedError, ValueError, TypeError) as error:
        raise UnsupportedError(f"the schema of the Iceberg table cannot be read: {error}") from error
    return pa.schema([_small(one) for one in schema])


def _small(one: pa.Field) -> pa.Field:
    kept = {FIELD_ID: (one.metadata or {})[FIELD_ID]} if FIELD_ID in (one.metadata or {}) else None
    return pa.field(one.name, _small_type(one.type), metadata=kept)


def _small_type(kind: pa.DataType) -> pa.DataType:
    if pt.is_struct(kind):
        return pa.struct([_small(one) for one in kind])
    if pt.is_list(kind) or pt.is_large_list(kind):
        return pa.list_(_small(kind.value_field))
    if pt.is_map(kind):
        return pa.map_(_small_type(kind.key_type), _small_type(kind.item_type))
    if pt.is_large_string(kind):
        return pa.string()
    return pa.binary() if pt.is_large_binary(kind) else kind


def _defaults(fields: Iterable[Any]) -> dict[bytes, object]:
    """The defaults of columns and of those in structs, by field id."""
    found: dict[bytes, object] = {}
    for one in fields:
        if getattr(one, "initial_default", None) is not None:
            found[str(one.field_id).encode()] = one.initial_default
        found |= _defaults(getattr(one.field_type, "fields", ()))
    return found


def _mapped(fields: Iterable[Any]) -> dict[bytes, set[str]]:
    """The names that a name mapping gives to each field id, at every level."""
    found: dict[bytes, set[str]] = {}
    for one in fields:
        if one.field_id is not None:
            found[str(one.field_id).encode()] = set(one.names)
        found |= _mapped(one.fields)
    return found


def _find(mapping: Mapping[bytes, set[str]], among: Sequence[pa.Field]) -> Find:
    """Find fields by id, or by a mapped name in a file that was written without ids."""
    ids = places_by_id(among)
    has_ids = any(number is not None for number in ids)
    names: dict[str, list[int]] = {}
    for place, one in enumerate(among):
        names.setdefault(one.name, []).append(place)

    def find(wanted: pa.Field) -> int | None:
        number = wanted.metadata[FIELD_ID]
        if has_ids:
            return ids.get(number)
        if not mapping:
            raise UnsupportedError(
                f"column {wanted.name!r}: the file has no field ids, and the table has no name mapping"
            )
        places = [place for name in mapping.get(number, ()) for place in names.get(name, ())]
        if len(places) > 1:
            raise UnsupportedError(
                f"column {wanted.name!r} matches several columns of a file in the table's name mapping"
            )
        return places[0] if places else None

    return find

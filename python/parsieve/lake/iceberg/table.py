"""Iceberg: snapshots, schemas and manifests by `pyiceberg`, files and their deletes read one by one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from parsieve._core import UnsupportedError
from parsieve.io.sources import local_path
from parsieve.lake.base import AsOf, Slice, Snapshot, utc
from parsieve.lake.iceberg.manifests import DeleteFile, data_files
from parsieve.lake.iceberg.slices import IcebergFile, IcebergSlices, TableState
from parsieve.lake.iceberg.statistics import statistics_of
from parsieve.lake.rows import deletion_vectors
from parsieve.lake.rows.adapter import Adapter
from parsieve.lake.rows.arrow_scan import ScanFile
from parsieve.lake.rows.checked_files import CheckedFiles, files_of
from parsieve.lake.rows.columns import FIELD_ID, Find, places_by_id
from parsieve.lake.rows.file_rows import FileRows, foreign
from parsieve.lake.slices import MadeSlices
from parsieve.lake.storage.pinned import Version
from parsieve.lake.storage.storage import Storage

_METADATA = re.compile(r"v?(\d+)(-[^/]*)?(\.gz)?\.metadata\.json(\.gz)?")


class Iceberg(Adapter):
    """A table of Iceberg: a folder, a metadata file, or pyiceberg's `Table`, whose state is then the current one.

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
        """The metadata file of the table's current state. A metadata file never changes."""
        return str(self._table().metadata_location)

    def _newest(self, uri: str) -> str:
        from pyiceberg.io import load_file_io

        if "://" not in uri:
            storage = Storage(uri)
            return storage.join(f"metadata/{_newest(storage)}")
        # Listed by the filesystem that pyiceberg makes of its own options.
        place = _place(load_file_io(dict(self.storage_options), uri), uri)
        if place is None:
            raise UnsupportedError(f"{uri} cannot be listed; pass the metadata file, or pyiceberg's Table")
        return f"{uri}/metadata/{_newest(Storage(place))}"

    def reopening(self) -> dict[str, Any]:
        """Return the attributes that a copy in another process needs to read the table again."""
        if self._given is None:
            text = os.fspath(self._source)
            return {"_given": None, "_source": text if "://" in text else os.path.abspath(text)}  # noqa: PTH100
        # The metadata file never changes, so the copy sees the same state. Only `properties` can open it elsewhere.
        options = {name: str(value) for name, value in dict(self._given.io.properties).items()}
        return {"_given": None, "_source": self._given.metadata_location, "storage_options": options}

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
        names = {} if mapping is None else _mapped(mapping.root)
        slices = IcebergSlices(TableState(table, said, schema, partial(_find, names)), files)
        instant = found.sequence_number or found.timestamp_ms
        snapshot = Snapshot(found.snapshot_id, instant, schema, slices, partial(statistics_of, files, schema))
        self._last = key, io, snapshot
        return snapshot

    def rows(self, piece: Slice) -> FileRows:
        """The live rows of one data file: deleted positions and deletion vectors applied."""
        native: IcebergFile = piece.native
        path = native.path
        if native.deletes.equality:
            raise UnsupportedError(
                f"{piece.path} has equality deletes, which cannot be read here; read the table with Spark"
            )
        if native.format != "PARQUET":
            raise UnsupportedError(f"{piece.path} is {native.format}; only Parquet files can be read")
        if native.is_encrypted:
            raise UnsupportedError(f"{piece.path} is encrypted by Iceberg, whose keys cannot be used here")
        return FileRows(
            lambda: native.io.new_input(path).open(),
            str(piece.path),
            native.matching,
            deleted=partial(_deleted, native),
        )

    def version(self, piece: Slice) -> Version | None:
        """What tells the data file from another one; None where pyiceberg reads by other means than pyarrow's."""
        native: IcebergFile = piece.native
        place = _place(native.io, native.path)
        return None if place is None else Storage((place[0], "")).version(place[1])

    def files(self, snapshot: Snapshot, slices: Sequence[Slice]) -> CheckedFiles | None:
        """Return the data files; None if rows were deleted."""
        if not all(map(self.row_groups_usable, slices)):
            return None
        places = [_place(one.native.io, one.native.path) for one in slices]
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
        native: IcebergFile = piece.native
        return piece.clean and native.format == "PARQUET" and not native.is_encrypted

    def open_base(self, piece: Slice) -> Any:
        """The data file, by the filesystem that pyiceberg opens it with."""
        native: IcebergFile = piece.native
        return _place(native.io, native.path) or native.io.new_input(native.path).open()


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


def _deleted(native: IcebergFile, rows: int) -> Sequence[int]:
    """The positions that the deletes of a data file hold."""
    deletes = native.deletes
    if deletes.vector is not None:
        return _vector(native.io, deletes.vector, rows)
    found: set[int] = set()
    for one in deletes.positions:
        found.update(_positions(native.io, one, native.path))
    return sorted(found)


def _vector(io: Any, entry: DeleteFile, rows: int) -> Sequence[int]:
    path = entry.file.file_path
    if entry.offset is None or entry.length is None or entry.length < 8:
        raise UnsupportedError(f"the manifest does not contain the position of the deletion vector in {path}")
    with io.new_input(path).open() as file:
        file.seek(entry.offset)
        framed: bytes = file.read(entry.length)
    found = deletion_vectors.positions(deletion_vectors.unframed(framed, entry.length - 8, path), rows)
    return found


def _positions(io: Any, entry: DeleteFile, path: str) -> Iterable[int]:
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

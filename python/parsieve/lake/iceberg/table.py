"""Read Iceberg tables. `pyiceberg` reads snapshots and schemas, and this module reads files and their deletes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from parsieve._core import FormatError, UnsupportedError
from parsieve.io.object_store import known_options
from parsieve.lake.base import AsOf, ColumnPath, Slice, Snapshot, Statistics, milliseconds
from parsieve.lake.iceberg.errors import readable
from parsieve.lake.iceberg.manifests import DeleteFile, data_files
from parsieve.lake.iceberg.slices import IcebergFile, IcebergSlices, TableState, address_of
from parsieve.lake.iceberg.statistics import statistics_of
from parsieve.lake.rows import deletion_vectors
from parsieve.lake.rows.adapter import Adapter
from parsieve.lake.rows.arrow_scan import ScanFile
from parsieve.lake.rows.columns import Find, is_nested, places_by_id
from parsieve.lake.rows.file_rows import FileRows, foreign
from parsieve.lake.slices import SliceObjects
from parsieve.lake.storage.storage import Storage
from parsieve.lake.storage.version import Version
from parsieve.predicate.elements import FIELD_ID

if TYPE_CHECKING:
    from parsieve.lake.rows.checked_files import CheckedFiles

_METADATA = re.compile(r"v?(\d+)(-[^/]*)?(\.gz)?\.metadata\.json(\.gz)?")


class Iceberg(Adapter):
    """An Iceberg table: a folder, a metadata file, or a `Table` of pyiceberg, whose state is used as the current one.

    A folder does not contain the catalog's choice of the current metadata file. So use the file in `version-hint.text`,
    or a direct successor, or else the file with the highest number.
    """

    format = "iceberg"
    has_field_ids = True
    # The metadata that determine the files and how to read them, the object that opens them, and the snapshot.
    _last: tuple[tuple[Any, ...], Any, Snapshot] | None = None

    def __init__(self, source: Any, storage_options: Mapping[str, str] | None = None) -> None:
        try:
            import pyiceberg.table  # noqa: F401 - needed below
        except ImportError:
            raise UnsupportedError(
                "Iceberg tables need the package pyiceberg: pip install 'parsieve[iceberg]'"
            ) from None
        self._given = source if hasattr(source, "metadata") and hasattr(source, "io") else None
        self.storage_options = dict(storage_options or {})
        self._source = source
        table = self._table()
        self.uri = address_of(table.location().rstrip("/"))
        if self._given is not None and not storage_options:
            # The catalog knows how to open the store, which also holds the index.
            self.storage_options = known_options(self._given.io.properties, self.uri)

    def _table(self) -> Any:
        if self._given is not None:
            return self._given
        from pyiceberg.io import load_file_io
        from pyiceberg.table import StaticTable

        if isinstance(self._source, tuple):
            raise UnsupportedError(
                "cannot open an Iceberg table by a (filesystem, path) pair; pass its path or URI, "
                "and pyiceberg's storage_options"
            )
        uri = os.fspath(self._source).rstrip("/")
        address = uri if uri.endswith((".json", ".json.gz")) else self._newest_metadata(uri)
        if address.endswith(".metadata.json.gz"):
            raise UnsupportedError(f"{address} has an old name; rename it, so that it ends with .gz.metadata.json")
        load_file_io(dict(self.storage_options), address)
        with readable(address):
            return StaticTable.from_metadata(address, dict(self.storage_options))

    def folder_address(self, name: str) -> Any:
        """Return the address of a folder inside the table's folder.

        Iceberg does not decode a location, and the libraries that open the address do.
        """
        uri = self.uri.replace("%", "%25") if "://" in self.uri else self.uri
        return f"{uri}/{name}"

    @property
    def metadata_file(self) -> str:
        """Return the metadata file of the table's current state. A metadata file never changes."""
        return str(self._table().metadata_location)

    def _newest_metadata(self, uri: str) -> str:
        from pyiceberg.io import load_file_io

        if "://" not in uri:
            storage = Storage(uri)
            return storage.join(f"metadata/{_newest_metadata(storage)}")
        # List it with the filesystem of pyiceberg, because the options are pyiceberg's.
        place = _place(load_file_io(dict(self.storage_options), uri), uri)
        if place is None:
            raise UnsupportedError(f"{uri} cannot be listed; pass the metadata file, or pyiceberg's Table")
        return f"{uri}/metadata/{_newest_metadata(Storage(place))}"

    def reopening(self) -> dict[str, Any]:
        """Return the attributes that a copy in another process needs to read the table again."""
        if self._given is None:
            text = os.fspath(self._source)
            return {"_given": None, "_source": text if "://" in text else os.path.abspath(text)}  # noqa: PTH100
        # The metadata file never changes, so the copy sees the same state. Only `properties` can open it elsewhere.
        options = {name: str(value) for name, value in dict(self._given.io.properties).items()}
        return {"_given": None, "_source": self._given.metadata_location, "storage_options": options}

    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        """Return the current state of the table, or its state at a snapshot ID, branch, tag or time."""
        table = self._table()
        metadata = table.metadata
        current = table.current_snapshot() if as_of is None else _snapshot_at(table, as_of)
        iceberg_schema = metadata.schema()
        if as_of is not None and current.schema_id is not None:
            iceberg_schema = metadata.schema_by_id(current.schema_id) or iceberg_schema
        schema = _arrow_schema(iceberg_schema)
        if current is None:
            _check_is_empty(metadata, self.uri)
            return Snapshot(None, 0, schema, SliceObjects(()))
        # Manifests never change, but the table's metadata determine how to read their files.
        with readable(f"the name mapping of {self.uri}"):
            mapping = metadata.name_mapping()
        root = mapping and mapping.root
        key = (metadata.table_uuid, table.location(), current, iceberg_schema, metadata.specs(), root)
        # A `Table` may have other credentials after a refresh.
        io = None if self._given is None else table.io
        last = self._last
        if last is not None and last[0] == key and last[1] is io:
            return last[2]
        names = {} if mapping is None else _names_by_id(mapping.root)
        with readable(self.uri):
            files = data_files(table, current)
            state = TableState(table, iceberg_schema, schema, names, partial(_find, names), io)
            slices = IcebergSlices(state, files)
        instant = current.sequence_number or current.timestamp_ms

        def statistics(column: ColumnPath) -> Statistics | None:
            return None if is_nested(schema, column) else statistics_of(files, schema, column)

        snapshot = Snapshot(current.snapshot_id, instant, schema, slices, statistics)
        self._last = key, io, snapshot
        return snapshot

    def rows(self, file_slice: Slice) -> FileRows:
        """Return the live rows of one data file, without the rows of position deletes and deletion vectors."""
        native: IcebergFile = file_slice.native
        path = native.path
        if native.deletes.equality:
            raise UnsupportedError(
                f"{file_slice.path} has equality deletes, which are not supported; read the table with Spark"
            )
        if native.format != "PARQUET":
            raise UnsupportedError(f"{file_slice.path} is {native.format}; only Parquet files are supported")
        if native.is_encrypted:
            raise UnsupportedError(
                f"{file_slice.path} is encrypted by Iceberg, which is not supported; read the table with Spark"
            )
        return FileRows(
            lambda: native.io.new_input(path).open(),
            str(file_slice.path),
            native.matching,
            deleted=partial(_deleted, native),
        )

    def absent_is_null(self, file_slice: Slice, column: pa.Field) -> bool:
        """Return whether a column has neither an initial default nor the value of a partition."""
        native: IcebergFile = file_slice.native
        return bool(native.matching.absent(column, 1).null_count)

    def version(self, file_slice: Slice) -> Version | None:
        """Return the present version of the data file, or None if pyiceberg does not read it with pyarrow."""
        native: IcebergFile = file_slice.native
        place = _place(native.io, native.path)
        return None if place is None else Storage((place[0], "")).version(place[1])

    def files(self, snapshot: Snapshot, slices: Sequence[Slice]) -> CheckedFiles | None:
        """Return the data files, or None if rows were deleted, or if pyarrow cannot scan all files together."""
        from parsieve.lake.rows.checked_files import files_of

        if not all(map(self.row_groups_usable, slices)):
            return None
        places = [_place(file_slice.native.io, file_slice.native.path) for file_slice in slices]
        storages = {id(place[0]): Storage((place[0], "")) for place in places if place is not None}
        if len(storages) != 1 or None in places:
            return None
        files = [
            ScanFile(
                storages[id(place[0])],
                place[1],
                str(file_slice.path),
                file_slice.size or 0,
                matching=file_slice.native.matching,
            )
            for place, file_slice in zip(places, slices, strict=True)
            if place is not None
        ]
        return files_of(files, snapshot.schema)

    def row_groups_usable(self, file_slice: Slice) -> bool:
        """Return whether the data file is an unencrypted Parquet file without deletes."""
        native: IcebergFile = file_slice.native
        return file_slice.clean and native.format == "PARQUET" and not native.is_encrypted

    def open_base(self, file_slice: Slice) -> Any:
        """Return the data file as a source on pyiceberg's filesystem."""
        native: IcebergFile = file_slice.native
        return _place(native.io, native.path) or native.io.new_input(native.path).open()


def _check_is_empty(metadata: Any, uri: str) -> None:
    """Raise `FormatError` if a table without a current snapshot should have one: its files would be ignored."""
    main = metadata.refs.get("main")
    missing = metadata.current_snapshot_id if main is None else main.snapshot_id
    if missing is not None:
        raise FormatError(
            f"the metadata of {uri} does not contain the current snapshot, {missing}; open an earlier metadata file"
        )


def _snapshot_at(table: Any, as_of: AsOf) -> Any:
    if isinstance(as_of, str):
        # The name of a tag may consist of digits.
        snapshot = table.snapshot_by_name(as_of)
        if snapshot is None and as_of.isdecimal():
            snapshot = table.snapshot_by_id(int(as_of))
    elif isinstance(as_of, int):
        snapshot = table.snapshot_by_id(as_of)
    else:
        snapshot = table.snapshot_as_of_timestamp(milliseconds(as_of))
        if snapshot is None:
            raise ValueError(f"{table.location()} had no snapshot yet at {as_of}, or it has expired")
    if snapshot is None:
        raise ValueError(f"{table.location()} has no snapshot, branch or tag {as_of}; it may have expired")
    return snapshot


def _newest_metadata(storage: Storage) -> str:
    """Return the name of the current metadata file in a folder."""
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
            raise UnsupportedError(
                f"the version hint of {storage.uri} is {hint!r}, and there is no such version; pass the metadata file"
            )
        number = int(hint)
        # A writer may have stopped after it wrote a version, and before it updated the hint.
        while number + 1 in numbered:
            number += 1
    if len(numbered[number]) > 1:
        raise UnsupportedError(
            f"{storage.uri} has {len(numbered[number])} metadata files with the number {number}, and only its catalog "
            "contains the current one; pass the metadata file, or pyiceberg's Table"
        )
    return numbered[number][0]


def _place(io: Any, path: str) -> tuple[Any, str] | None:
    """Return the pyarrow filesystem of a file and the path in it, or None if pyiceberg does not use pyarrow."""
    if not hasattr(io, "fs_by_scheme"):
        return None
    scheme, netloc, place = io.parse_location(path, io.properties)
    return io.fs_by_scheme(scheme, netloc), place


def _deleted(native: IcebergFile, rows: int) -> Sequence[int]:
    """Return the positions of the deleted rows of a data file."""
    deletes = native.deletes
    if deletes.vector is not None:
        return _vector(native.io, deletes.vector, rows)
    positions: set[int] = set()
    for entry in deletes.positions:
        positions.update(_positions(native.io, entry, native.path))
    return sorted(positions)


def _vector(io: Any, entry: DeleteFile, rows: int) -> Sequence[int]:
    path = entry.file.file_path
    if entry.offset is None or entry.length is None or entry.length < 8:
        raise UnsupportedError(f"the manifest has no valid offset and length of a deletion vector in {path}")
    with io.new_input(path).open() as file:
        file.seek(entry.offset)
        framed: bytes = file.read(entry.length)
    return deletion_vectors.positions(deletion_vectors.unframed(framed, entry.length - 8, path), rows)


def _positions(io: Any, entry: DeleteFile, path: str) -> Iterable[int]:
    where = entry.file.file_path
    if entry.file.file_format.name != "PARQUET":
        raise UnsupportedError(f"deletes in {where} are {entry.file.file_format.name}; only Parquet is supported")
    with foreign(where), io.new_input(where).open() as file:
        # The rows are sorted by path, so statistics skip most row groups.
        table = pq.read_table(file, columns=["pos"], filters=[("file_path", "=", path)])
        positions: list[int] = table["pos"].to_pylist()
    return positions


def _arrow_schema(iceberg_schema: Any) -> pa.Schema:
    """Convert Iceberg's schema to Arrow, with field IDs, nullable fields, and without large types."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    try:
        schema = schema_to_pyarrow(iceberg_schema)
        return pa.schema([_small_field(field) for field in schema])
    except (NotImplementedError, ValueError, TypeError, OverflowError) as error:
        raise UnsupportedError(f"the schema of the Iceberg table cannot be read: {error}") from error


def _small_field(field: pa.Field) -> pa.Field:
    metadata = {FIELD_ID: (field.metadata or {})[FIELD_ID]} if FIELD_ID in (field.metadata or {}) else None
    number = 0 if metadata is None else int(metadata[FIELD_ID])
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(f"column {field.name!r} has the field id {number}, which is not a 32-bit number")
    return pa.field(field.name, _small_type(field.type), metadata=metadata)


def _small_type(kind: pa.DataType) -> pa.DataType:
    if pt.is_struct(kind):
        return pa.struct([_small_field(child) for child in kind])
    if pt.is_list(kind) or pt.is_large_list(kind):
        return pa.list_(_small_field(kind.value_field))
    if pt.is_map(kind):
        return pa.map_(_small_field(kind.key_field).with_nullable(False), _small_field(kind.item_field))
    if pt.is_decimal(kind) and kind.scale > kind.precision:
        # pyarrow crashes for types with a large scale.
        raise ValueError(f"decimal({kind.precision}, {kind.scale}) is not a valid type")
    if pt.is_large_string(kind):
        return pa.string()
    return pa.binary() if pt.is_large_binary(kind) else kind


def _names_by_id(fields: Iterable[Any]) -> dict[bytes, set[str]]:
    """Return the names of each field ID in a name mapping, at all levels."""
    names: dict[bytes, set[str]] = {}
    for field in fields:
        if field.field_id is not None:
            names[str(field.field_id).encode()] = set(field.names)
        names |= _names_by_id(field.fields)
    return names


def _find(mapping: Mapping[bytes, set[str]], among: Sequence[pa.Field]) -> Find:
    """Return a function that finds fields by ID, or by a mapped name in a file without IDs."""
    ids = places_by_id(among)
    has_ids = any(number is not None for number in ids)
    names: dict[str, list[int]] = {}
    for place, among_field in enumerate(among):
        names.setdefault(among_field.name, []).append(place)

    def find(field: pa.Field) -> int | None:
        number = field.metadata[FIELD_ID]
        if has_ids:
            return ids.get(number)
        if not mapping:
            raise UnsupportedError(
                f"column {field.name!r}: the file has no field ids, and the table has no name mapping; set the table's "
                "property schema.name-mapping.default"
            )
        places = [place for name in mapping.get(number, ()) for place in names.get(name, ())]
        if len(places) > 1:
            raise UnsupportedError(
                f"column {field.name!r} matches several columns of a file in the table's name mapping"
            )
        return places[0] if places else None

    return find

"""Read Delta tables, including deletion vectors, mapped columns and statistics, from their log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from parsieve._core import FormatError, UnsupportedError
from parsieve.lake.base import AsOf, ColumnPath, Slice, Snapshot, Statistics, utc
from parsieve.lake.delta.commit_times import CommitTimes
from parsieve.lake.delta.files import unquoted
from parsieve.lake.delta.log import LogState, commit_token, latest_version, state_at
from parsieve.lake.delta.schema import mapping_mode, matching_of, schema_of, unpack, vector_path
from parsieve.lake.delta.slices import DeltaFile, DeltaSlices, TableState, place_of
from parsieve.lake.delta.statistics import statistics_of
from parsieve.lake.rows import deletion_vectors
from parsieve.lake.rows.adapter import Adapter
from parsieve.lake.rows.arrow_scan import ScanFile
from parsieve.lake.rows.columns import BY_NAME, is_nested, is_repeated, stored_paths
from parsieve.lake.rows.file_rows import FileRows
from parsieve.lake.storage.storage import Storage
from parsieve.lake.storage.version import Version

if TYPE_CHECKING:
    from parsieve.lake.rows.checked_files import CheckedFiles

_FEATURES = {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    # The schema rejects columns of this type. Some writers list the feature for tables without such columns.
    "variantType",
    "variantType-preview",
}


@dataclass(frozen=True, slots=True)
class _Version:
    """Replaces a `DeltaTable` in a pickle, so that the copy stays at the original's version."""

    number: int

    def version(self) -> int:
        """Return the version number."""
        return self.number


class Delta(Adapter):
    """A Delta table. If it is opened from a `DeltaTable`, the version of that object is the current version."""

    format = "delta"
    has_field_ids = True
    # The version, the token of its commit, the state of its log, and the snapshot.
    _last: tuple[int, str, LogState, Snapshot] | None = None

    def __init__(self, source: Any, storage_options: Mapping[str, str] | None = None) -> None:
        self._given: Any = None
        if type(source).__name__ == "DeltaTable":
            self._given = source
            storage_options = storage_options or getattr(source, "_storage_options", None)
            source = source.table_uri
        self._storage = Storage(source, storage_options)
        if self._storage.filesystem is not None and isinstance(source, tuple):
            raise UnsupportedError(
                "cannot open a Delta table by a (filesystem, path) pair; pass its path or URI, and storage_options"
            )
        self.uri = self._storage.uri.rstrip("/")
        self.storage_options = self._storage.options

    def folder_address(self, name: str) -> Any:
        """Return the address of a folder inside the table's folder."""
        return self._storage.folder_address(name)

    def reopening(self) -> dict[str, Any]:
        """Return the attributes that a copy in another process needs to read the table again."""
        return {"_given": None if self._given is None else _Version(int(self._given.version()))}

    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        """Return the current state of the table, or its state at a version or time. A time must have a zone."""
        version = self._version(as_of)
        # A version never changes, but a new table at the same place may have a version with the same number.
        token = commit_token(self._storage, version)
        last = self._last
        if token and last is not None and last[:2] == (version, token):
            return last[3]
        state = state_at(self._storage, version, self._earlier(version))
        _check_protocol(state.protocol)
        snapshot = self._snapshot(state, schema_of(state.metadata))
        self._last = version, token, state, snapshot
        return snapshot

    def _earlier(self, version: int) -> LogState | None:
        """Return the last state if the log still contains it, so that only the commits after it are read."""
        last = self._last
        if last is None or last[0] >= version or not last[1]:
            return None
        return last[2] if commit_token(self._storage, last[0]) == last[1] else None

    def _version(self, as_of: AsOf) -> int:
        if isinstance(as_of, str) and as_of.isdigit():
            as_of = int(as_of)
        if as_of is not None and not isinstance(as_of, int):
            return self._version_at(utc(as_of))
        if as_of is None and self._given is not None:
            return int(self._given.version())
        latest = latest_version(self._storage)
        if as_of is None:
            return latest
        if not 0 <= as_of <= latest:
            raise ValueError(f"{self.uri} has no version {as_of}; the newest version is {latest}")
        return as_of

    def _version_at(self, moment: dt.datetime) -> int:
        times = CommitTimes(self._storage, self._times_since)
        version = times.newest_until(moment)
        if version is not None:
            return version
        if not times.versions:
            return self._version_by_file_times(moment)
        if not times.others:
            raise ValueError(f"the first version in the log of {self.uri} is newer than {moment}")
        return min(self._version_by_file_times(moment), times.others[-1])

    def _times_since(self) -> int | None:
        """Return the version since which all commits contain their times, or None if the metadata have none."""
        version = latest_version(self._storage)
        last = self._last
        if last is not None and last[1] and last[:2] == (version, commit_token(self._storage, version)):
            state = last[2]
        else:
            state = state_at(self._storage, version, self._earlier(version))
        since = dict(state.metadata.get("configuration") or {}).get("delta.inCommitTimestampEnablementVersion")
        return int(since) if since is not None and str(since).isdecimal() else None

    def _version_by_file_times(self, moment: dt.datetime) -> int:
        try:
            from deltalake import DeltaTable
            from deltalake.exceptions import DeltaError
        except ImportError:
            raise UnsupportedError(
                "as_of with a time needs the package deltalake for Delta tables: pip install 'parsieve[delta]'"
            ) from None
        try:
            table = DeltaTable(self._storage.encoded_uri, storage_options=dict(self.storage_options) or None)
            table.load_as_version(moment)
        except DeltaError as error:
            raise ValueError(f"{self.uri} had no version at {moment}: {error}") from error
        version = int(table.version())
        # For times before the first version in the log, deltalake returns that version. It also uses the files' times.
        if self._storage.modified(self._storage.join(f"_delta_log/{version:020}.json")) > moment:
            raise ValueError(f"the first version in the log of {self.uri} is newer than {moment}")
        return version

    def _snapshot(self, state: LogState, schema: pa.Schema) -> Snapshot:
        matching = matching_of(mapping_mode(state.metadata))
        fields = {field.name: field for field in schema}
        columns = state.metadata.get("partitionColumns")
        if not isinstance(columns, list):
            raise FormatError(f"the partition columns in Delta's log are not a list of names: {columns!r}")
        unknown = [name for name in columns if not isinstance(name, str) or name not in fields]
        if unknown:
            raise FormatError(f"Delta's log partitions by {unknown[0]!r}, which is not a column of the table")
        partitions = [fields[name] for name in columns]
        slices = DeltaSlices(TableState(self._storage, schema, matching, partitions), state.files)

        def statistics(column: ColumnPath) -> Statistics | None:
            # Delta has no statistics of lists and maps.
            if is_nested(schema, column) or is_repeated(schema, column):
                return None
            return statistics_of(state.files.stats, schema, column, state.files.clean)

        return Snapshot(state.version, state.version, schema, slices, statistics)

    def read_keys(self, file_slice: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of one file, without the rows of its deletion vector."""
        native: DeltaFile = file_slice.native
        for path in stored_paths(native.schema, columns):
            if path[0] in native.doubtful:
                raise UnsupportedError(f"{file_slice.path}: {path[0]} is {native.doubtful[path[0]]}")
        return super().read_keys(file_slice, columns)

    def read(
        self,
        snapshot: Snapshot,
        slices: Sequence[Slice],
        columns: Sequence[str] | None = None,
        filter: Any = None,
        row_groups: Sequence[Sequence[int] | None] = (),
    ) -> pa.RecordBatchReader:
        """Return the live rows of some files. Raises an error first if a partition value is ambiguous."""
        names = list(snapshot.schema.names if columns is None else columns)
        for file_slice in slices:
            for name, doubt in file_slice.native.doubtful.items():
                if file_slice.native.constants[name] is None and (name in names or filter is not None):
                    raise UnsupportedError(f"{file_slice.path}: {name} is {doubt}")
        return super().read(snapshot, slices, columns, filter, row_groups)

    def version(self, file_slice: Slice) -> Version | None:
        """Return the present version of the data file."""
        native: DeltaFile = file_slice.native
        return native.storage.version(native.path)

    def files(self, snapshot: Snapshot, slices: Sequence[Slice]) -> CheckedFiles | None:
        """Return the data files, or None if they need more than a scan, for example for deletion vectors."""
        from parsieve.lake.rows.checked_files import files_of

        natives: list[DeltaFile] = [file_slice.native for file_slice in slices]
        if self._storage.arrow() is None or any(
            not file_slice.clean
            or native.doubtful
            or native.matching is not BY_NAME
            or native.storage is not self._storage
            for file_slice, native in zip(slices, natives, strict=True)
        ):
            return None
        files = [
            ScanFile(self._storage, native.path, str(file_slice.path), native.size, constants=native.constants)
            for file_slice, native in zip(slices, natives, strict=True)
        ]
        return files_of(files, snapshot.schema)

    def constants(self, file_slice: Slice) -> Collection[str]:
        """Return the partition columns, including columns with doubtful values."""
        native: DeltaFile = file_slice.native
        return native.constants

    def absent_is_null(self, file_slice: Slice, column: pa.Field) -> bool:
        """Return True for all columns but partition columns: Delta has no defaults for files without a column."""
        return column.name not in self.constants(file_slice)

    def open_base(self, file_slice: Slice) -> Any:
        """Return the data file as a source on its filesystem."""
        source: Any = file_slice.native.storage.source(file_slice.native.path)
        return source

    def rows(self, file_slice: Slice) -> FileRows:
        """Return the live rows of one file."""
        native: DeltaFile = file_slice.native
        vector = native.vector
        deleted = (lambda rows: ()) if vector is None else partial(self._deleted, vector)
        return FileRows(
            lambda: native.storage.open(native.path),
            str(file_slice.path),
            native.matching,
            native.constants,
            deleted,
            doubtful=native.doubtful,
        )

    def _deleted(self, vector: Mapping[str, Any], rows: int) -> Sequence[int]:
        """Return the positions in a deletion vector. Verify its checksum and its number of rows."""
        path, size, start = vector_path(vector), vector.get("sizeInBytes"), vector.get("offset")
        if not isinstance(size, int) or not 0 <= size < 2**31 or not isinstance(start, (int, NoneType)):
            raise FormatError("Delta log: a deletion vector has no valid size or offset")
        if path is None:
            data = unpack(vector["pathOrInlineDv"])[:size]
        else:
            storage, place = place_of(self._storage, unquoted(path))
            with storage.open(place) as file:
                # The first byte of the file is its format version, so the first vector begins at byte 1.
                file.seek(1 if start is None else start)
                framed: bytes = file.read(size + 8)
            data = deletion_vectors.unframed(framed, size, storage.address(place))
        positions = deletion_vectors.positions(data, rows)
        if len(positions) != vector.get("cardinality"):
            raise FormatError(
                f"a deletion vector has {len(positions)} rows, but Delta's log has {vector.get('cardinality')}"
            )
        return positions


def _check_protocol(protocol: Mapping[str, Any]) -> None:
    version, names = protocol.get("minReaderVersion"), protocol.get("readerFeatures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FormatError(
            f"the protocol in Delta's log has the reader features {names!r}, which is not a list of names"
        )
    features = set(names)
    if version not in (1, 2, 3) or features - _FEATURES:
        unsupported = ", ".join(sorted(features - _FEATURES)) or f"reader version {version}"
        raise UnsupportedError(f"the Delta table needs {unsupported}, which is not supported; read it with Spark")

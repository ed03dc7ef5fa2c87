"""Read plain Parquet files: a folder, with or without hive partitions, or a single file."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from parsieve._core import UnsupportedError
from parsieve.errors import ConflictError
from parsieve.io.index_location import BELOW, Places
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.io.sources import are_other_times
from parsieve.lake.base import NO_CHANGE_TIME, AsOf, ColumnPath, Slice, Snapshot
from parsieve.lake.folder import hive
from parsieve.lake.folder.slices import FolderSlices
from parsieve.lake.rows.adapter import Adapter
from parsieve.lake.rows.arrow_scan import ScanFile, without_dictionaries
from parsieve.lake.rows.columns import pruned
from parsieve.lake.rows.file_rows import ENCRYPTED, FileRows, foreign
from parsieve.lake.storage.keys import TableKeys
from parsieve.lake.storage.listing import NEVER, ListedFile, Listing
from parsieve.lake.storage.pinned import FAILURES
from parsieve.lake.storage.remote_listing import REMOTE_NS
from parsieve.lake.storage.storage import LONGEST_WAIT_NS, Storage
from parsieve.lake.storage.version import Version
from parsieve.predicate.expressions.expression import computed
from parsieve.wording import count

if TYPE_CHECKING:
    from parsieve.io.store.base import Store
    from parsieve.lake.rows.checked_files import CheckedFiles

# How often a folder is listed if files are removed before their schema is read.
_ATTEMPTS = 5


class _RemovedError(Exception):
    """A listed file no longer exists."""


@dataclass(frozen=True, slots=True, eq=False)
class _Last:
    listed: Listing
    snapshot: Snapshot
    # The schemas of the files that were read, by path, each with the token of its file.
    physical: Mapping[str, tuple[str, pa.Schema]]


class ParquetDir(Adapter):
    """All files below a folder, except empty files and files that engines ignore (names that start with `_` or `.`).

    Like engines, use the schema of the first file by path, unless you pass a schema, or "unify" to merge the schemas of
    all files. Partition columns come last, and take precedence over columns of the same name in the files.
    """

    format = "parquet"
    # The table may have the types of its first file only.
    types_are_certain = False
    files_may_be_replaced = True
    _last: _Last | None = None

    def __init__(
        self,
        source: Any,
        storage_options: Mapping[str, str] | None = None,
        schema: pa.Schema | str | None = None,
        keys: TableKeys | None = None,
    ) -> None:
        if isinstance(schema, str) and schema != "unify":
            raise ValueError(f'schema must be a pyarrow schema, "unify" or None, not {schema!r}')
        self._storage = Storage(source, storage_options)
        self._schema = schema
        self.keys = keys
        # Encrypted columns that `read_keys` may yield, or None for all.
        self._exposed: frozenset[ColumnPath] | None = frozenset()
        self.uri = self._storage.uri
        self.storage_options = self._storage.options

    def folder_address(self, name: str) -> Any:
        """Return the address of a folder inside the table's folder."""
        return self._storage.folder_address(name)

    def places(self) -> Places:
        """Return a location next to the folder, so that readers of the folder do not find the index.

        The second location is inside the folder, where version 0.1 stored the index.
        """
        below = self.folder_address(BELOW)
        if self._storage.is_single_file():
            return Places(below)
        problem = (
            f"no folder next to {self.uri or 'the root of the store'} can hold its index, because it is at the root of "
            "its filesystem or bucket; pass another place as index_location="
        )
        return Places(self._storage.next_to(), below, problem)

    def problem_with_index(self, store: Store) -> str:
        """Return why an index must not be written to a store: readers of the folder would read it, too."""
        from parsieve.lake.storage.index_place import problem_with

        return problem_with(self._storage, store)

    @property
    def storage(self) -> Storage:
        """Return the folder and its filesystem."""
        return self._storage

    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        """Return the present files. A folder has no history, so `as_of` must be None.

        If no file changed, the slices are the same object as before.
        """
        if as_of is not None:
            raise UnsupportedError(
                f"{self.uri} is a plain folder of Parquet files, which has no earlier states; omit as_of"
            )
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(_RemovedError):
                return self._present()
        raise ConflictError(f"files of {self.uri} were removed {_ATTEMPTS} times while they were listed; try again")

    def _present(self) -> Snapshot:
        instant = time.time_ns()
        try:
            listed = self._storage.list()
        except FileNotFoundError as error:
            if error.filename and str(error.filename).rstrip("/") != self.uri:
                raise
            raise self._storage.missing() from error
        last = self._last
        if last is not None and last.listed is listed:
            return replace(last.snapshot, instant=instant)
        # Skip empty files. Object stores use them to mark folders, and writers have just created them.
        files = listed.filter(pc.greater(listed.columns["size"], 0))
        if not files:
            hint = str(self._storage.missing().strerror).removeprefix("no such file or folder")
            if len(listed):
                hint = f"; it has {count(len(listed), 'file')} of 0 bytes, which a writer may have just created"
            elif self.storage_options:
                # The store of a URI with options begins at the URI, so it has no path for an object of that name.
                hint = f"{hint}; if this is a single file, pass a store of obstore and the path in it: (store, path)"
            raise FileNotFoundError(f"no Parquet files in {self.uri}{hint}")
        partitions = hive.fields_of(dict.fromkeys(files.folders))
        schemas = self._schemas(files)
        schema = self._table_schema(list(schemas.values()), partitions)
        if last is not None and last.snapshot.schema.equals(schema, check_metadata=True):
            schema = last.snapshot.schema
        partitions = [schema.field(partition.name) for partition in partitions]
        slices = FolderSlices.listed(self._storage, schema, files, partitions, schemas)
        snapshot = Snapshot(None, instant, schema, slices)
        tokens = files.columns["token"][: len(schemas)].to_pylist()
        physical = zip(schemas, zip(tokens, schemas.values(), strict=True), strict=True)
        self._last = _Last(listed, snapshot, dict(physical))
        return snapshot

    def settled(self, snapshot: Snapshot) -> Snapshot:
        """Wait until the youngest files can have a token, and return a new snapshot.

        Files that change meanwhile stay without a token.
        """
        if not pc.any(pc.equal(snapshot.slices.token, "")).as_py():
            return replace(snapshot, unsettled={})
        self._storage.wait()
        snapshot = self.snapshot()
        assert self._last is not None
        columns = self._last.listed.columns
        listed = {file.relative: file for file in Listing(columns.filter(pc.equal(columns["token"], "")), ())}
        numbers = pc.indices_nonzero(pc.equal(snapshot.slices.token, "")).to_pylist()
        reasons = {
            file_slice.location: _why_young(listed.get(file_slice.group)) for file_slice in snapshot.slices.at(numbers)
        }
        return replace(snapshot, unsettled=reasons)

    def _schemas(self, files: Sequence[ListedFile]) -> dict[str, pa.Schema]:
        """Return the file schemas that determine the table's schema, by path. Unchanged files are not read again."""
        if isinstance(self._schema, pa.Schema):
            return {}
        files = files[:1] if self._schema is None else files[:]
        cached = {} if self._last is None else self._last.physical

        def schema_of(file: ListedFile) -> pa.Schema:
            token, physical = cached.get(file.path, ("", None))
            return physical if file.token and token == file.token else self._read_schema(file.path)

        if len(files) == 1:
            return {files[0].path: schema_of(files[0])}
        with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
            return dict(zip([file.path for file in files], pool.map(schema_of, files), strict=True))

    def _read_schema(self, path: str) -> pa.Schema:
        properties = None if self.keys is None else self.keys.for_rows(self._storage.source(path))
        try:
            with (
                foreign(self._storage.address(path), keyed=properties is not None),
                pq.ParquetFile(self._storage.open(path), decryption_properties=properties) as file,
            ):
                return file.schema_arrow
        except FileNotFoundError as error:
            raise _RemovedError from error

    def _table_schema(self, schemas: list[pa.Schema], partitions: list[pa.Field]) -> pa.Schema:
        if isinstance(self._schema, pa.Schema):
            new = [partition for partition in partitions if partition.name not in self._schema.names]
            return pa.schema([*self._schema, *new])
        schemas = [_plain(schema) for schema in schemas]
        try:
            schema = pa.unify_schemas(schemas, promote_options="permissive") if len(schemas) > 1 else schemas[0]
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise UnsupportedError(f"the files of {self.uri} have no schema in common: {error}") from error
        names = {partition.name for partition in partitions}
        by_lower_case = {name.lower(): name for name in names}
        for column in schema.names:
            other = by_lower_case.get(column.lower(), column)
            if other != column:
                raise UnsupportedError(
                    f"the name of column {column!r} and that of partition {other!r} in {self.uri} differ only in case, "
                    "and engines read such a folder in different ways; rename one of them"
                )
        return pa.schema([column for column in schema if column.name not in names] + partitions)

    def exposing(self, columns: Collection[ColumnPath] | None) -> ParquetDir:
        """Return the same table, whose `read_keys` also yields these encrypted columns."""
        exposing = copy.copy(self)
        # Copies have no keys, because `copy` uses the same state as a pickle.
        exposing.keys = self.keys
        exposing._exposed = None if columns is None else frozenset(columns)
        return exposing

    def read_keys(self, file_slice: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        """Return the rows of one file. Raises `ConflictError` if the file has changed since it was listed."""
        if self.keys is not None and self._exposed is not None:
            self._check_readable(file_slice, [path for path in columns if path not in self._exposed])
        written = self._written(file_slice)
        try:
            yield from super().read_keys(file_slice, columns)
        except FAILURES as error:
            # The file may be incomplete because another process writes to it.
            self._check_unchanged(file_slice, written, error)
            raise
        self._check_unchanged(file_slice, written)

    def listed_rows(self, file_slice: Slice) -> FileRows:
        """Return the rows of the listed version of a file."""
        path, size, token = file_slice.native.path, file_slice.size or 0, file_slice.token
        return replace(self.rows(file_slice), open=partial(self._storage.open_listed, path, size, token))

    def _written(self, file_slice: Slice) -> Any:
        """Return when a file was written, unless its token proves that it was not replaced and restored since then."""
        try:
            return self._storage.written(file_slice.native.path) if file_slice.token else None
        except FileNotFoundError as error:
            raise ConflictError(f"{file_slice.path} was removed since it was listed; try again") from error

    def _check_unchanged(self, file_slice: Slice, written: Any, error: Exception | None = None) -> None:
        """Raise `ConflictError` if the file has changed since it was listed, or was replaced and then restored."""
        if not file_slice.token:
            return
        path = file_slice.native.path
        try:
            is_same = self._storage.stat(path) == file_slice.token
            is_same = is_same and not are_other_times(self._storage.written(path), written)
        except FileNotFoundError:
            raise ConflictError(f"{file_slice.path} was removed while it was read; try again") from error
        if not is_same:
            raise ConflictError(f"{file_slice.path} was changed while it was read; try again") from error

    def _check_readable(self, file_slice: Slice, columns: Sequence[ColumnPath]) -> None:
        """Raise `UnsupportedError` if a file encrypts one of these columns."""
        rows = FileRows(
            partial(self._storage.open, file_slice.native.path),
            str(file_slice.path),
            constants=file_slice.partition_values,
        )
        if not columns:
            return
        try:
            rows.read_a_little(pruned(file_slice.native.schema, columns))
        except UnsupportedError as error:
            schema = file_slice.native.schema
            names = [path[0] if computed(path, schema) else ".".join(path) for path in columns]
            # The caller has passed the keys, so the advice to pass them would mislead.
            problem, encrypted, _ = str(error).partition(ENCRYPTED)
            raise UnsupportedError(
                f"{problem}{encrypted}. An index reveals the values of {', '.join(names)} to everyone who can read it; "
                f"to build it anyway, pass expose={names}"
            ) from error

    def version(self, file_slice: Slice) -> Version | None:
        """Return the present version of the file."""
        return self._storage.version(file_slice.native.path)

    def files(self, snapshot: Snapshot, slices: Sequence[Slice]) -> CheckedFiles | None:
        """Return the files, or None for obstore, which pyarrow cannot use, and for encrypted files."""
        from parsieve.lake.rows.checked_files import files_of

        # Each file may have other keys, but a pyarrow dataset uses the same keys for all files.
        if self._storage.arrow() is None or self.keys is not None:
            return None
        files = [
            ScanFile(
                self._storage,
                file_slice.native.path,
                str(file_slice.path),
                file_slice.size or 0,
                file_slice.token,
                file_slice.partition_values,
                file_slice.native.physical,
            )
            for file_slice in slices
        ]
        return files_of(files, snapshot.schema)

    def open_base(self, file_slice: Slice) -> Any:
        """Return the file as a source on the table's filesystem."""
        return self._storage.source(file_slice.native.path)

    def count_rows(self, file_slice: Slice) -> int | None:
        """Return the number of rows from the file's footer."""
        return self.rows(file_slice).count()

    def rows(self, file_slice: Slice) -> FileRows:
        """Return the rows of one file."""
        path = file_slice.native.path
        decryption = None if self.keys is None else partial(self.keys.for_rows, self._storage.source(path))
        return FileRows(
            lambda: self._storage.open(path),
            str(file_slice.path),
            constants=file_slice.partition_values,
            decryption=decryption,
        )


def _why_young(file: ListedFile | None) -> str:
    """Return the reason why a file has no token even after a wait."""
    if file is not None and file.settles >= NEVER:
        return NO_CHANGE_TIME
    seconds = 0.0 if file is None else (file.settles - time.time_ns()) / 1e9
    if seconds <= LONGEST_WAIT_NS / 1e9:
        return "it changed while the index was being prepared"
    if seconds <= REMOTE_NS / 1e9:
        return f"the store's listing has no ETag for it, so it can be indexed only {seconds:.0f} s from now"
    return f"its timestamp is in the future, so it can be indexed only {seconds:.0f} s from now"


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the types for engines, and without metadata, so that columns are only matched by name."""
    return pa.schema([pa.field(column.name, _without_views(without_dictionaries(column.type))) for column in schema])


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return a type without views, because pyarrow can read views, but cannot filter or compare them."""
    if pt.is_string_view(kind):
        return pa.string()
    if pt.is_binary_view(kind):
        return pa.binary()
    if not _has_views(kind):
        # A type that is built again loses the names of its entries.
        return kind
    if pt.is_struct(kind):
        return pa.struct([_without_views_in(child) for child in kind])
    if pt.is_map(kind):
        return pa.map_(_without_views_in(kind.key_field), _without_views_in(kind.item_field))
    if pt.is_list(kind):
        return pa.list_(_without_views_in(kind.value_field))
    if pt.is_large_list(kind):
        return pa.large_list(_without_views_in(kind.value_field))
    return kind


def _has_views(kind: pa.DataType) -> bool:
    children = (kind.field(number).type for number in range(kind.num_fields))
    return pt.is_string_view(kind) or pt.is_binary_view(kind) or any(map(_has_views, children))


def _without_views_in(field: pa.Field) -> pa.Field:
    return field.with_type(_without_views(field.type))

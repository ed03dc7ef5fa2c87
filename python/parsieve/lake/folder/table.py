"""Plain Parquet files: a folder, hive-partitioned or not, or a single file, on a disk or an object store."""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from parsieve._core import FormatError, UnsupportedError
from parsieve.errors import ConflictError
from parsieve.io.index_location import BELOW, Places
from parsieve.io.sources import REQUESTS_AT_ONCE
from parsieve.lake.base import AsOf, ColumnPath, Slice, Snapshot
from parsieve.lake.folder import hive
from parsieve.lake.folder.slices import FolderSlices
from parsieve.lake.rows.adapter import Adapter
from parsieve.lake.rows.arrow_scan import ScanFile, without_dictionaries
from parsieve.lake.rows.checked_files import CheckedFiles, files_of
from parsieve.lake.rows.columns import pruned
from parsieve.lake.rows.file_rows import FileRows, foreign
from parsieve.lake.storage.keys import TableKeys
from parsieve.lake.storage.listing import NEVER, ListedFile
from parsieve.lake.storage.pinned import Version
from parsieve.lake.storage.storage import LONGEST_WAIT_NS, REMOTE_NS, Storage


@dataclass(frozen=True, slots=True, eq=False)
class _Last:
    listed: tuple[ListedFile, ...]
    snapshot: Snapshot
    # The schemas that were read, by path, each with its file's token.
    physical: Mapping[str, tuple[str, pa.Schema]]


class ParquetDir(Adapter):
    """All files below a folder, except empty files and files that engines ignore (`_` or `.` in front).

    The schema is that of the first file by path, as engines take it, or of all files with `schema="unify"`, or one that
    is given. Partition columns come behind it, and win over columns of the same name in the files.
    """

    format = "parquet"
    # The first file gives the table its types.
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
            raise ValueError(f'schema is a pyarrow schema, "unify" or None, not {schema!r}')
        self._storage = Storage(source, storage_options)
        self._schema = schema
        self.keys = keys
        # Columns that `read_keys` yields though they are encrypted; None: all.
        self._exposed: frozenset[ColumnPath] | None = frozenset()
        self.uri = self._storage.uri
        self.storage_options = self._storage.options

    def beside(self, name: str) -> Any:
        """A folder in the table's own, on the same filesystem."""
        return self._storage.beside(name)

    def places(self) -> Places:
        """Next to the folder, where no reader of it looks. Version 0.1 stored the index in the folder."""
        below = self.beside(BELOW)
        if self._storage.is_single_file():
            return Places(below)
        problem = (
            f"no folder next to {self.uri or 'the root of the store'} can hold its index, because it is at the root of "
            "its filesystem or bucket; pass another place as index_location="
        )
        return Places(self._storage.next_to(), below, problem)

    @property
    def storage(self) -> Storage:
        """The folder and its filesystem."""
        return self._storage

    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        """The files that are there now. A folder has no history.

        If no file changed, the slices are the same object as before.
        """
        if as_of is not None:
            raise UnsupportedError(f"{self.uri} is a plain folder of Parquet files, which has no history; omit as_of")
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
        # Zero bytes are no Parquet file: object stores mark folders so, and writers that have only begun.
        files = [file for file in listed if file.size]
        if not files:
            hint = str(self._storage.missing().strerror).removeprefix("no such file or folder")
            raise FileNotFoundError(f"no Parquet files in {self.uri}{hint}")
        partitions = hive.fields_of(dict.fromkeys(file.relative.rpartition("/")[0] for file in files))
        schemas = self._schemas(files)
        schema = self._table_schema(list(schemas.values()), partitions)
        if last is not None and last.snapshot.schema.equals(schema, check_metadata=True):
            schema = last.snapshot.schema
        partitions = [schema.field(one.name) for one in partitions]
        slices = FolderSlices.listed(self._storage, schema, files, partitions, schemas)
        found = Snapshot(None, instant, schema, slices)
        tokens = {file.path: file.token for file in files if file.path in schemas}
        self._last = _Last(listed, found, {path: (tokens[path], physical) for path, physical in schemas.items()})
        return found

    def settled(self, snapshot: Snapshot) -> Snapshot:
        """The folder once its youngest files can have a token; files that change meanwhile stay without one."""
        if not pc.any(pc.equal(snapshot.slices.token, "")).as_py():
            return replace(snapshot, unsettled={})
        self._storage.wait()
        found = self.snapshot()
        assert self._last is not None
        listed = {file.relative: file for file in self._last.listed}
        numbers = pc.indices_nonzero(pc.equal(found.slices.token, "")).to_pylist()
        young = {one.location: _why_young(listed.get(one.group)) for one in found.slices.at(numbers)}
        return replace(found, unsettled=young)

    def _schemas(self, files: Sequence[ListedFile]) -> dict[str, pa.Schema]:
        """Return the schemas that determine the table's, by path. Schemas of unchanged files are not read again."""
        if isinstance(self._schema, pa.Schema):
            return {}
        wanted = files[:1] if self._schema is None else files
        known = {} if self._last is None else self._last.physical

        def held(file: ListedFile) -> pa.Schema:
            token, physical = known.get(file.path, ("", None))
            return physical if file.token and token == file.token else self._physical(file.path)

        if len(wanted) == 1:
            return {wanted[0].path: held(wanted[0])}
        with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
            return dict(zip([file.path for file in wanted], pool.map(held, wanted), strict=True))

    def _physical(self, path: str) -> pa.Schema:
        properties = None if self.keys is None else self.keys.for_rows(self._storage.source(path))
        try:
            with (
                foreign(self._storage.address(path), keyed=properties is not None),
                pq.ParquetFile(self._storage.open(path), decryption_properties=properties) as file,
            ):
                return file.schema_arrow
        except FormatError as error:
            raise _with_remedy(error, path) from error

    def _table_schema(self, schemas: list[pa.Schema], partitions: list[pa.Field]) -> pa.Schema:
        if isinstance(self._schema, pa.Schema):
            return pa.schema([*self._schema, *(one for one in partitions if one.name not in self._schema.names)])
        held = [_plain(schema) for schema in schemas]
        try:
            whole = pa.unify_schemas(held, promote_options="permissive") if len(held) > 1 else held[0]
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise UnsupportedError(f"the files of {self.uri} have no schema in common: {error}") from error
        names = {one.name for one in partitions}
        return pa.schema([one for one in whole if one.name not in names] + partitions)

    def exposing(self, columns: Collection[ColumnPath] | None) -> ParquetDir:
        """The same table, whose keys open these columns for `read_keys` too."""
        found = copy.copy(self)
        # Which a copy, as one that goes to other processes, does without.
        found.keys = self.keys
        found._exposed = None if columns is None else frozenset(columns)
        return found

    def read_keys(self, piece: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        """Return the rows of one file. Raises `ConflictError` if the file has changed since it was listed."""
        if self.keys is not None and self._exposed is not None:
            self._refuse_closed(piece, [path for path in columns if path not in self._exposed])
        try:
            yield from super().read_keys(piece, columns)
        except FormatError as error:
            raise _with_remedy(error, piece.native.path) from error
        if piece.token and self._storage.stat(piece.native.path) != piece.token:
            raise ConflictError(f"{piece.path} was changed while it was read; try again")

    def _refuse_closed(self, piece: Slice, columns: Sequence[ColumnPath]) -> None:
        """`UnsupportedError` for a file in which one of these columns cannot be read by everybody."""
        rows = FileRows(
            partial(self._storage.open, piece.native.path), str(piece.path), constants=piece.partition_values
        )
        if not columns:
            return
        try:
            rows.read_a_little(pruned(piece.native.schema, columns))
        except UnsupportedError as error:
            names = [".".join(path) for path in columns]
            raise UnsupportedError(
                f"{error}. An index tells the values of {', '.join(names)} to whoever can read it; expose={names} "
                "builds it all the same"
            ) from error

    def version(self, piece: Slice) -> Version | None:
        """What tells the file from another one that takes its name."""
        return self._storage.version(piece.native.path)

    def files(self, snapshot: Snapshot, slices: Sequence[Slice]) -> CheckedFiles | None:
        """Return the files; None for obstore, which has no filesystem of pyarrow's, and for encrypted files."""
        # Each file has keys of its own, and a dataset the same for all.
        if self._storage.arrow() is None or self.keys is not None:
            return None
        files = [
            ScanFile(
                self._storage,
                one.native.path,
                str(one.path),
                one.size or 0,
                one.token,
                one.partition_values,
                one.native.physical,
            )
            for one in slices
        ]
        return files_of(files, snapshot.schema)

    def open_base(self, piece: Slice) -> Any:
        """The file, opened by the filesystem that the table was opened with."""
        return self._storage.source(piece.native.path)

    def count_rows(self, piece: Slice) -> int | None:
        """Return the rows of a file by its footer."""
        return self.rows(piece).count()

    def rows(self, piece: Slice) -> FileRows:
        """The rows of one file."""
        path = piece.native.path
        decryption = None if self.keys is None else partial(self.keys.for_rows, self._storage.source(path))
        return FileRows(
            lambda: self._storage.open(path), str(piece.path), constants=piece.partition_values, decryption=decryption
        )


def _with_remedy(error: FormatError, path: str) -> FormatError:
    """The error for a file that is not Parquet, and by its name was never meant to be."""
    if ".parquet" in path.rpartition("/")[2]:
        return error
    return FormatError(
        f"{str(error).rstrip('.')}. Every file in a table's folder counts as Parquet unless its "
        "name starts with _ or a dot: move this one, or rename it"
    )


def _why_young(file: ListedFile | None) -> str:
    """Why a file has no token even after a wait."""
    if file is not None and file.settles >= NEVER:
        return "its store gives neither an ETag nor a time of change, so a change would go unnoticed"
    seconds = 0.0 if file is None else (file.settles - time.time_ns()) / 1e9
    if seconds <= LONGEST_WAIT_NS / 1e9:
        return "it changed while the index was being prepared"
    if seconds <= REMOTE_NS / 1e9:
        return f"its store gives no ETag, so it can be indexed only {seconds:.0f} s from now"
    return f"its timestamp is in the future, so it can be indexed only {seconds:.0f} s from now"


def _plain(schema: pa.Schema) -> pa.Schema:
    """A schema as an engine sees it: no metadata either, so that columns go by their names."""
    return pa.schema([pa.field(one.name, _without_views(without_dictionaries(one.type))) for one in schema])


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Pyarrow can read views and neither filter nor compare them."""
    if pt.is_string_view(kind):
        return pa.string()
    if pt.is_binary_view(kind):
        return pa.binary()
    if pt.is_struct(kind):
        return pa.struct([pa.field(one.name, _without_views(one.type)) for one in kind])
    return kind

"""Build the slices of a plain folder from its listing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from parsieve.lake.folder import hive
from parsieve.lake.slices import PartitionColumn, Slices
from parsieve.lake.storage.listing import Listing
from parsieve.lake.storage.storage import Storage
from parsieve.sharing import cached_property


@dataclass(frozen=True, slots=True, eq=False)
class FolderFile:
    """The adapter's data for reading a file."""

    path: str
    schema: pa.Schema
    # The file's own schema, if the table's schema was derived from it.
    physical: pa.Schema | None


class FolderSlices(Slices):
    """The slices of a plain folder."""

    def __init__(
        self,
        storage: Storage,
        schema: pa.Schema,
        columns: pa.RecordBatch,
        folders: Mapping[str, Mapping[str, object]],
        physical: Mapping[str, pa.Schema],
    ) -> None:
        """Create slices from columns.

        `folders` maps each folder to its partition values, and `physical` maps the path of a file to its schema.
        """
        self._storage = storage
        self._schema = schema
        self._columns = columns
        self._folders = folders
        self._physical = physical

    @classmethod
    def listed(
        cls,
        storage: Storage,
        schema: pa.Schema,
        files: Listing,
        partitions: Sequence[pa.Field],
        physical: Mapping[str, pa.Schema],
    ) -> FolderSlices:
        """Return the slices of listed files."""
        values = {folder: hive.values_of(folder, partitions) for folder in files.folders}
        columns = files.columns.select(["relative", "folder", "token", "path", "size"])
        return cls(storage, schema, columns.rename_columns(["group", *columns.schema.names[1:]]), values, physical)

    def __len__(self) -> int:
        return int(self._columns.num_rows)

    @cached_property
    def partition(self) -> pa.StringArray:
        """The folder of each file."""
        return pa.array(list(self._folders), pa.string()).take(self._columns["folder"])

    @property
    def group(self) -> pa.StringArray:
        """The path of each file below the folder."""
        return self._columns["group"]

    @property
    def token(self) -> pa.StringArray:
        """The token of each file, "" if the file is too young to have one."""
        return self._columns["token"]

    @cached_property
    def path(self) -> pa.StringArray:
        """The path of each file for engines."""
        paths = self._columns["path"].to_pylist()
        return pa.array([self._storage.address(path) for path in paths], pa.string())

    @property
    def size(self) -> pa.Int64Array:
        """The bytes of each file."""
        return self._columns["size"]

    @property
    def num_rows(self) -> pa.Int64Array:
        """Nulls, because a listing does not count rows."""
        return pa.nulls(len(self), pa.int64())

    @property
    def clean(self) -> pa.BooleanArray:
        """True for all files, because plain folders have no deleted rows."""
        return pa.repeat(pa.scalar(True), len(self))

    @cached_property
    def partition_values(self) -> Mapping[str, PartitionColumn]:
        """The columns in the names of the folders."""
        rows = list(self._folders.values())
        names = rows[0] if rows else ()
        return {name: PartitionColumn([row[name] for row in rows], self._columns["folder"]) for name in names}

    def native(self, number: int) -> FolderFile:
        """Return the adapter's data for reading a file."""
        path = self._columns["path"][number].as_py()
        return FolderFile(path, self._schema, self._physical.get(path))

    def select(self, numbers: pa.Array) -> Slices:
        """Return the slices at some positions."""
        return FolderSlices(self._storage, self._schema, self._columns.take(numbers), self._folders, self._physical)

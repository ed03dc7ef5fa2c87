"""Define the types that all table formats share: snapshots, statistics, and `Lake`, the base class of all adapters."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import FileKeys, FileReader
from parsieve.errors import ConflictError
from parsieve.io.index_location import BELOW, Places
from parsieve.io.ranges import RangeReader, open_footer
from parsieve.io.sources import needs_listed_version, open_version
from parsieve.lake.slices import Location, Slice, Slices, locations_and_tokens
from parsieve.lake.storage.keys import TableKeys
from parsieve.predicate.column_names import ColumnPath
from parsieve.predicate.expressions.expression import computed
from parsieve.sharing import cached_property

if TYPE_CHECKING:
    import pyarrow.dataset as pads

    from parsieve.io.store.base import Store
    from parsieve.lake.rows.checked_files import CheckedFiles
    from parsieve.lake.storage.version import Version

__all__ = ["AsOf", "Changes", "ColumnPath", "Lake", "LeftOut", "Location", "Slice", "Snapshot", "Statistics", "utc"]

AsOf = int | str | dt.datetime | None


def utc(moment: AsOf) -> dt.datetime:
    """Convert a user-supplied datetime to UTC. Naive datetimes are rejected as ambiguous."""
    if not isinstance(moment, dt.datetime):
        raise TypeError(f"as_of must be a version or a datetime, not {moment!r}")
    if moment.tzinfo is None:
        raise ValueError(f"as_of={moment} has no time zone; add one, as in datetime(..., tzinfo=timezone.utc)")
    return moment.astimezone(dt.UTC)


def milliseconds(moment: AsOf) -> int:
    """Return the complete milliseconds between 1970 and a user-supplied datetime."""
    return (utc(moment) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Statistics of one column that are proven for each slice of a snapshot.

    Each array has one element for each slice, which is null if it is unknown. All values except NaN, including the
    deleted ones, satisfy `lower <= value <= upper`. The counts refer to the base file. If rows were deleted,
    `null_count` is an upper bound of the live nulls. `value_count` includes nulls and NaN.
    """

    lower: pa.Array
    upper: pa.Array
    null_count: pa.Array
    value_count: pa.Array


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """How one snapshot differs from an earlier one."""

    added: tuple[Slice, ...]
    removed: tuple[Location, ...]
    # Slices of the later snapshot whose live rows may differ from the earlier one.
    changed: tuple[Slice, ...]

    @classmethod
    def between(cls, tokens: Mapping[Location, str], until: Snapshot) -> Self:
        """Compare earlier tokens, for example from an index, with a snapshot."""
        slices = until.slices
        added, changed, locations = [], [], set()
        for number, (location, token) in enumerate(zip(*locations_and_tokens(slices), strict=True)):
            locations.add(location)
            earlier_token = tokens.get(location)
            if earlier_token is None:
                added.append(number)
            elif not earlier_token or earlier_token != token:
                changed.append(number)
        removed = tuple(location for location in tokens if location not in locations)
        return cls(tuple(slices.at(added)), removed, tuple(slices.at(changed)))


def _without_contradictions(statistics: Statistics) -> Statistics:
    """Return the statistics without minima that exceed the maxima. Their writer ordered the values in another way."""
    lower, upper = statistics.lower, statistics.upper
    try:
        is_wrong = pc.fill_null(pc.greater(lower, upper), False)
    except pa.ArrowNotImplementedError:
        return statistics
    if not is_wrong.true_count:
        return statistics
    unknown = pa.scalar(None, lower.type)
    return replace(statistics, lower=pc.if_else(is_wrong, unknown, lower), upper=pc.if_else(is_wrong, unknown, upper))


def _no_statistics(_: ColumnPath) -> None:
    """Return None: the statistics of every column are unknown."""


# Reasons why a file cannot be indexed that remain after an update.
NO_TOKEN = "it has no token that would prove later that it is unchanged"
NO_CHANGE_TIME = "its store gives neither an ETag nor a time of change, so a change would go unnoticed"
SAME_LOCATION = "two files have this location"
LASTING_REASONS = frozenset((NO_TOKEN, NO_CHANGE_TIME, SAME_LOCATION))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that an index does not cover, and why. Plans keep it.

    >>> from parsieve.index import LeftOut
    >>> print(LeftOut("orders/a.parquet", "it changed while the index was built"))
    orders/a.parquet: it changed while the index was built
    """

    path: str
    reason: str
    # Whether a later update can index the file. If not, the file itself or the arguments of the call have to change.
    until_update: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a table at one time."""

    # The Delta version, Iceberg snapshot ID or Hudi instant. None for formats without a history.
    id: int | str | None
    # Grows along the table's history, if the format has one. Use it for display and order only: it proves nothing.
    instant: int
    # If the format has field IDs, they are in the metadata of the fields (PARQUET:field_id).
    schema: pa.Schema
    # Any sequence is accepted, and converted to columns.
    slices: Slices
    # The statistics from the table's own metadata.
    _statistics: Callable[[ColumnPath], Statistics | None] = field(default=_no_statistics, repr=False)
    # In a snapshot from `Lake.settled`: the slices that still have no token, with the reason for each.
    unsettled: Mapping[Location, str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "slices", Slices.of(self.slices))

    def statistics(self, column: ColumnPath) -> Statistics | None:
        """Return the statistics of a column from the table's own metadata, or None if there are none."""
        if column not in self._cached_statistics:
            is_computed = computed(column, self.schema) is not None
            found = None if is_computed else self._statistics(column)
            self._cached_statistics[column] = found if found is None else _without_contradictions(found)
        return self._cached_statistics[column]

    @cached_property
    def _cached_statistics(self) -> dict[ColumnPath, Statistics | None]:
        return {}

    @cached_property
    def tokens(self) -> dict[Location, str]:
        """Return the token of each location."""
        return dict(zip(*locations_and_tokens(self.slices), strict=True))


class Lake(ABC):
    """A table of one format. You can share it between threads.

    You can also pickle it. The copy can only read slices that were pickled with it.
    """

    format: str
    # The table's folder as the user named it, without a trailing slash.
    uri: str
    storage_options: Mapping[str, str]
    # The last snapshot and its inputs, so that the next snapshot only has to read changes.
    _last: Any = None
    # The keys of encrypted files, if the adapter supports encryption.
    keys: TableKeys | None = None
    # Whether each file has the table's types, or types that widen to them.
    types_are_certain = True
    # Whether columns may have field ids, which stay the same when a column is renamed.
    has_field_ids = False
    # Whether a file may be replaced by another file with the same name.
    files_may_be_replaced = False

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle: all except library objects, the last snapshot, and the keys."""
        not_pickled = ("_given", "_source", "_last", "keys")
        return {name: value for name, value in self.__dict__.items() if name not in not_pickled}

    @property
    def is_local(self) -> bool:
        """Whether the table's files are on a local disk, where a request costs little."""
        storage = getattr(self, "_storage", None)
        if storage is not None:
            return bool(storage.is_local)
        return "://" not in self.uri or self.uri.startswith("file:")

    def reopening(self) -> dict[str, Any]:
        """Return the attributes that a copy in another process needs to read the table again."""
        return {}

    def folder_address(self, name: str) -> Any:
        """Return the address of a folder inside the table's folder: a path, a URI, or a (filesystem, path) pair."""
        return f"{self.uri.rstrip('/')}/{name}"

    def places(self) -> Places:
        """Return the default locations of the table's index."""
        return Places(self.folder_address(BELOW))

    def problem_with_index(self, store: Store) -> str:
        """Return why an index of this table must not be written to a store, or "" if it may be."""
        return ""

    @abstractmethod
    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        """Return the current state of the table, or its state at a version, snapshot ID, instant or time."""

    def schema_with_ids(self) -> pa.Schema | None:
        """Return the current schema, in which columns may have been renamed; None if they have no field ids."""
        return self.snapshot().schema if self.has_field_ids else None

    def settled(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot to index. Wait once, and briefly, for files that are too young to have a token."""
        young = pc.indices_nonzero(pc.equal(snapshot.slices.token, "")).to_pylist()
        return replace(snapshot, unsettled={file_slice.location: NO_TOKEN for file_slice in snapshot.slices.at(young)})

    def changes(self, since: Snapshot | int | str, until: Snapshot) -> Changes:
        """Compare two snapshots by their tokens.

        An index stores tokens itself. It uses `Changes.between`, so the earlier snapshot may be gone.
        """
        earlier = since if isinstance(since, Snapshot) else self.snapshot(since)
        return Changes.between(earlier.tokens, until)

    @abstractmethod
    def read_keys(self, file_slice: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of one slice. Output column i is the leaf `columns[i]` with its type in the snapshot.

        The leaves of a null struct are null. If a column is the elements of lists, or the keys or values of maps, its
        output column has lists of them. A column that is missing in the file has its default value, or nulls.
        """

    def leave_out(self, file_slice: Slice, error: Exception) -> None:
        """Take note that an index leaves out a slice because of an error, if the reads of this lake are counted."""
        return None

    def count_rows(self, file_slice: Slice) -> int | None:
        """Return how many rows the base file of a slice has, or None if that would take more than a short read."""
        return file_slice.num_rows

    def exposing(self, columns: Collection[ColumnPath] | None) -> Lake:
        """Return the same table, whose `read_keys` also yields these encrypted columns. None allows all columns.

        Anyone who can read an index can read its keys, so `read_keys` does not decrypt columns by default.
        """
        return self

    @abstractmethod
    def read(
        self,
        snapshot: Snapshot,
        slices: Sequence[Slice],
        columns: Sequence[str] | None = None,
        filter: Any = None,
        row_groups: Sequence[Sequence[int] | None] = (),
    ) -> pa.RecordBatchReader:
        """Return the live rows of some slices, with some top-level columns of the snapshot's schema (None: all).

        `filter` is a pyarrow expression over the snapshot's schema. It may also name columns that are not returned.
        `row_groups` has the row groups to read of each slice, or None for all. Slices with deleted rows, and files that
        were replaced since the snapshot, are read completely.
        """

    def files(self, snapshot: Snapshot, slices: Sequence[Slice]) -> CheckedFiles | None:
        """Return the slices as files, or None if any slice is not a single file whose rows are all live."""
        return None

    def version(self, file_slice: Slice) -> Version | None:
        """Return the properties that identify the present version of the base file, or None if there are none."""
        return None

    def dataset(self, snapshot: Snapshot, slices: Sequence[Slice]) -> pads.Dataset | None:
        """Return the slices as a pyarrow dataset, or None if its rows might differ from the table's rows."""
        return None

    def row_groups_usable(self, file_slice: Slice) -> bool:
        """Return whether the base file has exactly the live rows, so that its row groups and filters are evidence."""
        return file_slice.clean and file_slice.path is not None

    def row_groups(self, file_slice: Slice) -> tuple[int, ...] | None:
        """Return the rows of each row group, or None if the slice is not exactly the rows of one Parquet file.

        The row groups belong to the version of the slice's token. `footer` says which errors this raises.
        """
        footer = self.footer(file_slice)
        return None if footer is None else tuple(footer.num_rows)

    def footer(self, file_slice: Slice) -> FileReader | None:
        """Read the footer of a slice's file. Return None if the slice is not exactly the rows of one Parquet file.

        This may raise the errors of a file that cannot be read, or `ConflictError` if the file was replaced since it
        was listed.
        """
        if not self.row_groups_usable(file_slice):
            return None
        keys = self.file_keys(file_slice)
        reader = RangeReader(self.open_listed(file_slice))
        try:
            footer = open_footer(reader, keys)
            reader.check_unchanged()
            version = reader.version
        finally:
            reader.close()
        if self.files_may_be_replaced and not f"{file_slice.token}-".startswith(version):
            raise ConflictError(f"{file_slice.path} was changed since it was listed; try again")
        return footer

    def constants(self, file_slice: Slice) -> Collection[str]:
        """Return the columns whose values come from the table's metadata. Ignore the file's columns of these names."""
        return file_slice.partition_values

    def absent_is_null(self, file_slice: Slice, column: pa.Field) -> bool:
        """Return whether a column of the table that the base file lacks is certainly null in all rows of the file."""
        return False

    def file_keys(self, file_slice: Slice) -> FileKeys | None:
        """Return the keys of the base file's footer and filters."""
        return None if self.keys is None else self.keys.of(self.open_base(file_slice))

    def open_listed(self, file_slice: Slice) -> Any:
        """Return the same source as `open_base`, but so that its readers notice if the file is replaced.

        Raises `ConflictError` if the file is already another version than the listed one.
        """
        source = self.open_base(file_slice)
        if not self.files_may_be_replaced or file_slice.size is None or not needs_listed_version(source):
            return source
        return open_version(source, file_slice.size, file_slice.token)

    def open_base(self, file_slice: Slice) -> Any:
        """Return the base file as a source for `open_filters` and `RangeReader`."""
        return file_slice.path

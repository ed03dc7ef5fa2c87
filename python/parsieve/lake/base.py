"""What the formats have in common: slices with tokens, snapshots, statistics, and the protocol of an adapter."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import FileKeys
from parsieve.io.index_location import BELOW, Places
from parsieve.lake.slices import Location, Slice, Slices, locations_and_tokens
from parsieve.lake.storage.keys import TableKeys

if TYPE_CHECKING:
    import pyarrow.dataset as pads

    from parsieve.lake.rows.checked_files import CheckedFiles
    from parsieve.lake.storage.pinned import Version

__all__ = ["AsOf", "Changes", "ColumnPath", "Lake", "LeftOut", "Location", "Slice", "Snapshot", "Statistics", "utc"]

ColumnPath = tuple[str, ...]
AsOf = int | str | dt.datetime | None


def utc(moment: AsOf) -> dt.datetime:
    """A time that a user names, which must say its zone: the table's own is not known to him, nor his to the table."""
    if not isinstance(moment, dt.datetime):
        raise TypeError(f"as_of is a version or a datetime, not {moment!r}")
    if moment.tzinfo is None:
        raise ValueError(f"as_of={moment} has no time zone; give it one, as in datetime(..., tzinfo=timezone.utc)")
    return moment.astimezone(dt.UTC)


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """What is certain of one column, slice by slice: arrays as long as the snapshot's slices, null where unknown.

    Every value that is no NaN lies in `lower <= value <= upper`, whatever was deleted. The counts are those of the base
    file: with deletes, `null_count` is an upper bound of the live nulls. `value_count` counts nulls and NaN too.
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
    # Slices whose live rows may be others now, as they are in the later snapshot.
    changed: tuple[Slice, ...]

    @classmethod
    def between(cls, tokens: Mapping[Location, str], until: Snapshot) -> Self:
        """Compare known tokens, such as those of an index, with a snapshot."""
        slices = until.slices
        added, changed, seen = [], [], set()
        for number, (location, token) in enumerate(zip(*locations_and_tokens(slices), strict=True)):
            seen.add(location)
            known = tokens.get(location)
            if known is None:
                added.append(number)
            elif not known or known != token:
                changed.append(number)
        removed = tuple(location for location in tokens if location not in seen)
        return cls(tuple(slices.at(added)), removed, tuple(slices.at(changed)))


def _untold(_: ColumnPath) -> None:
    """Nothing is known of any column."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that an index does not cover, and why. Plans keep it.

    >>> from parsieve.index import LeftOut
    >>> print(LeftOut("orders/a.parquet", "it changed while the index was built"))
    orders/a.parquet: it changed while the index was built
    """

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A table at an instant."""

    # The format's own name: Delta version, Iceberg snapshot id, Hudi instant; None where the format has no history.
    id: int | str | None
    # Grows along the table's history where the format has one; for people and ordering, never a proof.
    instant: int
    # Field ids stand in the fields' metadata (PARQUET:field_id) where the format has them.
    schema: pa.Schema
    # Any sequence is taken; it is held as columns.
    slices: Slices
    # The lake's own statistics; an adapter that has none leaves it out.
    _statistics: Callable[[ColumnPath], Statistics | None] = field(default=_untold, repr=False)
    # Of a snapshot from `Lake.settled`: the slices that still have no token, by location, with the reason.
    unsettled: Mapping[Location, str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "slices", Slices.of(self.slices))

    def statistics(self, column: ColumnPath) -> Statistics | None:
        """What the table's own metadata say of a column; None where they say nothing."""
        if column not in self._told:
            self._told[column] = self._statistics(column)
        return self._told[column]

    @cached_property
    def _told(self) -> dict[ColumnPath, Statistics | None]:
        return {}

    @cached_property
    def tokens(self) -> dict[Location, str]:
        """The token of each location."""
        return dict(zip(*locations_and_tokens(self.slices), strict=True))


class Lake(ABC):
    """A table of one format. Threads may share it.

    A copy in another process, where it comes as a pickle, reads the slices that come with it, and does nothing else.
    """

    format: str
    # The table's folder as the user named it, without a slash at its end.
    uri: str
    storage_options: Mapping[str, str]
    # What the last look at the table gave, so that only what changed since costs anything.
    _last: Any = None
    # Of encrypted files, where the adapter can use any.
    keys: TableKeys | None = None
    # Whether each file has the table's types, or types that widen to them.
    types_are_certain = True
    # Whether a file may be replaced by another one of the same name.
    files_may_be_replaced = False

    def __getstate__(self) -> dict[str, Any]:
        """All but the object of a library that it was opened with, what was seen of the table before, and keys."""
        kept_here = ("_given", "_source", "_last", "keys")
        return {name: value for name, value in self.__dict__.items() if name not in kept_here}

    def reopening(self) -> dict[str, Any]:
        """Return the attributes that a copy in another process needs to read the table again."""
        return {}

    def beside(self, name: str) -> Any:
        """A folder in the table's own, as a caller would name it: a path, a URI, or a (filesystem, path) pair."""
        return f"{self.uri.rstrip('/')}/{name}"

    def places(self) -> Places:
        """Where the index of the table is stored, unless the caller names another place."""
        return Places(self.beside(BELOW))

    @abstractmethod
    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        """The table now, or at a version, snapshot id, instant or time that the format knows."""

    def settled(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot to index: waits once, and briefly, for files that are too young to have a token."""
        reason = "nothing proves that it is still the version that was read"
        young = pc.indices_nonzero(pc.equal(snapshot.slices.token, "")).to_pylist()
        return replace(snapshot, unsettled={piece.location: reason for piece in snapshot.slices.at(young)})

    def changes(self, since: Snapshot | int | str, until: Snapshot) -> Changes:
        """What happened between two snapshots, by their tokens.

        An index that holds tokens itself asks `Changes.between`, which needs no earlier snapshot to be there still.
        """
        earlier = since if isinstance(since, Snapshot) else self.snapshot(since)
        return Changes.between(earlier.tokens, until)

    @abstractmethod
    def read_keys(self, piece: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        """The live rows of one slice: output column i is the leaf `columns[i]`, of its type in its snapshot's schema.

        A struct that is null makes its leaves null. A column that a file lacks yields its default, else nulls.
        """

    def count_rows(self, piece: Slice) -> int | None:
        """Return how many rows the base file of a slice has, or None if that would take more than a short read."""
        return piece.num_rows

    def exposing(self, columns: Collection[ColumnPath] | None) -> Lake:
        """The same table, whose `read_keys` yields these columns even where files encrypt them; None: all columns.

        What `read_keys` yields is written into an index that anybody can read, so that by itself it yields none.
        """
        return self

    @abstractmethod
    def read(
        self,
        snapshot: Snapshot,
        slices: Sequence[Slice],
        columns: Sequence[str] | None = None,
        filter: Any = None,
    ) -> pa.RecordBatchReader:
        """The live rows of some slices, as top-level columns of the snapshot's schema (None: all of them).

        `filter` is a pyarrow expression over the snapshot's schema; it may name columns that are not asked for.
        """

    def files(self, snapshot: Snapshot, slices: Sequence[Slice]) -> CheckedFiles | None:
        """Return the slices as files whose rows are all live; None if any slice is more than one such file."""
        return None

    def version(self, piece: Slice) -> Version | None:
        """Return what tells the base file, as it is now, from another one of the same name; None if nothing does."""
        return None

    def dataset(self, snapshot: Snapshot, slices: Sequence[Slice]) -> pads.Dataset | None:
        """Return the slices as a pyarrow dataset with the snapshot's schema; None if that would not be exact."""
        return None

    def row_groups_usable(self, piece: Slice) -> bool:
        """Whether the base file alone, so also its row groups and filters, says everything about the live rows."""
        return piece.clean and piece.path is not None

    def constants(self, piece: Slice) -> Collection[str]:
        """Columns whose value the table says; what the file holds by their names means nothing."""
        return piece.partition_values

    def file_keys(self, piece: Slice) -> FileKeys | None:
        """The keys of the base file's footer and filters."""
        return None if self.keys is None else self.keys.of(self.open_base(piece))

    def open_base(self, piece: Slice) -> Any:
        """The base file as a source that `open_filters` and `RangeReader` take."""
        return piece.path

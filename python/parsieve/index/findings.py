"""Problems of an index, and the rows of the table to check it against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from parsieve.errors import ConflictError
from parsieve.index.build.lost import find_column
from parsieve.index.log.commit import BloomState, ColumnState
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot

# The errors if a file was changed or removed after the snapshot, so that the index no longer answers for it.
CHANGED = (ConflictError, FileNotFoundError)
# The problem of an indexed slice that cannot be read now, for example because a key is missing.
UNREADABLE_ROWS = "the index cannot be checked, because the rows cannot be read: {}"


@dataclass(frozen=True, slots=True)
class IndexProblem:
    """A part of an index that is damaged, missing or wrong, from `Table.verify_index`.

    Damage costs speed only: parsieve reads the files instead. A wrong answer can hide rows.

    Attributes:
        column: The path of the indexed column; empty for the map of pages, which belongs to no column.
        part: The index file, or the data file whose rows the index does not find.
        problem: A description of the problem.
        loses_rows: Whether a plan could skip a file that holds a match.
    """

    column: ColumnPath
    part: str
    problem: str
    loses_rows: bool


# The name in version 0.1.0.
Lie = IndexProblem


def current_rows(
    state: ColumnState | BloomState, bound: Mapping[Location, str], lake: Lake, snapshot: Snapshot
) -> Iterator[tuple[Slice, Iterator[pa.Array]]]:
    """Yield the slices whose current version the index covers, each with the values of the column, or lists of them.

    The values raise one of the errors in `CHANGED` if the slice changed after the snapshot. That is only certain after
    the last value, so read all of them before you report a problem.
    """
    column = find_column(snapshot.schema, state)
    if column is None:
        return
    path, _ = column
    for file_slice in snapshot.slices:
        if file_slice.token and bound.get(file_slice.location) == file_slice.token:
            yield file_slice, _values(lake, file_slice, path)


def _values(lake: Lake, file_slice: Slice, path: ColumnPath) -> Iterator[pa.Array]:
    for batch in lake.read_keys(file_slice, [path]):
        yield batch.column(0)


def read_rest(values: Iterator[pa.Array]) -> None:
    """Read the values that a check has not read."""
    for _ in values:
        pass


def reason_of(error: OSError) -> str:
    """Describe why a file of the index cannot be read, for messages that name the file."""
    return "it is missing" if isinstance(error, FileNotFoundError) else f"it cannot be read: {error}"


def name_of(location: Location) -> str:
    """Return the name of a location, for messages."""
    # In most formats, the group is a path that begins with the partition.
    is_path = not location.partition or location.group.startswith(f"{location.partition}/")
    return location.group if is_path else f"{location.partition}/{location.group}"

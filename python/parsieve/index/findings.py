"""What is wrong with an index, and the rows of a table that an index can be held against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from parsieve.errors import ColumnNotFoundError, ConflictError
from parsieve.index.log.columns import current_field
from parsieve.index.log.commit import BloomState, ColumnState
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot

# Of a slice that the index holds and nobody can read now, as for want of its keys.
UNREAD = "nobody can say whether it is true, for its rows cannot be read: {}"


@dataclass(frozen=True, slots=True)
class IndexProblem:
    """A part of an index that is damaged, missing or wrong, from `Table.verify_index`.

    Damage costs speed only: parsieve reads the files instead. A wrong answer can hide rows.

    Attributes:
        column: The path of the indexed column.
        part: The index file, or the data file whose rows the index does not find.
        problem: What is wrong with it.
        loses_rows: Whether a plan could skip a file that holds a match.
    """

    column: ColumnPath
    part: str
    problem: str
    loses_rows: bool


# The name of 0.1.0.
Lie = IndexProblem


def current_rows(
    state: ColumnState | BloomState, bound: Mapping[Location, str], lake: Lake, snapshot: Snapshot
) -> Iterator[tuple[Slice, Iterator[pa.Array]]]:
    """The slices of a snapshot whose very version is bound, each with the column's values."""
    try:
        path, _ = current_field(snapshot.schema, state.path, state.field_id)
    except ColumnNotFoundError:
        return
    for piece in snapshot.slices:
        if piece.token and bound.get(piece.location) == piece.token:
            yield piece, _values(lake, piece, path)


def _values(lake: Lake, piece: Slice, path: ColumnPath) -> Iterator[pa.Array]:
    try:
        for batch in lake.read_keys(piece, [path]):
            yield batch.column(0)
    except (ConflictError, FileNotFoundError):
        # It was changed or removed since the snapshot was taken: nobody asks for this version of it any more.
        return


def out_of_reach(error: OSError) -> str:
    """Why a file of the index is not to be had, for messages that name it."""
    return "it is gone" if isinstance(error, FileNotFoundError) else f"it cannot be read: {error}"


def name_of(location: Location) -> str:
    """A location, for messages."""
    return f"{location.partition}/{location.group}" if location.partition else location.group

"""What to read: the columns and the condition of a read, and the candidate rows of each file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from parsieve.lake.base import Slice
from parsieve.predicate.evaluate import Condition, conditions_of
from parsieve.predicate.expr import Expr
from parsieve.sharing import cached_property


@dataclass(frozen=True)
class ReadRequest:
    """The columns of a table to return, of the rows for which a predicate is true."""

    schema: pa.Schema
    names: tuple[str, ...]
    expr: Expr

    @cached_property
    def conditions(self) -> list[Condition]:
        """The conditions that must all be true."""
        return conditions_of(self.expr)

    @cached_property
    def needed(self) -> pa.Schema:
        """The columns that conditions and results need."""
        names = dict.fromkeys(name for condition in self.conditions for name in condition.names)
        return pa.schema([self.schema.field(name) for name in (names | dict.fromkeys(self.names))])

    @cached_property
    def output(self) -> pa.Schema:
        """The schema of the results."""
        return pa.schema([self.schema.field(name) for name in self.names])


@dataclass(frozen=True, slots=True)
class Candidates:
    """The rows of a slice that may match."""

    file_slice: Slice
    # Ranges of rows, each with its first row and its number of rows; None if they are unknown.
    ranges: Sequence[tuple[int, int]] | None
    # The row groups; None if all of them may contain a match.
    row_groups: Sequence[int] | None
    # Whether these are only some of the slice's candidates.
    is_part: bool = False

"""What the table's own index says, as evidence: of the slices whose version it knows, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from parsieve.lake.base import Location, Slice
from parsieve.predicate.expr import Column
from parsieve.prune.evidence import Evidence
from parsieve.prune.questions import Question


class IndexView(Protocol):
    """An index as of one version of its table."""

    def token(self, location: Location) -> str | None:
        """The version of a location that the index holds; None where it does not hold it."""

    def covers(self, column: Column) -> bool:
        """Whether the column is indexed."""

    def lookup(self, question: Question) -> set[Location] | None:
        """The locations that may answer a question, of those it holds; None where it cannot tell."""


class IndexEvidence(Evidence):
    """An index, for units that are slices."""

    name = "index"

    def __init__(self, view: IndexView, slices: Sequence[Slice]) -> None:
        self._view = view
        self._locations = [piece.location for piece in slices]
        # A token that is empty, unknown or another one is a slice that the index says nothing about.
        self.known = [bool(piece.token) and view.token(piece.location) == piece.token for piece in slices]

    def may_match(self, question: Question, wanted: pa.BooleanArray) -> pa.BooleanArray | None:
        """Looks the values up."""
        if not self._view.covers(question.column) or not any(self.known):
            return None
        found: Any = self._view.lookup(question)
        if found is None:
            return None
        pairs = zip(self._locations, self.known, strict=True)
        return pa.array([not known or location in found for location, known in pairs], pa.bool_())

    def covers(self, column: Column) -> bool:
        """Whether the column is indexed."""
        return self._view.covers(column)

    def describe(self, question: Question, unit: int) -> str:
        """What the index says."""
        return "no row of the file has it by the index"

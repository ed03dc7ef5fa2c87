"""What the table's own index says, as evidence: of the slices whose version it knows, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import ParsieveError
from parsieve.index.sieve import query
from parsieve.index.sieve.query import Query
from parsieve.index.view import View
from parsieve.lake.base import Location, Slice
from parsieve.plan.evidence.base import Evidence
from parsieve.plan.evidence.questions import Among, Begins, Beyond, HasNan, HasNull, HasValue, Question, Within
from parsieve.predicate.builder import is_bytes, is_text
from parsieve.predicate.expr import Column


class IndexEvidence(Evidence):
    """An index, for units that are slices."""

    name = "index"

    def __init__(self, view: View, slices: Sequence[Slice]) -> None:
        self._view = view
        self._slices = slices
        # Columns whose index could not be asked, and why.
        self.failed: dict[str, str] = {}

    def may_match(self, question: Question, wanted: pa.BooleanArray) -> pa.BooleanArray | None:
        """Looks the values up, of all slices at once."""
        if isinstance(question, Beyond):
            # Whoever indexed these versions read them as this type, value by value.
            held = self.speaks(question)
            return None if held is None else pc.invert(held)
        path = self._path(question.column)
        asked = asked_of_index(question)
        if path is None or asked is None:
            return None
        try:
            return self._view.may_match(path, asked, self._slices)
        except (ParsieveError, OSError, TypeError, ValueError) as error:
            # A part that is damaged or gone excludes nothing.
            self.failed[str(question.column)] = str(error)
            return None

    def _path(self, column: Column) -> tuple[str, ...] | None:
        return self._view.find(column.path, column.field_id)

    def speaks(self, question: Question) -> pa.BooleanArray | None:
        """For each slice, whether the index holds this version of it for a question; None if it is not asked that."""
        path = self._path(question.column)
        if path is None or str(question.column) in self.failed:
            return None
        if not isinstance(question, Beyond) and asked_of_index(question) is None:
            return None
        reader = self._view.reader(path)
        if isinstance(question, Beyond) and reader.state.type != question.column.value_type:
            return None
        # The index knows the least and the greatest key of each location: of texts their beginnings, and with changes
        # what they were before. Then a footer may know better.
        if _is_ray(question) and (reader.state.deltas or not _is_exact(question.column)):
            return None
        try:
            return pc.is_valid(reader.numbered(self._slices))
        except (ParsieveError, OSError) as error:
            self.failed[str(question.column)] = str(error)
            return None

    def expected_waste(self, question: Question, answer: pa.BooleanArray, wanted: pa.BooleanArray) -> float | None:
        """Return what the index rounded when it was built: a mean over its keys."""
        path = self._path(question.column)
        if path is None or asked_of_index(question) is None:
            return None
        waste = self._view.reader(path).waste_per_key
        return None if waste is None else waste * (len(question.values) if isinstance(question, Among) else 1)

    def bound(self, question: Question) -> Mapping[Location, str]:
        """Return the versions of locations that the index of a question's column covers."""
        path = self._path(question.column)
        try:
            return {} if path is None else self._view.reader(path).bound
        except (ParsieveError, OSError):
            # `speaks` has recorded the reason.
            return {}

    @property
    def doubts(self) -> dict[str, str]:
        """Parts that could not be used, and why."""
        return {**self._view.doubts, **self.failed}

    def describe(self, question: Question, unit: int) -> str:
        """What the index says."""
        return "not in the file, according to the index"


def _is_ray(question: Question) -> bool:
    return isinstance(question, Within) and (question.low is None) != (question.high is None)


def _is_exact(column: Column) -> bool:
    return not (is_text(column.value_type) or is_bytes(column.value_type))


def asked_of_index(question: Question) -> Query | None:
    """A question as the index is asked; None where it knows no better than the minimum and the maximum, or nothing."""
    match question:
        case Among(_, values):
            return query.is_in(values)
        case Within(_, None, _, None, _) | HasValue():
            return query.is_not_null()
        case Within(_, low, low_open, high, high_open):
            bounds = [None if one is None else one.scalar for one in (low, high)]
            return query.between(*bounds, low_strict=low_open, high_strict=high_open)
        case Begins(_, prefix, False):
            return query.prefix(prefix.scalar.as_py())
        case HasNull():
            return query.is_null()
        case HasNan():
            return query.is_nan()
    return None

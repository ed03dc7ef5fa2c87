"""Evidence from the Sieve index, for the slices whose current version it covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

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


@dataclass(frozen=True, eq=False)
class UnitRanges:
    """The units of one column's index in some slices, which are ranges of rows. Slices are given by position."""

    # The id of each slice in answers; null if the index does not cover the current version of the slice.
    ids: pa.UInt32Array
    # The rows of each row group; empty if they are unknown.
    row_groups: pa.ListArray
    # The place of each slice's first unit among all units, and the number of its units; 0 if they are unknown.
    first: pa.Int64Array
    count: pa.Int64Array
    # The first row and the number of rows of each unit.
    start: pa.Int64Array
    rows: pa.Int64Array

    @classmethod
    def of(cls, ids: pa.UInt32Array, columns: Sequence[pa.Int64Array]) -> Self:
        """Return the units of slices with these ids. `columns` describe the slices with an id, as `unit_columns`."""
        num_groups, num_units, group_rows, start, rows = columns
        # Slices without an id have no units.
        places = pc.subtract(pc.cumulative_sum(ids.is_valid().cast(pa.int64())), 1)
        places = pc.if_else(ids.is_valid(), places, pa.scalar(None, pa.int64()))
        counts = pc.fill_null(num_units.take(places), 0)
        ends = pc.cumulative_sum(pc.fill_null(num_groups.take(places), 0))
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends]).cast(pa.int32())
        row_groups = pa.ListArray.from_arrays(offsets, group_rows)
        return cls(ids, row_groups, pc.subtract(pc.cumulative_sum(counts), counts), counts, start, rows)


class UnitAnswer(NamedTuple):
    """The units that may match a question: pairs of a slice's id and the position of a unit in the slice."""

    column: UnitRanges
    ids: pa.UInt32Array
    units: pa.UInt32Array


class SieveIndexEvidence(Evidence):
    """The Sieve index, which answers for slices in the version that it was built from."""

    name = "index"

    def __init__(self, view: View, slices: Sequence[Slice]) -> None:
        self._view = view
        self._slices = slices
        # Columns whose index could not be read, with the error.
        self.failed: dict[str, str] = {}
        # The units of each column in the slices that were last asked for.
        self._units: dict[tuple[str, ...], tuple[pa.Int64Array, UnitRanges]] = {}

    def may_match(self, question: Question, candidates: pa.BooleanArray) -> pa.BooleanArray | None:
        """Look the values up for all slices together."""
        if isinstance(question, Beyond):
            # The build read every value of the covered versions as this type, so none is of another type.
            covered = self.covers(question)
            return None if covered is None else pc.invert(covered)
        path = self._path(question.column)
        lookup = index_query(question)
        if path is None or lookup is None:
            return None
        try:
            return self._view.may_match(path, lookup, self._slices)
        except (ParsieveError, OSError, TypeError, ValueError) as error:
            # A damaged or missing part excludes nothing.
            self.failed[str(question.column)] = str(error)
            return None

    def find_units(self, question: Question, numbers: pa.Int64Array) -> UnitAnswer | None:
        """Return the units of some slices that may match, or None if the index answers for whole files only."""
        path, lookup = self._path(question.column), index_query(question)
        if path is None or lookup is None or str(question.column) in self.failed:
            return None
        reader = self._view.reader(path)
        if not reader.has_ranges:
            return None
        try:
            answer: Any = reader.ask(lookup)
            # If files of this version are gone, a newer version may have answered for the files.
            if answer is None or reader.gone:
                return None
            if path not in self._units or not self._units[path][0].equals(numbers):
                ids = reader.numbered(self._slices).take(numbers)
                self._units[path] = (numbers, UnitRanges.of(ids, reader.unit_columns(ids.drop_null())))
            return UnitAnswer(self._units[path][1], answer.ids, answer.units)
        except (ParsieveError, OSError, TypeError, ValueError) as error:
            self.failed[str(question.column)] = str(error)
            return None

    def _path(self, column: Column) -> tuple[str, ...] | None:
        return self._view.find(column.path, column.field_id)

    def covers(self, question: Question) -> pa.BooleanArray | None:
        """Return for each slice whether the index covers its version; None if it cannot answer the question well.

        Then a footer may have a better answer.
        """
        path = self._path(question.column)
        if path is None or str(question.column) in self.failed:
            return None
        if not isinstance(question, Beyond) and index_query(question) is None:
            return None
        reader = self._view.reader(path)
        if isinstance(question, Beyond) and reader.state.type != question.column.value_type:
            return None
        # A one-sided range depends on the least and greatest key of a location. The index has only the beginnings of
        # texts, and after updates it may still have the keys of earlier versions, so a footer may be more precise.
        if _is_one_sided(question) and (reader.state.deltas or not _has_exact_keys(question.column)):
            return None
        try:
            return pc.is_valid(reader.numbered(self._slices))
        except (ParsieveError, OSError) as error:
            self.failed[str(question.column)] = str(error)
            return None

    def expected_false_positives(
        self, question: Question, answer: pa.BooleanArray, candidates: pa.BooleanArray
    ) -> float | None:
        """Multiply the number of keys by the mean number of false positives per key, which the build counted."""
        path = self._path(question.column)
        if path is None or index_query(question) is None:
            return None
        per_key = self._view.reader(path).waste_per_key
        return None if per_key is None else per_key * (len(question.values) if isinstance(question, Among) else 1)

    def indexed_tokens(self, question: Question) -> Mapping[Location, str]:
        """Return the versions of locations that the index of a question's column covers."""
        path = self._path(question.column)
        try:
            return {} if path is None else self._view.reader(path).bound
        except (ParsieveError, OSError):
            # `covers` has recorded the reason.
            return {}

    @property
    def doubts(self) -> dict[str, str]:
        """The parts that could not be used, with the reasons."""
        return {**self._view.doubts, **self.failed}

    def describe(self, question: Question, unit: int) -> str:
        """Describe the answer of the index."""
        return "not in the file, according to the index"


def _is_one_sided(question: Question) -> bool:
    return isinstance(question, Within) and (question.low is None) != (question.high is None)


def _has_exact_keys(column: Column) -> bool:
    return not (is_text(column.value_type) or is_bytes(column.value_type))


def index_query(question: Question) -> Query | None:
    """Return a question as a query of the index; None if the index cannot answer it, or not better than min/max."""
    match question:
        case Among(_, values):
            return query.is_in(values)
        case Within(_, None, _, None, _) | HasValue():
            return query.is_not_null()
        case Within(_, low, low_open, high, high_open):
            bounds = [None if bound is None else bound.scalar for bound in (low, high)]
            return query.between(*bounds, low_strict=low_open, high_strict=high_open)
        case Begins(_, prefix, False):
            return query.prefix(prefix.scalar.as_py())
        case HasNull():
            return query.is_null()
        case HasNan():
            return query.is_nan()
    return None

"""Evidence from the Sieve index, for the slices whose current version it covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import ParsieveError
from parsieve.index.sieve import query
from parsieve.index.sieve.query import Query
from parsieve.index.sieve.reader import WHOLE_SLICE, Answer
from parsieve.index.view import View
from parsieve.lake.base import Location, Slice
from parsieve.plan.evidence.base import Evidence
from parsieve.plan.evidence.questions import (
    HasAnyOf,
    HasInRange,
    HasNan,
    HasNull,
    HasOtherType,
    HasPrefix,
    HasValue,
    Question,
    neighbors_of,
)
from parsieve.predicate.builder import is_bytes, is_text
from parsieve.predicate.expr import Column
from parsieve.sharing import cached_property

# If a predicate has more values than this, a sample of them is looked up first.
MANY_VALUES = 50_000
SAMPLE = 20_000
# The values of the sample are neighbors at this many places.
PLACES = 10


class SliceUnits(NamedTuple):
    """The units of one slice."""

    # The id of the slice in answers; None if the index does not cover its current version.
    id: int | None
    # The rows of each row group; empty if they are unknown.
    row_groups: list[int]
    # The first row of each unit, and the row after its last one; empty if they are unknown.
    units: list[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class UnitRanges:
    """The units of one column's index in some slices, which are ranges of rows. Slices are given by position."""

    # The id of each slice in answers; null if the index does not cover the current version of the slice.
    ids: pa.UInt32Array
    # The units of the slices with an id, as `ColumnReader.unit_columns` returns them.
    columns: Sequence[pa.Int64Array]

    @property
    def size(self) -> int:
        """The number of slices, row groups and units."""
        return len(self.ids) + len(self.columns[2]) + len(self.columns[3])

    @cached_property
    def row_groups(self) -> pa.ListArray:
        """The rows of each row group; empty if they are unknown."""
        ends = pc.cumulative_sum(pc.fill_null(self.columns[0].take(self._places), 0))
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends]).cast(pa.int32())
        return pa.ListArray.from_arrays(offsets, self.columns[2])

    @cached_property
    def count(self) -> pa.Int64Array:
        """The number of each slice's units; 0 if they are unknown."""
        return pc.fill_null(self.columns[1].take(self._places), 0)

    @cached_property
    def first(self) -> pa.Int64Array:
        """The place of each slice's first unit among all units."""
        return pc.subtract(pc.cumulative_sum(self.count), self.count)

    @property
    def start(self) -> pa.Int64Array:
        """The first row of each unit."""
        return self.columns[3]

    @property
    def rows(self) -> pa.Int64Array:
        """The number of rows of each unit."""
        return self.columns[4]

    @cached_property
    def _places(self) -> pa.Int64Array:
        """The position of each slice among the slices with an id, null for the others."""
        places = pc.subtract(pc.cumulative_sum(self.ids.is_valid().cast(pa.int64())), 1)
        return pc.if_else(self.ids.is_valid(), places, pa.scalar(None, pa.int64()))

    @cached_property
    def slices(self) -> list[SliceUnits]:
        """The units of each slice, as Python objects."""
        num_groups, num_units, group_rows, start, rows = (column.to_pylist() for column in self.columns)
        units = [(first, first + count) for first, count in zip(start, rows, strict=True)]
        slices: list[SliceUnits] = []
        at_slice = at_group = at_unit = 0
        for number in self.ids.to_pylist():
            if number is None:
                slices.append(SliceUnits(None, [], []))
                continue
            groups_end, units_end = at_group + num_groups[at_slice], at_unit + num_units[at_slice]
            slices.append(SliceUnits(number, group_rows[at_group:groups_end], units[at_unit:units_end]))
            at_slice, at_group, at_unit = at_slice + 1, groups_end, units_end
        return slices


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
        # Questions that the index of a column cannot answer although it is sound, with the reason.
        self.refused: dict[str, str] = {}
        # The units that may match each question; None if the index has no answer that names its own units.
        self._answers: dict[Question, Answer | None] = {}
        # The units of each column in the slices that were looked up last.
        self._units: dict[tuple[str, ...], tuple[pa.Int64Array, UnitRanges]] = {}

    def may_match(self, question: Question, candidates: pa.BooleanArray) -> pa.BooleanArray | None:
        """Look the values up for all slices together."""
        if isinstance(question, HasOtherType):
            # The build read every value of the covered versions as this type, so none is of another type.
            covered = self.covers(question)
            return None if covered is None else pc.invert(covered)
        path = self._path(question.column)
        lookup = index_query(question)
        if path is None or lookup is None:
            return None
        try:
            if isinstance(question, HasAnyOf) and self._keeps_all(path, question.values):
                self._answers[question] = None
                return pa.repeat(pa.scalar(True), len(self._slices))
            may_match, self._answers[question] = self._view.find_units(path, lookup, self._slices)
            if self._answers[question] is None and (refusal := self._view.reader(path).refusal(lookup)):
                self.refused[f"a question to {question.column}"] = refusal
            return may_match
        except (ParsieveError, OSError, TypeError, ValueError) as error:
            # A damaged or missing part excludes nothing.
            self.failed[str(question.column)] = str(error)
            return None

    def _keeps_all(self, path: tuple[str, ...], values: pa.Array) -> bool:
        """Return whether to keep all units without looking up all values, because a sample of them keeps all units."""
        if len(values) <= MANY_VALUES:
            return False
        reader = self._view.reader(path)
        ids = reader.numbered(self._slices).drop_null()
        if not len(ids):
            return True
        answer = reader.find_units(query.is_in(neighbors_of(values, SAMPLE, PLACES)))
        if answer is None:
            return False
        whole = pc.is_in(ids, value_set=answer.ids.filter(pc.equal(answer.units, WHOLE_SLICE)))
        ids = ids.filter(pc.invert(whole))
        if not len(ids):
            return True
        num_units = reader.unit_columns(ids)[1]
        named = pc.is_in(answer.ids, value_set=ids)
        return not pc.any(pc.equal(num_units, 0)).as_py() and named.true_count >= pc.sum(num_units).as_py()

    def find_units(self, question: Question, numbers: pa.Int64Array) -> UnitAnswer | None:
        """Return the units of some slices that may match, or None if the index answers for whole files only.

        Call `may_match` first, which looks the values up in the index.
        """
        path, answer = self._path(question.column), self._answers.get(question)
        if path is None or answer is None or str(question.column) in self.failed:
            return None
        reader = self._view.reader(path)
        if not reader.has_ranges:
            return None
        try:
            if path not in self._units or not self._units[path][0].equals(numbers):
                ids = reader.numbered(self._slices).take(numbers)
                self._units[path] = (numbers, UnitRanges(ids, reader.unit_columns(ids.drop_null())))
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
        if not isinstance(question, HasOtherType) and index_query(question) is None:
            return None
        reader = self._view.reader(path)
        if isinstance(question, HasOtherType) and reader.state.type != question.column.value_type:
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
        return None if per_key is None else per_key * (len(question.values) if isinstance(question, HasAnyOf) else 1)

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
        return {**self._view.doubts, **self.refused, **self.failed}

    @property
    def is_damaged(self) -> bool:
        """Whether a part of the table's indexes cannot be used until they are built again."""
        return bool(self._view.doubts)

    def describe(self, question: Question, unit: int) -> str:
        """Describe the answer of the index."""
        return "not in the file, according to the index"


def _is_one_sided(question: Question) -> bool:
    return isinstance(question, HasInRange) and (question.low is None) != (question.high is None)


def _has_exact_keys(column: Column) -> bool:
    return not (is_text(column.value_type) or is_bytes(column.value_type))


def index_query(question: Question) -> Query | None:
    """Return a question as a query of the index; None if the index cannot answer it, or not better than min/max."""
    match question:
        case HasAnyOf(_, values):
            return query.is_in(values)
        case HasInRange(_, None, _, None, _) | HasValue():
            return query.is_not_null()
        case HasInRange(_, low, low_open, high, high_open):
            bounds = [None if bound is None else bound.scalar for bound in (low, high)]
            return query.between(*bounds, low_strict=low_open, high_strict=high_open)
        case HasPrefix(_, prefix, False):
            return query.prefix(prefix.scalar.as_py())
        case HasNull():
            return query.is_null()
        case HasNan():
            return query.is_nan()
    return None

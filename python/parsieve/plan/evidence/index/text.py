"""Evidence from a text index: whether a file's filter may contain the trigrams or words of a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pyarrow as pa

from parsieve._core import ParsieveError
from parsieve.index.bloom.reader import KeptUnits
from parsieve.index.log.commit import TextContent
from parsieve.index.text.reader import TextReader
from parsieve.index.view import View
from parsieve.lake.base import Location, Slice
from parsieve.lake.slices import Slices, locations_and_tokens
from parsieve.plan.evidence.index.filters import IndexFilterEvidence
from parsieve.plan.evidence.index.sieve import UnitAnswer, UnitRanges
from parsieve.plan.evidence.questions import Question, trigrams_of_question, words_of_question


class TextIndexEvidence(IndexFilterEvidence):
    """A text index, which answers for slices in the version that its filters were built from."""

    def __init__(self, view: View, slices: Sequence[Slice], content: TextContent) -> None:
        super().__init__(view, slices)
        self.name = "text index" if content == "trigrams" else "words index"
        self._content = content
        self._kept: dict[Question, Mapping[Location, KeptUnits]] = {}

    def _parts(self, question: Question) -> list[tuple[str, ...]] | None:
        return trigrams_of_question(question) if self._content == "trigrams" else words_of_question(question)

    def _reader(self, question: Question) -> TextReader | None:
        if not self._parts(question):
            return None
        reader = self._view.text(question.column.path, question.column.field_id, self._content)
        if reader is not None and reader.problem is not None:
            self.failed[str(question.column)] = reader.problem
        return reader

    def may_match(self, question: Question, candidates: pa.BooleanArray) -> pa.BooleanArray | None:
        """Look the trigrams or words up in the filters of all slices together."""
        reader = self._reader(question)
        if reader is None or reader.problem is not None:
            return None
        try:
            self._kept[question] = reader.units_with(self._parts(question) or ())
            return reader.with_units(self._kept[question], self._slices)
        except (ParsieveError, OSError, TypeError, ValueError) as error:
            # A filter that cannot be read excludes nothing.
            self.failed[str(question.column)] = str(error)
            return None

    def refusal(self, question: Question) -> str | None:
        """Return which questions the index of the column answers, if it cannot answer this one."""
        if self._parts(question) != []:
            return None
        if self._view.text(question.column.path, question.column.field_id, self._content) is None:
            return None
        if self._content == "words":
            return "the words index answers only conditions that name a whole word and do not ignore case"
        return "the text index answers only conditions with three or more fixed characters in a row"

    def find_units(self, question: Question, numbers: pa.Int64Array) -> UnitAnswer | None:
        """Return the units of some slices that may match; None if no slice is kept in part.

        Call `may_match` first, which looks the values up in the index.
        """
        reader, kept = self._reader(question), self._kept.get(question, {})
        if reader is None or str(question.column) in self.failed:
            return None
        partly = {location: units for location, units in kept.items() if 0 < len(units.units) < units.layout.num_units}
        if not partly:
            return None
        known = reader.known(self._slices).to_pylist()
        locations, _ = locations_and_tokens(Slices.of(self._slices))
        wanted = numbers.to_pylist()
        narrowed = {at: partly[locations[at]] for at in wanted if known[at] and locations[at] in partly}
        return _unit_answer(wanted, narrowed) if narrowed else None

    def describe(self, question: Question, unit: int) -> str:
        """Describe the answer of a filter."""
        part = "three characters of the text are" if self._content == "trigrams" else "a word is"
        return f"{part} not in the file, according to the {self.name}"


def _unit_answer(numbers: Sequence[int], narrowed: Mapping[int, KeptUnits]) -> UnitAnswer:
    """Return the units of some slices, which are numbered by their position in the table."""
    ids = [number if number in narrowed else None for number in numbers]
    layouts = [narrowed[number].layout for number in ids if number is not None]
    ends = [layout.ends() for layout in layouts]
    units = [unit for of_slice in ends for unit in pairwise([0, *of_slice])]
    columns = (
        [len(layout.row_groups) for layout in layouts],
        [len(of_slice) for of_slice in ends],
        [rows for layout in layouts for rows in layout.row_groups],
        [start for start, _ in units],
        [end - start for start, end in units],
    )
    ranges = UnitRanges(pa.array(ids, pa.uint32()), [pa.array(column, pa.int64()) for column in columns])
    kept = [(number, unit) for number in ids if number is not None for unit in narrowed[number].units]
    return UnitAnswer(ranges, *(pa.array([pair[at] for pair in kept], pa.uint32()) for at in range(2)))

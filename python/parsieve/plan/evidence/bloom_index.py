"""Evidence from the Bloom index and the text index: whether a file's filter contains one of some keys, or a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import ParsieveError
from parsieve.index.bloom.reader import BloomReader
from parsieve.index.text.reader import TextReader
from parsieve.index.view import View
from parsieve.lake.base import Location, Slice
from parsieve.plan.evidence.base import Evidence
from parsieve.plan.evidence.questions import Among, Question, trigrams_of_question


class BloomIndexEvidence(Evidence):
    """The Bloom index, which answers for slices in the version that their filters were built from."""

    name = "bloom index"

    def __init__(self, view: View, slices: Sequence[Slice]) -> None:
        self._view = view
        self._slices = slices
        # Columns whose filters could not be read, with the error.
        self.failed: dict[str, str] = {}

    def _reader(self, question: Question) -> BloomReader | None:
        if not isinstance(question, Among):
            return None
        return self._view.bloom(question.column.path, question.column.field_id)

    def may_match(self, question: Question, candidates: pa.BooleanArray) -> pa.BooleanArray | None:
        """Look the values up in the filters of all slices together."""
        reader = self._reader(question)
        if reader is None or not isinstance(question, Among):
            return None
        try:
            return reader.may_match(question.values, self._slices)
        except (ParsieveError, OSError, TypeError, ValueError) as error:
            # A filter that cannot be read excludes nothing.
            self.failed[str(question.column)] = str(error)
            return None

    def covers(self, question: Question) -> pa.BooleanArray | None:
        """Return for each slice whether it has a filter of its version; None if filters cannot answer the question."""
        reader = self._reader(question)
        if reader is None or str(question.column) in self.failed:
            return None
        try:
            return reader.known(self._slices)
        except (ParsieveError, OSError) as error:
            self.failed[str(question.column)] = str(error)
            return None

    def indexed_tokens(self, question: Question) -> Mapping[Location, str]:
        """Return the versions of locations that the filters of a question's column cover."""
        reader = self._reader(question)
        try:
            return {} if reader is None else reader.bound
        except (ParsieveError, OSError):
            # `covers` has recorded the reason.
            return {}

    def expected_false_positives(
        self, question: Question, answer: pa.BooleanArray, candidates: pa.BooleanArray
    ) -> float | None:
        """Derive the number of false positives from the filters' rate and the number of excluded files."""
        reader = self._reader(question)
        if reader is None or not isinstance(question, Among):
            return None
        rate = 1 - (1 - reader.state.fpp) ** len(question.values)
        excluded = pc.and_not(candidates, answer).true_count
        return excluded * rate / (1 - rate) if rate < 1 else None

    def describe(self, question: Question, unit: int) -> str:
        """Describe the answer of a filter."""
        return "not in the file's filter of the Bloom index"


class TextIndexEvidence(Evidence):
    """The text index, which answers for slices in the version that their filters were built from."""

    name = "text index"

    def __init__(self, view: View, slices: Sequence[Slice]) -> None:
        self._view = view
        self._slices = slices
        # Columns whose filters could not be used, with the reason.
        self.failed: dict[str, str] = {}

    def _reader(self, question: Question) -> TextReader | None:
        if not trigrams_of_question(question):
            return None
        reader = self._view.text(question.column.path, question.column.field_id)
        if reader is not None and reader.problem is not None:
            self.failed[str(question.column)] = reader.problem
        return reader

    def may_match(self, question: Question, candidates: pa.BooleanArray) -> pa.BooleanArray | None:
        """Look the trigrams up in the filters of all slices together."""
        reader = self._reader(question)
        if reader is None:
            return None
        try:
            return reader.may_contain(trigrams_of_question(question) or (), self._slices)
        except (ParsieveError, OSError, TypeError, ValueError) as error:
            # A filter that cannot be read excludes nothing.
            self.failed[str(question.column)] = str(error)
            return None

    def covers(self, question: Question) -> pa.BooleanArray | None:
        """Return for each slice whether it has a filter of its version; None if filters cannot answer the question."""
        reader = self._reader(question)
        if reader is None or str(question.column) in self.failed:
            return None
        try:
            return reader.known(self._slices)
        except (ParsieveError, OSError) as error:
            self.failed[str(question.column)] = str(error)
            return None

    def indexed_tokens(self, question: Question) -> Mapping[Location, str]:
        """Return the versions of locations that the filters of a question's column cover."""
        reader = self._reader(question)
        try:
            return {} if reader is None else reader.bound
        except (ParsieveError, OSError):
            # `covers` has recorded the reason.
            return {}

    def describe(self, question: Question, unit: int) -> str:
        """Describe the answer of a filter."""
        return "three characters of the text are not in the file, according to the text index"

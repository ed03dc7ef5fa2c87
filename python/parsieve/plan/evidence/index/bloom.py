"""Evidence from the Bloom index: whether a file's filter may contain one of some keys."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import ParsieveError
from parsieve.index.bloom.reader import BloomReader
from parsieve.plan.evidence.index.filters import IndexFilterEvidence
from parsieve.plan.evidence.questions import HasAnyOf, Question


class BloomIndexEvidence(IndexFilterEvidence):
    """The Bloom index, which answers for slices in the version that their filters were built from."""

    name = "bloom index"

    def _reader(self, question: Question) -> BloomReader | None:
        if not isinstance(question, HasAnyOf):
            return None
        return self._view.bloom(question.column.path, question.column.field_id)

    def may_match(self, question: Question, candidates: pa.BooleanArray) -> pa.BooleanArray | None:
        """Look the values up in the filters of all slices together."""
        reader = self._reader(question)
        if reader is None or not isinstance(question, HasAnyOf):
            return None
        try:
            return reader.may_match(question.values, self._slices)
        except (ParsieveError, OSError, TypeError, ValueError) as error:
            # A filter that cannot be read excludes nothing.
            self.failed[str(question.column)] = str(error)
            return None

    def expected_false_positives(
        self, question: Question, answer: pa.BooleanArray, candidates: pa.BooleanArray
    ) -> float | None:
        """Derive the number of false positives from the filters' rate and the number of excluded files."""
        reader = self._reader(question)
        if reader is None or not isinstance(question, HasAnyOf):
            return None
        rate = 1 - (1 - reader.state.fpp) ** len(question.values)
        excluded = pc.and_not(candidates, answer).true_count
        return excluded * rate / (1 - rate) if rate < 1 else None

    def describe(self, question: Question, unit: int) -> str:
        """Describe the answer of a filter."""
        return "not in the file's filter of the Bloom index"

"""The base of the evidence from an index with one filter for each file: the Bloom index and text indexes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import pyarrow as pa

from parsieve._core import ParsieveError
from parsieve.index.bloom.reader import BloomReader
from parsieve.index.view import View
from parsieve.lake.base import Location, Slice
from parsieve.plan.evidence.base import Evidence
from parsieve.plan.evidence.questions import Question


class IndexFilterEvidence(Evidence):
    """An index that answers for slices in the version that their filters were built from."""

    def __init__(self, view: View, slices: Sequence[Slice]) -> None:
        self._view = view
        self._slices = slices
        # Columns whose filters could not be used, with the reason.
        self.failed: dict[str, str] = {}

    @abstractmethod
    def _reader(self, question: Question) -> BloomReader | None:
        """Return the reader of the filters for a question, or None if no filters can answer it."""

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

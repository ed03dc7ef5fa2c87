"""The interface of all evidence: which units may match a question. An answer of False needs proof."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from parsieve.plan.evidence.questions import Question


class Evidence(ABC):
    """Knowledge about units, which are the slices of a snapshot or row groups."""

    # The name to show in explanations.
    name: str

    @abstractmethod
    def may_match(self, question: Question, candidates: pa.BooleanArray) -> pa.BooleanArray | None:
        """Return for each unit whether it may contain a matching row; False is certain.

        Return None if this evidence cannot answer the question. Values for units that are not `candidates` are ignored.
        """

    def refusal(self, question: Question) -> str | None:
        """Return why this evidence cannot answer a question, if it could answer a similar one about the same column."""
        return None

    def expected_false_positives(
        self, question: Question, answer: pa.BooleanArray, candidates: pa.BooleanArray
    ) -> float | None:
        """Return the expected number of false positives among the candidates that an answer keeps.

        This assumes that the question's values exist in the table. If they do not, every kept unit is a false positive.
        Return None if the number is unknown.
        """
        return None

    @abstractmethod
    def describe(self, question: Question, unit: int) -> str:
        """Explain why a unit cannot match, after an answer of False."""

"""The one trait of all evidence: which units may answer a question, where False needs proof."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from parsieve.prune.questions import Question


class Evidence(ABC):
    """Something that is known of units: the slices of a snapshot, or row groups."""

    # How explanations call it.
    name: str

    @abstractmethod
    def may_match(self, question: Question, wanted: pa.BooleanArray) -> pa.BooleanArray | None:
        """For each unit, whether it may hold a row that the question asks for; False is certain.

        None is that nothing is known. What stands for units that are not `wanted` is not looked at.
        """

    def expected_waste(self, question: Question, answer: pa.BooleanArray, wanted: pa.BooleanArray) -> float | None:
        """Of the units that were wanted and that an answer keeps, how many hold no such row; None if nobody knows."""
        return None

    @abstractmethod
    def describe(self, question: Question, unit: int) -> str:
        """What is held against the question for a unit that was answered with False."""

"""Apply the indexes of a table, and explain which files they do not cover."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.index.log.commit import TEXT_CONTENTS
from parsieve.index.view import View
from parsieve.lake.base import Location, Slice
from parsieve.lake.slices import Slices, locations_and_tokens
from parsieve.plan.evidence.candidates import Candidates
from parsieve.plan.evidence.index.bloom import BloomIndexEvidence
from parsieve.plan.evidence.index.filters import IndexFilterEvidence
from parsieve.plan.evidence.index.sieve import SieveIndexEvidence
from parsieve.plan.evidence.index.text import TextIndexEvidence
from parsieve.plan.evidence.questions import HasNull, Question
from parsieve.predicate.expr import Column

NEW = "not in the index (added later, or unreadable at the time); update_index() adds the files of the current state"
CHANGED = "changed after it was indexed; update_index() reads it again"
YOUNG = "written too recently to detect later changes; update_index() adds it once it is older"
LEFT_OUT = "left out of the index, such as a file of another type; update_index() tries again, and reports the reason"
UNREADABLE = "the part of the index that covers it cannot be read"
REASONS = frozenset((NEW, CHANGED, YOUNG, LEFT_OUT, UNREADABLE))


# An index that is "unusable" may work the next time; one that is "damaged" has to be built again.
Health = Literal["sound", "unusable", "damaged"]


def note_about(part: str, problem: str) -> str:
    """Return the note of a plan about a part of the index that could not be used."""
    return f"the index, {part}: {problem}"


@dataclass(frozen=True, eq=False)
class IndexAnswers:
    """The answers of a table's indexes to the questions of a plan."""

    # For each question, the slices that need no footer for it; None if no index answers the question.
    answered: Sequence[pa.BooleanArray | None]
    # Why no index covers a kept slice, by the number of the slice.
    doubts: dict[int, list[str]] = field(default_factory=dict)
    sieve: SieveIndexEvidence | None = None
    filters: Sequence[IndexFilterEvidence] = ()

    @property
    def with_units(self) -> list[SieveIndexEvidence | TextIndexEvidence]:
        """The indexes that may also exclude row groups or rows of a slice."""
        texts = (index for index in self.filters if isinstance(index, TextIndexEvidence))
        return [] if self.sieve is None else [self.sieve, *texts]

    @property
    def problems(self) -> list[str]:
        """The parts of the indexes that could not be used so far, with the reasons.

        A search for rows reads further parts, so read the problems after it.
        """
        failed = [] if self.sieve is None else list(self.sieve.doubts.items())
        failed += [failure for index in self.filters for failure in index.failed.items()]
        return [note_about(part, error) for part, error in dict.fromkeys(failed)]

    @property
    def health(self) -> Health:
        """Whether a part is damaged or missing for good, or could not be read this time, as far as known."""
        if self.sieve is None:
            return "sound"
        has_failed = bool(self.sieve.failed) or any(index.failed for index in self.filters)
        return "damaged" if self.sieve.is_damaged else "unusable" if has_failed else "sound"


def apply_indexes(
    view: View | None, slices: Sequence[Slice], questions: Sequence[Question], files: Candidates
) -> IndexAnswers:
    """Exclude candidates with every index of a table. Without a view, the table has no index."""
    if view is None:
        return IndexAnswers([None] * len(questions))
    sieve, bloom = SieveIndexEvidence(view, slices), BloomIndexEvidence(view, slices)
    texts = [TextIndexEvidence(view, slices, content) for content in TEXT_CONTENTS]
    by_filters: list[IndexFilterEvidence] = [bloom, *texts]
    indexes: list[SieveIndexEvidence | IndexFilterEvidence] = [sieve, *by_filters]
    for index in indexes:
        files.apply(index)
    # The Bloom index has false positives that min/max statistics may exclude, so it does not replace a footer.
    by_sieve = [sieve.covers(question) for question in questions]
    by_any = [
        functools.reduce(either, (filters.covers(question) for filters in by_filters), first)
        for question, first in zip(questions, by_sieve, strict=True)
    ]
    answers = IndexAnswers(by_sieve, {}, sieve, by_filters)
    covered = [mask for mask in by_any if mask is not None]
    if covered:
        is_uncovered = pc.invert(functools.reduce(pc.or_, covered))
        numbers = pc.indices_nonzero(pc.and_(files.kept, is_uncovered)).to_pylist()
        if numbers:
            tokens = [index.indexed_tokens(question) for question in questions for index in indexes]
            answers.doubts.update(uncovered(slices, numbers, list(filter(None, tokens)), bool(answers.problems)))
    for column, numbers in _disagreements(files, questions):
        for number in numbers:
            answers.doubts.setdefault(number, []).append(
                f"it has values for which engines disagree about {column}, so the index of {column} never skips it"
            )
    return answers


def _disagreements(files: Candidates, questions: Sequence[Question]) -> Iterator[tuple[Column, list[int]]]:
    """Yield expressions, and the slices that are kept only because engines disagree about one of their values."""
    for question in questions:
        if isinstance(question, HasNull) and question.column.is_computed and question in files.may_match:
            yield question.column, pc.indices_nonzero(files.kept_by([question])).to_pylist()


def either(left: pa.BooleanArray | None, right: pa.BooleanArray | None) -> pa.BooleanArray | None:
    """Return the disjunction of two masks. None is a mask without any true value."""
    if left is None or right is None:
        return right if left is None else left
    return pc.or_(left, right)


def uncovered(
    slices: Sequence[Slice],
    numbers: Iterable[int],
    indexed_tokens: Sequence[Mapping[Location, str]],
    is_damaged: bool,
) -> dict[int, list[str]]:
    """Return for each numbered slice why the index of the predicate's columns does not cover it.

    `indexed_tokens` has a mapping for each column: the version of each location that its index covers. `is_damaged` is
    true if a part of the index cannot be read.
    """
    reasons: dict[int, list[str]] = {}
    chosen = list(numbers)
    uncovered_slices = Slices.of(slices).select(pa.array(chosen, pa.int64()))
    for number, location, current in zip(chosen, *locations_and_tokens(uncovered_slices), strict=True):
        tokens = {token for by_location in indexed_tokens if (token := by_location.get(location)) is not None}
        if is_damaged and (not tokens or current in tokens):
            reasons[number] = [UNREADABLE]
        elif current in tokens or tokens == {""}:
            # An index has an empty token for a file that it leaves out. The index of another column may cover the file.
            reasons[number] = [LEFT_OUT if "" in tokens else NEW]
        elif tokens:
            reasons[number] = [CHANGED]
        else:
            reasons[number] = [NEW if current else YOUNG]
    return reasons

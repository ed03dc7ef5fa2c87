"""Bloom filters inside files as evidence: each filter answers for one row group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa

from parsieve._core import ParsieveError
from parsieve.filters.open import FileFilters, version_of
from parsieve.plan.cost.medium import Medium, read_all
from parsieve.plan.evidence.base import Evidence
from parsieve.plan.evidence.footers import ChunkStatistics, Cost, FileFooter, holds_no_other
from parsieve.plan.evidence.questions import Among, Question
from parsieve.predicate.builder import is_text

# For this many values, a filter almost always claims to contain one.
MOST_VALUES = 1000


class FilterAnswers:
    """The answers of the filters in files. Each file is opened once for all questions."""

    def __init__(
        self,
        questions: Iterable[Question],
        source: Callable[[int], tuple[Any, Any]],
        medium: Callable[[int], Medium],
        cost: Cost,
    ) -> None:
        """`source` returns a file and its keys by the slice's number, and `medium` the storage that it is on."""
        # A dict, because questions are compared by identity and there may be thousands.
        self.questions = {one: one for one in questions if isinstance(one, Among) and len(one.values) <= MOST_VALUES}
        self._source = source
        self._medium = medium
        self._cost = cost
        self._lock = threading.Lock()
        # For each file and each question that a filter answered: the row groups that may match.
        self._answers: dict[int, dict[Question, list[bool]]] = {}

    def has_filters(self, footer: FileFooter) -> bool:
        """Return whether a file has a filter for one of the questions."""
        return any(_filtered_path(footer, question) is not None for question in self.questions)

    def read(self, footers: dict[int, FileFooter]) -> None:
        """Look up the questions in the filters of files that were not read before."""
        missing = {
            number: footer
            for number, footer in footers.items()
            if number not in self._answers and self.has_filters(footer)
        }
        if not missing:
            return
        medium = self._medium(next(iter(missing)))
        answers = read_all(lambda number: self._ask(number, missing[number]), list(missing), medium)
        self._answers |= dict(zip(missing, answers, strict=True))

    def get(self, number: int, question: Question) -> list[bool] | None:
        """Return the row groups of a file that may match, or None if no filter answered."""
        return self._answers.get(number, {}).get(question)

    def _ask(self, number: int, footer: FileFooter) -> dict[Question, list[bool]]:
        answers: dict[Question, list[bool]] = {}
        try:
            with FileFilters(*self._source(number)) as filters:
                try:
                    if footer.version and version_of(filters) != footer.version:
                        # The row groups of another version.
                        return answers
                    for question in self.questions:
                        path = _filtered_path(footer, question)
                        if path is not None:
                            answers |= _answer(filters, path, question)
                finally:
                    with self._lock:
                        self._cost.bytes_fetched += filters.bytes_fetched
                        self._cost.requests += filters.requests
        except (ParsieveError, OSError, ValueError):
            # A file that cannot be read excludes nothing.
            pass
        return answers


def _filtered_path(footer: FileFooter, question: Question) -> tuple[str, ...] | None:
    known = footer.columns.get(question.column.path)
    return known.path if known is not None and _can_answer(known, question.column.value_type) else None


def _can_answer(chunk: ChunkStatistics, kind: pa.DataType) -> bool:
    """Whether the chunk has filters that know values of the table's type: the bytes of a UUID are not its text."""
    if not chunk.has_filter or chunk.stored is None:
        return False
    is_bytewise = pa.types.is_fixed_size_binary(kind) or is_text(kind)
    return not is_bytewise or holds_no_other(chunk.stored, kind) is True


def _answer(filters: FileFilters, path: tuple[str, ...], question: Among) -> dict[Question, list[bool]]:
    try:
        return {question: filters.might_contain({path: question.values})}
    except (ParsieveError, OSError, ValueError):
        # A filter that cannot be read excludes nothing.
        return {}


class FileBlooms(Evidence):
    """The filters of files, for units that are row groups of them."""

    name = "Bloom filters"

    def __init__(
        self,
        units: Sequence[tuple[int, int]],
        footers: dict[int, FileFooter],
        answers: FilterAnswers,
    ) -> None:
        """`units` are pairs of a slice's number and a row group's; slices without a footer are not asked."""
        self._units = units
        self._footers = footers
        self._answers = answers

    def may_match(self, question: Question, wanted: pa.BooleanArray) -> pa.BooleanArray | None:
        """Read the filters' blocks that the values fall into, for files with a wanted row group."""
        if question not in self._answers.questions:
            return None
        pairs = zip(self._units, wanted.to_pylist(), strict=True)
        pieces = dict.fromkeys(piece for (piece, _), want in pairs if want)
        self._answers.read({piece: self._footers[piece] for piece in pieces if piece in self._footers})
        return self._mask(question, pieces)

    def _mask(self, question: Question, pieces: Collection[int]) -> pa.BooleanArray | None:
        found = {piece: self._answers.get(piece, question) for piece in pieces}
        if all(answer is None for answer in found.values()):
            return None
        mask = [
            (answer := found.get(piece)) is None or group >= len(answer) or answer[group]
            for piece, group in self._units
        ]
        return pa.array(mask, pa.bool_())

    def describe(self, question: Question, unit: int) -> str:
        """What a filter says."""
        return "not in the file's Bloom filter"

"""Evidence from the Bloom filters inside files, one for each row group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from parsieve._core import ParsieveError
from parsieve.errors import ConflictError
from parsieve.filters.open import FileFilters, check_unchanged, probe, version_of
from parsieve.plan.cost.medium import Medium, read_all
from parsieve.plan.evidence.base import Evidence
from parsieve.plan.evidence.footers import REPLACED, ChunkStatistics, Cost, FileFooter, stores_only
from parsieve.plan.evidence.questions import HasAnyOf, Question
from parsieve.predicate.builder import is_text

# For this many values, a filter almost always claims to contain one.
MOST_VALUES = 1000


# The column of a filter, and its row group. None means all columns, and all row groups.
Place = tuple[str | None, int | None]


class FileAnswers(NamedTuple):
    """The answers of the filters of one file."""

    # For each question that a filter answered: the row groups that may match.
    by_question: dict[Question, list[bool]]
    # Why filters could not be used. Many questions may ask one filter.
    doubts: dict[Place, str]


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
        self.questions = {
            question: question
            for question in questions
            if isinstance(question, HasAnyOf) and len(question.values) <= MOST_VALUES
        }
        self._source = source
        self._medium = medium
        self._cost = cost
        self._lock = threading.Lock()
        # By the slices' numbers.
        self._answers: dict[int, FileAnswers] = {}
        # The footers without a filter for any question. Each question asks about all files.
        self._unfiltered: dict[int, FileFooter] = {}

    def has_filters(self, footer: FileFooter) -> bool:
        """Return whether a file has a filter for one of the questions."""
        return any(_filtered_path(footer, question) is not None for question in self.questions)

    def read(self, footers: dict[int, FileFooter]) -> None:
        """Look up the questions in the filters of files that were not read before."""
        missing: dict[int, FileFooter] = {}
        for number, footer in footers.items():
            if number in self._answers or self._unfiltered.get(number) is footer:
                continue
            if self.has_filters(footer):
                missing[number] = footer
            else:
                self._unfiltered[number] = footer
        if not missing:
            return
        medium = self._medium(next(iter(missing)))
        answers = read_all(lambda number: self._ask(number, missing[number]), list(missing), medium)
        self._answers |= dict(zip(missing, answers, strict=True))

    def get(self, number: int, question: Question) -> list[bool] | None:
        """Return the row groups of a file that may match, or None if no filter answered."""
        answers = self._answers.get(number)
        return None if answers is None else answers.by_question.get(question)

    def in_doubt(self) -> list[Question]:
        """Return the questions about columns of which some filter could not be used."""
        columns = {column for answers in self._answers.values() for column, _ in answers.doubts}
        return [question for question in self.questions if None in columns or str(question.column) in columns]

    def doubts(self, kept: Mapping[int, Collection[int]]) -> dict[int, list[str]]:
        """Return why filters could not exclude row groups of some files. `kept` has these row groups of each file.

        Of several filters of a column, the first one is named.
        """
        reasons: dict[int, list[str]] = {}
        for number, groups in kept.items():
            by_column: dict[str | None, str] = {}
            of_file = self._answers[number].doubts if number in self._answers else {}
            for (column, row_group), reason in of_file.items():
                if row_group is None or row_group in groups:
                    by_column.setdefault(column, reason)
            if by_column:
                reasons[number] = list(by_column.values())
        return reasons

    def _ask(self, number: int, footer: FileFooter) -> FileAnswers:
        try:
            with FileFilters(*self._source(number)) as filters:
                try:
                    if footer.version and version_of(filters) != footer.version:
                        # The filters belong to the row groups of another version.
                        raise ConflictError(REPLACED)
                    answers = self._look_up(filters, footer)
                    check_unchanged(filters)
                finally:
                    with self._lock:
                        self._cost.bytes_fetched += filters.bytes_fetched
                        self._cost.requests += filters.requests
        except ConflictError:
            return FileAnswers({}, {(None, None): REPLACED})
        except (ParsieveError, OSError, ValueError) as error:
            # A file that cannot be read excludes nothing.
            return FileAnswers({}, {(None, None): f"its Bloom filters cannot be read: {error}"})
        return answers

    def _look_up(self, filters: FileFilters, footer: FileFooter) -> FileAnswers:
        answers = FileAnswers({}, {})
        for question in self.questions:
            path = _filtered_path(footer, question)
            if path is None:
                continue
            column = str(question.column)
            problem = f"its Bloom filter of {column} cannot be used"
            try:
                answers.by_question[question], unusable = probe(filters, {path: question.values})
            except ConflictError:
                raise
            except (ParsieveError, OSError, ValueError) as error:
                answers.doubts.setdefault((column, None), f"{problem}: {error}")
            else:
                # A filter that cannot be used excludes nothing.
                for filter in unusable:
                    answers.doubts.setdefault((column, filter.row_group), f"{problem}: {filter.reason}")
        return answers


def _filtered_path(footer: FileFooter, question: Question) -> tuple[str, ...] | None:
    chunks = footer.columns.get(question.column.path)
    return chunks.path if chunks is not None and _can_answer(chunks, question.column.value_type) else None


def _can_answer(chunks: ChunkStatistics, kind: pa.DataType) -> bool:
    """Return whether a column has filters of values as the table's type has them. Bytes of a UUID are not its text."""
    if not chunks.has_filter or chunks.stored is None:
        return False
    is_bytewise = pa.types.is_fixed_size_binary(kind) or is_text(kind)
    return not is_bytewise or stores_only(chunks.stored, kind) is True


class FileFilterEvidence(Evidence):
    """The Bloom filters inside files, for row groups."""

    name = "Bloom filters"

    def __init__(
        self,
        units: Sequence[tuple[int, int]],
        footers: dict[int, FileFooter],
        answers: FilterAnswers,
    ) -> None:
        """`units` are pairs of a slice's number and a row group's. Slices without a footer get no answer."""
        self._units = units
        self._footers = footers
        self._answers = answers

    def may_match(self, question: Question, candidates: pa.BooleanArray) -> pa.BooleanArray | None:
        """Read the blocks of the filters that the values fall into, in files with candidates."""
        if question not in self._answers.questions:
            return None
        pairs = zip(self._units, candidates.to_pylist(), strict=True)
        numbers = dict.fromkeys(number for (number, _), is_candidate in pairs if is_candidate)
        self._answers.read({number: self._footers[number] for number in numbers if number in self._footers})
        return self._mask(question, numbers)

    def _mask(self, question: Question, numbers: Collection[int]) -> pa.BooleanArray | None:
        answers = {number: self._answers.get(number, question) for number in numbers}
        if all(answer is None for answer in answers.values()):
            return None
        mask = [
            (answer := answers.get(number)) is None or group >= len(answer) or answer[group]
            for number, group in self._units
        ]
        return pa.array(mask, pa.bool_())

    def describe(self, question: Question, unit: int) -> str:
        """Describe the answer of a filter."""
        return "not in the file's Bloom filter"

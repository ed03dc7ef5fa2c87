"""Judge row groups by evidence in their files: first the footers, then the Bloom filters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc

from parsieve._core import FileKeys
from parsieve.lake.base import Lake, Slice, Snapshot
from parsieve.plan.cost.medium import Medium, medium_of
from parsieve.plan.evidence.candidates import Candidates
from parsieve.plan.evidence.file_filters import FileFilterEvidence, FilterAnswers
from parsieve.plan.evidence.footers import Cost, FileFooter, Footers, all_null, bounds_of
from parsieve.plan.evidence.minmax import ColumnBounds, MinMax
from parsieve.plan.evidence.questions import HasMatch, HasOtherType, HasWord, Question, leaves
from parsieve.predicate.expr import Column

# Row groups as candidates, with the number of the slice and of the row group for each.
Judged = tuple[Candidates, list[tuple[int, int]]]


class GroupJudge:
    """Judges the row groups of files. It keeps the footers, so it can judge files again together with others."""

    def __init__(
        self,
        lake: Lake,
        snapshot: Snapshot,
        footers: Footers,
        files: Candidates,
        cost: Cost,
        *,
        use_filters: bool,
        known: Callable[[Judged], None] = lambda judged: None,
    ) -> None:
        """`known` excludes the row groups that are known not to match before any footer is read."""
        self._lake = lake
        self._snapshot = snapshot
        self._footers = footers
        self._files = files
        self._exclude_known = known
        self.cost = cost
        self.columns = list({question.column.path: question.column for question in leaves(files.tree)}.values())
        self.filters = FilterAnswers(leaves(files.tree) if use_filters else (), self._source, self.medium, cost)
        # The footers that could be read, and the errors of the others, by the slices' numbers.
        self.opened: dict[int, FileFooter] = {}
        self.failed: dict[int, str] = {}
        self._last: tuple[list[int], Judged] | None = None
        self._slices: dict[int, Slice] = {}

    def slices(self, numbers: Sequence[int]) -> list[Slice]:
        """Return slices by their numbers. Their objects are made only once, and all together."""
        missing = [number for number in numbers if number not in self._slices]
        if missing:
            self._slices.update(zip(missing, self._snapshot.slices.at(missing), strict=True))
        return [self._slices[number] for number in numbers]

    def usable(self, numbers: Sequence[int]) -> list[int]:
        """Return the files whose footers describe the table's rows."""
        return [number for number, piece in zip(numbers, self.slices(numbers), strict=True) if self._is_usable(piece)]

    def _is_usable(self, piece: Slice) -> bool:
        if not self._lake.row_groups_usable(piece):
            return False
        # The table defines the values of constant columns. Their values in the file do not count.
        constants = self._lake.constants(piece)
        return any(column.path[0] not in constants for column in self.columns)

    def medium(self, number: int) -> Medium:
        """Return the kind of storage that a file is on."""
        return medium_of(self._lake, self.slices([number])[0])

    def num_uncached(self, numbers: Collection[int]) -> int:
        """Count the files whose footers would have to be read."""
        pieces = self.slices([number for number in numbers if number not in self.opened])
        return self._footers.num_missing(pieces, self.columns, self._snapshot.schema)

    def judge(self, numbers: Sequence[int]) -> Judged:
        """Judge the row groups of some files together."""
        if self._last is None or self._last[0] != numbers:
            self._last = list(numbers), self._judge(numbers)
        return self._last[1]

    def _judge(self, numbers: Sequence[int]) -> Judged:
        self._read([number for number in numbers if number not in self.opened and number not in self.failed])
        opened = {number: self.opened[number] for number in numbers if number in self.opened}
        units = [(number, group) for number, footer in opened.items() for group in range(len(footer.num_rows))]
        candidates = self._files.split([number for number, _ in units])
        self._exclude_known((candidates, units))

        def bounds(column: Column) -> ColumnBounds:
            return bounds_of(column, [(opened[number], group) for number, group in units])

        candidates.apply(MinMax("footers' min/max", bounds))
        if self.filters.questions:
            candidates.apply(FileFilterEvidence(units, opened, self.filters))
        return candidates, units

    def doubts(self, judged: Judged) -> dict[int, list[str]]:
        """Return why files are kept although their footers might have excluded them."""
        candidates, units = judged
        doubts = {number: [error] for number, error in self.failed.items()}
        for question in leaves(self._files.tree):
            if isinstance(question, HasOtherType) and question in candidates.may_match:
                suspects = pc.and_(candidates.kept, candidates.may_match[question])
                for number in dict.fromkeys(units[unit][0] for unit in pc.indices_nonzero(suspects).to_pylist()):
                    doubts.setdefault(number, []).append(
                        f"{question.column} may have values in this file that are not "
                        f"{question.column.value_type}, the table's type"
                    )
        # A filter or statistics in doubt matter only if the file is kept because of them.
        if in_doubt := self.filters.in_doubt():
            for number, reasons in self.filters.doubts(_kept_groups(judged, in_doubt)).items():
                doubts.setdefault(number, []).extend(reasons)
        if hidden := self._hidden():
            for number in _kept_groups(judged, hidden):
                doubts.setdefault(number, []).extend(self._hidden_columns(self.opened[number], hidden))
        return doubts

    def _hidden(self) -> list[Question]:
        """Return the questions that statistics could answer, about columns that are encrypted in some file."""
        paths = {path for footer in self.opened.values() for path, chunks in footer.columns.items() if chunks.is_hidden}
        return [
            question
            for question in (leaves(self._files.tree) if paths else ())
            if question.column.path in paths and not isinstance(question, HasMatch | HasWord)
        ]

    def _hidden_columns(self, footer: FileFooter, questions: Sequence[Question]) -> list[str]:
        """Return why the statistics of a file do not answer some of the questions."""
        columns = {question.column.path: question.column for question in questions}
        return [
            f"its statistics of {column} are encrypted; {self._remedy(chunks.path)}"
            for path, column in columns.items()
            if (chunks := footer.columns.get(path)) is not None and chunks.is_hidden
        ]

    def _remedy(self, path: tuple[str, ...] | None) -> str:
        keys = self._lake.keys
        if keys is None:
            is_folder = self._lake.format == "parquet"
            return (
                "pass their key as decryption= to open_table"
                if is_folder
                else "open_table takes keys for plain folders only"
            )
        refusal = None if path is None else keys.refusals.get(path)
        if refusal is not None:
            return f"the KMS returned no key for them ({refusal})"
        return "decryption= has no key that decrypts and verifies them"

    def _read(self, numbers: Sequence[int]) -> None:
        pieces = self.slices(numbers)
        footers = self._footers.read(pieces, self.columns, self._snapshot.schema, self._lake, self.cost)
        for number, piece, footer in zip(numbers, pieces, footers, strict=True):
            if isinstance(footer, str):
                self.failed[number] = footer
            else:
                known = _without(footer, self._lake.constants(piece))
                self.opened[number] = self._with_nulls(known, piece)

    def _with_nulls(self, footer: FileFooter, piece: Slice) -> FileFooter:
        """Return a footer in which the columns that the file lacks have only nulls, if the table reads them so."""
        nulls = {
            path: all_null(footer.num_rows)
            for path, chunk in footer.columns.items()
            if chunk.is_absent and self._lake.absent_is_null(piece, self._snapshot.schema.field(path[0]))
        }
        return replace(footer, columns=footer.columns | nulls) if nulls else footer

    def _source(self, number: int) -> tuple[Any, FileKeys | None]:
        piece = self.slices([number])[0]
        return self._lake.open_listed(piece), self._lake.file_keys(piece)


def _kept_groups(judged: Judged, questions: Sequence[Question]) -> dict[int, set[int]]:
    """Return the row groups of each file that are kept only because rows may answer some of these questions."""
    candidates, units = judged
    groups: dict[int, set[int]] = {}
    for unit in pc.indices_nonzero(candidates.kept_by(questions)).to_pylist():
        number, group = units[unit]
        groups.setdefault(number, set()).add(group)
    return groups


def _without(footer: FileFooter, constants: Collection[str]) -> FileFooter:
    """Return a footer without the columns that are constant, since the table's value overrides the file's."""
    if not constants:
        return footer
    columns = {path: chunk for path, chunk in footer.columns.items() if path[0] not in constants}
    return FileFooter(footer.num_rows, columns, footer.version)


def excluded_share(judged: Judged, footers: dict[int, FileFooter]) -> float:
    """Return the share of the opened files' rows that are in row groups skipped by footers or filters."""
    candidates, units = judged
    total = excluded = 0
    was_excluded = (
        functools.reduce(pc.or_, [units for units, _ in candidates.excluded]) if candidates.excluded else None
    )
    before = [False] * len(units) if was_excluded is None else was_excluded.to_pylist()
    for (number, group), is_kept, was_skipped in zip(units, candidates.kept.to_pylist(), before, strict=True):
        rows = footers[number].num_rows[group]
        total += rows
        excluded += 0 if is_kept or was_skipped else rows
    return excluded / total if total else 0.0

"""Judge row groups by evidence in their files: first the footers, then the Bloom filters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow.compute as pc

from parsieve._core import FileKeys
from parsieve.lake.base import Lake, Snapshot
from parsieve.plan.cost.medium import Medium, medium_of
from parsieve.plan.evidence.candidates import Sieving
from parsieve.plan.evidence.file_filters import FileBlooms, FilterAnswers
from parsieve.plan.evidence.footers import Cost, FileFooter, Footers, bounds_of
from parsieve.plan.evidence.minmax import ColumnBounds, MinMax
from parsieve.plan.evidence.questions import Beyond, leaves
from parsieve.predicate.expr import Column

# A sieving of row groups, and for each unit of it the slice's number and the row group's.
Judged = tuple[Sieving, list[tuple[int, int]]]


class GroupJudge:
    """Judges the row groups of files. It remembers what it read, so files can be judged again together with others."""

    def __init__(
        self, lake: Lake, snapshot: Snapshot, footers: Footers, files: Sieving, cost: Cost, *, use_filters: bool
    ) -> None:
        self._lake = lake
        self._snapshot = snapshot
        self._footers = footers
        self._files = files
        self.cost = cost
        self.columns = list({question.column.path: question.column for question in leaves(files.tree)}.values())
        self.filters = FilterAnswers(leaves(files.tree) if use_filters else (), self._source, self.medium, cost)
        # What was read from each file.
        self.known: dict[int, FileFooter] = {}
        # Why a footer could not be read.
        self.failed: dict[int, str] = {}
        self._last: tuple[list[int], Judged] | None = None

    def is_usable(self, number: int) -> bool:
        """Return whether a file's footer describes the table's rows."""
        piece = self._snapshot.slices[number]
        if not self._lake.row_groups_usable(piece):
            return False
        # The table defines the values of constant columns; those in the file do not count.
        constants = self._lake.constants(piece)
        return any(column.path[0] not in constants for column in self.columns)

    def medium(self, number: int) -> Medium:
        """Return the kind of storage that a file is on."""
        return medium_of(self._lake, self._snapshot.slices[number])

    def num_uncached(self, numbers: Collection[int]) -> int:
        """Count the files whose footers would have to be read."""
        pieces = [self._snapshot.slices[number] for number in numbers if number not in self.known]
        return self._footers.num_missing(pieces, self.columns, self._snapshot.schema)

    def judge(self, numbers: Sequence[int]) -> Judged:
        """Judge the row groups of some files together."""
        if self._last is None or self._last[0] != numbers:
            self._last = list(numbers), self._judge(numbers)
        return self._last[1]

    def _judge(self, numbers: Sequence[int]) -> Judged:
        self._read([number for number in numbers if number not in self.known and number not in self.failed])
        opened = {number: self.known[number] for number in numbers if number in self.known}
        units = [(number, group) for number, footer in opened.items() for group in range(len(footer.num_rows))]
        groups = self._files.split([number for number, _ in units])

        def bounds(column: Column) -> ColumnBounds:
            return bounds_of(column, [(opened[number], group) for number, group in units])

        groups.hear(MinMax("footers' min/max", bounds))
        if self.filters.questions:
            groups.hear(FileBlooms(units, opened, self.filters))
        return groups, units

    def doubts(self, judged: Judged) -> dict[int, list[str]]:
        """Return why files are kept although their footers might have excluded them."""
        groups, units = judged
        doubts = {number: [why] for number, why in self.failed.items()}
        for question in leaves(self._files.tree):
            if isinstance(question, Beyond) and question in groups.answers:
                other = pc.and_(groups.kept, groups.answers[question])
                for number in dict.fromkeys(units[unit][0] for unit in pc.indices_nonzero(other).to_pylist()):
                    doubts.setdefault(number, []).append(
                        f"{question.column} may have values in this file that are not "
                        f"{question.column.value_type}, the table's type"
                    )
        return doubts

    def _read(self, numbers: Sequence[int]) -> None:
        slices = self._snapshot.slices
        pieces = [slices[number] for number in numbers]
        read = self._footers.read(pieces, self.columns, self._snapshot.schema, self._lake, self.cost)
        for number, footer in zip(numbers, read, strict=True):
            if isinstance(footer, str):
                self.failed[number] = footer
            else:
                self.known[number] = _without(footer, self._lake.constants(slices[number]))

    def _source(self, number: int) -> tuple[Any, FileKeys | None]:
        piece = self._snapshot.slices[number]
        return self._lake.open_base(piece), self._lake.file_keys(piece)


def _without(footer: FileFooter, constants: Collection[str]) -> FileFooter:
    """Return a footer without the columns that are constant, since the table's value overrides the file's."""
    if not constants:
        return footer
    columns = {path: chunk for path, chunk in footer.columns.items() if path[0] not in constants}
    return FileFooter(footer.num_rows, columns, footer.version)


def excluded_share(judged: Judged, known: dict[int, FileFooter]) -> float:
    """Return the share of the opened files' rows that lies in skipped row groups."""
    groups, units = judged
    total = kept = 0
    for (number, group), is_kept in zip(units, groups.kept.to_pylist(), strict=True):
        rows = known[number].num_rows[group]
        total += rows
        kept += rows if is_kept else 0
    return 1 - kept / total if total else 0.0

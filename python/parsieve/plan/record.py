"""The decisions of a plan and their reasons, as data for explanations, reports, engines and pickles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.index.pages.reader import MapReader
from parsieve.lake.base import Lake, Slice, Snapshot
from parsieve.lake.slices import names_of
from parsieve.plan.evidence.candidates import Candidates
from parsieve.plan.evidence.footers import Cost
from parsieve.plan.evidence.index.apply import Health
from parsieve.plan.evidence.questions import (
    Constant,
    HasAnyOf,
    HasInRange,
    HasMatch,
    HasPrefix,
    HasWord,
    Question,
    leaves,
    trigrams_of_question,
    words_of_question,
)
from parsieve.plan.evidence.row_groups import Judged
from parsieve.plan.rows.base import KeptRows
from parsieve.plan.verdict import Keep, Skip
from parsieve.predicate.expr import Expr, Unknown, unknowns
from parsieve.sharing import cached_property
from parsieve.wording import count

# The questions that look for some rows.
_LOOKUPS = (HasAnyOf, HasPrefix, HasMatch, HasWord, HasInRange)
# Attributes that a pickle leaves out.
_EVIDENCE = ("files", "groups", "rows", "_units", "pages")


class Stage(NamedTuple):
    """How many files or row groups one kind of evidence was applied to, and how many of them it kept."""

    evidence: str
    unit: Literal["file", "row group"]
    asked: int
    kept: int


class RowGroups(NamedTuple):
    """The row groups of a file whose footer was read: their total, and the numbers of the kept ones."""

    total: int
    kept: list[int]


@dataclass(frozen=True, eq=False)
class PlanRecord:
    """The decisions of a plan about each file and row group, with their reasons.

    Files are numbered by their slices in `snapshot`. A pickled record contains every result, but not the evidence.
    """

    lake: Lake
    snapshot: Snapshot
    # The predicate, with the parts of `keys=`.
    expr: Expr
    # The evidence for files, and for the row groups of opened files.
    files: Candidates
    groups: Judged | None
    # The rows that may match, of the files whose row groups are known.
    rows: KeptRows | None
    # Why a file could not be judged, by its number.
    doubts: Mapping[int, Sequence[str]]
    # Problems that concern the whole plan, such as an index that cannot be read.
    notes: tuple[str, ...]
    # What planning read.
    cost: Cost
    # The map of the pages of the table's files, if the index has one.
    pages: MapReader | None = None
    # Whether the index could be used, apart from the files that it does not cover.
    health: Health = "sound"

    @cached_property
    def row_groups(self) -> dict[int, RowGroups]:
        """The row groups of each file whose footer was read."""
        if self.groups is None:
            return {}
        candidates, units = self.groups
        kept: dict[int, list[int]] = {number: [] for number in self._units}
        for (number, group), is_kept in zip(units, candidates.kept.to_pylist(), strict=True):
            if is_kept:
                kept[number].append(group)
        return {number: RowGroups(len(self._units[number]), groups) for number, groups in kept.items()}

    @cached_property
    def num_opened(self) -> int | None:
        """The number of files whose footers were judged, or None if planning opened no file."""
        return None if self.groups is None else len(self.row_groups)

    def groups_to_read(self, number: int) -> list[int] | None:
        """Return the row groups of a kept file that can contain a match, or None for all of them."""
        row_groups = self.row_groups.get(number) or self._indexed_row_groups.get(number)
        return None if row_groups is None or len(row_groups.kept) == row_groups.total else row_groups.kept

    @cached_property
    def _indexed_row_groups(self) -> dict[int, RowGroups]:
        """The row groups of the files whose row groups the index knows."""
        return {} if self.rows is None else {number: RowGroups(*some) for number, some in self.rows.row_groups.items()}

    @cached_property
    def row_ranges(self) -> dict[int, list[tuple[int, int]] | None]:
        """For each file whose row groups are known: the ranges of rows that can contain a match, None for all rows."""
        return {} if self.rows is None else self.rows.ranges

    @cached_property
    def num_rows(self) -> tuple[int, int] | None:
        """The rows that can contain a match, and all rows, of the kept files whose row groups are known."""
        return None if self.rows is None else self.rows.num_rows

    @cached_property
    def candidate_share(self) -> float | None:
        """The share of the table's bytes in rows that can contain a match; None if the sizes of files are unknown."""
        sizes = self.snapshot.slices.size
        if sizes.null_count:
            return None
        numbers = pa.array(self.kept, pa.int64())
        kept, known = pc.sum(sizes.take(numbers)).as_py() or 0, 0.0
        if self.num_rows is not None:
            # The rows of the other kept files are unknown, so all of them count.
            with_rows = pa.array(self.row_ranges, pa.int64())
            known = pc.sum(sizes.take(with_rows.filter(pc.is_in(with_rows, value_set=numbers)))).as_py() or 0
            rows, total_rows = self.num_rows
            known *= 1 - rows / max(total_rows, 1)
        return float((kept - known) / max(pc.sum(sizes).as_py() or 0, 1))

    @cached_property
    def kept(self) -> list[int]:
        """The numbers of the files that can contain a match."""
        numbers = pc.indices_nonzero(self.files.kept).to_pylist()
        return [number for number in numbers if number not in self.row_groups or self.row_groups[number].kept]

    @cached_property
    def skipped(self) -> list[int]:
        """The numbers of the files that certainly contain no match."""
        kept = set(self.kept)
        return [number for number in range(len(self.snapshot.slices)) if number not in kept]

    @cached_property
    def keeps(self) -> list[Keep]:
        """The verdicts on the kept files, in the order of `kept`."""
        named = zip(self._names(self.kept), self.kept, strict=True)
        return [Keep(name, tuple(self.doubts.get(number, ()))) for name, number in named]

    @cached_property
    def skips(self) -> list[Skip]:
        """The verdicts on the skipped files, in the order of `skipped`."""
        return [self._skip(*named) for named in zip(self.skipped, self._names(self.skipped), strict=True)]

    @cached_property
    def _units(self) -> dict[int, list[int]]:
        """For each opened file, the positions of its row groups in the evidence."""
        units: dict[int, list[int]] = {}
        for unit, (number, _) in enumerate(self.groups[1] if self.groups is not None else ()):
            units.setdefault(number, []).append(unit)
        return units

    def _skip(self, number: int, name: str) -> Skip:
        if self.groups is None or number not in self._units:
            return Skip(name, self.files.evidence(number), _proof([self.files.proof(number)]))
        candidates, units = self.groups[0], self._units[number]
        evidence = dict.fromkeys(candidates.evidence(unit) for unit in units)
        proofs = [candidates.proof(unit) for unit in units]
        return Skip(name, ", ".join(evidence) or "footer", _proof(proofs))

    def name(self, number: int) -> str:
        """Return the path of a file, or the partition and id of a Hudi file group that has only log files."""
        return self._names([number])[0]

    def _names(self, numbers: Sequence[int]) -> list[str]:
        return names_of(self.snapshot.slices.select(pa.array(numbers, pa.int64())))

    def paths(self) -> dict[int, str]:
        """Return the paths of the kept files by number. A Hudi file group that has only log files has none."""
        paths = self.snapshot.slices.select(pa.array(self.kept, pa.int64())).path.to_pylist()
        return {number: path for number, path in zip(self.kept, paths, strict=True) if path is not None}

    def slices(self, numbers: Sequence[int] | None = None) -> list[Slice]:
        """Return slices by their numbers; None returns the slices of all kept files."""
        return self.snapshot.slices.at(self.kept if numbers is None else numbers)

    @cached_property
    def stages(self) -> list[Stage]:
        """What each kind of evidence did, in order: first for files, then for row groups."""
        stages = [Stage(step.name, "file", step.asked, step.kept) for step in self.files.steps]
        groups = [] if self.groups is None else self.groups[0].steps
        return stages + [Stage(step.name, "row group", step.asked, step.kept) for step in groups]

    @cached_property
    def unanswered(self) -> dict[str, str]:
        """The conditions that no evidence could answer, with the reasons."""
        candidates = [self.files] if self.groups is None else [self.files, self.groups[0]]
        questions = leaves(self.files.tree) if self.kept else ()
        return {
            str(question): "; ".join(self.files.refusals.get(question, [_no_evidence(question)]))
            for question in questions
            if not any(question in each.answers for each in candidates)
        }

    @property
    def unknown(self) -> list[Unknown]:
        """The parts of the predicate that were not understood, and so are ignored."""
        return list(unknowns(self.expr))

    @cached_property
    def excludes_nothing(self) -> bool:
        """Whether the predicate, as far as it is understood, is true of every row."""
        return self.files.tree == Constant(True)

    @cached_property
    def unused_texts(self) -> list[str]:
        """The conditions about text inside strings that can skip no file, because they are too short."""
        questions = [question for question in leaves(self.files.tree) if isinstance(question, HasMatch)]
        unused = [question for question in questions if not trigrams_of_question(question)]
        return list(dict.fromkeys(str(question) for question in unused if not words_of_question(question)))

    @cached_property
    def expected_false_positives(self) -> float | None:
        """The expected number of kept files without a matching row, if the predicate's values exist; None if unknown.

        It is unknown if a kept file is in doubt, for example because it changed since it was indexed. If the values do
        not exist, every kept file is a false positive.
        """
        if self.doubts and any(number in self.doubts for number in self.kept):
            return None
        expected = self.files.expected_false_positives()
        return None if expected is None else min(expected, float(len(self.kept)))

    @cached_property
    def target(self) -> Literal["key", "keys", "rows"]:
        """Whether the predicate looks up one key, several keys, or other rows."""
        lookups = [question for question in leaves(self.files.tree) if isinstance(question, _LOOKUPS)]
        if len(lookups) == 1 and isinstance(lookups[0], HasAnyOf) and len(lookups[0].values) == 1:
            return "key"
        return "keys" if all(isinstance(question, HasAnyOf) for question in lookups) else "rows"

    def without_evidence(self) -> dict[str, Any]:
        """Return the attributes of a copy for another process: every result, and no evidence."""
        for name, attribute in vars(type(self)).items():
            if isinstance(attribute, cached_property) and name not in _EVIDENCE:
                getattr(self, name)
        return {name: value for name, value in vars(self).items() if name not in _EVIDENCE}


def _no_evidence(question: Question) -> str:
    if isinstance(question, HasMatch):
        return "no usable text index"
    if isinstance(question, HasWord):
        return "no usable text or words index"
    return "no min/max statistics, index or filter"


def _proof(units: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Join the proofs of a file, or of all its row groups: pairs of a question, and why no row answers it."""
    if not units:
        return "it has no row groups"
    reasons: dict[str, list[str]] = {}
    for unit in units:
        for question, reason in unit:
            reasons.setdefault(question, []).append(reason)
    texts = []
    for question, all_reasons in reasons.items():
        distinct = list(dict.fromkeys(all_reasons))
        more = f" / {count(len(distinct) - 2, 'more row group')}" if len(distinct) > 2 else ""
        texts.append(f"{question}: {' / '.join(distinct[:2])}{more}")
    return "; ".join(texts)

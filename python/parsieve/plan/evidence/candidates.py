"""Apply evidence to the questions of a predicate, cheapest first, and remember the proof of every skip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.plan.evidence.base import Evidence
from parsieve.plan.evidence.questions import Constant, Every, Question, Some, Tree, leaves


@dataclass(slots=True)
class Step:
    """The effect of one kind of evidence."""

    name: str
    asked: int
    kept: int
    # The units that this evidence and all evidence before it kept.
    mask: pa.BooleanArray


class Answer(NamedTuple):
    """The answer of one kind of evidence to a question, for each unit."""

    evidence: Evidence
    may_match: pa.BooleanArray
    # The units that were still candidates when the evidence was applied.
    asked: pa.BooleanArray


@dataclass(slots=True)
class Candidates:
    """The files or row groups still under consideration, narrowed by one kind of evidence after another."""

    tree: Tree
    kept: pa.BooleanArray
    # For each question, whether each unit may answer it, by all evidence so far.
    may_match: dict[Question, pa.BooleanArray] = field(default_factory=dict)
    # For each question, the answer of each kind of evidence.
    answers: dict[Question, list[Answer]] = field(default_factory=dict)
    # For each question, why some evidence about its column could not answer it.
    refusals: dict[Question, list[str]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    # Units that were excluded by a proof about the whole predicate, and the proof.
    excluded: list[tuple[pa.BooleanArray, str]] = field(default_factory=list)

    @classmethod
    def all(cls, tree: Tree, num_units: int) -> Candidates:
        """Return candidates that include every unit, unless the predicate is never true."""
        candidates = cls(tree, pa.repeat(pa.scalar(True), num_units))
        candidates._narrow("the predicate itself")
        return candidates

    def apply(self, evidence: Evidence) -> None:
        """Exclude the units that one kind of evidence rules out."""
        if not pc.any(self.kept).as_py():
            return
        has_answers = False
        for question in leaves(self.tree):
            answer = evidence.may_match(question, self.kept)
            if answer is None:
                if refusal := evidence.refusal(question):
                    self.refusals.setdefault(question, []).append(refusal)
                continue
            has_answers = True
            before = self.may_match.get(question)
            self.may_match[question] = answer if before is None else pc.and_(before, answer)
            self.answers.setdefault(question, []).append(Answer(evidence, answer, self.kept))
        if has_answers:
            self._narrow(evidence.name)

    def exclude(self, name: str, units: pa.BooleanArray, reason: str) -> None:
        """Exclude the units of a mask by evidence for the predicate as a whole."""
        self.excluded.append((pc.and_(self.kept, units), reason))
        self._keep(name, pc.and_not(self.kept, units))

    def kept_by(self, questions: Sequence[Question]) -> pa.BooleanArray:
        """Return the units that are kept only because rows may answer some of these questions."""
        none = pa.repeat(pa.scalar(False), len(self.kept))
        others = Candidates(self.tree, self.kept, self.may_match | dict.fromkeys(questions, none))
        return pc.and_not(self.kept, others._evaluate(self.tree))

    def _narrow(self, name: str) -> None:
        self._keep(name, pc.and_(self.kept, self._evaluate(self.tree)))

    def _keep(self, name: str, kept: pa.BooleanArray) -> None:
        self.steps.append(Step(name, self.kept.true_count, kept.true_count, kept))
        self.kept = kept

    def _evaluate(self, tree: Tree) -> pa.BooleanArray:
        """Return for each unit whether the tree may be true."""
        if isinstance(tree, Constant):
            return pa.repeat(pa.scalar(tree.value), len(self.kept))
        if isinstance(tree, Every | Some):
            join = pc.and_ if isinstance(tree, Every) else pc.or_
            mask = self._evaluate(tree.parts[0])
            for part in tree.parts[1:]:
                mask = join(mask, self._evaluate(part))
            return mask
        may_match = self.may_match.get(tree)
        return pa.repeat(pa.scalar(True), len(self.kept)) if may_match is None else may_match

    def split(self, owners: Sequence[int]) -> Candidates:
        """Return candidates for smaller units. Each belongs to one of these units and inherits its answers.

        `owners` has the position of the owner of each smaller unit.
        """
        positions = pa.array(owners, pa.int64())
        parts = Candidates(self.tree, self.kept.take(positions))
        parts.may_match = {question: mask.take(positions) for question, mask in self.may_match.items()}
        return parts

    def expected_false_positives(self) -> float | None:
        """Return the expected number of false positives if matching rows exist, or None if it is unknown."""
        expected = self._expected(self.tree)
        return None if expected is None else min(expected, float(self.kept.true_count))

    def _expected(self, tree: Tree) -> float | None:
        if isinstance(tree, Constant):
            return None
        if isinstance(tree, Every | Some):
            parts = [self._expected(part) for part in tree.parts]
            estimates = [part for part in parts if part is not None]
            if isinstance(tree, Every):
                # The other parts may exclude the false positives of one part.
                return min(estimates, default=None)
            return sum(estimates) if len(estimates) == len(parts) else None
        by_evidence = [
            answer.evidence.expected_false_positives(tree, answer.may_match, answer.asked)
            for answer in self.answers.get(tree, ())
        ]
        return min((estimate for estimate in by_evidence if estimate is not None), default=None)

    def evidence(self, unit: int) -> str:
        """Return the name of the evidence that excluded a unit."""
        return next(step.name for step in self.steps if not step.mask[unit].as_py())

    def proof(self, unit: int) -> list[tuple[str, str]]:
        """Return why a skipped unit contains no matching row: pairs of a question, and why no row answers it."""
        for units, reason in self.excluded:
            if units[unit].as_py():
                return [("the predicate", reason)]
        return list(dict.fromkeys(self._proof(self.tree, unit)))

    def _proof(self, tree: Tree, unit: int) -> list[tuple[str, str]]:
        if isinstance(tree, Constant):
            return [("the predicate", "is never true")]
        if isinstance(tree, Every):
            return next(self._proof(part, unit) for part in tree.parts if not self._may_be_true(part, unit))
        if isinstance(tree, Some):
            return [pair for part in tree.parts for pair in self._proof(part, unit)]
        for answer in self.answers.get(tree, ()):
            if not answer.may_match[unit].as_py():
                return [(str(tree), answer.evidence.describe(tree, unit))]
        return [(str(tree), "excluded for the whole file by other evidence")]

    def _may_be_true(self, tree: Tree, unit: int) -> bool:
        if isinstance(tree, Constant):
            return tree.value
        if isinstance(tree, Every):
            return all(self._may_be_true(part, unit) for part in tree.parts)
        if isinstance(tree, Some):
            return any(self._may_be_true(part, unit) for part in tree.parts)
        may_match = self.may_match.get(tree)
        return True if may_match is None else bool(may_match[unit].as_py())

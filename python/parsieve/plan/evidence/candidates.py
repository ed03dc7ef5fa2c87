"""Applies evidence to a tree of questions, cheapest first, and remembers the proof of every skip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.plan.evidence.base import Evidence
from parsieve.plan.evidence.questions import Constant, Every, Question, Some, Tree, leaves


@dataclass(slots=True)
class Stage:
    """What one kind of evidence did."""

    name: str
    asked: int
    kept: int
    # Which units were kept by this one and all before it.
    mask: pa.BooleanArray


@dataclass(slots=True)
class Sieving:
    """The files or row groups still under consideration, narrowed by one kind of evidence after another."""

    tree: Tree
    kept: pa.BooleanArray
    # For each question, whether each unit may answer it by all evidence so far.
    answers: dict[Question, pa.BooleanArray] = field(default_factory=dict)
    # For each question the evidence that was heard, its own answers, and what was kept until then.
    heard: dict[Question, list[tuple[Evidence, pa.BooleanArray, pa.BooleanArray]]] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=list)

    @classmethod
    def begin(cls, tree: Tree, units: int) -> Sieving:
        """Everything is kept."""
        sieving = cls(tree, pa.repeat(pa.scalar(True), units))
        sieving._settle("the predicate itself")
        return sieving

    def hear(self, evidence: Evidence) -> None:
        """Let one kind of evidence exclude what it can."""
        if not pc.any(self.kept).as_py():
            return
        silent = True
        for question in leaves(self.tree):
            answer = evidence.may_match(question, self.kept)
            if answer is None:
                continue
            silent = False
            known = self.answers.get(question)
            self.answers[question] = answer if known is None else pc.and_(known, answer)
            self.heard.setdefault(question, []).append((evidence, answer, self.kept))
        if not silent:
            self._settle(evidence.name)

    def _settle(self, name: str) -> None:
        kept = pc.and_(self.kept, self._true(self.tree))
        self.stages.append(Stage(name, self.kept.true_count, kept.true_count, kept))
        self.kept = kept

    def _true(self, tree: Tree) -> pa.BooleanArray:
        if isinstance(tree, Constant):
            return pa.repeat(pa.scalar(tree.value), len(self.kept))
        if isinstance(tree, Every | Some):
            join = pc.and_ if isinstance(tree, Every) else pc.or_
            found = self._true(tree.parts[0])
            for part in tree.parts[1:]:
                found = join(found, self._true(part))
            return found
        known = self.answers.get(tree)
        return pa.repeat(pa.scalar(True), len(self.kept)) if known is None else known

    def split(self, owners: Sequence[int]) -> Sieving:
        """The same for finer units, each of which belongs to one of these and inherits what is known of it."""
        at = pa.array(owners, pa.int64())
        inherited = Sieving(self.tree, self.kept.take(at))
        inherited.answers = {question: answer.take(at) for question, answer in self.answers.items()}
        return inherited

    def expected_waste(self) -> float | None:
        """Return the expected number of false positives if matching rows exist; None if the evidence cannot tell."""
        waste = self._waste(self.tree)
        return None if waste is None else min(waste, float(self.kept.true_count))

    def _waste(self, tree: Tree) -> float | None:
        if isinstance(tree, Constant):
            return None
        if isinstance(tree, Every | Some):
            parts = [self._waste(part) for part in tree.parts]
            known = [part for part in parts if part is not None]
            if isinstance(tree, Every):
                # The other parts may exclude the false positives of one.
                return min(known, default=None)
            return sum(known) if len(known) == len(parts) else None
        estimates = [one.expected_waste(tree, answer, wanted) for one, answer, wanted in self.heard.get(tree, ())]
        return min((one for one in estimates if one is not None), default=None)

    def evidence(self, unit: int) -> str:
        """What excluded a unit."""
        return next(stage.name for stage in self.stages if not stage.mask[unit].as_py())

    def proof(self, unit: int) -> list[tuple[str, str]]:
        """Why a unit that was skipped holds no matching row: what was asked, and what is held against it."""
        return list(dict.fromkeys(self._blame(self.tree, unit)))

    def _blame(self, tree: Tree, unit: int) -> list[tuple[str, str]]:
        if isinstance(tree, Constant):
            return [("the predicate", "is never true")]
        if isinstance(tree, Every):
            return next(self._blame(part, unit) for part in tree.parts if not self._may(part, unit))
        if isinstance(tree, Some):
            return [one for part in tree.parts for one in self._blame(part, unit)]
        for evidence, answer, _ in self.heard.get(tree, ()):
            if not answer[unit].as_py():
                return [(str(tree), evidence.describe(tree, unit))]
        return [(str(tree), "excluded for the whole file by other evidence")]

    def _may(self, tree: Tree, unit: int) -> bool:
        if isinstance(tree, Constant):
            return tree.value
        if isinstance(tree, Every):
            return all(self._may(part, unit) for part in tree.parts)
        if isinstance(tree, Some):
            return any(self._may(part, unit) for part in tree.parts)
        known = self.answers.get(tree)
        return True if known is None else bool(known[unit].as_py())

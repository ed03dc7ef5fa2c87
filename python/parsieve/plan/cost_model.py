"""Decide whether reading files' own footers and filters saves more time than it costs (`docs/design/cost-model.md`)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.lake.base import Snapshot
from parsieve.plan.cost.experience import Experience
from parsieve.plan.evidence.candidates import Sieving
from parsieve.plan.evidence.questions import Among, Begins, Within, leaves
from parsieve.plan.evidence.row_groups import GroupJudge, excluded_share

# Size of the first batch of files, and the factor by which each further batch grows while that pays off.
SAMPLE, GROWTH = 3, 4
# The assumed size of files whose size is unknown.
ASSUMED_SIZE = 16 << 20


class CostModel:
    """Chooses kept files whose footers and filters are read although other evidence has judged them."""

    def __init__(self, snapshot: Snapshot, files: Sieving, judge: GroupJudge, experience: Experience) -> None:
        self._snapshot = snapshot
        self._files = files
        self._judge = judge
        self._experience = experience
        self._columns = frozenset(column.path for column in judge.columns)
        # An unchanged table gives the same slices again. Only the identity is kept, so that old snapshots are freed.
        self._state = id(snapshot.slices)

    def choose(self, candidates: pa.Array) -> list[int]:
        """Return the slices to open, which have been asked by then.

        The first few are a sample. As long as its measured share of excluded rows pays, more and more are asked.
        """
        chosen: list[int] = []
        if not any(isinstance(question, Among | Within | Begins) for question in leaves(self._files.tree)):
            return chosen
        wanted, excluded = SAMPLE, 0.0
        while len(candidates):
            picked = _spread(candidates, wanted)
            batch = [number for number in picked.to_pylist() if self._judge.is_usable(number)]
            if not batch:
                break
            if chosen:
                saving = excluded / len(chosen) * len(batch) * self._saving(batch)
            else:
                saving = self._first_guess() * len(candidates) * self._saving(batch)
            if saving <= self._price(batch):
                break
            excluded += self._ask(batch)
            chosen += batch
            candidates = candidates.filter(pc.invert(pc.is_in(candidates, value_set=picked)))
            wanted *= GROWTH
        if chosen and self._any_filters():
            self._experience.add_plan(self._columns, self._state, excluded > 0)
        return chosen

    def _first_guess(self) -> float:
        """Estimate the share of rows that would be excluded, before any file was read."""
        waste = (self._files.expected_waste() or 0.0) / self._files.kept.true_count
        # If no row matches, every kept file is a false positive; else, those that the index expects.
        missing = self._experience.excluding_rate(self._columns, self._state)
        wrong = missing + (1 - missing) * min(1.0, waste)
        return float(wrong) * self._experience.rate(self._columns, self._state)

    def _saving(self, batch: Sequence[int]) -> float:
        slices = [self._snapshot.slices[number] for number in batch]
        mean = sum(ASSUMED_SIZE if piece.size is None else piece.size for piece in slices) / len(slices)
        return self._judge.medium(batch[0]).saving(mean)

    def _price(self, batch: Sequence[int]) -> float:
        asks_filters = bool(self._judge.filters.questions) and (not self._judge.known or self._any_filters())
        return self._judge.medium(batch[0]).price(self._judge.num_uncached(batch), len(batch) if asks_filters else 0)

    def _any_filters(self) -> bool:
        return any(self._judge.filters.has_filters(footer) for footer in self._judge.known.values())

    def _ask(self, batch: list[int]) -> float:
        """Read a batch, and return how many rows it excluded, counted in files."""
        share = excluded_share(self._judge.judge(batch), self._judge.known)
        known = [self._judge.known[number] for number in batch if number in self._judge.known]
        with_filters = sum(self._judge.filters.has_filters(footer) for footer in known)
        self._experience.add(self._columns, self._state, len(batch), max(with_filters, 1 if share else 0))
        return share * len(batch)


def _spread(numbers: pa.Array, wanted: int) -> pa.Array:
    """Return up to `wanted` of some numbers, evenly spaced; the same ones in every run."""
    if len(numbers) <= wanted:
        return numbers
    return numbers.take(pa.array([(2 * at + 1) * len(numbers) // (2 * wanted) for at in range(wanted)]))

"""Decide whether reading files' own footers and filters saves more time than it costs (`docs/design/cost-model.md`)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.lake.base import Snapshot
from parsieve.plan.cost.experience import Experience
from parsieve.plan.evidence.candidates import Candidates
from parsieve.plan.evidence.questions import HasAnyOf, HasInRange, HasPrefix, leaves
from parsieve.plan.evidence.row_groups import GroupJudge, excluded_share

# Size of the first batch of files, and the factor by which each further batch grows while that pays off.
SAMPLE, GROWTH = 3, 4
# The assumed size of files whose size is unknown.
ASSUMED_SIZE = 16 << 20


class CostModel:
    """Chooses kept files whose footers and filters are worth reading although other evidence has judged them."""

    def __init__(self, snapshot: Snapshot, files: Candidates, judge: GroupJudge, experience: Experience) -> None:
        self._files = files
        self._judge = judge
        self._experience = experience
        self._columns = frozenset(column.path for column in judge.columns)
        # An unchanged table has the same slices object again. Keep only its identity, so that old snapshots are freed.
        self._state = id(snapshot.slices)

    def choose(self, candidates: pa.Array) -> list[int]:
        """Return the slices to open. Their footers and filters have been read by then.

        The first few are a sample. As long as the share of rows that they exclude pays for reading, the batches grow.
        """
        chosen: list[int] = []
        if not any(isinstance(question, HasAnyOf | HasInRange | HasPrefix) for question in leaves(self._files.tree)):
            return chosen
        batch_size, excluded = SAMPLE, 0.0
        while len(candidates):
            picked = _spread(candidates, batch_size)
            batch = self._judge.usable(picked.to_pylist())
            if not batch:
                break
            if chosen:
                saving = excluded / len(chosen) * len(batch) * self._saving(batch)
            else:
                saving = self._first_guess() * len(candidates) * self._saving(batch)
            if saving <= self._price(batch):
                break
            excluded += self._read(batch)
            chosen += batch
            candidates = candidates.filter(pc.invert(pc.is_in(candidates, value_set=picked)))
            batch_size *= GROWTH
        if chosen and self._any_filters():
            self._experience.add_plan(self._columns, self._state, excluded > 0)
        return chosen

    def _first_guess(self) -> float:
        """Estimate the share of rows that would be excluded, before any file was read."""
        expected = (self._files.expected_false_positives() or 0.0) / self._files.kept.true_count
        # If no row matches, every kept file is a false positive; otherwise, as many as the index expects.
        no_match = self._experience.excluding_rate(self._columns, self._state)
        false_positives = no_match + (1 - no_match) * min(1.0, expected)
        return float(false_positives) * self._experience.rate(self._columns, self._state)

    def _saving(self, batch: Sequence[int]) -> float:
        sizes = [ASSUMED_SIZE if piece.size is None else piece.size for piece in self._judge.slices(batch)]
        mean = sum(sizes) / len(sizes)
        return self._judge.medium(batch[0]).saving(mean)

    def _price(self, batch: Sequence[int]) -> float:
        reads_filters = bool(self._judge.filters.questions) and (not self._judge.opened or self._any_filters())
        return self._judge.medium(batch[0]).price(self._judge.num_uncached(batch), len(batch) if reads_filters else 0)

    def _any_filters(self) -> bool:
        return any(self._judge.filters.has_filters(footer) for footer in self._judge.opened.values())

    def _read(self, batch: list[int]) -> float:
        """Read a batch, and return how many rows it excluded, counted in files."""
        share = excluded_share(self._judge.judge(batch), self._judge.opened)
        footers = [self._judge.opened[number] for number in batch if number in self._judge.opened]
        with_filters = sum(self._judge.filters.has_filters(footer) for footer in footers)
        self._experience.add(self._columns, self._state, len(batch), max(with_filters, 1 if share else 0))
        return share * len(batch)


def _spread(numbers: pa.Array, most: int) -> pa.Array:
    """Return at most `most` of the numbers, evenly spaced, and the same in every run."""
    if len(numbers) <= most:
        return numbers
    return numbers.take(pa.array([(2 * at + 1) * len(numbers) // (2 * most) for at in range(most)]))

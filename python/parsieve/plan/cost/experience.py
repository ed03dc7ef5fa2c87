"""Learn from earlier plans how many files of a table have useful footers and filters for some columns."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from parsieve.sharing import Lock

# How many sets of columns to remember.
REMEMBERED = 256
# When the table changes, the counts of its earlier state shrink to this many files.
CARRIED_OVER = 2
# The least chance to assume that a plan excludes something, because the next key may be missing from the table.
LEAST_EXCLUDING = 0.05


@dataclass(slots=True)
class _Counts:
    state: Any
    files: float = 0
    useful: float = 0
    plans: int = 0
    excluding: int = 0


@dataclass(slots=True)
class Experience:
    """Counts files that were opened, and how many of them had evidence. Threads may share it."""

    _counts: OrderedDict[Any, _Counts] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def rate(self, columns: Any, state: Any) -> float:
        """Estimate the chance that the next file has evidence for some columns.

        The files of a table usually have the same writer, so the estimate allows for none of them having any: with even
        odds of that beforehand, n files without evidence leave a chance of 1 / (n + 2)² for the next one.
        """
        with self._lock:
            counts = self._of(columns, state)
            if counts.useful:
                return float((counts.useful + 1) / (counts.files + 2))
            return float(1 / (counts.files + 2) ** 2)

    def add(self, columns: Any, state: Any, files: int, useful: int) -> None:
        """Count opened files, and how many of them had evidence."""
        with self._lock:
            counts = self._of(columns, state)
            counts.files += files
            counts.useful += min(useful, files)

    def excluding_rate(self, columns: Any, state: Any) -> float:
        """Estimate the chance that files with evidence exclude something that a plan kept."""
        with self._lock:
            counts = self._of(columns, state)
            return max(LEAST_EXCLUDING, (counts.excluding + 1) / (counts.plans + 2))

    def add_plan(self, columns: Any, state: Any, is_excluding: bool) -> None:
        """Count a plan that read files with evidence."""
        with self._lock:
            counts = self._of(columns, state)
            counts.plans += 1
            counts.excluding += is_excluding

    def _of(self, columns: Any, state: Any) -> _Counts:
        counts = self._counts.pop(columns, None)
        if counts is None:
            counts = _Counts(state)
        elif counts.state != state:
            shrunk = min(1.0, CARRIED_OVER / counts.files) if counts.files else 1.0
            counts = _Counts(state, counts.files * shrunk, counts.useful * shrunk, counts.plans, counts.excluding)
        self._counts[columns] = counts
        while len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)
        return counts

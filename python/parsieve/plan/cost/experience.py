"""Remember from earlier plans of a table how many of its files have evidence of their own for some columns."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

# How many sets of columns to remember.
REMEMBERED = 256
# When the table changes, the counts of its earlier state shrink to this many files.
CARRIED_OVER = 2
# The lowest estimate that a plan excludes something, however many did not: the next key may be missing.
LEAST_EXCLUDING = 0.05


@dataclass(slots=True)
class _Seen:
    state: Any
    files: float = 0
    useful: float = 0
    plans: int = 0
    excluding: int = 0


@dataclass(slots=True)
class Experience:
    """Counts files that were opened, and how many of them had evidence. Threads may share it."""

    _seen: OrderedDict[Any, _Seen] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def rate(self, columns: Any, state: Any) -> float:
        """Estimate the chance that the next file has evidence for some columns.

        The files of a table usually have the same writer, so the estimate allows for none of them having any: with even
        odds of that beforehand, n files without evidence leave a chance of 1 / (n + 2)² for the next one.
        """
        with self._lock:
            seen = self._of(columns, state)
            if seen.useful:
                return float((seen.useful + 1) / (seen.files + 2))
            return float(1 / (seen.files + 2) ** 2)

    def add(self, columns: Any, state: Any, files: int, useful: int) -> None:
        """Count opened files, and how many of them had evidence."""
        with self._lock:
            seen = self._of(columns, state)
            seen.files += files
            seen.useful += min(useful, files)

    def excluding_rate(self, columns: Any, state: Any) -> float:
        """Estimate the chance that files with evidence exclude something that a plan kept."""
        with self._lock:
            seen = self._of(columns, state)
            return max(LEAST_EXCLUDING, (seen.excluding + 1) / (seen.plans + 2))

    def add_plan(self, columns: Any, state: Any, is_excluding: bool) -> None:
        """Count a plan that read files with evidence."""
        with self._lock:
            seen = self._of(columns, state)
            seen.plans += 1
            seen.excluding += is_excluding

    def _of(self, columns: Any, state: Any) -> _Seen:
        seen = self._seen.pop(columns, None)
        if seen is None:
            seen = _Seen(state)
        elif seen.state != state:
            shrunk = min(1.0, CARRIED_OVER / seen.files) if seen.files else 1.0
            seen = _Seen(state, seen.files * shrunk, seen.useful * shrunk, seen.plans, seen.excluding)
        self._seen[columns] = seen
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return seen

"""The verdict on one file: kept, with any doubts, or skipped, with a proof."""

from __future__ import annotations

from typing import NamedTuple


class Keep(NamedTuple):
    """A file that may hold a matching row."""

    path: str
    # Why the file could not be judged; empty if all evidence was available.
    doubt: tuple[str, ...] = ()


class Skip(NamedTuple):
    """A file that certainly holds no matching row."""

    path: str
    # The evidence that excluded the file.
    evidence: str
    # A condition of the predicate, and why no row of the file can meet it.
    proof: str


Verdict = Keep | Skip

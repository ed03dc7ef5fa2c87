"""The answer for one file: kept, and what was in doubt; or skipped, and the proof."""

from __future__ import annotations

from typing import NamedTuple


class Keep(NamedTuple):
    """A file that may hold a matching row."""

    path: str
    # Why it could not be judged as it should have been; empty where all evidence was at hand.
    doubt: tuple[str, ...] = ()


class Skip(NamedTuple):
    """A file that certainly holds no matching row."""

    path: str
    # The evidence that excluded it last.
    evidence: str
    # What was asked, and what the evidence holds against it, in words.
    proof: str


Verdict = Keep | Skip

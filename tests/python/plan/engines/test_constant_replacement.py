"""Files are replaced 30 times a second: no engine loses a row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.programs.replacing import Replacing

# This takes about a minute on two processors. The long run is
# `python tests/python/support/programs/replacing.py --reads 100000`.
READS = 800


@pytest.mark.timeout(1200)
def test_concurrent_readers_lose_no_row(tmp_path: Path) -> None:
    replacing = Replacing(tmp_path)
    replacing.run(READS)
    assert not replacing.wrong
    answers: Counter[str] = Counter()
    for counted in replacing.answers.values():
        answers.update(counted)
    assert answers.total() == READS
    # Conflicts are rare: they only occur if files are overwritten in place repeatedly.
    assert answers["right"] > answers["conflict"]

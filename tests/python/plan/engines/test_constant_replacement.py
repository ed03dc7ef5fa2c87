"""Files are replaced 30 times a second: no engine loses a row."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.programs.replacing import WAYS, Replacing

# The long run is `python tests/python/support/programs/replacing.py --reads 100000`.
READS = 1000


@pytest.mark.timeout(1200)
def test_concurrent_readers_lose_no_row(tmp_path: Path) -> None:
    replacing = Replacing(tmp_path)
    replacing.run(READS)
    assert not replacing.wrong
    for way, counts in replacing.answers.items():
        assert counts.total() == READS // len(WAYS), way
        # A busy machine has more conflicts: its reads take longer, and the writer waits for no reader.
        assert counts["right"] > 0, way

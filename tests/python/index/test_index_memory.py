"""I14: a build holds no more than it was allowed, however many rows there are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "index_memory.py"
MEMORY = 1 << 20
# A key and where it is take sixteen bytes while they wait to be sorted.
ROWS = 100 * MEMORY // 16


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it has no getrusage")
@pytest.mark.timeout(180)
def test_i14_a_hundred_times_more_rows_than_memory(tmp_path: Path) -> None:
    rows = ROWS - ROWS % 1_000_000
    command = [sys.executable, str(SCRIPT), str(tmp_path / "index"), str(MEMORY), str(rows)]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parent)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    grown, pairs = map(int, done.stdout.split())
    assert pairs > rows * 0.99
    # A page of the builder, a piece of eight runs, batches in reading, and what allocators keep: measured 8 MB.
    assert grown < 32 << 20

"""Builds and compactions stay within their memory limit for any number of rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
MEMORY = 1 << 20
# Before sorting, a key takes 8 bytes.
ROWS = 100 * MEMORY // 8


def run(script: str, *arguments: object) -> str:
    """Return the output of a script that runs in a new process."""
    command = [sys.executable, str(TESTS / "support" / "programs" / script), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it has no getrusage")
@pytest.mark.timeout(1200)
def test_a_build_of_a_hundred_times_more_rows_than_memory_stays_within_its_limit(tmp_path: Path) -> None:
    rows = ROWS - ROWS % 1_000_000
    grown, pairs = map(int, run("index_memory.py", tmp_path / "index", MEMORY, rows).split())
    assert pairs > rows * 0.99
    # The builder's page, parts of eight runs, the batches being read and memory kept by allocators: measured 8 MB.
    assert grown < 32 << 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it has no getrusage")
@pytest.mark.timeout(1200)
def test_the_memory_of_a_compaction_does_not_grow_with_the_index(tmp_path: Path) -> None:
    grown, sizes = [], []
    for rows in (1_000_000, 8_000_000):
        run("compaction_memory.py", "make", tmp_path, rows)
        growth, size, counted, unmatched = map(int, run("compaction_memory.py", "compact", tmp_path).split())
        assert (counted, unmatched) == (rows + 1000, 0)
        grown.append(growth)
        sizes.append(size)
    # Measured: 2.8 and 3.3 MB, for indexes of 8 and 66 MB.
    assert sizes[1] > 7 * sizes[0]
    assert grown[1] < grown[0] + sizes[1] // 8
    assert grown[1] < 16 << 20


@pytest.mark.skipif(sys.platform == "win32", reason="it has no getrusage")
@pytest.mark.parametrize("threads", [1, 2])
def test_the_memory_of_a_bloom_build_does_not_grow_with_small_files(tmp_path: Path, threads: int) -> None:
    # A new filter has space for a million rows (1.2 MiB), but each of these files needs only 96 bytes.
    grown, stored = map(int, run("bloom_memory.py", tmp_path / "index", "files", 16 << 20, threads, 300, 3).split())
    assert stored > 2 * 300 * 64
    # Measured 1 MiB. An earlier version needed 1.3 MiB for each file and column.
    assert grown < 32 << 20


@pytest.mark.skipif(sys.platform == "win32", reason="it has no getrusage")
def test_a_bloom_build_spills_filters_beyond_its_memory_limit(tmp_path: Path) -> None:
    memory = 2 << 20
    grown, stored = map(int, run("bloom_memory.py", tmp_path / "index", "slices", memory, 2, 60, 50_000).split())
    # Two columns of 60 filters: measured 4 MiB. An earlier version needed more than the size of the index.
    assert stored > 5 * memory
    assert grown < stored // 2 + memory

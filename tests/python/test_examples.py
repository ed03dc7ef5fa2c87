"""Runs every program of examples/ in an empty folder, with warnings as errors."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(example)]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=50)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout, "an example shows what it found"


def test_there_are_examples() -> None:
    assert EXAMPLES

"""Runs every program of examples/ in an empty folder, warnings as errors; notebooks show what is stored in them."""

import subprocess
import sys
from pathlib import Path

import pytest
from support import notebooks

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(example)]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout, "an example shows what it found"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_shows_what_is_stored(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = notebooks.run(notebook)
    assert any(outputs for _, outputs in shown)
    for cell, outputs in shown:
        assert outputs == cell["outputs"], "python tests/python/support/notebooks.py examples/*.ipynb stores it anew"


def test_there_are_examples() -> None:
    assert EXAMPLES
    assert NOTEBOOKS

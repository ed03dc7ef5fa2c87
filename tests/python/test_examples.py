"""Run each program of examples/ in an empty folder, with warnings as errors, and each notebook.

The outputs of a notebook must equal the stored ones.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import notebooks

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_without_warnings(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(example)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500)
    assert result.returncode == 0, result.stderr
    assert result.stdout, "an example must print its results"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_the_stored_outputs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = notebooks.run(notebook)
    assert any(outputs for _, outputs in shown)
    for cell, outputs in shown:
        assert _stable(outputs) == _stable(cell["outputs"]), (
            "to update: python tests/python/support/notebooks.py examples/*.ipynb"
        )


def _stable(outputs: list[notebooks.Output]) -> str:
    """Return outputs without the bytes that planning read, since an index contains times of different lengths."""
    return re.sub(r"[0-9.]+ kB in", "some kB in", json.dumps(outputs, sort_keys=True))


def test_examples_and_notebooks_exist() -> None:
    assert EXAMPLES
    assert NOTEBOOKS

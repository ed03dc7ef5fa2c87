"""What `import parsieve` must not import: every program pays for it, even one that touches no file and no session."""

import subprocess
import sys

import pytest


def modules_after(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after a statement."""
    program = f"{statement}\nimport sys\nprint(*sys.modules, sep='\\n')"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=500)
    return set(answer.stdout.split())


@pytest.mark.parametrize("module", ["duckdb", "fsspec", "numpy", "obstore", "pandas", "polars", "pyarrow", "pyspark"])
def test_importing_parsieve_leaves_others_alone(module: str) -> None:
    loaded = modules_after("import parsieve")
    assert "parsieve._core" in loaded
    assert module not in loaded


def test_the_check_can_fail() -> None:
    assert "pyarrow" in modules_after("import pyarrow")

"""What `import parsieve` must not import: every program pays for it, even one that touches no file and no session."""

import importlib
import inspect
import subprocess
import sys
from typing import Any

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


def names_after(statement: str, module: str) -> set[str]:
    """What tab completion offers of a module in a fresh interpreter, after a statement."""
    program = f"import parsieve\n{statement}\nfor name in dir({module}): print(name)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=500)
    return set(answer.stdout.split())


@pytest.mark.parametrize("statement", ["pass", "parsieve.open_table; import parsieve.cli", "from parsieve import *"])
def test_completion_offers_public_names_only(statement: str) -> None:
    import parsieve

    assert names_after(statement, "parsieve") == {*parsieve.__all__, "index", "lake", "spark"}


@pytest.mark.parametrize("module", ["index", "lake", "predicate", "spark"])
def test_completion_of_modules(module: str) -> None:
    found = importlib.import_module(f"parsieve.{module}")
    assert sorted(dir(found)) == sorted(found.__all__)
    assert all(hasattr(found, name) for name in found.__all__)


def test_public_modules_need_no_import_of_their_own() -> None:
    used = modules_after("import parsieve; parsieve.index.TableIndex; parsieve.spark.read; parsieve.lake.open_lake")
    assert {"parsieve.index", "parsieve.spark", "parsieve.lake"} <= used
    assert "pyspark" not in used


def test_public_functions_say_what_they_return() -> None:
    import parsieve

    functions = {
        f"{name}.{member}": value
        for name in parsieve.__all__
        for member, value in [("", getattr(parsieve, name)), *getattr(getattr(parsieve, name), "__dict__", {}).items()]
        if inspect.isfunction(value) and not member.startswith("_")
    }
    assert {"open_table.", "Plan.to_duckdb", "Plan.to_polars", "Plan.to_spark"} <= functions.keys()
    untyped = [name for name, one in functions.items() if inspect.signature(one).return_annotation in ("Any", Any)]
    assert not untyped
    plan = inspect.signature(parsieve.Table.plan).parameters
    assert plan["where"].annotation == "Where"


def test_old_names_of_index_reports() -> None:
    from parsieve.index import IndexProblem, IndexStats, findings, inspect

    assert inspect.Stats is IndexStats
    assert inspect.Lie is findings.Lie is IndexProblem


def test_the_check_can_fail() -> None:
    assert "pyarrow" in modules_after("import pyarrow")

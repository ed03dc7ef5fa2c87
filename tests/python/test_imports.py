"""`import parsieve` imports no optional library and stays fast. Also: the public names and their annotations."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve


def modules_after(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after a statement."""
    program = f"{statement}\nimport sys\nprint(*sys.modules, sep='\\n')"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=500)
    return set(result.stdout.split())


@pytest.mark.parametrize("module", ["duckdb", "fsspec", "numpy", "obstore", "pandas", "polars", "pyarrow", "pyspark"])
def test_importing_parsieve_does_not_import_optional_libraries(module: str) -> None:
    loaded = modules_after("import parsieve")
    assert "parsieve._core" in loaded
    assert module not in loaded


def test_a_plan_imports_no_engine_and_no_writer(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 5]}), tmp_path / "part-0.parquet")
    parsieve.open_table(tmp_path).build_index("id")
    plan = f"import parsieve; assert len(parsieve.open_table({str(tmp_path)!r}).plan('id = 5').files) == 1"
    loaded = modules_after(plan)
    # pyarrow imports pandas if it is installed, to convert the first Python value.
    for module in ("pyarrow.dataset", "polars", "duckdb", "deltalake", "pyiceberg", "obstore"):
        assert module not in loaded, module
    heavy = ("plan.results.engines", "index.local_executor", "index.sieve.build", "index.inspect", "filters.rewrite")
    for module in heavy:
        assert f"parsieve.{module}" not in loaded, module


def names_after(statement: str, module: str) -> set[str]:
    """Return the names that tab completion offers for a module in a fresh interpreter, after a statement."""
    program = f"import parsieve\n{statement}\nfor name in dir({module}): print(name)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=500)
    return set(result.stdout.split())


@pytest.mark.parametrize("statement", ["pass", "parsieve.open_table; import parsieve.cli", "from parsieve import *"])
def test_completion_offers_public_names_only(statement: str) -> None:
    assert names_after(statement, "parsieve") == {*parsieve.__all__, "duckdb", "index", "lake", "spark"}


@pytest.mark.parametrize("module", ["index", "lake", "predicate", "spark"])
def test_dir_of_a_module_lists_its_public_names(module: str) -> None:
    imported = importlib.import_module(f"parsieve.{module}")
    assert sorted(dir(imported)) == sorted(imported.__all__)
    assert all(hasattr(imported, name) for name in imported.__all__)


def test_public_modules_need_no_separate_import() -> None:
    loaded = modules_after("import parsieve; parsieve.index.TableIndex; parsieve.spark.read; parsieve.lake.open_lake")
    assert {"parsieve.index", "parsieve.spark", "parsieve.lake"} <= loaded
    assert "pyspark" not in loaded


def test_public_functions_annotate_their_return_types() -> None:
    functions = {
        f"{name}.{member}": value
        for name in parsieve.__all__
        for member, value in [("", getattr(parsieve, name)), *getattr(getattr(parsieve, name), "__dict__", {}).items()]
        if inspect.isfunction(value) and not member.startswith("_")
    }
    assert {"open_table.", "Plan.to_duckdb", "Plan.to_polars", "Plan.to_spark"} <= functions.keys()
    untyped = [
        name for name, function in functions.items() if inspect.signature(function).return_annotation in ("Any", Any)
    ]
    assert not untyped
    plan = inspect.signature(parsieve.Table.plan).parameters
    assert plan["where"].annotation == "Where"


def test_old_names_of_index_reports_are_aliases() -> None:
    from parsieve.index import IndexProblem, IndexStats, findings, inspect

    assert inspect.Stats is IndexStats
    assert inspect.Lie is findings.Lie is IndexProblem


def test_the_import_check_detects_imports() -> None:
    assert "pyarrow" in modules_after("import pyarrow")


def test_the_tests_are_collected_without_pyspark() -> None:
    """`make test-python` runs in an environment without PySpark, where the tests of Spark are skipped."""
    for path in sorted((Path(__file__).parent / "spark").glob("*.py")):
        statements = ast.parse(path.read_text()).body
        names = [alias.name for one in statements if isinstance(one, ast.Import) for alias in one.names]
        names += [str(one.module) for one in statements if isinstance(one, ast.ImportFrom)]
        assert not [name for name in names if name.split(".")[0] in ("pyspark", "py4j")], path.name

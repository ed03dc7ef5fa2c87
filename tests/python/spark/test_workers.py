"""Local sessions run the driver's Python on executors; other sessions raise an error if they run another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import parsieve as ps
from parsieve.spark.runtime import workers
from parsieve.spark.runtime.doctor import examine

pytestmark = pytest.mark.spark

# A program in an environment that is not activated, so that python3 in PATH is another Python.
PROGRAM = """
import os, sys
import parsieve.spark as pss
from pyspark.sql import SparkSession
from parsieve.spark.java import choose, home_for
from parsieve.spark.runtime.versions import installed
os.environ["JAVA_HOME"] = str(home_for(choose(installed()), installed()))
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
spark.range(100).write.parquet("t")
view = pss.build_index(spark, "t", "id")
assert pss.read(spark, "t", "id = 7").count() == 1
keys = pss.filter_of(spark.range(10), "id")
assert 10 <= pss.keep_matching(spark.range(100), "id", keys).count() < 20
print(spark.sparkContext.pythonExec)
"""


@pytest.fixture
def other_python(tmp_path: Path) -> Path:
    """A `python3` without parsieve, like that of the system."""
    program = tmp_path / "bin" / "python3"
    program.parent.mkdir()
    # parsieve cannot be imported, although this is the same Python.
    hidden = "import sys; sys.modules['parsieve'] = None; "
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, runpy, sys\n"
        f"{hidden}\n"
        "arguments = sys.argv[1:]\n"
        "if '-c' in arguments:\n"
        "    exec(arguments[arguments.index('-c') + 1])\n"
        "else:\n"
        "    module = arguments[arguments.index('-m') + 1]\n"
        "    sys.argv = [module]\n"
        "    runpy.run_module(module, run_name='__main__', alter_sys=True)\n"
    )
    program.chmod(0o755)
    return program


def run(program: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"} | environment
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=1000, cwd=folder, env=given
    )


def test_a_local_session_needs_no_activated_environment(tmp_path: Path, other_python: Path) -> None:
    """Jobs of parsieve run on the driver's Python, and the session's setting does not change."""
    done = run(PROGRAM, tmp_path, PATH=f"{other_python.parent}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["python3"]


def test_executors_without_the_package_raise_an_error_of_one_line(tmp_path: Path, other_python: Path) -> None:
    """The user chose this Python, so parsieve does not replace it."""
    done = run(PROGRAM, tmp_path, PYSPARK_PYTHON=str(other_python))
    assert done.returncode == 1
    lines = done.stderr.strip().splitlines()
    last = lines[-1]
    assert last.startswith("parsieve.ParsieveError: Spark's executors cannot run parsieve: ")
    assert "cannot import parsieve" in last
    assert f"PYSPARK_PYTHON (or spark.pyspark.python) to a Python that has it, here {sys.executable}" in last
    assert "Py4JJavaError" not in done.stderr
    assert "TaskSetManager" not in done.stderr, "no task failed"


def test_executors_are_checked_once(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    context = spark.sparkContext
    workers.check(context)
    monkeypatch.setattr(type(context), "parallelize", None)
    workers.check(context)


def test_other_versions_are_refused(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_checked", set())
    monkeypatch.setattr(workers, "__version__", "9.9")
    with pytest.raises(ps.ParsieveError, match=r"but the driver has 9\.9") as raised:
        workers.check(spark.sparkContext)
    assert "\n" not in str(raised.value)


def test_the_doctor_checks_the_executors_python(other_python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert [item.state for item in examine() if item.name == "executors"] == ["ok"]
    for chosen, why in ((str(other_python), "cannot import parsieve"), ("/no/python", "No such file")):
        monkeypatch.setenv("PYSPARK_PYTHON", chosen)
        [item] = [item for item in examine() if item.name == "executors"]
        assert (item.state, item.found) == ("optional", chosen)
        assert why in item.remedy
        assert sys.executable in item.remedy

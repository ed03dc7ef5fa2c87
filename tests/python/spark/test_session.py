"""A process has one session, which does not change the environment. test_file_index.py reads and writes all lakes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import parsieve.spark as pss
from parsieve import cli
from parsieve.spark.runtime import versions

pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")
pytestmark = pytest.mark.spark


def test_python_runs_on_executors_with_this_interpreter(spark: Any) -> None:
    def where(batches: Any) -> Any:
        import sys

        import pyarrow as pa

        import parsieve as ps

        for batch in batches:
            found = [f"{sys.executable} {ps.__version__}"] * batch.num_rows
            yield pa.RecordBatch.from_arrays([pa.array(found)], names=["found"])

    import parsieve as ps

    [row] = spark.range(1).coalesce(1).mapInArrow(where, "found string").collect()
    assert row.found == f"{sys.executable} {ps.__version__}"


def test_a_second_session_with_other_settings_is_refused(spark: Any) -> None:
    with pytest.raises(RuntimeError, match="other settings"):
        pss.session(lakes=[])
    assert spark.range(2).count() == 2


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match=r"\['delta'\]"):
        pss.session(lakes="delta")
    with pytest.raises(ValueError, match="unknown lakes: paimon"):
        pss.session(lakes=["paimon"])


def test_a_stopped_session_can_be_replaced(tmp_path: Path) -> None:
    """The new session has other jars and memory, which need a new Java process. The environment does not change.

    The example of the docstring runs first. It prints nothing if it passes.
    """
    program = f"""
import doctest, os, parsieve.spark as pss
before = {{name: os.environ.get(name) for name in ("JAVA_HOME", "PYSPARK_PYTHON")}}
doctest.run_docstring_examples(pss.session, {{}}, "session")
ask = dict(master="local[1]", warehouse={str(tmp_path)!r}, config={{"spark.ui.showConsoleProgress": False}})
session = pss.session(lakes=[], memory="512m", **ask)
assert session is pss.session(lakes=[], memory="512m", **ask)
assert session._jvm.Runtime.getRuntime().maxMemory() <= 512 << 20
print(session.range(3).count())
session.stop()
assert before == {{name: os.environ.get(name) for name in before}}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=1000, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1:] == ["3"], done.stdout
    assert "Failed example" not in done.stdout


def test_the_doctor_finds_everything(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["spark", "doctor"]) == 0
    said = capsys.readouterr().out
    assert versions.installed().version in said
    assert all(lake in said for lake in versions.LAKES)


def test_the_doctor_reports_missing_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARSIEVE_CACHE", str(tmp_path))
    # Plain folders need no jars, so the command succeeds.
    assert cli.main(["spark", "doctor"]) == 0
    said = capsys.readouterr().out
    assert f"missing from {tmp_path / 'jars'}" in said
    assert "delta: optional: " in said
    assert "parsieve spark doctor --fetch" in said

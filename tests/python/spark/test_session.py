"""A session reads and writes all lakes, and does not change the environment. A process has one session."""

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
ROWS = "SELECT id, id % 7 AS part, CAST(id AS STRING) AS name FROM range(100)"


def needs(lake: str) -> None:
    if lake not in versions.installed().jars:
        pytest.skip(f"no jars of {lake} for this PySpark")


def ids(frame: Any) -> set[int]:
    return {row.id for row in frame.select("id").collect()}


def test_delta_has_deletion_vectors_and_time_travel(spark: Any, tmp_path: Path) -> None:
    needs("delta")
    folder = str(tmp_path / "t")
    spark.sql(ROWS).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true").save(folder)
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE id = 5")
    assert ids(spark.read.format("delta").load(folder)) == set(range(100)) - {5}
    assert ids(spark.read.format("delta").option("versionAsOf", 0).load(folder)) == set(range(100))
    assert list((tmp_path / "t").glob("deletion_vector_*.bin"))


def test_iceberg_has_merge_on_read_deletes(spark: Any) -> None:
    needs("iceberg")
    spark.sql(
        "CREATE TABLE iceberg.session.t (id BIGINT, part BIGINT, name STRING) USING iceberg "
        "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    spark.sql(ROWS).coalesce(1).writeTo("iceberg.session.t").append()
    spark.sql("DELETE FROM iceberg.session.t WHERE id = 5")
    assert ids(spark.table("iceberg.session.t")) == set(range(100)) - {5}
    assert spark.table("iceberg.session.t.delete_files").count() == 1
    spark.sql("DROP TABLE iceberg.session.t PURGE")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_hudi_has_updates_and_deletes_in_sql(spark: Any, tmp_path: Path, kind: str) -> None:
    needs("hudi")
    folder = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE session_{kind} (id BIGINT, name STRING, part BIGINT) USING hudi LOCATION '{folder}' "
        f"PARTITIONED BY (part) TBLPROPERTIES (type = '{kind}', primaryKey = 'id')"
    )
    spark.sql(f"INSERT INTO session_{kind} SELECT id, name, part FROM ({ROWS})")
    spark.sql(f"UPDATE session_{kind} SET name = 'new' WHERE id = 3")
    spark.sql(f"DELETE FROM session_{kind} WHERE id = 5")
    table = spark.read.format("hudi").load(str(folder))
    assert ids(table) == set(range(100)) - {5}
    assert [row.id for row in table.where("name = 'new'").collect()] == [3]
    # A merge-on-read table keeps changes in hidden files such as part=3/.x.log.1_0-1-1.
    assert bool(list(folder.glob("part=*/.*.log.*"))) == (kind == "mor")
    spark.sql(f"DROP TABLE session_{kind}")


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

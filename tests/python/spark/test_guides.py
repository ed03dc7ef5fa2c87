"""The examples in the README and the guides that need Spark run to their end."""

from pathlib import Path
from typing import Any

import pytest
from support.pages import blocks, run

import parsieve.spark as pss
from parsieve.spark.runtime import versions

pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")]

ROOT = Path(__file__).parents[3]
GUIDES = ROOT / "docs/guides"


def test_the_hudi_guide_runs(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if "hudi" not in versions.installed().jars:
        pytest.skip("no jars of hudi for this PySpark")
    monkeypatch.chdir(tmp_path)
    # All tests share one session; a reader of the guide starts a new one.
    monkeypatch.setattr(pss, "session", lambda **_: spark)
    run("docs/guides/hudi.md", blocks((GUIDES / "hudi.md").read_text(encoding="utf-8")))
    assert not [record.message for record in caplog.records if record.name == "parsieve.spark"], "files are skipped"


def test_the_spark_examples_of_the_readme_run(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pss, "session", lambda **_: spark)
    program = blocks((ROOT / "README.md").read_text(encoding="utf-8"), spark=True)
    assert any("pss.session()" in block.text for block in program)
    # Another test runs the shell blocks, without Spark.
    run("README.md", [block for block in program if block.language != "console"])

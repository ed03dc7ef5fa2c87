"""Run the code of README.md and of the guides that needs Spark."""

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


def test_a_hudi_table_with_deletes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if "hudi" not in versions.installed().jars:
        pytest.skip("no jars of hudi for this PySpark")
    monkeypatch.chdir(tmp_path)
    # All tests share one session; a reader starts another.
    monkeypatch.setattr(pss, "session", lambda **_: spark)
    run("docs/guides/hudi.md", blocks((GUIDES / "hudi.md").read_text(encoding="utf-8")))
    assert not [record.message for record in caplog.records if record.name == "parsieve.spark"], "files are skipped"


@pytest.mark.parametrize("page", ["README.md", "docs/guides/spark.md", "docs/guides/last-ten.md"])
def test_the_spark_code_of_the_page_runs(
    page: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pss, "session", lambda **_: spark)
    program = blocks((ROOT / page).read_text(encoding="utf-8"), spark=True)
    assert any("pss.session()" in block.text for block in program)
    # The commands run without Spark, in test_readme.py.
    run(page, [block for block in program if block.language != "console"])

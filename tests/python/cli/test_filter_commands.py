"""The commands `add`, `drop` and `check`."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.cli import main


def test_filters_are_added_checked_and_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"id": range(1000), "few": [1] * 1000}), path, row_group_size=500)
    content = Path(path).read_bytes()
    assert main(["add", path, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "few: no: at most 1 distinct" in printed
    assert "nothing written" in printed
    assert Path(path).read_bytes() == content
    assert main(["add", path, "-c", "id", "--fpp", "0.001", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [filter_report["ndv"] for filter_report in report["added"]] == [500, 500]
    assert main(["check", path]) == 0
    assert "every filter holds every value" in capsys.readouterr().out
    assert main(["drop", path]) == 0
    assert "row_group" in capsys.readouterr().out
    assert ps.open_filters(path).ranges() == []
    assert main(["add", path, "-c", "missing"]) == 2
    assert capsys.readouterr().err.startswith("parsieve: there is no column 'missing'")

"""Records of benches as one page, by the command: what they hold is shown, and what they lack is named."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from parsieve.cli import main
from parsieve.report.records import page_of_records


def chart(**other: Any) -> dict[str, Any]:
    return {
        "title": "Files <read>",
        "says": "Of 200.",
        "kind": "dots",
        "unit": "files",
        "categories": ["sorted", "uniform"],
        "series": [
            {"name": "min/max", "values": [1, 200], "ours": False},
            {"name": "Sieve", "values": [1.5, None], "ours": True},
        ],
    } | other


def record(path: Path, **other: Any) -> Path:
    machine = {"cpu": "A processor", "cores": 2}
    held = {"date": "2026-01-31", "commit": "c" * 40, "how": "make it", "machine": machine, "packages": {"duckdb": "2"}}
    path.write_text(json.dumps(held | {"figures": [chart()]} | other))
    return path


def test_the_figures_of_all_records_are_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = record(tmp_path / "one.json")
    two = record(tmp_path / "two.json", figures=[chart(title="Second", how="other", notes=["Two cores."])])
    out = tmp_path / "page.html"
    assert main(["report", str(one), str(two), "-o", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    page = out.read_text()
    assert page.index("Files &lt;read&gt;") < page.index("Second")
    for said in ("make it", "other", "Two cores.", "2 cores of A processor", "duckdb 2", "commit cccccccccc;", "1.5"):
        assert said in page
    assert "<td>-</td>" in page, "what was not measured is a dash"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (chart(kind="pie"), "figure 1: kind 'pie'"),
        (chart(unit="miles"), "unit 'miles'"),
        (chart(categories=["one"]), "2 values for 1 categories"),
        (chart(series=[{"values": [1, 2]}]), "'name' is missing"),
        (chart(series=[{"name": "x", "values": ["many", 2]}]), "figure 1"),
        (chart(series=[{"name": "x", "values": [math.inf, 2]}]), "'x' has the value inf"),
        (chart(series=[{"name": "x", "values": [1, math.nan]}]), "'x' has the value nan"),
        (chart(series=[{"name": "x", "values": [1, 10**400]}]), "too large"),
        ({"title": "x"}, "is missing"),
        ("text", "figure 1"),
        ([], "figure 1"),
    ],
)
def test_a_broken_record_is_named_with_its_figure(tmp_path: Path, broken: Any, said: str) -> None:
    path = record(tmp_path / "record.json", figures=[chart(), broken])
    with pytest.raises(ValueError, match=r"record\.json") as error:
        page_of_records([path])
    assert said in str(error.value)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"figures": 1}', '"figures"', "\x00", "[" * 10**6])
def test_what_is_no_record_is_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 2
    said = capsys.readouterr().err
    assert "not a record" in said
    assert "record.json" in said
    assert not (tmp_path / "page.html").exists()


def test_records_of_one_name_are_both_told_of(tmp_path: Path) -> None:
    for name, date in (("one", "2026-01-31"), ("two", "2026-02-01")):
        (tmp_path / name).mkdir()
        record(tmp_path / name / "record.json", date=date)
    page = page_of_records([tmp_path / "one" / "record.json", tmp_path / "two" / "record.json"])
    assert "2026-01-31" in page
    assert "2026-02-01" in page


def test_a_page_that_cannot_be_written_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = record(tmp_path / "record.json")
    for output, said in [
        (path, "is one of the input files"),
        (tmp_path / "." / "record.json", "is one of the input files"),
        (tmp_path, "is a folder"),
        (tmp_path / "absent" / "page.html", "no such folder"),
        (path / "page.html", "no such folder"),
    ]:
        assert main(["report", str(path), "-o", str(output)]) == 2
        assert said in capsys.readouterr().err
        if "is one of the input files" not in said:
            assert main(["demo", "--no-spark", "--files", "8", "--rows", "8000", "--report", str(output)]) == 2
            shown = capsys.readouterr()
            assert said in shown.err
            assert shown.out == ""
    assert [one.name for one in tmp_path.iterdir()] == ["record.json"]


def test_tables_need_questions_and_records_take_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "--where" in capsys.readouterr().err
    assert main(["report", str(tmp_path), str(tmp_path), "--where", "a = 1"]) == 2
    assert "one table" in capsys.readouterr().err

"""`parsieve report` shows benchmark records as one page, and names the errors of broken records."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from parsieve.cli import main
from parsieve.report.records import page_of_records


def chart(**changes: Any) -> dict[str, Any]:
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
    } | changes


def record(path: Path, **changes: Any) -> Path:
    machine = {"cpu": "A processor", "cores": 2}
    content = {
        "date": "2026-01-31",
        "commit": "c" * 40,
        "how": "make it",
        "machine": machine,
        "packages": {"duckdb": "2"},
    }
    path.write_text(json.dumps(content | {"figures": [chart()]} | changes))
    return path


def test_the_figures_of_all_records_are_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = record(tmp_path / "one.json")
    second = record(tmp_path / "two.json", figures=[chart(title="Second", how="other", notes=["Two cores."])])
    out = tmp_path / "page.html"
    assert main(["report", str(first), str(second), "-o", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    page = out.read_text()
    assert page.index("Files &lt;read&gt;") < page.index("Second")
    for expected in (
        "make it",
        "other",
        "Two cores.",
        "2 cores of A processor",
        "duckdb 2",
        "commit cccccccccc;",
        "1.5",
    ):
        assert expected in page
    assert "<td>-</td>" in page, "a missing measurement is a dash"


@pytest.mark.parametrize(
    ("broken", "message"),
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
def test_the_error_for_a_broken_record_names_the_file_and_the_figure(tmp_path: Path, broken: Any, message: str) -> None:
    path = record(tmp_path / "record.json", figures=[chart(), broken])
    with pytest.raises(ValueError, match=r"record\.json") as error:
        page_of_records([path])
    assert message in str(error.value)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"figures": 1}', '"figures"', "\x00", "[" * 10**6])
def test_other_files_are_rejected_as_records(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 2
    error = capsys.readouterr().err
    assert "not a record" in error
    assert "record.json" in error
    assert not (tmp_path / "page.html").exists()


def test_records_with_the_same_name_are_both_shown(tmp_path: Path) -> None:
    for name, date in (("one", "2026-01-31"), ("two", "2026-02-01")):
        (tmp_path / name).mkdir()
        record(tmp_path / name / "record.json", date=date)
    page = page_of_records([tmp_path / "one" / "record.json", tmp_path / "two" / "record.json"])
    assert "2026-01-31" in page
    assert "2026-02-01" in page


def test_an_unwritable_page_fails_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = record(tmp_path / "record.json")
    for output, message in [
        (path, "is one of the input files"),
        (tmp_path / "." / "record.json", "is one of the input files"),
        (tmp_path, "is a folder"),
        (tmp_path / "absent" / "page.html", "no such folder"),
        (path / "page.html", "no such folder"),
    ]:
        assert main(["report", str(path), "-o", str(output)]) == 2
        assert message in capsys.readouterr().err
        if "is one of the input files" not in message:
            assert main(["demo", "--no-spark", "--files", "8", "--rows", "8000", "--report", str(output)]) == 2
            printed = capsys.readouterr()
            assert message in printed.err
            assert printed.out == ""
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]


def test_a_report_of_a_table_needs_a_query_and_a_single_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "--where" in capsys.readouterr().err
    assert main(["report", str(tmp_path), str(tmp_path), "--where", "a = 1"]) == 2
    assert "one table" in capsys.readouterr().err

"""The demo on a small lake: every engine finds the same rows with parsieve as alone, in fewer files."""

import html
import re
import shlex
import sys
import tempfile
from pathlib import Path

import pytest

from parsieve.cli import main
from parsieve.demo.engines import ALONE, WITH, Answer
from parsieve.demo.page import Question, gains
from parsieve.demo.run import run


def test_engines_find_the_same_rows_in_fewer_files(tmp_path: Path) -> None:
    said: list[str] = []
    page = tmp_path / "page.html"
    answers = run(tmp_path / "lake", page, files=12, rows=24_000, spark=False, say=said.append)
    assert {answer.engine for answer in answers} == {"pyarrow", "DuckDB", "Polars"}
    alone = {(one.engine, one.question): one for one in answers if one.way == ALONE}
    ours = {(one.engine, one.question): one for one in answers if one.way == WITH}
    assert len(alone) == len(ours) == 6
    for asked, answer in ours.items():
        assert answer.files < alone[asked].files == 12
        assert answer.rows == alone[asked].rows > 0
    assert "<svg" in page.read_text(encoding="utf-8")
    assert any("one hour" in line for line in said)
    shown = page.read_text(encoding="utf-8")
    # What stays of twelve files, first of all, and what that is worth for each engine.
    assert re.search(r"\d+ → [12] files</strong>one user: \w+ ([\d.]+x (faster|slower)|same time), ", shown)
    assert "Where an index does not help" in shown
    assert "Min/max statistics keep 12 files; all evidence together keeps 12." in shown
    assert any("recommends for kind: none, since each key is in nearly every file" in line for line in said)
    assert "in doubt" not in shown
    assert "% of the table" in shown


def answer(engine: str, way: str, seconds: float) -> Answer:
    return Answer("one user", engine, way, 12, 1_000, seconds, 3)


def test_gains_and_losses_are_told_alike() -> None:
    asked = Question("one user", "user_id = 1", ["kept"] * 3, ["kept", "skipped", "skipped"])
    answers = [
        *(answer("DuckDB", ALONE, 0.020), answer("DuckDB", WITH, 0.030)),
        *(answer("pyarrow", ALONE, 0.500), answer("pyarrow", WITH, 0.020)),
        *(answer("Polars", ALONE, 0.021), answer("Polars", WITH, 0.020)),
    ]
    headline = gains(asked, answers)
    assert headline.number == "3 → 1 files"
    assert headline.words == "one user: pyarrow 25x faster, Polars same time, DuckDB 1.5x slower"


def test_a_folder_of_any_name(tmp_path: Path) -> None:
    """DuckDB takes a quote for the end of a name, and brackets and stars for a pattern."""
    for name in ("it's a lake", "lake[1]", "l*ke?"):
        answers = run(tmp_path / name, tmp_path / "page.html", files=8, rows=8_000, spark=False, say=lambda line: None)
        assert {one.files for one in answers if one.way == ALONE} == {8}


def test_what_the_demo_cannot_use_is_said_before_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["demo", "--no-spark", "--files", "8", "--rows", "8000", "--report", str(tmp_path / "page.html")]
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    for keep, said in (("file", "Not a directory"), ("full", "is not empty"), ("file/below", "Not a directory")):
        assert main([*small, "--keep", str(tmp_path / keep)]) == 2
        assert said in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert main(small) == 2
    assert "pip install duckdb" in capsys.readouterr().err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "full"]


def test_the_lake_stays_and_the_commands_of_the_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["demo", "--no-spark", "--files", "8", "--rows", "8000"]) == 0
    said = capsys.readouterr().out
    [lake] = tmp_path.glob("parsieve-demo-*/lake")
    assert f"The lake stays in {lake}" in said
    page = (tmp_path / "parsieve-demo.html").read_text(encoding="utf-8")
    commands = [html.unescape(one) for one in re.findall("<code>(parsieve (?:plan|advise) .*?)</code>", page)]
    assert len(commands) == 3
    for command in [*commands, said.splitlines()[-1].strip()]:
        assert str(lake) in command
        assert main(shlex.split(command)[1:]) == 0
    assert re.search("kept [12] of 8 files", capsys.readouterr().out)


def test_the_command_leaves_spark_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--no-spark", "--files", "8", "--rows", "8000", "--keep", "lake"]) == 0
    said = capsys.readouterr().out
    assert "Spark" not in said
    assert (tmp_path / "parsieve-demo.html").exists()
    assert len(list((tmp_path / "lake").glob("*.parquet"))) == 8

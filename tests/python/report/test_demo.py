"""The demo on a small table: with parsieve, every engine finds the same rows in fewer files."""

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
    messages: list[str] = []
    page = tmp_path / "page.html"
    answers = run(tmp_path / "lake", page, files=12, rows=24_000, spark=False, say=messages.append)
    assert {answer.engine for answer in answers} == {"pyarrow", "DuckDB", "Polars"}
    alone = {(result.engine, result.question): result for result in answers if result.way == ALONE}
    ours = {(result.engine, result.question): result for result in answers if result.way == WITH}
    assert len(alone) == len(ours) == 6
    for key, answer in ours.items():
        assert answer.files < alone[key].files == 12
        assert answer.rows == alone[key].rows > 0
    assert "<svg" in page.read_text(encoding="utf-8")
    assert any("one hour" in line for line in messages)
    text = page.read_text(encoding="utf-8")
    # The page begins with the number of kept files and the gain for each engine.
    assert re.search(r"\d+ → [12] files</strong>one user: \w+ ([\d.]+x (faster|slower)|same time), ", text)
    assert "Where an index does not help" in text
    assert "Min/max statistics keep 12 files; all evidence together keeps 12." in text
    assert any("recommends for kind: none, since each key is in nearly every file" in line for line in messages)
    assert "in doubt" not in text
    assert "% of the table" in text


def answer(engine: str, way: str, seconds: float) -> Answer:
    return Answer("one user", engine, way, 12, 1_000, seconds, 3)


def test_the_headline_shows_both_gains_and_losses() -> None:
    query = Question("one user", "user_id = 1", ["kept"] * 3, ["kept", "skipped", "skipped"])
    answers = [
        *(answer("DuckDB", ALONE, 0.020), answer("DuckDB", WITH, 0.030)),
        *(answer("pyarrow", ALONE, 0.500), answer("pyarrow", WITH, 0.020)),
        *(answer("Polars", ALONE, 0.021), answer("Polars", WITH, 0.020)),
    ]
    headline = gains(query, answers)
    assert headline.number == "3 → 1 files"
    assert headline.words == "one user: pyarrow 25x faster, Polars same time, DuckDB 1.5x slower"


def test_the_folder_name_may_contain_special_characters(tmp_path: Path) -> None:
    """Names with quotes, brackets and stars work. In DuckDB, a quote ends a name, and the others form a pattern."""
    for name in ("it's a lake", "lake[1]", "l*ke?"):
        answers = run(tmp_path / name, tmp_path / "page.html", files=8, rows=8_000, spark=False, say=lambda line: None)
        assert {answer.files for answer in answers if answer.way == ALONE} == {8}


def test_the_demo_checks_its_folder_and_engines_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["demo", "--no-spark", "--files", "8", "--rows", "8000", "--report", str(tmp_path / "page.html")]
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    for keep, message in (("file", "Not a directory"), ("full", "is not empty"), ("file/below", "Not a directory")):
        assert main([*small, "--keep", str(tmp_path / keep)]) == 2
        assert message in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert main(small) == 2
    assert "pip install duckdb" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full"]


def test_the_demo_keeps_its_table_and_its_commands_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["demo", "--no-spark", "--files", "8", "--rows", "8000"]) == 0
    printed = capsys.readouterr().out
    [lake] = tmp_path.glob("parsieve-demo-*/lake")
    assert f"The lake stays in {lake}" in printed
    page = (tmp_path / "parsieve-demo.html").read_text(encoding="utf-8")
    commands = [html.unescape(command) for command in re.findall("<code>(parsieve (?:plan|advise) .*?)</code>", page)]
    assert len(commands) == 3
    for command in [*commands, printed.splitlines()[-1].strip()]:
        assert str(lake) in command
        assert main(shlex.split(command)[1:]) == 0
    assert re.search(r"kept \d of 8 files", capsys.readouterr().out)


def test_the_option_no_spark_omits_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--no-spark", "--files", "8", "--rows", "8000", "--keep", "lake"]) == 0
    printed = capsys.readouterr().out
    assert "Spark" not in printed
    assert (tmp_path / "parsieve-demo.html").exists()
    assert len(list((tmp_path / "lake").glob("*.parquet"))) == 8

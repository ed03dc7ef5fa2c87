"""The prose check finds marks and long lines, and fails on them."""

import json
from pathlib import Path

import prose
import pytest

BAD = "Whoever asks for what is stored is told so, and nobody else."
GOOD = "Return the row groups that may contain a match."


def rates(folder: Path) -> dict[tuple[str, str], int]:
    """Return the number of marks for each folder and kind of file."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    figures = prose.measure(folder, paths, {}, {})
    return {key: len(figure.marks) for key, figure in figures.items() if key[1] != prose.WIDTHS}


def complaints(folder: Path, marks: prose.Limits | None = None, lines: prose.LineLimits | None = None) -> list[str]:
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    return list(prose.problems(prose.measure(folder, paths, marks or {}, lines or {}), marks or {}, lines or {}))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docstring.py", f'def read() -> None:\n    """{BAD}"""\n'),
        ("comment.py", f"# {BAD}\nrows = 1\n"),
        ("trailing.py", f"rows = 1  # {BAD}\n"),
        ("stub.pyi", f"# {BAD}\n"),
        ("core.rs", f"/// {BAD}\nfn read() {{}}\n"),
        ("page.md", f"# Title\n\n{BAD}\n"),
        ("book.ipynb", json.dumps({"cells": [{"cell_type": "markdown", "source": [BAD]}]})),
    ],
)
def test_a_bad_sentence_fails_the_check(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / name).write_text(text, encoding="utf-8")
    assert list(rates(tmp_path).values()) == [5]
    [complaint] = complaints(tmp_path)
    assert complaint.startswith("part: ")
    assert "marks per 1,000 words (limit: 1.5)" in complaint
    (tmp_path / "part" / name).write_text(text.replace(BAD, GOOD), encoding="utf-8")
    assert not complaints(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("string.py", f'message = "{BAD}"\n'),
        ("example.py", f'def read() -> None:\n    """Read.\n\n    >>> print("{BAD}")\n    """\n'),
        ("string.rs", f'const MESSAGE: &str = "{BAD}";\n'),
        ("page.md", f"```text\n{BAD}\n```\n\n| {BAD} |\n\n`{BAD}`\n"),
        ("data.json", f'"{BAD}"'),
    ],
)
def test_code_and_tables_are_not_prose(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert sum(rates(tmp_path).values()) == 0


def test_a_mark_across_lines_is_reported_at_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("One.\n\nTwo, as\nwell as three.\n", encoding="utf-8")
    [finding] = prose.measure(tmp_path, ["page.md"], {}, {})[".", "pages"].marks
    assert str(finding) == 'page.md:3: "as well as" (filler): Two, as'


def test_each_folder_must_meet_the_limit(tmp_path: Path) -> None:
    for folder, text in (("good", GOOD), ("bad", BAD)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "page.md").write_text(f"{GOOD}\n" * 100 + f"{text}\n" * 10, encoding="utf-8")
    [complaint] = complaints(tmp_path)
    assert complaint.startswith("bad: pages: ")


def test_a_listed_part_must_not_exceed_its_listed_limit(tmp_path: Path) -> None:
    (tmp_path / "old" / "inner").mkdir(parents=True)
    page = tmp_path / "old" / "inner" / "page.md"
    page.write_text(f"{BAD}\n", encoding="utf-8")
    present = prose.measure(tmp_path, ["old/inner/page.md"], {"old": {"pages": 0}}, {})["old", "pages"].rate
    assert not complaints(tmp_path, {"old": {"pages": present}})
    assert complaints(tmp_path, {"old": {"pages": present - 1}})
    assert complaints(tmp_path, {"old": {"rust": present}}), "a limit applies to one kind of file"


def test_a_limit_that_is_no_longer_needed_fails(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(f"{GOOD}\n", encoding="utf-8")
    assert complaints(tmp_path, {"page.md": {"pages": 20.0}}, {"page.md": 3}) == [
        "page.md: pages: meets the goal; delete its line in MARKS_NOT_YET",
        "page.md: no long lines; delete its line in LONG_LINES_NOT_YET",
    ]


def test_long_lines_of_a_page_fail(tmp_path: Path) -> None:
    long = "word " * 30
    exempt = [
        f"| {long} |",
        f"```text\n{long}\n```",
        f"<img alt='{long}'>",
        f"![{long}](a.svg)",
        f"[link](https://x.y/{long})",
    ]
    (tmp_path / "page.md").write_text("\n\n".join([*exempt, long]), encoding="utf-8")
    assert complaints(tmp_path) == [".: 1 lines with over 120 columns (limit: 0)"]
    assert not complaints(tmp_path, lines={"page.md": 1})


def test_printed_limits_omit_parts_that_meet_the_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "MARKS_NOT_YET", {"src": {"rust": 9.0}, "docs": {"pages": 9.0}})
    monkeypatch.setattr(prose, "LONG_LINES_NOT_YET", {"docs": 3, "benches": 4})
    finding = prose.Finding("a", 1, "", "")
    figures = {
        ("src", "rust"): prose.Figure(words=300, marks=[finding]),
        ("docs", "pages"): prose.Figure(words=1000, marks=[finding]),
        ("docs", prose.WIDTHS): prose.Figure(long_lines=[finding]),
    }
    assert "\n".join(prose.tables(figures)).splitlines() == [
        "MARKS_NOT_YET: dict[str, dict[str, float]] = {",
        '    "src": {"rust": 3.4},',
        "}",
        "",
        "LONG_LINES_NOT_YET: dict[str, int] = {",
        '    "docs": 1,',
        "}",
    ]

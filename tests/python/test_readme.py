"""Runs the Python code of README.md and docs/: the blocks under one heading are one program, run in an empty folder.

So a section reads on from block to block, and each section can be entered alone. A block marked ```pycon shows its
output, which must be what comes out.
"""

import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<language>[\w-]*)\s*$")


class Block(NamedTuple):
    language: str
    first_line: int
    text: str


class Section(NamedTuple):
    heading: str
    blocks: list[Block]


def sections(text: str) -> Iterator[Section]:
    """The sections of a page that hold Python blocks."""
    section = Section("top", [])
    language: str | None = None
    first_line, lines = 0, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.match(line)
        if language is None and fence:
            language, first_line, lines = fence["language"], number + 1, []
        elif language is not None and line.rstrip() == "```":
            if language in ("python", "pycon"):
                section.blocks.append(Block(language, first_line, "\n".join(lines) + "\n"))
            language = None
        elif language is not None:
            lines.append(line)
        elif line.startswith("#"):
            if section.blocks:
                yield section
            section = Section(line.lstrip("# "), [])
    assert language is None, "a code block is not closed"
    if section.blocks:
        yield section


def run(page: str, section: Section) -> None:
    """Runs the blocks in one namespace; tracebacks name the page and its line."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in section.blocks:
        if block.language == "python":
            code = compile("\n" * (block.first_line - 1) + block.text, page, "exec")
            exec(code, namespace)
        else:
            parser = doctest.DocTestParser()
            test = parser.get_doctest(block.text, namespace, section.heading, page, block.first_line - 1)
            said: list[str] = []
            result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append, clear_globs=False)
            assert result.failed == 0, "".join(said)
            namespace |= test.globs


CASES = [
    pytest.param(page.relative_to(ROOT).as_posix(), section, id=f"{page.stem}: {section.heading}")
    for page in PAGES
    for section in sections(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("page", "section"), CASES)
def test_the_code_of_the_pages_runs(
    page: str, section: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(page, section)


def test_the_readme_shows_code() -> None:
    assert any(True for _ in sections(PAGES[0].read_text(encoding="utf-8")))


def test_blocks_of_a_section_share_names_and_sections_do_not() -> None:
    page = "# A\n```python\nx = 1\n```\ntext\n```pycon\n>>> x + 1\n2\n```\n```text\nx\n```\n# B\n```python\nx\n```\n"
    first, second = sections(page)
    assert [block.language for block in first.blocks] == ["python", "pycon"]
    run("page.md", first)
    with pytest.raises(NameError):
        run("page.md", second)


def test_wrong_output_and_errors_fail_with_their_line() -> None:
    (wrong,) = sections("```pycon\n>>> 1 + 1\n3\n```\n")
    with pytest.raises(AssertionError, match=r"Got:\s+2"):
        run("page.md", wrong)
    (broken,) = sections("text\n\n```python\nok = 1\nraise ValueError(ok)\n```\n")
    with pytest.raises(ValueError, match="1") as caught:
        run("page.md", broken)
    assert caught.traceback[-1].lineno + 1 == 5

"""Runs the Python code of README.md and docs/: the blocks of a page are one program, in an empty folder.

So a page reads on from block to block. A block marked ```pycon shows its output, which must be what comes out.
"""

import doctest
import re
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


def blocks(text: str) -> list[Block]:
    """The Python blocks of a page."""
    found: list[Block] = []
    language: str | None = None
    first_line, lines = 0, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.match(line)
        if language is None and fence:
            language, first_line, lines = fence["language"], number + 1, []
        elif language is not None and line.rstrip() == "```":
            if language in ("python", "pycon"):
                found.append(Block(language, first_line, "\n".join(lines) + "\n"))
            language = None
        elif language is not None:
            lines.append(line)
    assert language is None, "a code block is not closed"
    return found


def run(page: str, program: list[Block]) -> None:
    """Runs the blocks in one namespace; tracebacks name the page and its line."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in program:
        if block.language == "python":
            code = compile("\n" * (block.first_line - 1) + block.text, page, "exec")
            exec(code, namespace)
        else:
            parser = doctest.DocTestParser()
            test = parser.get_doctest(block.text, namespace, page, page, block.first_line - 1)
            said: list[str] = []
            result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append, clear_globs=False)
            assert result.failed == 0, "".join(said)
            namespace |= test.globs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(page.relative_to(ROOT).as_posix(), blocks(page.read_text(encoding="utf-8")))


def test_the_readme_shows_code() -> None:
    assert blocks(PAGES[0].read_text(encoding="utf-8"))


def test_blocks_of_a_page_share_names_and_pages_do_not() -> None:
    page = "# A\n```python\nx = 1\n```\n# B\n```pycon\n>>> x + 1\n2\n```\n```text\nx\n```\n"
    program = blocks(page)
    assert [block.language for block in program] == ["python", "pycon"]
    run("page.md", program)
    with pytest.raises(NameError):
        run("other.md", blocks("```python\nx\n```\n"))


def test_wrong_output_and_errors_fail_with_their_line() -> None:
    wrong = blocks("```pycon\n>>> 1 + 1\n3\n```\n")
    with pytest.raises(AssertionError, match=r"Got:\s+2"):
        run("page.md", wrong)
    broken = blocks("text\n\n```python\nok = 1\nraise ValueError(ok)\n```\n")
    with pytest.raises(ValueError, match="1") as caught:
        run("page.md", broken)
    assert caught.traceback[-1].lineno + 1 == 5

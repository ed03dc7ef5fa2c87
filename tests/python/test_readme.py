"""The code of README.md and of docs/ runs and prints the shown output. The reference covers all public names."""

import re
import shlex
from pathlib import Path

import pytest
from support.pages import blocks, run

import parsieve as ps
import parsieve.index
import parsieve.lake
import parsieve.predicate
import parsieve.spark

ROOT = Path(__file__).parents[2]
# Pages that docs/scripts generates when the documentation is built.
GENERATED = ("figures.html",)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = [page for page in PAGES if page.parent.name == "guides" and page.stem != "index"]
# Tested by spark/test_guides.py.
ON_SPARK = ["docs/guides/hudi.md"]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


# A page may start an interpreter for each of its commands.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in PAGES if name_of(page) not in ON_SPARK], ids=name_of)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(name_of(page), blocks(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDES], ids=name_of)
def test_the_readme_and_the_guides_show_code(page: Path) -> None:
    assert blocks(page.read_text(encoding="utf-8"))


def test_the_reference_lists_every_public_name() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md"))
    documented = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    for module in (ps, parsieve.index, parsieve.lake, parsieve.predicate, parsieve.spark):
        for name in module.__all__:
            full = f"{module.__name__}.{name}"
            # A function with the name of its module appears under both names.
            assert name.startswith("_") or full in documented or f"{full}.{name}" in documented, full


def test_all_files_state_the_same_version() -> None:
    patterns = {
        "Cargo.toml": r'(?m)^version = "([^"]+)"$',
        "CHANGELOG.md": r"(?m)^## \[([^\]]+)\] - (?:\d{4}-\d{2}-\d{2}|unreleased)$",
        "docs/limits.md": r"(?m)^parsieve is young: version (\S+)[.,] ",
    }
    for name, pattern in patterns.items():
        match = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"))
        assert match is not None, name
        assert match[1] == ps.__version__, name


def test_the_navigation_lists_every_page() -> None:
    listed = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in PAGES[1:])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_project_files_have_a_target(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose) + re.findall(r'(?:src|srcset)="([^"]+)"', prose):
        assert "://" in target or (page.parent / target).exists() or target in GENERATED, target


def test_spark_blocks_and_parsieve_commands_are_selected() -> None:
    page = "```sh\nparsieve --version\nparsieve --help\n```\n```sh\npip install .\n```\n```python spark\nx = 1\n```\n"
    assert [(block.language, block.text) for block in blocks(page)] == [
        ("console", "$ parsieve --version\n$ parsieve --help\n")
    ]
    assert [block.text for block in blocks(page, spark=True)][1:] == ["x = 1\n"]


def test_blocks_of_one_page_share_names() -> None:
    page = "# A\n```python\nx = 1\n```\n# B\n```pycon\n>>> x + 1\n2\n```\n```text\nx\n```\n"
    program = blocks(page)
    assert [block.language for block in program] == ["python", "pycon"]
    run("page.md", program)
    with pytest.raises(NameError):
        run("other.md", blocks("```python\nx\n```\n"))


def test_wrong_output_fails_and_errors_point_at_their_line() -> None:
    wrong = blocks("```pycon\n>>> 1 + 1\n3\n```\n")
    with pytest.raises(AssertionError, match=r"Got:\s+2"):
        run("page.md", wrong)
    broken = blocks("text\n\n```python\nok = 1\nraise ValueError(ok)\n```\n")
    with pytest.raises(ValueError, match="1") as caught:
        run("page.md", broken)
    assert caught.traceback[-1].lineno + 1 == 5


def test_the_output_of_commands_is_compared() -> None:
    run("page.md", blocks("```console\n$ echo one && echo two\none\n...\n$ parsieve --version\nparsieve ...\n```\n"))
    with pytest.raises(AssertionError, match=r"(?s)expected:\nthree.*got:\none"):
        run("page.md", blocks("```console\n$ echo one\nthree\n```\n"))
    with pytest.raises(AssertionError, match="false"):
        run("page.md", blocks("```console\n$ false | cat\n```\n"))


def test_all_commands_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rules = set(re.findall(r"(?m)^([a-z][a-z0-9-]*):(?!=)", makefile))
    variables = set(re.findall(r"(?m)^([A-Z_]+) [:?]?=", makefile))
    words = [
        (page, word)
        for page in (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md")
        for code in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
        for command in code.split("&&")
        if command.split()[:1] == ["make"]
        for word in shlex.split(command)[1:]
    ]
    assert len(words) > 50
    for page, word in words:
        name, _, value = word.partition("=")
        assert name in (variables if value else rules), f"{name_of(page)}: {word}"

"""The code of README.md and of the pages in docs/ runs, and shows what it says; the reference names what is public."""

import re
from pathlib import Path

import pytest
from support.pages import blocks, run

import parsieve as ps
import parsieve.index
import parsieve.lake
import parsieve.predicate
import parsieve.spark

ROOT = Path(__file__).parents[2]
# Pages that docs/scripts makes when the documents are built.
MADE = ("figures.html",)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = [page for page in PAGES if page.parent.name == "guides" and page.stem != "index"]
# Their test is in spark/test_guides.py.
ON_SPARK = ["docs/guides/hudi.md"]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


# A page may start an interpreter for each of its commands.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in PAGES if name_of(page) not in ON_SPARK], ids=name_of)
def test_the_code_of_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(name_of(page), blocks(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDES], ids=name_of)
def test_the_readme_and_the_guides_show_code(page: Path) -> None:
    assert blocks(page.read_text(encoding="utf-8"))


def test_the_reference_names_all_that_is_public() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md"))
    shown = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    for module in (ps, parsieve.index, parsieve.lake, parsieve.predicate, parsieve.spark):
        for name in module.__all__:
            full = f"{module.__name__}.{name}"
            # A function that is called as its module is named by both.
            assert name.startswith("_") or full in shown or f"{full}.{name}" in shown, full


def test_one_version_is_told_everywhere() -> None:
    told = {
        "Cargo.toml": r'(?m)^version = "([^"]+)"$',
        "CHANGELOG.md": r"(?m)^## \[([^\]]+)\] - \d{4}-\d{2}-\d{2}$",
        "docs/limits.md": r"(?m)^parsieve is young: version (\S+)\. ",
    }
    for name, form in told.items():
        found = re.search(form, (ROOT / name).read_text(encoding="utf-8"))
        assert found is not None, name
        assert found[1] == ps.__version__, name


def test_every_page_has_its_place_in_the_navigation() -> None:
    places = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(places) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in PAGES[1:])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_our_own_files_lead_there(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose) + re.findall(r'(?:src|srcset)="([^"]+)"', prose):
        assert "://" in target or (page.parent / target).exists() or target in MADE, target


def test_blocks_for_spark_and_commands_of_ours_are_run_where_they_can_be() -> None:
    page = "```sh\nparsieve --version\nparsieve --help\n```\n```sh\npip install .\n```\n```python spark\nx = 1\n```\n"
    assert [(block.language, block.text) for block in blocks(page)] == [
        ("console", "$ parsieve --version\n$ parsieve --help\n")
    ]
    assert [block.text for block in blocks(page, spark=True)][1:] == ["x = 1\n"]


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


def test_commands_run_and_what_they_print_is_compared() -> None:
    run("page.md", blocks("```console\n$ echo one && echo two\none\n...\n$ parsieve --version\nparsieve ...\n```\n"))
    with pytest.raises(AssertionError, match=r"(?s)expected:\nthree.*got:\none"):
        run("page.md", blocks("```console\n$ echo one\nthree\n```\n"))
    with pytest.raises(AssertionError, match="false"):
        run("page.md", blocks("```console\n$ false | cat\n```\n"))

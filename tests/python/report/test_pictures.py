"""The pictures of the documentation equal the output of their scripts, and have text alternatives."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).parents[3] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "scripts/pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pictures_equal_the_output_of_the_script(script: ModuleType, tmp_path: Path) -> None:
    drawn = {path.name: path.read_text(encoding="utf-8") for path in script.draw(tmp_path)}
    stored = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "pictures").glob("*.svg")}
    assert drawn == stored, "to update: python docs/scripts/pictures.py"


@pytest.mark.parametrize("path", sorted((DOCS / "pictures").glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_has_a_title_and_a_description(path: Path) -> None:
    tree = ElementTree.parse(path)
    for part in ("title", "desc"):
        assert tree.findtext(f"{SVG}{part}")
    assert_shown(path)


def assert_shown(path: Path) -> None:
    """Assert that at least one page shows the picture, and that each such page has a text alternative for it."""
    pages = [page for page in (DOCS.parent / "README.md", *DOCS.rglob("*.md")) if path.name in page.read_text("utf-8")]
    assert pages, "no page shows it"
    for page in pages:
        text = page.read_text("utf-8")
        alternative = rf"!\[[^\]]+\]\([^)]*{path.name}\)|<img src=\"[^\"]*{path.name}\"[^>]* alt=\"[^\"]+\""
        assert re.search(alternative, text) or f'{path.name}">' in text, f"{page}: no text for {path.name}"


def test_the_pngs_show_the_newest_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    png, palette = importlib.import_module("png"), importlib.import_module("palette")
    notebook = importlib.import_module("notebook_pictures")
    drawings = [*png.page_pictures(), *notebook.notebook_pictures()]
    drawn = {drawing.name: drawing.texts for drawing in drawings}
    stored = {path.name: palette.texts(path.read_bytes()) for path in (DOCS / "pictures").glob("*.png")}
    assert drawn == stored, "to update: python docs/scripts/png.py; python docs/scripts/notebook_pictures.py"


@pytest.mark.parametrize("path", sorted((DOCS / "pictures").glob("*.png")), ids=lambda path: path.stem)
def test_a_png_is_small_and_shown(path: Path) -> None:
    assert path.stat().st_size < 100_000
    assert_shown(path.with_stem(path.stem.removesuffix("-dark")))


def test_dark_pages_show_the_dark_version_of_each_png(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    names = {spec.name for spec in importlib.import_module("png").PICTURE_SPECS}
    names.add(importlib.import_module("notebook_pictures").NAME)
    stylesheet = (DOCS / "pictures/pictures.css").read_text(encoding="utf-8")
    rule = r'\[data-md-color-scheme="slate"\] img\[src\$="/([\w-]+)\.png"\] \{\s*content: url\("\1-dark\.png"\);'
    assert set(re.findall(rule, stylesheet)) == names, "pictures.css needs a rule for each figure of png.py"

"""The pictures of the documents are what their script draws, and say in words what they show."""

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


def test_the_pictures_are_those_of_the_script(script: ModuleType, tmp_path: Path) -> None:
    drawn = {path.name: path.read_text(encoding="utf-8") for path in script.draw(tmp_path)}
    kept = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "pictures").glob("*.svg")}
    assert drawn == kept, "python docs/scripts/pictures.py draws them anew"


@pytest.mark.parametrize("path", sorted((DOCS / "pictures").glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_says_what_it_shows(path: Path) -> None:
    tree = ElementTree.parse(path)
    for part in ("title", "desc"):
        assert tree.findtext(f"{SVG}{part}")
    assert_shown(path)


def assert_shown(path: Path) -> None:
    """Some page shows the picture, and each that does says in words what there is to see."""
    shown = [page for page in (DOCS.parent / "README.md", *DOCS.rglob("*.md")) if path.name in page.read_text("utf-8")]
    assert shown, "nobody shows it"
    for page in shown:
        text = page.read_text("utf-8")
        told = rf"!\[[^\]]+\]\([^)]*{path.name}\)|<img src=\"[^\"]*{path.name}\"[^>]* alt=\"[^\"]+\""
        assert re.search(told, text) or f'{path.name}">' in text, f"{page}: no words for {path.name}"


def test_the_pngs_are_of_the_newest_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    png, palette = importlib.import_module("png"), importlib.import_module("palette")
    drawn = {drawing.name: drawing.texts for drawing in png.page_pictures()}
    kept = {path.name: palette.texts(path.read_bytes()) for path in (DOCS / "pictures").glob("*.png")}
    assert drawn == kept, "python docs/scripts/png.py draws them anew"


@pytest.mark.parametrize("path", sorted((DOCS / "pictures").glob("*.png")), ids=lambda path: path.stem)
def test_a_png_is_small_and_shown(path: Path) -> None:
    assert path.stat().st_size < 100_000
    assert_shown(path.with_stem(path.stem.removesuffix("-dark")))


def test_dark_pages_of_the_site_show_the_dark_twin_of_each_png(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    wanted = {spec.name for spec in importlib.import_module("png").PICTURE_SPECS}
    style = (DOCS / "pictures/pictures.css").read_text(encoding="utf-8")
    rule = r'\[data-md-color-scheme="slate"\] img\[src\$="/([\w-]+)\.png"\] \{\s*content: url\("\1-dark\.png"\);'
    assert set(re.findall(rule, style)) == wanted, "a rule of pictures.css for each figure that png.py draws"

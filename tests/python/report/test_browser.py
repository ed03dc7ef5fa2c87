"""Pages of figures in a real browser: on a phone and a desk, in light and dark, with a keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, DRIVER, Browser, browser

from parsieve.report import Cells, Chart, Figure, Series, render

pytestmark = pytest.mark.skipif(not (DRIVER and CHROMIUM), reason="needs chromium and chromedriver")


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    times = [Series("min/max", [1.1, 30.0]), Series("a peer with a very long name of its own", [0.4, None])]
    figures = [
        Figure(
            "Times", "One key.", Chart("dots", ["20 M rows", "600 M rows"], times, "seconds"), how="make " + "x" * 99
        ),
        Figure("Reads", "By width.", Chart("lines", list("abcdefghij"), [Series("ours", [1e3] * 10, True)], "files")),
        Figure("Plan", "k = " + "9" * 70, Cells([("min/max", ["kept"] * 5000), ("index", ["skipped"] * 5000)])),
    ]
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render("A report", "What was read.", figures, {"machine": "m" * 80}), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 400, 1280])
def test_a_page_fits_says_nothing_and_asks_for_nothing(window: Browser, page: Path, width: int, dark: bool) -> None:
    window.open(page, width, dark=dark)
    assert window.evaluate("return document.documentElement.scrollWidth") <= width
    assert window.complaints() == []
    assert [one for one in window.requests() if not one.startswith(("file:", "data:"))] == []
    # Text that stands out of its picture is cut off.
    cut = window.evaluate("""return [...document.querySelectorAll('svg')]
        .flatMap(svg => [...svg.querySelectorAll('text')].filter(text => {
            const a = text.getBBox(), b = svg.viewBox.baseVal;
            return a.x < 0 || a.y < 0 || a.x + a.width > b.width || a.y + a.height > b.height })
            .map(text => text.textContent))""")
    assert cut == []
    assert window.screenshot().startswith(b"\x89PNG")


def test_ink_and_paper_follow_the_scheme(window: Browser, page: Path) -> None:
    colours = []
    for dark in (False, True):
        window.open(page, 400, dark=dark)
        colours.append(window.evaluate("return getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]


def test_pictures_have_names_for_those_who_cannot_see_them(window: Browser, page: Path) -> None:
    window.open(page, 400, dark=False)
    names = window.evaluate("""return [...document.querySelectorAll('svg')].map(svg => svg.getAttribute('role') + ' ' +
        svg.getAttribute('aria-labelledby').split(' ')
        .map(id => document.getElementById(id).textContent).join(': '))""")
    assert [name.split(":")[0] for name in names] == ["img Times", "img Reads", "img Plan"]


def test_a_keyboard_reaches_every_figure(window: Browser, page: Path) -> None:
    window.open(page, 400, dark=False)
    reached = window.evaluate("""return [...document.querySelectorAll('a[href], [tabindex="0"]')].map(one => {
        one.focus(); return document.activeElement === one && (one.getAttribute('aria-label') || one.textContent) })""")
    assert reached == ["Times", "Reads", "Plan", "Times: the numbers", "Reads: the numbers", "Plan: the numbers"]

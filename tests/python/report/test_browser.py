"""Pages of figures in a real browser: narrow and wide, light and dark, and with a keyboard.

There are four pages: one with long names and numbers, the page of the demo, the page of this project's benchmark
records, and a page of a user's queries.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import CHROMIUM, DRIVER, Browser, browser

import parsieve as ps
from parsieve.demo.run import run
from parsieve.report import Cells, Chart, Figure, Series, render
from parsieve.report.plans import page_of_plans
from parsieve.report.records import page_of_records

RESULTS = Path(__file__).resolve().parents[3] / "benches" / "results"

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


@pytest.fixture(scope="module")
def pages(page: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    run(folder / "lake", folder / "demo.html", files=12, rows=24_000, spark=False, say=lambda _: None)
    queries = ["user_id = 210", "kind = 'buy'", "event_time > TIMESTAMP '2026-01-03T00:00:00+00:00' AND amount < 3"]
    user_page = page_of_plans(ps.open_table(folder / "lake"), queries, dt.date(2026, 1, 31))
    (folder / "own.html").write_text(user_page, encoding="utf-8")
    records = [path for path in sorted(RESULTS.glob("*.json")) if "figures" in json.loads(path.read_text())]
    assert records
    (folder / "records.html").write_text(page_of_records(records), encoding="utf-8")
    return {"long": page} | {name: folder / f"{name}.html" for name in ("demo", "own", "records")}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 400, 1200])
@pytest.mark.parametrize("name", ["long", "demo", "own", "records"])
def test_a_page_fits_its_window_and_loads_nothing(
    window: Browser, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    window.open(pages[name], width, dark=dark)
    assert window.evaluate("return document.documentElement.scrollWidth") <= width
    assert window.console_messages() == []
    assert [request for request in window.requests() if not request.startswith(("file:", "data:"))] == []
    # The page must still fit after the user opens the tables.
    window.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
    assert window.evaluate("return document.documentElement.scrollWidth") <= width
    # No text extends beyond its picture, where it would be cut off.
    cut = window.evaluate("""return [...document.querySelectorAll('svg')]
        .flatMap(svg => [...svg.querySelectorAll('text')].filter(text => {
            const a = text.getBBox(), b = svg.viewBox.baseVal;
            return a.x < 0 || a.y < 0 || a.x + a.width > b.width || a.y + a.height > b.height })
            .map(text => text.textContent))""")
    assert cut == []
    # No table cell breaks into two lines, and no fact is squeezed into a narrow column.
    broken = window.evaluate("""const range = document.createRange();
        return [...document.querySelectorAll('td')].filter(cell => {
            range.selectNodeContents(cell); return range.getClientRects().length > 1 })
            .map(cell => cell.textContent)""")
    assert broken == []
    narrow = "return [...document.querySelectorAll('dd')].map(fact => fact.getBoundingClientRect().width)"
    assert min(window.evaluate(narrow), default=width) > width / 3
    assert window.screenshot().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["demo", "own", "records"])
def test_every_picture_has_a_label_and_every_table_takes_the_focus(
    window: Browser, pages: dict[str, Path], name: str
) -> None:
    window.open(pages[name], 400, dark=False)
    figures = window.evaluate("return document.querySelectorAll('section').length")
    assert figures >= 4
    labeled = window.evaluate("""return [...document.querySelectorAll('svg[role=img]')].filter(svg =>
        svg.getAttribute('aria-labelledby').split(' ').every(id => document.getElementById(id).textContent)).length""")
    assert labeled == figures
    focusable = window.evaluate("""return [...document.querySelectorAll('a[href], summary')].filter(element => {
        element.focus(); return document.activeElement === element }).length""")
    assert focusable == 2 * figures


def test_the_background_follows_the_color_scheme(window: Browser, page: Path) -> None:
    colors = []
    for dark in (False, True):
        window.open(page, 400, dark=dark)
        colors.append(window.evaluate("return getComputedStyle(document.body).backgroundColor"))
    assert colors == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]


def test_pictures_have_accessible_names(window: Browser, page: Path) -> None:
    window.open(page, 400, dark=False)
    names = window.evaluate("""return [...document.querySelectorAll('svg')].map(svg => svg.getAttribute('role') + ' ' +
        svg.getAttribute('aria-labelledby').split(' ')
        .map(id => document.getElementById(id).textContent).join(': '))""")
    assert [name.split(":")[0] for name in names] == ["img Times", "img Reads", "img Plan"]


def test_a_keyboard_reaches_every_figure(window: Browser, page: Path) -> None:
    window.open(page, 400, dark=False)
    focusable_elements = """return [...document.querySelectorAll('a[href], summary, [tabindex="0"]')].map(element => {
        element.focus();
        return document.activeElement === element && (element.getAttribute('aria-label') || element.textContent) })"""
    links = ["Times", "Reads", "Plan"]
    # The keyboard skips closed tables.
    closed_tables = [name for _ in links for name in ("Numbers as a table", False)]
    assert window.evaluate(focusable_elements) == [*links, *closed_tables]
    window.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
    open_tables = [name for link in links for name in ("Numbers as a table", f"{link}: the numbers")]
    assert window.evaluate(focusable_elements) == [*links, *open_tables]

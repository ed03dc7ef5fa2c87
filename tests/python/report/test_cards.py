"""Objects of parsieve show a card in notebooks: escaped, without I/O, and fast for large tables."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.browser import CHROMIUM, DRIVER, browser

import parsieve as ps
from parsieve.lake.slices import Slices
from parsieve.plan.evidence.candidates import Candidates
from parsieve.plan.plan import Plan
from parsieve.report import cards
from parsieve.report.card import cells_of

FILES = 12
EVIL = "<script>alert(1)</script>&\"'"


class Page(HTMLParser):
    """Collects the tags and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag != "path":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == "path" or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    # The path itself is hostile. A slash would begin another folder.
    folder = tmp_path / EVIL.replace("/", "")
    folder.mkdir()
    for part in range(FILES):
        ids = list(range(part, 1200, FILES))
        columns = {"id": ids, "name": [f"n{number}" for number in ids]}
        pq.write_table(pa.table(columns), folder / f"<b>{part}.parquet")
    return folder


def everything(folder: Path) -> dict[str, Any]:
    """Return an object of each kind."""
    table = ps.open_table(folder)
    [advice] = table.advise(columns="id")
    built = table.build_index("id", kind="sieve")
    pq.write_table(pa.table({"id": [7], "name": [EVIL]}), folder / "new.parquet")
    plan = table.plan(f"id IN (7, 8) AND name <> '{EVIL.replace(chr(39), chr(39) * 2)}'")
    things = {
        "Plan": plan,
        "LookupResult": table.lookup("name", ["n7", EVIL, "<i>missing</i>"]),
        "Advice": advice,
        "BuildReport": built,
        "UpdateReport": table.update_index(),
        "CompactReport": table.compact_index(),
        "ConvertReport": table.convert_index(),
        "ExpireReport": table.expire_index(),
        "RewriteReport": ps.add_filters(folder / "new.parquet", columns="name"),
        "FileFilters": ps.open_filters(folder / "new.parquet"),
        "Finding": ps.check_filters(folder / "new.parquet")
        or ps.Finding(0, EVIL, "useless", f"the filter of {EVIL}", str(folder)),
        "Table": table,
    }
    return things | {"DropReport": ps.open_table(folder).drop_index()}


def test_every_card_is_complete_and_escaped(folder: Path) -> None:
    things = everything(folder)
    for kind, thing in things.items():
        assert type(thing).__name__ == kind
        html = thing._repr_html_()
        assert html, kind
        page = Page(html)
        assert page.open == [], kind
        assert set(page.tags) <= {"div", "b", "span", "svg", "title", "path", "details", "summary", "ul", "li"}, kind
        assert not [name for name in page.attributes if name.startswith("on") or name in ("src", "href")], kind
        assert "url(" not in html
    assert "<script>alert(1)</script>" in Page(things["Plan"]._repr_html_()).text
    assert "<i>missing</i>" in Page(things["LookupResult"]._repr_html_()).text
    assert "<b>" in Page(things["Plan"]._repr_html_()).text


def test_a_terminal_shows_a_few_short_lines(folder: Path) -> None:
    for kind, thing in everything(folder).items():
        lines = repr(thing).splitlines()
        assert 1 <= len(lines) <= 8, kind
        assert kind in lines[0]
        assert "0x" not in lines[0], kind


def test_a_card_reads_nothing(folder: Path) -> None:
    things = everything(folder)
    shutil.rmtree(folder)
    before = ps.metrics()
    for kind, thing in things.items():
        assert thing._repr_html_(), kind
    assert ps.metrics() - before == ps.Metrics()


def test_a_new_table_has_a_card_without_reading_it(folder: Path) -> None:
    table = ps.open_table(folder)
    shutil.rmtree(folder)
    text = Page(table._repr_html_() or "").text
    assert str(folder) in text
    assert "files" not in text


def test_the_card_of_a_plan_says_what_it_reads(folder: Path) -> None:
    table = ps.open_table(folder)
    table.build_index("id", kind="sieve")
    text = Page(table.plan("id = 7")._repr_html_() or "").text
    assert "reads 1 of 12 files" in text
    assert "index: kept 1 of 12 files" in text
    assert "planning read" in text
    (folder / "new.parquet").write_bytes((folder / "<b>3.parquet").read_bytes())
    text = Page(table.plan("id = 7")._repr_html_() or "").text
    assert "1 of them in doubt" in text
    assert "in doubt, so read" in text
    with pytest.warns(ps.ParsieveWarning):
        text = Page(table.plan("id = 7 AND length(name) = 2")._repr_html_() or "").text
    assert "ignored" in text


def test_a_card_never_raises(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ps.open_table(folder).plan("id = 7")

    def fail(thing: object) -> str:
        raise RuntimeError(thing)

    monkeypatch.setattr(cards, "card_of", fail)
    assert plan._repr_html_() is None


def test_a_pickled_plan_has_the_same_card(folder: Path) -> None:
    import pickle

    plan = ps.open_table(folder).plan("id = 7")
    assert pickle.loads(pickle.dumps(plan))._repr_html_() == plan._repr_html_()


def test_the_card_of_a_large_table_is_small_and_fast(folder: Path) -> None:
    record = ps.open_table(folder).plan("id >= 0").record
    number = 100_000
    one = record.slices()[0]
    slices = Slices.of([replace(one, path=f"/lake/{at}.parquet") for at in range(number)])
    files = Candidates.all(record.files.tree, number)
    large = replace(record, snapshot=replace(record.snapshot, slices=slices), files=files, groups=None, rows=None)
    plan = Plan(large)
    calls = calls_of(plan._repr_html_)
    html = plan._repr_html_() or ""
    assert "reads 100,000 of 100,000 files" in html
    assert len(html) < 30_000
    # One call for each file counts it. A card that describes each file needs more.
    assert calls < 3 * number // 2


def calls_of(function: Callable[[], object]) -> int:
    """Return how many functions a function calls, in Python and in C."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("total", [0, 1, 2, 119, 120, 121, 1_000, 100_003])
def test_cells_count_each_file_once(total: int) -> None:
    kept = range(0, total, 3)
    cells = cells_of(total, kept, kept[:1])
    assert sum(cell.files for cell in cells) == total
    assert sum(cell.kept for cell in cells) == len(kept)
    assert all(cell.doubted <= cell.kept <= cell.files and cell.files for cell in cells)


@pytest.mark.skipif(not (DRIVER and CHROMIUM), reason="needs chromium and chromedriver")
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_shows_the_cards_without_scripts_and_requests(folder: Path, tmp_path: Path, dark: bool) -> None:
    shown = "".join(thing._repr_html_() for thing in everything(folder).values())
    page = tmp_path / "page.html"
    page.write_text(
        '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">'
        '<meta name="viewport" content="width=device-width">'
        f"<style>:root{{color-scheme:light dark}}</style><body>{shown}</body>",
        encoding="utf-8",
    )
    with browser() as window:
        window.open(page, 390, dark=dark)
        assert window.evaluate("return document.scripts.length") == 0
        assert window.evaluate("return document.querySelectorAll('svg').length") > 3
        assert window.evaluate("return document.documentElement.scrollWidth") <= 390
        assert not window.console_messages()
        assert [url for url in window.requests() if not url.startswith(("data:", page.as_uri()))] == []

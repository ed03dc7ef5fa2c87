"""A page of figures is complete and self-contained, and shows the same numbers in pictures and tables."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import Any

import pytest

from parsieve.report import Cells, Chart, Figure, Headline, Series, render
from parsieve.report.charts import picture
from parsieve.report.figures import written
from parsieve.report.page import STYLE

SVG = "{http://www.w3.org/2000/svg}"
NASTY = "<script>alert('&')</script>"


def figures() -> list[Figure]:
    times = Chart(
        "dots",
        ["20 M rows", "600 M rows"],
        [Series("min/max", [1.1, 30.0]), Series("Bloom", [0.4, None]), Series("parsieve", [0.05, 0.2], ours=True)],
        "seconds",
        "data set",
    )
    sizes = Chart("bars", [NASTY], [Series("thesis", [11e6]), Series("parsieve", [9e5], ours=True)], "bytes")
    reads = Chart("lines", ["1e-6", "1e-4", "1e-2"], [Series("min/max", [180, 183, 200])], "files", "selectivity")
    cells = Cells([("min/max", ["kept", "kept", "skipped"]), ("index", ["doubted", "skipped", "skipped"])])
    return [
        Figure("Point queries", "One key.", times, how="make bench", notes=["Two cores."]),
        Figure("Size", NASTY, sizes),
        Figure("Reads", "Of 200 files.", reads),
        Figure("A plan", "Of three files.", cells),
    ]


class ParsedPage(HTMLParser):
    """The tags, addresses and ids of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        attributes = dict(attrs)
        self.addresses += [str(attributes[name]) for name in ("href", "src") if name in attributes]
        self.ids += [str(attributes["id"])] if "id" in attributes else []


def test_a_page_loads_nothing() -> None:
    page = render("Title", "Sentence.", figures(), {"machine": NASTY})
    parsed = ParsedPage(page)
    assert "script" not in parsed.tags
    assert "url(" not in page
    assert "@import" not in page
    assert all(address.startswith(("#", "data:,")) for address in parsed.addresses)
    assert len(parsed.ids) == len(set(parsed.ids))


def test_every_picture_has_a_name_a_description_and_a_table() -> None:
    page = render("Title", "Sentence.", figures())
    parsed = ParsedPage(page)
    assert parsed.tags.count("svg") == parsed.tags.count("table") == parsed.tags.count("desc") == len(figures())


@pytest.mark.parametrize("figure", figures(), ids=lambda figure: figure.title)
def test_a_picture_is_within_bounds_and_shows_its_values(figure: Figure) -> None:
    root = ET.fromstring(picture(figure, "f"))
    assert [root.findtext(f"{SVG}title"), root.get("aria-labelledby")] == [figure.title, "f-t f-d"]
    width = float(root.get("viewBox", "").split()[2])
    for rect in root.iter(f"{SVG}rect"):
        assert 0 <= float(rect.get("x", "")) <= float(rect.get("x", "")) + float(rect.get("width", "")) <= width
    texts = [text.text for text in root.iter(f"{SVG}text")]
    if isinstance(figure.shows, Chart) and figure.shows.kind != "lines":
        for series in figure.shows.series:
            for value in series.values:
                assert ("not measured" if value is None else written(value, figure.shows.unit)) in texts
    if isinstance(figure.shows, Cells):
        assert "reads 2 of 3 files" in texts
        assert "reads 1 of 3 files" in texts


def test_lengths_of_bars_are_proportional_to_their_values() -> None:
    chart = Chart("bars", ["a"], [Series("one", [1.0]), Series("four", [4.0]), Series("none", [None])])
    root = ET.fromstring(picture(Figure("T", "S", chart), "f"))
    one, four = (float(rect.get("width", "")) for rect in root.iter(f"{SVG}rect"))
    assert four == pytest.approx(4 * one, abs=0.2)


def test_a_zero_is_at_the_start_of_a_logarithmic_scale() -> None:
    chart = Chart("dots", ["a"], [Series("zero", [0.0]), Series("one", [1.0]), Series("thousand", [1000.0])])
    root = ET.fromstring(picture(Figure("T", "S", chart), "f"))
    zero, one, thousand = (float(dot.get("cx", "")) for dot in root.iter(f"{SVG}circle"))
    assert zero <= one < thousand


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.0166, 0.221], ["20 ms", "50 ms", "100 ms", "200 ms"]),
        ([0.011, 0.031], ["10 ms", "20 ms"]),
        ([1e-5, 90.0], ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"][::2]),
    ],
)
def test_ticks_of_a_logarithmic_axis_are_at_their_values(values: list[float], labels: list[str]) -> None:
    chart = Chart("dots", ["one user"], [Series(str(value), [value]) for value in values], "seconds")
    root = ET.fromstring(picture(Figure("T", "S", chart), "f"))
    texts = [text for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "middle"]
    assert [text.text for text in texts] == labels
    places = [float(text.get("x", "")) for text in texts]
    assert places == sorted(places)
    # A value is drawn to the right of all smaller ticks.
    for dot, value in zip(root.iter(f"{SVG}circle"), values, strict=True):
        below = [x for x, text in zip(places, labels, strict=True) if _seconds(text) < value]
        assert max(below, default=0.0) <= float(dot.get("cx", ""))


def _seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"µs": 1e-6, "ms": 1e-3, "s": 1.0}[unit]


def test_each_category_may_have_a_remark() -> None:
    chart = Chart("dots", ["DuckDB", "x" * 90], [Series("alone", [2.0, 1.0])], "seconds", remarks=["2x faster", "-"])
    root = ET.fromstring(picture(Figure("T", "S", chart), "f"))
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert "2x faster" in texts
    with pytest.raises(ValueError, match="1 remarks for 2 categories"):
        Chart("dots", ["a", "b"], [], remarks=["c"])


def test_the_legend_mentions_doubt_only_if_a_file_is_in_doubt() -> None:
    certain = Cells([("min/max", ["kept", "skipped"])])
    doubted = Cells([("min/max", ["kept", "doubted"])])
    pages = [render("T", "S", [Figure("F", "S", cells)]) for cells in (certain, doubted)]
    assert ["doubt" in page.replace(STYLE, "") for page in pages] == [False, True]


def test_headlines_come_first_and_tables_open_on_demand() -> None:
    headlines = [Headline("200 → 2 files", f"one user: {NASTY}")]
    page = render("Title", "Sentence.", figures(), headlines=headlines)
    assert page.index("200 → 2 files") < page.index("<svg")
    assert page.count("<details><summary>") == len(figures())
    assert "<details open" not in page
    assert "script" not in ParsedPage(page).tags


ODD_TEXT = "a\0b\ud800c\x1b[31m\x85\ufffe\u202eltr\u2066 \"'<b>&amp;"


def test_names_with_control_characters_make_a_valid_page() -> None:
    chart = Chart("bars", [ODD_TEXT], [Series(ODD_TEXT, [1.0])], "files", ODD_TEXT)
    page = render(ODD_TEXT, ODD_TEXT, [Figure(ODD_TEXT, ODD_TEXT, chart, ODD_TEXT, [ODD_TEXT])], {ODD_TEXT: ODD_TEXT})
    page.encode()
    assert not set(map(chr, range(32))) - {"\n"} & set(page)
    assert "\x85" not in page
    assert "a\ufffdb\ufffdc\ufffd[31m\ufffd\ufffd\u202eltr" in page
    parsed = ParsedPage(page)
    assert "b" not in parsed.tags
    assert parsed.tags.count("svg") == 1
    svg = page[page.index("<svg") : page.index("</svg>") + 6]
    assert ET.fromstring(svg).findtext(f"{SVG}title", "").endswith("\"'<b>&amp;")


@pytest.mark.parametrize("kind", ["bars", "dots", "lines"])
@pytest.mark.parametrize(
    "values", [[5e-324, 1.7e308], [0.0, 0.0], [-1.0, 2.0], [1e-300, None], [None, None], [], [3.0], [2.0, 2.0]]
)
@pytest.mark.parametrize("unit", ["seconds", "bytes", ""])
def test_extreme_values_have_finite_coordinates(kind: Any, values: list[float | None], unit: Any) -> None:
    chart = Chart(kind, [str(index) for index in range(len(values))], [Series("one", values, ours=True)], unit)
    root = ET.fromstring(picture(Figure("T", "S", chart), "f"))
    for element in root.iter():
        for name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height"):
            if name in element.attrib:
                assert math.isfinite(float(element.attrib[name])), (name, element.attrib)
        for point in element.attrib.get("points", "").split():
            assert all(math.isfinite(float(coordinate)) for coordinate in point.split(","))
    assert all(len(text.text or "") < 40 for text in root.iter(f"{SVG}text"))
    assert "<table>" in render("T", "S", [Figure("T", "S", chart)])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_rejected(value: float) -> None:
    with pytest.raises(ValueError, match="use None for missing measurements"):
        Chart("bars", ["a"], [Series("one", [value])])


def test_values_are_formatted_with_their_unit() -> None:
    texts = [written(0, "seconds"), written(2e-6, "seconds"), written(1234, "files"), written(0.5, "bits per row")]
    assert texts == ["0 s", "2 µs", "1,234", "0.5"]
    assert [written(999, "bytes"), written(1.5e9, "bytes"), written(3.14159, "ratio")] == ["999 B", "1.5 GB", "3.14x"]


def test_each_category_needs_a_value() -> None:
    with pytest.raises(ValueError, match="2 values for 1 categories"):
        Chart("bars", ["a"], [Series("one", [1.0, 2.0])])

"""Figures of records as PNG files, for pages that show no SVG, in light and dark; needs Chromium.

What shows the dark ones: docs/pictures/pictures.css on the site, <picture> in README.md.

png.py                           docs/pictures/*.png anew, from the newest records
png.py RECORD FOLDER TITLE...    figures of one record by their titles, or all of them
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from measured import RESULTS, ROOT, newest
from measured_tables import LINEITEM_CHARTS
from palette import small

from parsieve.report.charts import picture
from parsieve.report.figures import Chart, Figure
from parsieve.report.page import STYLE
from parsieve.report.records import figures_of

SCALE = 2
# Its height; letters are a little larger than in pictures.
HEADING = 30
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PICTURES = ROOT / "docs" / "pictures"
# The scheme that a page without colours of its own has is light.
DARK = re.search(r"@media\(prefers-color-scheme:dark\)\{(:root\{.*?\})\}", STYLE, re.DOTALL)


@dataclass(frozen=True)
class Wanted:
    """A picture of docs/pictures: a figure of the newest record of some kind, or some of its categories."""

    name: str
    kind: str
    title: str
    # What stands above the picture, instead of the figure's title.
    heading: str = ""
    categories: Sequence[str] = ()


LAYOUTS = (
    "event time, 5 % late",
    "two clumps a file",
    "uniform, one row a key",
    "UUID text",
    "the table's sort key",
    "twenty values",
)
WANTED = [
    Wanted("one-key", "layouts-python", "5,000 files: one key that is there", "One key: files read, of 5,000", LAYOUTS),
    Wanted(
        "interval",
        "layouts-python",
        "5,000 files: an interval over 1/10,000 of the rows",
        "1/10,000 of the rows: files read, of 5,000",
        LAYOUTS,
    ),
]
WANTED += [
    Wanted(f"lineitem-{millions}-{name}", f"thesis-{millions}000000-spark", f"{millions} M rows: {title}")
    for millions in (20, 600)
    for name, title in LINEITEM_CHARTS.items()
]


@dataclass(frozen=True)
class Drawn:
    """A figure as a page of its own, and what is written into its picture."""

    name: str
    page: str
    width: int
    height: int
    about: dict[str, str]


def drawings(name: str, figure: Figure, source: str, heading: str) -> Iterator[Drawn]:
    """A figure below its heading, in light and in dark."""
    svg = picture(figure, "f")
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', svg)
    assert size is not None
    assert DARK is not None
    width, height = (int(one) * SCALE for one in size.groups())
    body = f"body{{margin:0;padding:0;max-width:none}}svg{{max-width:none;width:{width}px}}"
    body += f"h2{{font:600 {13 * SCALE}px/{HEADING * SCALE}px system-ui,sans-serif;margin:0;padding:0 16px}}"
    for scheme, colours in (("", ""), ("-dark", DARK[1])):
        page = f"<!doctype html><style>{STYLE}{colours}{body}</style><h2>{escape(heading)}</h2>{svg}"
        # By it a test sees that a picture is of this record and this drawing, without a browser.
        about = {"Source": source, "Drawing": hashlib.sha256(page.encode()).hexdigest()}
        yield Drawn(f"{name}{scheme}.png", page, width, height + HEADING * SCALE, about)


def wanted() -> Iterator[Drawn]:
    """The pictures of docs/pictures, as the newest records have them."""
    records = newest()
    for one in WANTED:
        if one.kind not in records:
            continue
        name, data = records[one.kind]
        figures = {figure.title: figure for figure in figures_of(RESULTS / name, data)}
        yield from drawings(one.name, _only(figures[one.title], one.categories), name, one.heading or one.title)


def _only(figure: Figure, categories: Sequence[str]) -> Figure:
    chart = figure.shows
    assert isinstance(chart, Chart)
    if not categories:
        return figure
    places = [list(chart.categories).index(name) for name in categories]
    series = [replace(one, values=[one.values[at] for at in places]) for one in chart.series]
    return replace(figure, shows=replace(chart, categories=list(categories), series=series))


def save(drawn: Drawn, folder: Path) -> Path:
    """The picture as a file."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit("no Chromium is installed")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as passing:
        page, shot = Path(passing) / "figure.html", Path(passing) / "figure.png"
        page.write_text(drawn.page, encoding="utf-8")
        command = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-lcd-text"]
        command += [f"--window-size={drawn.width},{drawn.height}", f"--screenshot={shot}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        out = folder / drawn.name
        out.write_bytes(small(shot.read_bytes(), drawn.about))
    return out


def of_record(record: Path, titles: Sequence[str]) -> Iterator[Drawn]:
    """Each figure of one of the titles, or every one, named by its title."""
    for figure in figures_of(record, json.loads(record.read_text(encoding="utf-8"))):
        if not titles or figure.title in titles:
            name = re.sub(r"[^a-z0-9]+", "-", figure.title.lower()).strip("-")
            yield from drawings(name, figure, record.name, figure.title)


if __name__ == "__main__":
    given = sys.argv[1:]
    for drawing in of_record(Path(given[0]), given[2:]) if given else wanted():
        out = save(drawing, Path(given[1]) if given else PICTURES)
        print(f"{out}: {out.stat().st_size:,} bytes")

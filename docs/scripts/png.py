"""Draws figures of benchmark records as PNG files, in a light and a dark version. Needs Chromium.

On the site, docs/pictures/pictures.css selects the dark version; README.md uses <picture>.

    png.py                           redraw docs/pictures/*.png from the newest records
    png.py RECORD FOLDER TITLE...    draw the figures of one record with these titles, or all of them
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
# Height of the heading, before scaling.
HEADING = 30
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PICTURES = ROOT / "docs" / "pictures"
# The colors of the dark scheme. A page without them is light.
DARK = re.search(r"@media\(prefers-color-scheme:dark\)\{(:root\{.*?\})\}", STYLE, re.DOTALL)


@dataclass(frozen=True)
class PictureSpec:
    """A picture in docs/pictures: a figure of the newest record of a kind, or only some of its categories."""

    name: str
    kind: str
    title: str
    # The heading above the picture; by default the figure's title.
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
PICTURE_SPECS = [
    PictureSpec(
        "one-key", "layouts-python", "5,000 files: one key that is there", "One key: files read, of 5,000", LAYOUTS
    ),
    PictureSpec(
        "interval",
        "layouts-python",
        "5,000 files: an interval over 1/10,000 of the rows",
        "1/10,000 of the rows: files read, of 5,000",
        LAYOUTS,
    ),
]
PICTURE_SPECS += [
    PictureSpec(f"lineitem-{millions}-{name}", f"thesis-{millions}000000-spark", f"{millions} M rows: {title}")
    for millions in (20, 600)
    for name, title in LINEITEM_CHARTS.items()
]


@dataclass(frozen=True)
class Drawing:
    """A figure as an HTML page, and the text chunks of its picture."""

    name: str
    page: str
    width: int
    height: int
    texts: dict[str, str]


def drawings(name: str, figure: Figure, source: str, heading: str) -> Iterator[Drawing]:
    """Yield a figure below its heading, in light and in dark."""
    svg = picture(figure, "f")
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', svg)
    assert size is not None
    assert DARK is not None
    width, height = (int(length) * SCALE for length in size.groups())
    body = f"body{{margin:0;padding:0;max-width:none}}svg{{max-width:none;width:{width}px}}"
    body += f"h2{{font:600 {13 * SCALE}px/{HEADING * SCALE}px system-ui,sans-serif;margin:0;padding:0 16px}}"
    for scheme, colors in (("", ""), ("-dark", DARK[1])):
        page = f"<!doctype html><style>{STYLE}{colors}{body}</style><h2>{escape(heading)}</h2>{svg}"
        # With these, a test can tell without a browser that a picture is up to date.
        texts = {"Source": source, "Drawing": hashlib.sha256(page.encode()).hexdigest()}
        yield Drawing(f"{name}{scheme}.png", page, width, height + HEADING * SCALE, texts)


def page_pictures() -> Iterator[Drawing]:
    """Yield the pictures of docs/pictures, from the newest records."""
    records = newest()
    for spec in PICTURE_SPECS:
        if spec.kind not in records:
            continue
        name, data = records[spec.kind]
        figures = {figure.title: figure for figure in figures_of(RESULTS / name, data)}
        figure = _with_categories(figures[spec.title], spec.categories)
        yield from drawings(spec.name, figure, name, spec.heading or spec.title)


def _with_categories(figure: Figure, categories: Sequence[str]) -> Figure:
    chart = figure.shows
    assert isinstance(chart, Chart)
    if not categories:
        return figure
    positions = [list(chart.categories).index(name) for name in categories]
    series = [replace(line, values=[line.values[position] for position in positions]) for line in chart.series]
    return replace(figure, shows=replace(chart, categories=list(categories), series=series))


def save(drawing: Drawing, folder: Path) -> Path:
    """Write the picture to a file in `folder`, and return its path."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise SystemExit("Chromium is not installed (looked for: " + ", ".join(BROWSERS) + ")")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        page, shot = Path(temporary) / "figure.html", Path(temporary) / "figure.png"
        page.write_text(drawing.page, encoding="utf-8")
        command = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-lcd-text"]
        command += [f"--window-size={drawing.width},{drawing.height}", f"--screenshot={shot}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        out = folder / drawing.name
        out.write_bytes(small(shot.read_bytes(), drawing.texts))
    return out


def of_record(record: Path, titles: Sequence[str]) -> Iterator[Drawing]:
    """Yield the figures of a record with these titles, or all of them, named by their titles."""
    for figure in figures_of(record, json.loads(record.read_text(encoding="utf-8"))):
        if not titles or figure.title in titles:
            name = re.sub(r"[^a-z0-9]+", "-", figure.title.lower()).strip("-")
            yield from drawings(name, figure, record.name, figure.title)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    for drawing in of_record(Path(arguments[0]), arguments[2:]) if arguments else page_pictures():
        out = save(drawing, Path(arguments[1]) if arguments else PICTURES)
        print(f"{out}: {out.stat().st_size:,} bytes")

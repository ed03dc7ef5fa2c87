"""Figures of a record as PNG files, for pages that show no SVG: `png.py RECORD FOLDER TITLE...`; needs Chromium."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from parsieve.report.charts import picture
from parsieve.report.page import STYLE
from parsieve.report.records import figures_of

SCALE = 2
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main(record: Path, folder: Path, titles: list[str]) -> None:
    """Each figure of one of the titles, or every one, as a file named by its title."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit("no Chromium is installed")
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures_of(record, json.loads(record.read_text(encoding="utf-8"))):
        if titles and figure.title not in titles:
            continue
        svg = picture(figure, "f")
        size = re.search(r'viewBox="0 0 (\d+) (\d+)"', svg)
        assert size is not None
        width, height = (int(one) * SCALE for one in size.groups())
        body = f"body{{margin:0;padding:0;max-width:none}}svg{{max-width:none;width:{width}px}}"
        with tempfile.TemporaryDirectory() as passing:
            page = Path(passing) / "figure.html"
            page.write_text(f"<!doctype html><style>{STYLE}{body}</style>{svg}", encoding="utf-8")
            out = folder / (re.sub(r"[^a-z0-9]+", "-", figure.title.lower()).strip("-") + ".png")
            command = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={width},{height}"]
            subprocess.run([*command, f"--screenshot={out}", page.as_uri()], check=True, capture_output=True)
        print(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])

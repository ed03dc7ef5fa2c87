"""Draws what the notebook shows as PNG files, from its stored outputs. Needs Chromium.

Run `python docs/scripts/notebook_pictures.py` after the outputs have changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from html import escape

from measured import ROOT
from png import PICTURES, SCALE, Drawing, save

NOTEBOOK = ROOT / "examples" / "which_files.ipynb"
# The cells to show: a query before and after its column is indexed.
CELLS = ("c4", "c10")
NAME = "notebook"
WIDTH, HEIGHT = 520, 520
# The colors of paper, text and code.
SCHEMES = {"": ("#fff", "#1b1f24", "#f3f5f7"), "-dark": ("#0d1117", "#e6edf3", "#1c2128")}


def notebook_pictures() -> Iterator[Drawing]:
    """Yield some cells of the notebook with their outputs, in light and in dark."""
    cells = {cell["id"]: cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]}
    body = "".join(_cell(cells[name]) for name in CELLS)
    for scheme, (paper, ink, code) in SCHEMES.items():
        style = f"body{{margin:8px;background:{paper};color:{ink};font:13px system-ui,sans-serif;zoom:{SCALE}}}"
        style += f"pre{{background:{code};padding:6px 8px;margin:8px 0;white-space:pre-wrap;font:12px monospace}}"
        page = f'<!doctype html><meta charset="utf-8"><style>{style}</style>{body}'
        texts = {"Source": NOTEBOOK.name, "Drawing": hashlib.sha256(page.encode()).hexdigest()}
        yield Drawing(f"{NAME}{scheme}.png", page, WIDTH * SCALE, HEIGHT * SCALE, texts)


def _cell(cell: dict[str, object]) -> str:
    html = f"<pre>{escape(_joined(cell['source']))}</pre>"
    outputs = cell["outputs"]
    assert isinstance(outputs, list)
    for output in outputs:
        html += (
            _joined(output["data"]["text/html"])
            if "data" in output
            else f"<div>{escape(_joined(output['text']))}</div>"
        )
    return html


def _joined(lines: object) -> str:
    assert isinstance(lines, list)
    return "".join(lines)


if __name__ == "__main__":
    for drawing in notebook_pictures():
        print(save(drawing, PICTURES))

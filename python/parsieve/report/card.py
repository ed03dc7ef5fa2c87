"""A card: a small piece of HTML for notebooks. It has no scripts and needs no other files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

from parsieve.report.page import UNPRINTABLE

# Longer texts are cut.
LONGEST = 300
# The size of a picture, and how many cells it has at most. If there are more files, some share a cell.
WIDTH, HEIGHT, MOST_CELLS = 480, 12, 120
# These colors are visible on white and on black. Everything else has the color of the notebook's text.
KEPT, DOUBTED = "#0f9d6f", "#e07b00"
_QUIET = ' style="opacity:.7"'


class Cell(NamedTuple):
    """Some files next to each other: how many there are, and how many of them are kept, and kept in doubt."""

    files: int
    kept: int
    doubted: int


def card(title: str, subtitle: str, body: Iterable[str]) -> str:
    """Return a card with a title and finished pieces of HTML.

    >>> card("Plan", "id < 3", [line("cost", "1 request")]).count("&lt;")
    1
    """
    head = f"<div><b>{text(title)}</b> <span{_QUIET}>{text(subtitle)}</span></div>"
    style = "font:13px/1.5 system-ui,sans-serif;max-width:48rem;overflow-wrap:anywhere"
    return f'<div style="{style}">{head}{"".join(body)}</div>'


def line(name: str, value: str) -> str:
    """Return a line with a name and a value, or nothing if the value is empty."""
    return f"<div><span{_QUIET}>{text(name)}:</span> {text(value)}</div>" if value else ""


def listing(summary: str, items: Sequence[str], more: int = 0) -> str:
    """Return a list that opens on demand, or nothing if there are no items. `more` is the number that it leaves out."""
    if not items:
        return ""
    entries = "".join(f"<li>{text(item)}</li>" for item in items) + (f"<li>… and {more:,} more</li>" if more else "")
    return f"<details><summary{_QUIET}>{text(summary)}</summary><ul>{entries}</ul></details>"


def text(value: object) -> str:
    """Return any text so that HTML shows it unchanged. Long text is cut."""
    plain = str(value)
    plain = plain if len(plain) <= LONGEST else f"{plain[: LONGEST - 1]}…"
    return escape(UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", plain))


def picture(cells: Sequence[Cell], says: str) -> str:
    """Draw cells side by side: filled as far as their files are kept.

    >>> picture([Cell(1, 1, 0), Cell(1, 0, 0)], "reads 1 of 2 files").startswith("<svg")
    True
    """
    side = min(HEIGHT, WIDTH / max(len(cells), 1))
    size = f'width="{side * len(cells):.0f}" height="{HEIGHT}" viewBox="0 0 {side * len(cells):.2f} {HEIGHT}"'
    boxes = "".join(_box(at * side, side, 1.0) for at in range(len(cells)))
    kept = "".join(_box(at * side, side, cell.kept / cell.files) for at, cell in enumerate(cells) if cell.kept)
    doubted = "".join(_box(at * side, side, cell.doubted / cell.files) for at, cell in enumerate(cells) if cell.doubted)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" style="max-width:100%;margin:.3em 0;display:block">'
        f'<title>{text(says)}</title><path d="{boxes}" fill="currentColor" opacity=".15"/>'
        f'<path d="{kept}" fill="{KEPT}"/><path d="{doubted}" fill="{DOUBTED}"/></svg>'
    )


def _box(x: float, side: float, share: float) -> str:
    """Return the path of a cell that is filled from below; a share above 0 stays visible."""
    height, width = max(2.0, share * HEIGHT), max(side - 1, side * 0.8)
    return f"M{x:.2f} {HEIGHT - height:.2f}h{width:.2f}v{height:.2f}h-{width:.2f}z"


def cells_of(total: int, kept: Iterable[int], doubted: Iterable[int]) -> list[Cell]:
    """Return the cells of files that are numbered from 0.

    >>> cells_of(3, [1], [])
    [Cell(files=1, kept=0, doubted=0), Cell(files=1, kept=1, doubted=0), Cell(files=1, kept=0, doubted=0)]
    """
    number = min(total, MOST_CELLS)
    # The first file of each cell, and the end.
    borders = [-(-total * at // number) for at in range(number + 1)] if number else [0]
    counts = [[0, 0] for _ in range(number)]
    for kind, numbers in enumerate((kept, doubted)):
        for file in numbers:
            counts[file * number // total][kind] += 1
    sizes = (end - start for start, end in pairwise(borders))
    return [Cell(size, *count) for size, count in zip(sizes, counts, strict=True)]

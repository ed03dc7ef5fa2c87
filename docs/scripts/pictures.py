"""Draws docs/pictures/*.svg: the plan from a real table and query, the others by hand."""

from __future__ import annotations

import sys
import tempfile
from html import escape
from pathlib import Path

import parsieve as ps
from parsieve.demo import lake
from parsieve.report import Cells, Figure
from parsieve.report.charts import picture
from parsieve.report.figures import Verdict

# Pictures have their own background, because a page may be dark while the system is light.
STYLE = """
:root{--ink:#1b1f24;--quiet:#57606a;--paper:#fff;--rule:#8c959f;--ours:#0b6e4f;--other:#b23c00;--hollow:#eaeef2}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--quiet:#9da7b3;--paper:#0d1117;--rule:#6e7681;--ours:#3fd0a0;
--other:#ff8a50;--hollow:#21262d}}
text{font:SIZEpx system-ui,sans-serif;fill:var(--ink)}.head{font-weight:600}.quiet{fill:var(--quiet)}
.mono{font-family:ui-monospace,monospace}.paper{fill:var(--paper)}
.cell{stroke:var(--rule);stroke-width:.5}.kept{fill:var(--ours)}.skipped{fill:var(--hollow)}.doubted{fill:var(--other)}
.box{fill:var(--hollow);stroke:var(--rule)}.ours{fill:none;stroke:var(--ours);stroke-width:2}.on{fill:var(--ours)}
.line{stroke:var(--rule);fill:none}.arrow{stroke:var(--quiet);fill:none;marker-end:url(#tip)}
"""
TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#768390"/></marker></defs>'
)


class Drawing:
    """An SVG drawing with a title and a description for screen readers."""

    def __init__(self, width: int, height: int, title: str, description: str) -> None:
        self._size = width, height
        self._words = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
        self._parts: list[str] = []

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        self._parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>')

    def rect(self, x: float, y: float, width: float, height: float, kind: str = "box") -> None:
        self._parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2" class="{kind}"/>')

    def line(self, *points: float, kind: str = "arrow") -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in zip(points[::2], points[1::2], strict=True))
        self._parts.append(f'<polyline points="{path}" class="{kind}"/>')

    def box(self, x: float, y: float, width: float, head: str, *lines: str, kind: str = "box") -> None:
        """A box with a heading and some lines."""
        self.rect(x, y, width, 24 + 17 * len(lines), kind)
        self.text(x + width / 2, y + 17, head, "head", "middle")
        for number, line in enumerate(lines):
            self.text(x + width / 2, y + 34 + 17 * number, line, "quiet", "middle")

    def svg(self) -> str:
        return _framed(f"{self._words}{TIP}{''.join(self._parts)}", *self._size, size=13)


def _framed(body: str, width: float, height: float, size: int) -> str:
    style = STYLE.replace("SIZE", str(size)).replace("\n", "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">'
        f'<style>{style}</style><rect width="{width:g}" height="{height:g}" class="paper"/>{body}</svg>\n'
    )


def plan() -> str:
    """Draw the files that a query for one hour of late events reads, without and with an index."""
    with tempfile.TemporaryDirectory() as folder:
        events = lake.write(Path(folder) / "events", num_files=50, rows_of_a_file=4_000)
        table = ps.open_table(events.folder)
        before = _verdicts(table.plan(events.range))
        table.build_index("event_time", progress=False)
        after = _verdicts(table.plan(events.range))
    rows = [("with min/max statistics", before), ("with the Sieve index", after)]
    description = (
        "Each cell is a file. With min/max statistics, most files are read; with the index, only files with a match."
    )
    svg = picture(Figure("One hour of late events", description, Cells(rows)), "plan")
    start = svg.index("<title")
    height = float(svg.split('viewBox="0 0 360 ', 1)[1].split('"', 1)[0])
    return _framed(svg[start : svg.rindex("</svg>")], 360, height, size=11).replace(
        'width="360" role', 'width="540" role'
    )


def _verdicts(plan: ps.Plan) -> list[Verdict]:
    verdicts: dict[str, Verdict] = {keep.path: "doubted" if keep.doubt else "kept" for keep in plan.kept}
    verdicts |= {skip.path: "skipped" for skip in plan.skipped}
    return [verdicts[path] for path in sorted(verdicts)]


def evidence() -> str:
    """Draw the steps of a plan, cheapest evidence first."""
    drawing = Drawing(
        720,
        214,
        "The cheapest evidence comes first",
        "Partition values and the table's own statistics cost nothing extra. The index costs a few reads for the whole "
        "table. Footers and filters cost a short read for each file that is still kept. The remaining files are read.",
    )
    steps = [
        ("partitions", "known from", "the listing", 200),
        ("statistics", "of Delta and", "Iceberg", 120),
        ("index", "a few reads", "for all files", 110),
        ("footers", "one read", "for each file", 6),
        ("Bloom filters", "32 bytes", "for each key", 5),
    ]
    for number, (name, first, second, files) in enumerate(steps):
        x = 12 + number * 122
        drawing.box(x, 40, 104, name, first, second)
        drawing.line(x + 104, 69, x + 120, 69)
        height = max(4.0, files * 0.3)
        drawing.rect(x + 34, 190 - height, 36, height, "on")
        drawing.text(x + 76, 190, str(files), "quiet")
    drawing.text(12, 24, "cheapest first; each step checks only the files that are still kept", "quiet")
    drawing.text(12, 208, "files checked in each step (example)", "quiet")
    drawing.box(622, 40, 88, "read", "4 files", kind="ours")
    return drawing.svg()


def bloom() -> str:
    """Draw the way from a value to eight bits of a filter."""
    drawing = Drawing(
        720,
        220,
        "The split block Bloom filter",
        "A value is hashed to 64 bits. The upper half selects one of the filter's blocks of 256 bits; the lower half "
        "selects one bit in each of the block's eight words of 32 bits.",
    )
    drawing.box(12, 16, 92, "value", "42")
    drawing.line(104, 36, 138, 36)
    drawing.box(140, 16, 170, "XXH64", "upper 32 | lower 32")
    drawing.text(330, 30, "upper half: which block", "quiet")
    drawing.text(330, 48, "lower half: eight bits inside", "quiet")
    for block in range(14):
        drawing.rect(12 + block * 50, 88, 46, 22, "ours" if block == 5 else "box")
        drawing.text(
            35 + block * 50, 104, "…" if block == 12 else str(block) if block < 12 else "z-1", "quiet", "middle"
        )
    drawing.line(185, 57, 185, 74, 285, 74, 285, 86)
    drawing.line(285, 110, 285, 122, 12, 122, 12, 140, kind="line")
    drawing.line(285, 122, 708, 122, 708, 140, kind="line")
    for word, bit in enumerate((3, 11, 0, 22, 17, 29, 8, 14)):
        x = 12 + word * 87.2
        drawing.rect(x, 142, 82, 24)
        drawing.rect(x + bit * 82 / 32, 142, 5, 24, "on")
        drawing.text(x + 41, 182, f"word {word}", "quiet", "middle")
    drawing.text(
        12,
        208,
        "one block, 32 bytes: insert sets one bit in each word, and check needs all eight bits for a maybe",
        "quiet",
    )
    return drawing.svg()


def sieve() -> str:
    """Draw keys, their runs, and the files of each run."""
    drawing = Drawing(
        720,
        268,
        "The Sieve index",
        "The key range is cut into blocks of equal width. In each block, separators mark runs of keys that are in the "
        "same files, and each run has its set of files. A key needs one run; an interval needs all runs it overlaps.",
    )
    drawing.text(12, 22, "keys in order", "head")
    drawing.line(12, 40, 706, 40)
    for block in range(5):
        drawing.line(12 + block * 172, 34, 12 + block * 172, 150, kind="line")
    runs = [("A B", 0, 120), ("A C", 120, 52), ("B", 172, 200), ("B D", 372, 60), ("C", 432, 84)]
    runs += [("A D", 516, 120), ("C", 636, 52)]
    for files, start, width in runs:
        drawing.rect(12 + start + 1, 62, width - 2, 30)
        drawing.text(12 + start + width / 2, 82, files, "mono", "middle")
    for start in (120, 372, 432, 636):
        drawing.line(12 + start, 52, 12 + start, 102, kind="ours")
    drawing.text(98, 124, "block 0", "quiet", "middle")
    for block in range(1, 4):
        drawing.text(98 + block * 172, 124, f"block {block}", "quiet", "middle")
    drawing.text(270, 144, "found by a shift", "quiet", "middle")
    drawing.line(162, 200, 162, 96)
    drawing.text(162, 218, "key = 150", "head", "middle")
    drawing.text(162, 236, "reads A and C", "quiet", "middle")
    drawing.line(372, 176, 500, 176, kind="ours")
    drawing.line(372, 170, 372, 96)
    drawing.line(500, 170, 500, 96)
    drawing.text(436, 218, "360 <= key < 488", "head", "middle")
    drawing.text(436, 236, "reads B, C and D: the union of three runs", "quiet", "middle")
    drawing.text(
        12, 260, "A to D are files; with min/max statistics, the key would also read B, and the interval A", "quiet"
    )
    return drawing.svg()


def staleness() -> str:
    """Draw an index and a table that has changed since."""
    drawing = Drawing(
        720,
        232,
        "An index that lags is slower, never wrong",
        "The index was built from the files A, B and C, each with a token. Later, B has changed and D is new. A has "
        "the same token, so the index answers for A. B has another token and D is unknown, so both are kept until an "
        "update. C was removed and is ignored.",
    )
    drawing.text(12, 24, "the index, built on Monday", "head")
    for number, name in enumerate("ABC"):
        drawing.box(12 + number * 120, 36, 104, name, f"token {name.lower()}1")
    drawing.text(204, 128, "the table on Tuesday", "head")
    today = [("A", "token a1", "answered"), ("B", "token b2", "kept"), ("D", "token d1", "kept")]
    for (name, token, verdict), x in zip(today, (12, 132, 372), strict=True):
        drawing.box(x, 140, 104, name, token, kind="ours" if verdict == "answered" else "box")
        drawing.text(x + 52, 200, "the index answers" if verdict == "answered" else "kept, in doubt", "quiet", "middle")
    drawing.line(64, 78, 64, 138)
    drawing.line(184, 78, 184, 138)
    drawing.text(304, 98, "C was removed", "quiet", "middle")
    drawing.text(500, 160, "update_index() reads", "quiet")
    drawing.text(500, 178, "only B and D", "quiet")
    drawing.text(12, 224, "the token of a file changes whenever its rows may have changed", "quiet")
    return drawing.svg()


def draw(folder: Path) -> list[Path]:
    """Draw all pictures into `folder`, and return their paths."""
    written = []
    for make in (plan, evidence, bloom, sieve, staleness):
        path = folder / f"{make.__name__}.svg"
        path.write_text(make(), encoding="utf-8")
        written.append(path)
    return written


if __name__ == "__main__":
    for path in draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "pictures"):
        print(path)

"""Render figures as one HTML page that needs no other files, scripts or network."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

from parsieve.report.charts import picture
from parsieve.report.figures import Cells, Chart, Figure, Headline, written

# Colors that are distinct with any kind of color vision (Okabe and Ito), darker on white, lighter on black.
STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--quiet:#57606a;--paper:#fff;--rule:#d0d7de;--ours:#0b6e4f;
--c0:#9a5b00;--c1:#0060a0;--c2:#a03c78;--c3:#6b6b6b;--c4:#b23c00;--c5:#4a4aa8;--hollow:#eaeef2}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--quiet:#9da7b3;--paper:#0d1117;--rule:#30363d;--ours:#3fd0a0;
--c0:#e69f00;--c1:#56b4e9;--c2:#e69ac8;--c3:#a8a8a8;--c4:#ff8a50;--c5:#a5a5ff;--hollow:#21262d}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:76rem;font:16px/1.5 system-ui,sans-serif;color:var(--ink);
background:var(--paper);overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.2}h2{font-size:1.2rem;margin:0 0 .3rem}
a{color:var(--c1)}a:focus-visible,[tabindex]:focus-visible{outline:3px solid var(--c1);outline-offset:2px}
nav ul,dl.facts{padding:0;margin:0 0 1rem}nav ul{columns:24rem}nav li{margin-left:1.2rem;break-inside:avoid}
dt{color:var(--quiet)}dd{margin:0 0 .3rem}
@media(min-width:40rem){dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:0 1rem}dd{margin:0}}
section{border-top:1px solid var(--rule);padding:1.2rem 0}
ul.headline{display:flex;flex-wrap:wrap;gap:1rem;padding:0;margin:1rem 0;list-style:none}
ul.headline li{flex:1 1 16rem;border-left:4px solid var(--ours);padding:.2rem 0 .2rem .8rem}
ul.headline strong{display:block;font-size:1.8rem;line-height:1.2;color:var(--ours)}
main{display:grid;gap:0 2rem;grid-template-columns:minmax(0,1fr)}
@media(min-width:60rem){main{grid-template-columns:repeat(2,minmax(0,1fr))}}
summary{cursor:pointer;color:var(--c1);font-size:.85rem;margin:.5rem 0}
summary:focus-visible{outline:3px solid var(--c1);outline-offset:2px}
svg{width:100%;max-width:34rem;height:auto;display:block}
svg text{font:11px system-ui,sans-serif;fill:var(--ink)}svg text.head{font-weight:600}
svg text.quiet{fill:var(--quiet)}svg text.value{font-variant-numeric:tabular-nums}svg text.ours-text{font-weight:600}
.ours{fill:var(--ours);stroke:var(--ours)}
.c0{fill:var(--c0);stroke:var(--c0)}.c1{fill:var(--c1);stroke:var(--c1)}.c2{fill:var(--c2);stroke:var(--c2)}
.c3{fill:var(--c3);stroke:var(--c3)}.c4{fill:var(--c4);stroke:var(--c4)}.c5{fill:var(--c5);stroke:var(--c5)}
svg .line{fill:none;stroke-width:2}svg .line.ours{stroke-width:3.5}svg .rule{stroke:var(--rule)}
.cell{stroke:var(--rule);stroke-width:.5}.kept{fill:var(--ours)}.skipped{fill:var(--hollow)}
.doubted{fill:var(--c4);stroke:var(--ink);stroke-width:1}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums;width:100%}
caption{text-align:left;color:var(--quiet);font-size:.85rem}
th,td{padding:.2rem .5rem;border-bottom:1px solid var(--rule);text-align:right;vertical-align:top}
td{white-space:nowrap}thead th{overflow-wrap:normal}
tr>:first-child{text-align:left;min-width:6rem}
@media(max-width:30rem){th,td{padding:.2rem .25rem}tr>:first-child{min-width:5rem}}
tr.ours-row>*{font-weight:600;fill:none;stroke:none}
code{font-size:.85em}p.how,p.note{color:var(--quiet);font-size:.85rem;margin:.3rem 0}
"""


# The label that opens a figure's table.
TABLE = "Numbers as a table"
# Characters that HTML or UTF-8 does not allow. Names of files and columns may contain any character.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def render(
    title: str,
    says: str,
    figures: Sequence[Figure],
    facts: Mapping[str, str] | None = None,
    headlines: Sequence[Headline] = (),
) -> str:
    """Return one HTML page with a picture of each figure, and its numbers as a table that opens on demand.

    Args:
        title: The page's heading.
        says: The sentence below it.
        figures: What to show, in order.
        facts: Facts about all figures, such as machine, date and commit.
        headlines: The main results, to show at the top.

    >>> page = render("Skipping", "What was read.", [Figure("Files", "Two ways.", Cells([("min/max", ["kept"])]))])
    >>> page.startswith("<!doctype html>"), "http-equiv" in page
    (True, False)
    """
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in (facts or {}).items())
    first = "".join(f"<li><strong>{escape(line.number)}</strong>{escape(line.words)}</li>" for line in headlines)
    links = "".join(f'<li><a href="#f{at}">{escape(figure.title)}</a></li>' for at, figure in enumerate(figures, 1))
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # Without an empty icon, a browser would request one.
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{STYLE}</style></head><body>'
        f"<header><h1>{escape(title)}</h1><p>{escape(says)}</p>"
        + (f'<ul class="headline">{first}</ul>' if first else "")
        + (f'<dl class="facts">{listed}</dl>' if listed else "")
        + f'</header><nav aria-label="Figures"><ul>{links}</ul></nav><main>'
        + "".join(_section(figure, f"f{at}") for at, figure in enumerate(figures, 1))
        + "</main></body></html>\n"
    )
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", page)


def _section(figure: Figure, name: str) -> str:
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in figure.notes)
    how = f'<p class="how">Reproduce: <code>{escape(figure.how)}</code></p>' if figure.how else ""
    return (
        f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{escape(figure.title)}</h2>'
        f"<p>{escape(figure.says)}</p>{picture(figure, name)}{notes}{how}"
        f"<details><summary>{TABLE}</summary>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(figure.title)}: the numbers">'
        f"{_table(figure)}</div></details></section>"
    )


def _table(figure: Figure) -> str:
    """Return a figure's numbers as a table. The shorter dimension goes across, to fit on a phone."""
    if isinstance(figure.shows, Cells):
        # Leave out a column that would contain only zeros.
        width = 4 if figure.shows.in_doubt else 3
        head = ["plan by", "files", "read", "in doubt"][:width]
        rows = [
            (
                False,
                [
                    name,
                    f"{len(verdicts):,}",
                    f"{sum(verdict != 'skipped' for verdict in verdicts):,}",
                    f"{list(verdicts).count('doubted'):,}",
                ][:width],
            )
            for name, verdicts in figure.shows.rows
        ]
    else:
        chart: Chart = figure.shows
        head = [chart.category, *(series.name for series in chart.series)]
        flipped = len(chart.series) > len(chart.categories)
        if flipped:
            head = ["", *chart.categories]
            rows = [
                (series.ours, [series.name, *(written(value, chart.unit) for value in series.values)])
                for series in chart.series
            ]
        else:
            rows = [
                (False, [category, *(written(series.values[at], chart.unit) for series in chart.series)])
                for at, category in enumerate(chart.categories)
            ]
    # An empty heading must not be a heading for screen readers.
    heads = "".join(f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in head)
    lines = "".join(
        f'<tr{" class=ours-row" if ours else ""}><th scope="row">{escape(cells[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells[1:])
        + "</tr>"
        for ours, cells in rows
    )
    return (
        f"<table><caption>{escape(figure.title)}</caption><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
    )

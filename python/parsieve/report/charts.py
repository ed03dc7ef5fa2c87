"""Draw figures as SVG: text scales with the page, colors come from its style sheet, and screen readers get titles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from parsieve.report.figures import Cells, Chart, Figure, Series, written

# The width of a phone, so that pictures are never scaled down.
WIDTH = 360
LEFT, RIGHT = 8, 8
LINE = 15
# The mean width of a letter is at most this. Longer names are cut in the picture; the table has them in full.
LETTER, LONGEST_NAME = 6.4, 25
# Headings are bold and may use the full width.
LONGEST_HEAD = 44
# The maximum number of labels on an axis, in a chart of dots and in a chart of lines.
TICKS_ACROSS, TICKS_UP = 5, 8
# Lines must differ without color too. Ours is solid; dots and bars have their names next to them.
DASHES = ("6 3", "2 3", "8 3 2 3", "1 4", "10 4", "4 2")
DOT = 4.5
NUM_COLORS = 6


def picture(figure: Figure, name: str) -> str:
    """Return a figure as SVG. `name` must be unique on the page.

    >>> shows = Chart("bars", ["20 M rows"], [Series("min/max", [3.0]), Series("sieve", [1.0], ours=True)], "seconds")
    >>> picture(Figure("Point queries", "One key.", shows), "f1")[:4]
    '<svg'
    """
    if isinstance(figure.shows, Cells):
        body, height = _cells(figure.shows)
    elif figure.shows.kind == "lines":
        body, height = _lines(figure.shows)
    else:
        body, height = _rows(figure.shows)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-labelledby="{name}-t {name}-d" '
        f'xmlns="http://www.w3.org/2000/svg"><title id="{name}-t">{escape(figure.title)}</title>'
        f'<desc id="{name}-d">{escape(figure.says)} The table below it has the same numbers.</desc>{body}</svg>'
    )


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _color(number: int, series: Series) -> str:
    return "ours" if series.ours else f"c{number % NUM_COLORS}"


def _numbers(chart: Chart) -> list[float]:
    return [value for series in chart.series for value in series.values if value is not None]


def _rows(chart: Chart) -> tuple[str, float]:
    """Draw a row for each series of each category, with its name and value, so that no legend is needed."""
    parts = []
    y = 4.0
    numbers = _numbers(chart)
    place = _logarithmic(numbers) if chart.kind == "dots" else _linear(numbers)
    names = max((LETTER * len(_short(series.name)) for series in chart.series), default=0.0)
    # Leave room for a dot at zero, so that it does not cover the name.
    start, end = LEFT + names + 6 + (DOT if chart.kind == "dots" else 0), WIDTH - RIGHT - 62
    for at, category in enumerate(chart.categories):
        y += LINE
        remark = chart.remarks[at] if chart.remarks else ""
        longest = LONGEST_HEAD - (len(remark) + 2 if remark else 0)
        parts.append(_text(LEFT, y, _short(category, longest), "head"))
        if remark:
            parts.append(_text(WIDTH - RIGHT, y, remark, "head", "end"))
        for number, series in enumerate(chart.series):
            y += LINE
            value = series.values[at]
            parts.append(_text(LEFT + names, y, _short(series.name), "ours-text" if series.ours else "", "end"))
            if value is None:
                parts.append(_text(start + 2, y, "not measured", "quiet"))
                continue
            x = start + place(value) * (end - start)
            color = _color(number, series)
            if chart.kind == "bars":
                length = max(x - start, 1)
                parts.append(
                    f'<rect x="{start:.1f}" y="{y - 9:.1f}" width="{length:.1f}" height="10" class="{color}"/>'
                )
            else:
                parts.append(f'<line x1="{start:.1f}" x2="{x:.1f}" y1="{y - 4:.1f}" y2="{y - 4:.1f}" class="rule"/>')
                parts.append(f'<circle cx="{x:.1f}" cy="{y - 4:.1f}" r="{DOT}" class="{color}"/>')
            parts.append(_text(max(x, start) + 8, y, written(value, chart.unit), "value"))
        y += 5
    if chart.kind == "dots":
        # Draw the axis behind the dots.
        parts[:0] = _axis(place, chart, start, end, y)
        y += 2 * LINE
        parts.append(_text(start, y, "logarithmic scale", "quiet"))
    return "".join(parts), y + 8


def _axis(place: _Scale, chart: Chart, start: float, end: float, bottom: float) -> Iterator[str]:
    """Draw the ticks of a horizontal axis, with the labels that do not overlap."""
    free = -8.0
    for tick in place.ticks(TICKS_ACROSS):
        x = start + place(tick) * (end - start)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{LINE / 2}" y2="{bottom:.1f}" class="rule"/>'
        label = written(tick, chart.unit)
        half = LETTER * len(label) / 2
        if x - half >= free + 8:
            yield _text(x, bottom + LINE - 3, label, "quiet", "middle")
            free = x + half


def _short(name: str, longest: int = LONGEST_NAME) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _linear(numbers: Sequence[float]) -> _Scale:
    return _Scale(0.0, max([*numbers, 0.0]) or 1.0, logarithmic=False)


def _logarithmic(numbers: Sequence[float]) -> _Scale:
    positive = [number for number in numbers if number > 0]
    return _Scale(min(positive, default=1.0) / 1.5, max(positive, default=10.0), logarithmic=True)


class _Scale:
    """Maps values to positions on an axis, from 0 to 1."""

    def __init__(self, low: float, high: float, *, logarithmic: bool) -> None:
        self.low, self.high, self.logarithmic = low, high, logarithmic

    def __call__(self, value: float) -> float:
        if self.logarithmic:
            # A logarithmic axis has no zero. Draw it at the lower end; the label shows the value.
            if value <= self.low or self.high <= self.low:
                return 0.0
            # Subtract logarithms, because the quotient of very large and very small numbers would be infinite.
            low, high = math.log(self.low), math.log(self.high)
            return (math.log(value) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int) -> list[float]:
        """Return round values on the axis; on a logarithmic axis at most `most`."""
        if self.logarithmic:
            return self._powers(most)
        step = 10.0 ** math.floor(math.log10(self.high))
        if self.high / step < 2:
            step /= 5
        elif self.high / step < 5:
            step /= 2
        return [count * step for count in range(int(self.high / step) + 1)]

    def _powers(self, most: int) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
        ticks: list[float] = []
        for factors in ((1, 2, 5), (1, 3), (1,)):
            values = [factor * 10.0**power for power in powers for factor in factors]
            ticks = [value for value in values if self.low <= value <= self.high]
            if len(ticks) <= most:
                return ticks
        return ticks[:: math.ceil(len(ticks) / most)]


def _lines(chart: Chart) -> tuple[str, float]:
    """Draw lines over evenly spaced categories. The scale is logarithmic if the values span a factor of 100."""
    numbers = [number for number in _numbers(chart) if number > 0]
    wide = bool(numbers) and max(numbers) / min(numbers) > 100
    place = _logarithmic(numbers) if wide else _linear(numbers)
    left, right, top, bottom = LEFT + 46, WIDTH - RIGHT - 8, 12, 190
    parts = []
    for tick in place.ticks(TICKS_UP):
        y = bottom - place(tick) * (bottom - top)
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="rule"/>')
        parts.append(_text(left - 5, y + 3, written(tick, chart.unit), "quiet", "end"))
    steps = max(len(chart.categories) - 1, 1)
    xs = [left + (right - left) * at / steps for at in range(len(chart.categories))]
    # Omit labels that would overlap, but keep the first and the last.
    every = max(1, math.ceil(len(xs) * 52 / (right - left)))
    for at, (x, category) in enumerate(zip(xs, chart.categories, strict=True)):
        if at % every == 0 or at == len(xs) - 1:
            anchor = "start" if at == 0 else "end" if at == len(xs) - 1 else "middle"
            parts.append(_text(x, bottom + LINE, category, "quiet", anchor))
    parts.append(_text((left + right) / 2, bottom + 2 * LINE, chart.category, "quiet", "middle"))
    y = bottom + 2 * LINE + 6.0
    # Draw our line last, on top of the others.
    for number, series in sorted(enumerate(chart.series), key=lambda numbered: numbered[1].ours):
        color = _color(number, series)
        dash = "" if series.ours else DASHES[number % len(DASHES)]
        points = [
            (x, bottom - place(value) * (bottom - top))
            for x, value in zip(xs, series.values, strict=True)
            if value is not None
        ]
        path = " ".join(f"{x:.1f},{at:.1f}" for x, at in points)
        parts.append(f'<polyline points="{path}" class="line {color}" stroke-dasharray="{dash}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{at:.1f}" r="2.5" class="{color}"/>' for x, at in points]
        y += LINE
        parts.append(
            f'<line x1="{left}" x2="{left + 26}" y1="{y - 4:.1f}" y2="{y - 4:.1f}" class="line {color}" '
            f'stroke-dasharray="{dash}"/>'
        )
        parts.append(_text(left + 33, y, series.name, "ours-text" if series.ours else ""))
    return "".join(parts), y + 8


def _cells(cells: Cells) -> tuple[str, float]:
    """Draw files as cells: kept files filled, skipped files hollow, files in doubt outlined."""
    most = max((len(verdicts) for _, verdicts in cells.rows), default=0)
    # Small enough for thousands of files, large enough to see each.
    side = max(3.0, min(14.0, math.sqrt((WIDTH - LEFT - RIGHT) * 90 / max(most, 1))))
    across = max(1, int((WIDTH - LEFT - RIGHT) // side))
    parts = []
    y = 4.0
    for name, verdicts in cells.rows:
        y += LINE
        kept = sum(verdict != "skipped" for verdict in verdicts)
        parts.append(_text(LEFT, y, name, "head"))
        parts.append(_text(WIDTH - RIGHT, y, f"reads {kept:,} of {len(verdicts):,} files", "value", "end"))
        y += 6
        for at, verdict in enumerate(verdicts):
            x, top = LEFT + at % across * side, y + at // across * side
            size = f'width="{side - 1:.1f}" height="{side - 1:.1f}"'
            parts.append(f'<rect x="{x:.1f}" y="{top:.1f}" {size} class="cell {verdict}"/>')
        y += math.ceil(len(verdicts) / across) * side + 4
    y += LINE
    parts.append(f'<rect x="{LEFT}" y="{y - 9:.1f}" width="10" height="10" class="cell kept"/>')
    parts.append(_text(LEFT + 15, y, "read", "quiet"))
    parts.append(f'<rect x="{LEFT + 60}" y="{y - 9:.1f}" width="10" height="10" class="cell skipped"/>')
    parts.append(_text(LEFT + 75, y, "skipped, with proof", "quiet"))
    if cells.in_doubt:
        parts.append(f'<rect x="{LEFT + 200}" y="{y - 9:.1f}" width="10" height="10" class="cell doubted"/>')
        parts.append(_text(LEFT + 215, y, "read in doubt", "quiet"))
    return "".join(parts), y + 8

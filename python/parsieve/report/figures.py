"""The content of a report as data, without colors, pixels or HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

# None means not measured: a gap in the picture and a dash in the table, never a zero.
Value = float | None
Unit = Literal["seconds", "bytes", "files", "bits per row", "ratio", "rows", ""]
Verdict = Literal["kept", "skipped", "doubted"]


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one contender, one for each category of the chart."""

    name: str
    values: Sequence[Value]
    # Whether this is the contender under test, which is drawn thicker than its peers.
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of several contenders: `bars`, `dots` for values across orders of magnitude, or `lines` over numbers."""

    kind: Literal["bars", "dots", "lines"]
    categories: Sequence[str]
    series: Sequence[Series]
    unit: Unit = ""
    # The name of the categories: the heading of the table's first column, and of the axis of lines.
    category: str = ""
    # A short remark on each category of bars or dots, such as "12x faster".
    remarks: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.remarks and len(self.remarks) != len(self.categories):
            raise ValueError(f"{len(self.remarks)} remarks for {len(self.categories)} categories")
        for series in self.series:
            if len(series.values) != len(self.categories):
                raise ValueError(
                    f"{series.name!r} has {len(series.values)} values for {len(self.categories)} categories; "
                    "use None for missing measurements"
                )
            for value in series.values:
                if value is not None and not math.isfinite(value):
                    raise ValueError(
                        f"{series.name!r} has the value {value}, which cannot be drawn; use None for missing "
                        "measurements"
                    )


@dataclass(frozen=True, slots=True)
class Cells:
    """A row of cells for each way to plan, with one cell for each file of the table."""

    # The name of each way to plan, with its verdict on each file.
    rows: Sequence[tuple[str, Sequence[Verdict]]]

    @property
    def in_doubt(self) -> bool:
        """Whether any file is read because it could not be judged."""
        return any("doubted" in verdicts for _, verdicts in self.rows)


@dataclass(frozen=True, slots=True)
class Headline:
    """A main result at the top of a page: a number, and the words that explain it."""

    number: str
    words: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture with its heading, a sentence that describes it, and the command that reproduces it."""

    title: str
    says: str
    shows: Chart | Cells
    # The command that measures it.
    how: str = ""
    notes: Sequence[str] = field(default_factory=tuple)


def written(value: Value, unit: Unit) -> str:
    """Format a value with its unit.

    >>> written(0.0123, "seconds"), written(11_000_000, "bytes"), written(None, "files")
    ('12.3 ms', '11 MB', '-')
    """
    if value is None:
        return "-"
    if unit == "seconds":
        if value == 0:
            return "0 s"
        for factor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if abs(value) >= factor:
                return f"{_rounded(value / factor)} {name}"
        return f"{_rounded(value / 1e-9)} ns"
    if unit == "bytes":
        for factor, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
            if abs(value) >= factor:
                return f"{_rounded(value / factor)} {name}"
        return f"{value:.0f} B"
    if unit == "ratio":
        return f"{_rounded(value)}x"
    return _rounded(value)


def _rounded(value: float) -> str:
    """Format a number with three significant digits and thousands separators. More digits would be noise."""
    if abs(value) >= 1e15:
        return f"{value:.3g}"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"

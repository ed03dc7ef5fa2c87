"""Show measurements on one self-contained HTML page, each figure as a picture and a table."""

from parsieve.report.figures import Cells, Chart, Figure, Headline, Series
from parsieve.report.page import render

__all__ = ["Cells", "Chart", "Figure", "Headline", "Series", "render"]

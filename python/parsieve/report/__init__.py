"""Measurements as one page: figures with a picture and a table each, in a single file that asks nobody for anything."""

from parsieve.report.figures import Cells, Chart, Figure, Headline, Series
from parsieve.report.page import render

__all__ = ["Cells", "Chart", "Figure", "Headline", "Series", "render"]

"""Proving the Bloom filters of a file by its data."""

from __future__ import annotations

from typing import Any, NamedTuple

from parsieve import _core
from parsieve.filters import Decryption, FileFilters
from parsieve.making import scan

# Above this rate a filter excludes next to nothing.
USELESS = 0.5


class Finding(NamedTuple):
    """What is to be said of one filter."""

    row_group: int
    column: str | tuple[str, ...]
    # "false negatives", "useless", "no length", "unreadable", "unproven"
    kind: str
    text: str


def check_filters(source: Any, *, encryption: Decryption | None = None) -> list[Finding]:
    """Read the data of every column chunk that has a filter, and look each of its values up there.

    An empty list says that all filters hold all values and are of use. The kinds of findings are `"false negatives"`
    (the filter excludes values that are there: drop or replace it), `"useless"` (it excludes next to nothing),
    `"no length"` (readers must ask twice), `"unreadable"`, and `"unproven"` (a dictionary holds values that the filter
    excludes, which no row may have). `source` is what `open_filters` takes.

    >>> import io, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"id": range(9)}), file, bloom_filter_options={"id": {"ndv": 9}})
    >>> ps.check_filters(file)
    []
    """
    findings = []
    with FileFilters(source, encryption) as file:
        rewriter = _core.Rewriter(file._file)
        for place in file.ranges():

            def say(kind: str, text: str, place: Any = place) -> None:
                findings.append(Finding(place.row_group, place.column, kind, text))

            if place.length is None:
                say("no length", "the metadata do not say how long the filter is, so readers ask twice")
            number = file._number(place.column)
            chunk = place.row_group, number
            try:
                filter = file.filter(place.row_group, file._paths[number])
                assert filter is not None
                ndv, excluded, certain = scan(file, rewriter, chunk).excluded(filter)
            except _core.ParsieveError as error:
                say("unreadable", str(error))
                continue
            if excluded and certain:
                say("false negatives", f"{excluded} of {ndv} distinct values are excluded, though rows have them")
            elif excluded:
                say("unproven", f"{excluded} of {ndv} values of the dictionary are excluded; rows may have them")
            if filter.estimated_fpp > USELESS:
                say("useless", f"{filter.num_bytes} bytes for {ndv} distinct values: most answers are maybe")
    return findings

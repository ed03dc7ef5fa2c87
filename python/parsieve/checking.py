"""Proving the Bloom filters of a file by its data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from parsieve import _core
from parsieve.filters import Decryption, FileFilters, FilterRange
from parsieve.making import Chunk, in_threads, scan, usual_threads

# Above this rate a filter excludes next to nothing.
USELESS = 0.5


class Finding(NamedTuple):
    """What is to be said of one filter."""

    row_group: int
    column: str | tuple[str, ...]
    # "false negatives", "useless", "no length", "unreadable", "unproven"
    kind: str
    text: str


def check_filters(source: Any, *, encryption: Decryption | None = None, threads: int | None = None) -> list[Finding]:
    """Read the data of every column chunk that has a filter, and look each of its values up there.

    An empty list says that all filters hold all values and are of use. The kinds of findings are `"false negatives"`
    (the filter excludes values that are there: drop or replace it), `"useless"` (it excludes next to nothing),
    `"no length"` (readers must ask twice), `"unreadable"`, and `"unproven"` (a dictionary holds values that the filter
    excludes, which no row may have). `source` is what `open_filters` takes; `threads` column chunks are read at
    once, by default as many as there are processors.

    >>> import io, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"id": range(9)}), file, bloom_filter_options={"id": {"ndv": 9}})
    >>> ps.check_filters(file)
    []
    """
    threads = usual_threads(threads)
    with FileFilters(source, encryption) as file:
        rewriter = _core.Rewriter(file._file)
        places = {(place.row_group, file._number(place.column)): place for place in file.ranges()}

        def prove(chunk: Chunk) -> list[Finding]:
            return list(_prove(file, rewriter, chunk, places[chunk]))

        return [finding for of in in_threads(prove, places, threads) for finding in of]


def _prove(file: FileFilters, rewriter: _core.Rewriter, chunk: Chunk, place: FilterRange) -> Iterator[Finding]:
    def say(kind: str, text: str) -> Finding:
        return Finding(place.row_group, place.column, kind, text)

    if place.length is None:
        yield say("no length", "the metadata do not say how long the filter is, so readers ask twice")
    try:
        filter = file.filter(place.row_group, file._paths[chunk[1]])
        assert filter is not None
        ndv, excluded, certain = scan(file, rewriter, chunk).excluded(filter)
    except _core.ParsieveError as error:
        yield say("unreadable", str(error))
        return
    if excluded and certain:
        yield say("false negatives", f"{excluded} of {ndv} distinct values are excluded, though rows have them")
    elif excluded:
        yield say("unproven", f"{excluded} of {ndv} values of the dictionary are excluded; rows may have them")
    if filter.estimated_fpp > USELESS:
        yield say("useless", f"{filter.num_bytes} bytes for {ndv} distinct values: most answers are maybe")

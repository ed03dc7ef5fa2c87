"""Check the Bloom filters of files against their data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from parsieve import _core
from parsieve.filters.build import Chunk, scan
from parsieve.filters.folder_run import local_folder, over_folder
from parsieve.filters.open import Decryption, FileFilters, FilterRange
from parsieve.io.parallel import map_in_threads, thread_count

# Above this rate a filter excludes next to nothing.
USELESS = 0.5


class Finding(NamedTuple):
    """A problem with one filter."""

    row_group: int
    column: str | tuple[str, ...]
    # "false negatives", "useless", "no length", "unreadable", "unproven"
    kind: str
    text: str
    # The file, if a folder was checked.
    path: str | None = None


def check_filters(source: Any, *, encryption: Decryption | None = None, threads: int | None = None) -> list[Finding]:
    """Check each Bloom filter against the data: look up every value of its column chunk in it.

    An empty list means that every filter contains all values and is useful. The kinds of findings are:

    - `"false negatives"`: the filter excludes values of rows, so drop or replace it.
    - `"unproven"`: the filter excludes values of the dictionary, which rows may or may not use.
    - `"useless"`: the filter excludes almost nothing.
    - `"no length"`: the metadata lacks the filter's length, so readers need a second request.
    - `"unreadable"`: the filter cannot be read.

    Args:
        source: a file as for `open_filters`, or the path of a folder. In a folder, all Parquet files are checked, and
            each finding has the `path` of its file. If files fail, `FolderError` is raised after the others are
            checked.
        encryption: the keys of encrypted files, as for `open_filters`.
        threads: how many column chunks (in a folder: files) to read in parallel; by default one per processor.

    >>> import io, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"id": range(9)}), file, bloom_filter_options={"id": {"ndv": 9}})
    >>> ps.check_filters(file)
    []
    """
    threads = thread_count(threads)
    if (folder := local_folder(source)) is not None:

        def check(path: Path) -> list[Finding]:
            found = check_filters(path, encryption=encryption, threads=1)
            return [finding._replace(path=str(path)) for finding in found]

        def join(by_file: dict[str, list[Finding]]) -> list[Finding]:
            return [finding for found in by_file.values() for finding in found]

        joined: list[Finding] = over_folder(folder, check, join, threads=threads)
        return joined
    with FileFilters(source, encryption) as file:
        rewriter = _core.Rewriter(file._file)
        places = {(place.row_group, file._number(place.column)): place for place in file.ranges()}

        def prove(chunk: Chunk) -> list[Finding]:
            return list(_prove(file, rewriter, chunk, places[chunk]))

        return [finding for of in map_in_threads(prove, places, threads) for finding in of]


def _prove(file: FileFilters, rewriter: _core.Rewriter, chunk: Chunk, place: FilterRange) -> Iterator[Finding]:
    def say(kind: str, text: str) -> Finding:
        return Finding(place.row_group, place.column, kind, text)

    if place.length is None:
        yield say("no length", "the metadata does not state the length of the filter, so readers need a second request")
    try:
        filter = file.filter(place.row_group, file._paths[chunk[1]])
        assert filter is not None
        ndv, excluded, certain = scan(file, rewriter, chunk).excluded(filter)
    except _core.ParsieveError as error:
        yield say("unreadable", str(error))
        return
    if excluded and certain:
        yield say("false negatives", f"the filter excludes {excluded} of the {ndv} distinct values in the rows")
    elif excluded:
        yield say(
            "unproven", f"the filter excludes {excluded} of the {ndv} values in the dictionary, which rows may contain"
        )
    if filter.estimated_fpp > USELESS:
        yield say(
            "useless",
            f"{filter.num_bytes} bytes are too few for {ndv} distinct values, so the filter excludes almost nothing",
        )

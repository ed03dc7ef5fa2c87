"""Check the Bloom filters of files against their data."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from parsieve import _core
from parsieve.errors import ConflictError
from parsieve.filters.build import feed
from parsieve.filters.folder_run import local_folder, over_folder
from parsieve.filters.open import Chunk, ColumnName, Decryption, FilterRange, ParquetFile
from parsieve.io.parallel import map_in_threads, thread_count
from parsieve.observe.notebook import html_of

# Above this rate a filter excludes next to nothing.
USELESS = 0.5


class Finding(NamedTuple):
    """A problem with one filter."""

    row_group: int
    column: ColumnName
    # "false negatives", "useless", "no length", "unreadable", "unproven"
    kind: str
    text: str
    # The file, if a folder was checked.
    path: str | None = None

    def _repr_html_(self) -> str | None:
        return html_of(self)


def check_filters(source: Any, *, encryption: Decryption | None = None, threads: int | None = None) -> list[Finding]:
    """Check each Bloom filter against the data: look up every value of its column chunk in it.

    An empty list means that every filter contains all values and is useful. The kinds of findings are:

    - `"false negatives"`: the filter excludes values of rows, so drop or replace it.
    - `"unproven"`: the filter excludes values of a dictionary, and damaged pages hide whether rows have them.
    - `"useless"`: the filter excludes almost nothing.
    - `"no length"`: the metadata lacks the filter's length, so readers need a second request.
    - `"unreadable"`: the filter cannot be read, or encrypted metadata hides whether there is one.

    Args:
        source: a file as for `open_filters`, or the path of a folder. In a folder, the same files are checked that
            `add_filters` finds, and also those behind links that lead out of the folder. Each finding has the `path` of
            its file. If files fail, `FolderError` is raised after the others are checked.
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
            findings = check_filters(path, encryption=encryption, threads=1)
            return [finding._replace(path=str(path)) for finding in findings]

        def join(by_file: dict[str, list[Finding]], _: dict[str, str]) -> list[Finding]:
            return [finding for findings in by_file.values() for finding in findings]

        joined: list[Finding] = over_folder(folder, check, join, threads=threads)
        return joined
    with ParquetFile(source, encryption) as file:
        rewriter = _core.Rewriter(file.footer)
        ranges = dict(zip(file.chunks_with_filters(), file.ranges(), strict=True))

        def check_chunk(chunk: Chunk) -> list[Finding]:
            return list(_check_chunk(file, rewriter, chunk, ranges[chunk]))

        with file.unchanged():
            by_chunk = map_in_threads(check_chunk, ranges, threads)
        findings = [finding for findings in by_chunk for finding in findings]
        return sorted(findings + _hidden(file, rewriter, ranges), key=lambda finding: finding.row_group)


def _hidden(file: ParquetFile, rewriter: _core.Rewriter, ranges: Container[Chunk]) -> list[Finding]:
    """Return a finding for each column chunk whose metadata would need a missing key to show a filter."""
    return [
        Finding(
            row_group,
            file.name_of(column),
            "unreadable",
            f"the metadata of column {file.name_of(column)!r} is encrypted, and its key is missing, so it is unknown "
            "whether there is a filter",
        )
        for row_group in range(file.num_row_groups)
        for column in range(len(file.paths))
        if (row_group, column) not in ranges and not rewriter.is_open(row_group, column)
    ]


def _check_chunk(file: ParquetFile, rewriter: _core.Rewriter, chunk: Chunk, place: FilterRange) -> Iterator[Finding]:
    def finding(kind: str, text: str) -> Finding:
        return Finding(place.row_group, place.column, kind, text)

    if place.length is None:
        yield finding(
            "no length", "the metadata does not state the length of the filter, so readers need a second request"
        )
    try:
        filter = file.filter(*chunk)
        assert filter is not None
        scan = rewriter.check(chunk, filter)
        feed(file, scan)
        num_values, excluded, certain = scan.finish()
    except ConflictError:
        raise
    except _core.ParsieveError as error:
        yield finding("unreadable", str(error))
        return
    if excluded and certain:
        yield finding("false negatives", f"the filter excludes {excluded} of the {num_values} values in the pages")
    elif excluded:
        yield finding(
            "unproven",
            f"the filter excludes {excluded} of the {num_values} values in the pages, but it is unknown whether rows "
            "have them",
        )
    if filter.estimated_fpp > USELESS:
        yield finding(
            "useless",
            f"{filter.num_bytes} bytes are too few for the values of the rows, so the filter excludes almost nothing",
        )

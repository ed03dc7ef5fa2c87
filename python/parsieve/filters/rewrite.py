"""Add Bloom filters to existing files, or drop them: no data page is re-encoded, moved or changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from parsieve import _core
from parsieve._typing import LeafPath
from parsieve.filters.build import BuiltFilters, digest
from parsieve.filters.folder_run import Change, change_of, local_folder, over_folder
from parsieve.filters.open import Chunk, ColumnName, Decryption, ParquetFile
from parsieve.filters.options import (
    MAX_BYTES,
    AddOptions,
    Columns,
    FilterSize,
    checked_fpp,
    checked_max_bytes,
    chosen_columns,
    column_list,
)
from parsieve.filters.report import AddedFilter, RewriteReport, combine_reports
from parsieve.filters.target import RewriteTarget, refuse_table_files
from parsieve.filters.upload import rewrite_object
from parsieve.io.parallel import map_in_threads, thread_count
from parsieve.io.sources import LocalFile
from parsieve.observe.logs import FILTERS, place, summary

# A column with fewer distinct values in every row group gets no filter by `"auto"`: most row groups contain each value.
FEW_VALUES = 64
# The reason why `"auto"` adds nothing to a column.
HAS_FILTERS = "every column chunk already has a filter"


def add_filters(
    source: str | os.PathLike[str] | tuple[Any, str],
    dest: str | os.PathLike[str] | tuple[Any, str] | None = None,
    columns: Columns = "auto",
    fpp: float = 0.01,
    *,
    max_bytes: int = MAX_BYTES,
    encryption: Decryption | None = None,
    existing: str = "replace",
    hard_links: str = "refuse",
    in_place: bool = False,
    upload: bool = False,
    threads: int | None = None,
    dry_run: bool = False,
) -> RewriteReport:
    """Add Bloom filters to a Parquet file, or to all files of a folder. Bytes before the footer do not change.

    Reads only the pages of the chosen columns. Each filter has the smallest size, a power of two, that keeps the rate
    `fpp` for its row group. If that needs more than `max_bytes`, the filter is smaller and the report shows its higher
    rate.

    The file is replaced atomically: readers see either the old file or the complete new one, even after a crash. The
    new file has new timestamps, the old mode and, where the system allows it, the old owner and group. If the group
    cannot be kept, its members get only the permissions that everybody has. A crash may leave a hidden file
    `.parsieve-*.tmp` in the same folder, which you can delete. Hadoop's checksum of the old file (`.NAME.crc`) is
    removed; Hadoop ignores a missing checksum.

    Args:
        source: the path of a local file or folder. A symbolic link to a file is followed. In a folder, all files named
            `.parquet`, `.parq` or `.pq`, in upper or lower case, get filters. Names that engines ignore do not count:
            names that begin with `.`, or with `_` unless they contain `=`. A file with links in the folder is changed
            once. Other names, pipes, and links that lead out of the folder are skipped; `left_out` in the report has
            the reasons, and a warning is logged. The report sums up the files, and has one report for each in `files`.
            If files fail, `FolderError` is raised after the others are done; call again with `existing="keep"` to
            continue. Files of Delta, Hudi and Iceberg tables and of Structured Streaming are refused, because these
            record file sizes. Use `open_table(...).build_index(..., kind="bloom")` instead.
        dest: the path of a new file to write; it must not exist. By default, the new file replaces the old one.
        columns: a column, several columns, or `"auto"` for all columns in which a filter is worth its size; the report
            then has the `reasons`. A dict like pyarrow's `bloom_filter_options` also works:
            `{"id": {"fpp": 0.001}, "sku": True}`. It needs no `ndv`, because the filter is fitted to the values.
        fpp: the false positive rate of each filter.
        max_bytes: the size of the largest filter of a row group.
        encryption: the keys of an encrypted file, as for `open_filters`; new filters are encrypted like their columns.
        existing: what to do about existing filters: `"replace"` them, `"keep"` them, or raise an `"error"`.
        hard_links: `"break"` lets other hard links of the file keep the old bytes; by default such a file is refused.
        in_place: append to the file itself, which may be too large to copy. No other reader can open it until that is
            done. A crash leaves `.NAME.parsieve-journal` next to the file, and the next function of parsieve that opens
            the file undoes or finishes the change, unless another program has replaced the file. Other hard links see
            the change too. Afterwards, the old footer stays in the file, unused.
        upload: allow an object of a store, given as a URI or an `(obstore store, path)` pair. The object is downloaded,
            and the whole new object is uploaded with the old attributes, unless the object has changed in the meantime.
        threads: how many column chunks (in a folder: files) to read in parallel; by default one per processor. Each
            needs memory for a filter of as many distinct values as it has rows, which takes up to 128 MiB, or
            `max_bytes` if that is more.
        dry_run: read the file and return the report, but write nothing.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = folder.name + "/orders.parquet"
    >>> pq.write_table(pa.table({"id": range(4000)}), path, row_group_size=1000)
    >>> report = ps.add_filters(path, columns="id", fpp=0.001)
    >>> len(report.added), report.added[0].ndv
    (4, 1000)
    >>> ps.open_filters(path).might_contain({"id": 2500})
    [False, False, True, False]
    >>> folder.cleanup()
    """
    if existing not in ("replace", "keep", "error"):
        raise ValueError(f'existing must be "replace", "keep" or "error", not {existing!r}')
    options = AddOptions(
        columns=columns,
        fpp=checked_fpp(fpp),
        max_bytes=checked_max_bytes(max_bytes),
        encryption=encryption,
        existing=existing,
        hard_links=hard_links,
        in_place=in_place,
        upload=upload,
        threads=threads,
        dry_run=dry_run,
    )
    if (folder := local_folder(source)) is not None and not upload:
        _refuse_dest(source, dest)
        of_file = replace(options, threads=1)
        change = change_of(in_place=in_place)
        return _logged(_rewrite_folder(folder, lambda path: add_to_file(path, None, of_file), change, threads))
    return _logged(add_to_file(source, dest, options))


def add_to_file(
    source: Any, dest: Any, options: AddOptions, existing: Callable[[], str] | None = None
) -> RewriteReport:
    """Add filters to one file or object.

    `existing` decides about existing filters instead of `options.existing`. It is called after the identity of the file
    has been recorded, so a change of the file after the decision is detected.
    """
    options = replace(
        options,
        fpp=checked_fpp(options.fpp),
        max_bytes=checked_max_bytes(options.max_bytes),
        threads=thread_count(options.threads),
    )
    if options.upload:
        local = replace(options, upload=False, hard_links="refuse", in_place=False)
        return rewrite_object(source, dest, lambda path: add_to_file(path, None, local, existing), options.dry_run)
    with (
        RewriteTarget(source, dest, options.hard_links, options.in_place, options.dry_run) as target,
        ParquetFile(target.source, options.encryption) as file,
    ):
        rewrite = _Rewrite(file, target, options.encryption)
        if not options.is_automatic:
            chosen = chosen_columns(file, options)
            rewrite.require_hashable(chosen)
            rewrite.require_keys(chosen)
            reasons: dict[ColumnName, str] = {}
        elif isinstance(dest, str) and file.has_column(dest):
            raise ValueError(f"dest must be the path of a new file, but {dest!r} is a column: pass columns={dest!r}")
        else:
            chosen, reasons = rewrite.candidates(options.size)
        present = set(file.chunks_with_filters())
        mode = options.existing if existing is None else existing()
        if mode == "error" and (taken := sorted({column for _, column in present} & chosen.keys())):
            names = ", ".join(str(file.name_of(column)) for column in taken)
            raise ValueError(f'these columns already have filters: {names}; pass existing="replace" or "keep"')
        with BuiltFilters(file, rewrite.core, target.path.parent) as filters:
            for column, size in chosen.items():
                chunks = [(row_group, column) for row_group in range(file.num_row_groups)]
                if mode == "keep":
                    chunks = [chunk for chunk in chunks if chunk not in present]
                if chunks and not options.is_automatic:
                    rewrite.start_copy()
                build = partial(filters.build, fpp=size.fpp, max_bytes=size.max_bytes)
                most = max(map_in_threads(build, chunks, options.threads or 1), default=0)
                if options.is_automatic:
                    if chunks and most >= FEW_VALUES:
                        rewrite.start_copy()
                    else:
                        filters.discard(column)
                    reasons[file.name_of(column)] = _reason(file, chunks, most)
            return rewrite.finish([], filters, reasons)


def _reason(file: ParquetFile, chunks: Sequence[Chunk], most: int) -> str:
    """Return why `"auto"` adds filters to these chunks or not; `most` is the highest number of distinct values."""
    if not file.num_row_groups:
        return "no: the file has no row groups"
    if not chunks:
        return f"no: {HAS_FILTERS}"
    if most < FEW_VALUES:
        return f"no: at most {most} distinct values in a row group"
    return f"yes: up to {most} distinct values in a row group"


def drop_filters(
    source: str | os.PathLike[str] | tuple[Any, str],
    dest: str | os.PathLike[str] | tuple[Any, str] | None = None,
    columns: LeafPath | Sequence[LeafPath] | None = None,
    *,
    encryption: Decryption | None = None,
    hard_links: str = "refuse",
    in_place: bool = False,
    upload: bool = False,
    dry_run: bool = False,
) -> RewriteReport:
    """Drop the Bloom filters of some or all columns from a file, or from all files of a folder.

    The file is replaced as by `add_filters`, and the arguments are the same. Readers no longer find the filters. Their
    bytes stay in the file, unused, except that a plaintext filter of an encrypted column is filled with zeros.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = folder.name + "/orders.parquet"
    >>> pq.write_table(pa.table({"id": [1, 2]}), path, bloom_filter_options={"id": {"ndv": 2}})
    >>> ps.drop_filters(path).dropped
    [(0, 'id')]
    >>> ps.open_filters(path).ranges()
    []
    >>> folder.cleanup()
    """
    options: dict[str, Any] = {
        "encryption": encryption,
        "hard_links": hard_links,
        "in_place": in_place,
        "dry_run": dry_run,
    }
    if (folder := local_folder(source)) is not None and not upload:
        _refuse_dest(source, dest)
        drop = partial(_drop_from_file, columns=columns, **options)
        return _logged(_rewrite_folder(folder, drop, change_of(in_place=in_place), None))
    if upload:
        drop = partial(_drop_from_file, columns=columns, encryption=encryption, dry_run=dry_run)
        return _logged(rewrite_object(source, dest, drop, dry_run))
    return _logged(_drop_from_file(source, dest, columns, **options))


def _drop_from_file(
    source: Any,
    dest: Any = None,
    columns: LeafPath | Sequence[LeafPath] | None = None,
    *,
    encryption: Decryption | None = None,
    hard_links: str = "refuse",
    in_place: bool = False,
    dry_run: bool = False,
) -> RewriteReport:
    """Drop filters from one file."""
    with (
        RewriteTarget(source, dest, hard_links, in_place, dry_run) as target,
        ParquetFile(target.source, encryption) as file,
    ):
        rewrite = _Rewrite(file, target, encryption)
        if columns is None:
            chosen = set(range(len(file.paths)))
        else:
            chosen = {file.number_of(column) for column in column_list(columns)}
        rewrite.require_keys(chosen)
        dropped = [chunk for chunk in file.chunks_with_filters() if chunk[1] in chosen]
        with BuiltFilters(file, rewrite.core, target.path.parent) as no_filters:
            return rewrite.finish(dropped, no_filters, {})


def _logged(report: RewriteReport) -> RewriteReport:
    """Log a rewrite of a file or a folder."""
    if report.written:
        FILTERS.info("rewrote filters of %s", place(summary(report)))
    return report


def _rewrite_folder(
    folder: Path, rewrite: Callable[[Path], RewriteReport], change: Change, threads: int | None
) -> RewriteReport:
    """Rewrite all files of a folder. If any of them belongs to a table, raise before anything changes."""
    combine, before = partial(combine_reports, str(folder)), refuse_table_files
    report: RewriteReport = over_folder(folder, rewrite, combine, change=change, threads=threads, before=before)
    return report


def _refuse_dest(source: Any, dest: Any) -> None:
    if dest is not None:
        raise ValueError(f"{source} is a folder, and its files are replaced; dest works only for a single file")


class _Rewrite:
    """The rewrite of one file with other filters."""

    def __init__(self, file: ParquetFile, target: RewriteTarget, encryption: Decryption | None) -> None:
        self.core = _core.Rewriter(file.footer)
        self._file = file
        self._target = target
        self._encryption = encryption
        self._is_copying = False

    def has_keys(self, column: int) -> bool:
        """Return whether all metadata of a column can be read with the given keys."""
        return all(self.core.is_open(row_group, column) for row_group in range(self._file.num_row_groups))

    def require_keys(self, columns: Iterable[int]) -> None:
        """Raise an error if the key of a column is missing."""
        for column in columns:
            if not self.has_keys(column):
                raise _core.DecryptionError(
                    f"column {self._file.name_of(column)!r} is encrypted, and its key is missing"
                )

    def require_hashable(self, columns: Iterable[int]) -> None:
        """Raise an error if a column cannot have a filter."""
        for column in columns:
            if self._file.types[column] is None:
                raise _core.UnsupportedError(
                    f"column {self._file.name_of(column)!r} cannot have a filter: Parquet defines no hash for its "
                    "type, or this version does not know the type"
                )

    def candidates(self, size: FilterSize) -> tuple[dict[int, FilterSize], dict[ColumnName, str]]:
        """Return the columns whose values decide about a filter, and why the other columns get none."""
        chosen, reasons = {}, {}
        for column, column_type in enumerate(self._file.types):
            name = self._file.name_of(column)
            if column_type is None:
                reasons[name] = "no: Parquet has no hash for its type"
            elif " real" in column_type:
                reasons[name] = "no: floating-point columns are rarely filtered by equality"
            elif not self.has_keys(column):
                reasons[name] = "no: its key is missing"
            else:
                chosen[column] = size
        return chosen, reasons

    def start_copy(self) -> None:
        """Start to copy the file while filters are built, if the copy does not depend on the plan.

        The plan of an encrypted file may fill plaintext filters with zeros, so its copy has to wait.
        """
        target = self._target
        if not (self._is_copying or target.dry_run or self._file.footer.encrypted or target.keep_footer):
            self._is_copying = True
            target.replacement().start(self._plan([], [])[0])

    def _plan(self, add: list[tuple[int, int, int]], drop: list[Chunk]) -> Any:
        keep_footer = self._target.keep_footer
        plan = self._file.run(lambda fetched: self.core.plan(add, drop, keep_footer, fetched))
        assert plan is not None
        return plan

    def finish(self, drop: list[Chunk], filters: BuiltFilters, reasons: dict[ColumnName, str]) -> RewriteReport:
        """Plan the new file, and write it unless nothing changes."""
        file, target, built = self._file, self._target, filters.by_chunk
        copy, wipe, placed, footer = self._plan([(*chunk, built[chunk].num_blocks) for chunk in built], drop)
        added = [
            AddedFilter(row_group, file.name_of(column), offset, length, *built[row_group, column][1:3])
            for row_group, column, offset, length in placed
        ]
        is_written = not target.dry_run and (target.is_copy or bool(placed or drop))
        size = target.size if not (placed or drop) else copy + sum(length for *_, length in placed) + len(footer)

        def tail() -> Iterator[bytes]:
            for row_group, column, _, length in placed:
                data = filters.encoded((row_group, column))
                if len(data) != length:
                    raise RuntimeError("a filter does not have the planned size: this is a bug in parsieve")
                yield data
            yield footer

        def verify(path: Path) -> None:
            if not self._matches_plan(path, added, drop, filters):
                raise RuntimeError(
                    "the new file does not read as planned: this is a bug in parsieve; nothing was replaced"
                )

        if is_written:
            size = target.write(copy, wipe, tail, verify)
        dropped = [(row_group, file.name_of(column)) for row_group, column in drop]
        return RewriteReport(
            str(target.path), added, dropped, reasons, target.size, size, file.reader.bytes_fetched, is_written
        )

    def _matches_plan(self, path: Path, added: list[AddedFilter], drop: list[Chunk], filters: BuiltFilters) -> bool:
        """Return whether the new file has the planned filters, and all others unchanged."""
        file, built = self._file, filters.by_chunk
        changed = set(drop) | built.keys()
        kept = {place for place in file.ranges() if (place.row_group, file.number_of(place.column)) not in changed}
        planned = {(filter.row_group, filter.column): filter for filter in added}
        with ParquetFile(LocalFile(path), self._encryption) as written:
            ranges = set(written.ranges())
            places = [place for place in ranges if (place.row_group, place.column) in planned]
            if ranges - set(places) != kept or len(places) != len(planned):
                return False
            if written.footer.num_rows != file.footer.num_rows or written.paths != file.paths:
                return False
            for place in places:
                plan = planned[place.row_group, place.column]
                # The length is missing if the old metadata use its field for something else.
                if place.offset != plan.offset or place.length not in (plan.length, None):
                    return False
            for chunk in built:
                filter = written.filter(*chunk)
                if filter is None or digest(filter) != built[chunk].digest:
                    return False
        return True

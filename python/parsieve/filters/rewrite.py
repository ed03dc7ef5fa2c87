"""Add Bloom filters to existing files, or drop them: no data page is re-encoded, moved or changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from parsieve import _core
from parsieve._typing import LeafPath
from parsieve.filters.build import Chunk, Filters, digest
from parsieve.filters.folder_run import indexed_folder, local_folder, over_folder
from parsieve.filters.open import Decryption, FileFilters
from parsieve.filters.rates import checked_fpp
from parsieve.filters.renewal_notes import note
from parsieve.filters.report import AddedFilter, ColumnName, RewriteReport, combined
from parsieve.filters.upload import rewrite_object
from parsieve.io import atomic, journal
from parsieve.io.parallel import map_in_threads, thread_count
from parsieve.io.sources import LocalFile, Range

Columns = LeafPath | Sequence[LeafPath] | Mapping[Any, Any]

# What other writers take as the most, too.
MAX_BYTES = 128 << 20
# With fewer distinct values in every row group, most row groups hold each of them.
FEW_VALUES = 64


class _Wish(NamedTuple):
    """The filters that a column is to get."""

    fpp: float
    max_bytes: int


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

    Reads only the pages of the chosen columns. Each filter is sized for the distinct values of its row group and the
    rate `fpp`. If that needs more than `max_bytes`, the filter is smaller and the report shows its higher rate.

    The file is replaced atomically: readers see either the old file or the complete new one, even after a crash. The
    new file has the old mode and, where the system allows it, the old owner, but new timestamps. A crash may leave a
    hidden file `.parsieve-*.tmp` in the same folder, which you can delete. Hadoop's checksum of the old file
    (`.NAME.crc`) is removed; Hadoop ignores a missing checksum.

    Args:
        source: the path of a local file or folder. Symbolic links to files are followed. In a folder, all files named
            `.parquet`, `.parq` or `.pq` get filters, except names that begin with `_` or `.`. The report sums up the
            files, and has one report for each in `files`. If files fail, `FolderError` is raised after the others are
            done; call again with `existing="keep"` to continue. Files of Delta, Hudi and Iceberg tables are refused,
            because these formats record file sizes. Use `open_table(...).build_index(..., kind="bloom")` instead.
        dest: the path of a new file to write; it must not exist. By default, the new file replaces the old one.
        columns: a column, several columns, or `"auto"` for all columns in which a filter is worth its size; the report
            then has the `reasons`. A dict like pyarrow's `bloom_filter_options` also works:
            `{"id": {"fpp": 0.001}, "sku": True}`. It needs no `ndv`, because the values are counted.
        fpp: the false positive rate of each filter.
        max_bytes: the size of the largest filter of a row group.
        encryption: the keys of an encrypted file, as for `open_filters`; new filters are encrypted like their columns.
        existing: what to do about existing filters: `"replace"` them, `"keep"` them, or raise an `"error"`.
        hard_links: `"break"` lets other hard links of the file keep the old bytes; by default such a file is refused.
        in_place: append to the file itself, which may be too large to copy. No other reader can open it until that is
            done. A crash leaves `.NAME.parsieve-journal` next to the file, and the next function of parsieve that opens
            the file undoes or finishes the change. Other hard links see the change too. The old footer stays in the
            file, unused.
        upload: allow an object of a store, given as a URI or an `(obstore store, path)` pair. The object is downloaded,
            and the whole new object is uploaded, unless the object has changed in the meantime.
        threads: how many column chunks (in a folder: files) to read in parallel, each with its distinct hashes in
            memory; by default one per processor.
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
    fpp = checked_fpp(fpp)
    if (folder := local_folder(source)) is not None and not upload:
        _refuse_dest(source, dest)
        options: dict[str, Any] = {"max_bytes": max_bytes, "encryption": encryption, "existing": existing}
        options |= {"hard_links": hard_links, "in_place": in_place, "dry_run": dry_run}
        return _in_folder(folder, lambda path: add_filters(path, None, columns, fpp, threads=1, **options), threads)
    return added(
        source,
        dest,
        columns,
        fpp,
        lambda: existing,
        max_bytes=max_bytes,
        encryption=encryption,
        hard_links=hard_links,
        in_place=in_place,
        upload=upload,
        threads=threads,
        dry_run=dry_run,
    )


def added(
    source: Any,
    dest: Any,
    columns: Columns,
    fpp: float,
    existing: Callable[[], str],
    *,
    max_bytes: int = MAX_BYTES,
    encryption: Decryption | None = None,
    hard_links: str = "refuse",
    in_place: bool = False,
    upload: bool = False,
    threads: int | None = None,
    dry_run: bool = False,
) -> RewriteReport:
    """Do what `add_filters` does. `existing` is called after the file was opened, so that later changes are noticed."""
    fpp = checked_fpp(fpp)
    threads = thread_count(threads)
    if upload:
        options: dict[str, Any] = {"max_bytes": max_bytes, "encryption": encryption}
        options |= {"threads": threads, "dry_run": dry_run}
        return rewrite_object(source, dest, lambda path: added(path, None, columns, fpp, existing, **options), dry_run)
    with _Places(source, dest, hard_links, in_place, dry_run) as places, FileFilters(places.old, encryption) as file:
        work = _Work(file, places, encryption)
        automatic = isinstance(columns, str) and columns == "auto"
        if automatic and isinstance(dest, str) and dest in file._named:
            raise ValueError(f"dest must be the path of a new file, but {dest!r} is a column: pass columns={dest!r}")
        wishes, reasons = _auto(work, fpp, max_bytes) if automatic else (_chosen(file, columns, fpp, max_bytes), {})
        if not automatic:
            _check(work, wishes)
        present = {(place.row_group, file._number(place.column)) for place in file.ranges()}
        wanted = existing()
        if wanted == "error" and (taken := sorted({column for _, column in present} & wishes.keys())):
            names = ", ".join(str(file._name(column)) for column in taken)
            raise ValueError(f'these columns already have filters: {names}; pass existing="replace" or "keep"')
        with Filters(file, work.rewriter, places.target.parent) as filters:
            for number, wish in wishes.items():
                chunks = [(row_group, number) for row_group in range(file.num_row_groups)]
                if wanted == "keep":
                    chunks = [chunk for chunk in chunks if chunk not in present]
                if chunks and not automatic:
                    work.start()
                make = partial(filters.make, fpp=wish.fpp, max_bytes=wish.max_bytes)
                most = max(map_in_threads(make, chunks, threads), default=0)
                if automatic:
                    worth = bool(chunks) and most >= FEW_VALUES
                    if worth:
                        work.start()
                    else:
                        filters.forget(number)
                    reasons[file._name(number)] = (
                        "no: every column chunk already has a filter"
                        if not chunks
                        else f"yes: up to {most} distinct values in a row group"
                        if worth
                        else f"no: at most {most} distinct values in a row group"
                    )
            return work.finish([], filters, reasons)


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
    if (folder := local_folder(source)) is not None and not upload:
        _refuse_dest(source, dest)
        options: dict[str, Any] = {"encryption": encryption, "hard_links": hard_links, "in_place": in_place}
        options |= {"dry_run": dry_run}
        return _in_folder(folder, lambda path: drop_filters(path, None, columns, **options), None)
    if upload:
        drop = partial(drop_filters, columns=columns, encryption=encryption, dry_run=dry_run)
        return rewrite_object(source, dest, drop, dry_run)
    with _Places(source, dest, hard_links, in_place, dry_run) as places, FileFilters(places.old, encryption) as file:
        work = _Work(file, places, encryption)
        everything = range(len(file.columns))
        wanted = set(everything) if columns is None else {file._number(column) for column in _several(columns)}
        _readable(work, wanted)
        present = [(place.row_group, file._number(place.column)) for place in file.ranges()]
        with Filters(file, work.rewriter, places.target.parent) as nothing:
            return work.finish([chunk for chunk in present if chunk[1] in wanted], nothing, {})


def _in_folder(folder: Path, work: Callable[[Path], RewriteReport], threads: int | None) -> RewriteReport:
    """Rewrite all files of a folder. If any of them belongs to a table, raise before anything changes."""

    def refuse(files: list[Path]) -> None:
        for place in dict.fromkeys(path.resolve().parent for path in files):
            atomic.refuse_tables(place / "*.parquet")

    report: RewriteReport = over_folder(folder, work, partial(combined, str(folder)), threads=threads, before=refuse)
    return report


def _refuse_dest(source: Any, dest: Any) -> None:
    if dest is not None:
        raise ValueError(f"{source} is a folder, and its files are replaced; dest works only for a single file")


class _Places:
    """The file to read, its state before anything was read, the path to write, and what was begun there."""

    def __init__(self, source: Any, dest: Any, hard_links: str, in_place: bool, dry_run: bool) -> None:
        for place in (source, dest):
            if (isinstance(place, str) and "://" in place) or not isinstance(place, (str, os.PathLike, type(None))):
                raise _core.UnsupportedError(
                    f"{place} is not the path of a local file, and objects of a store cannot be changed in place: pass "
                    'upload=True to replace the whole object, or use open_table(...).build_index(..., kind="bloom")'
                )
        if source is None:
            raise TypeError("source must be the path of a local file or folder, not None")
        if in_place and dest is not None:
            raise ValueError("in_place changes the source itself, so it takes no dest")
        source, dest = Path(source).expanduser(), None if dest is None else Path(dest).expanduser()
        self.old = Path(os.path.realpath(source))
        self.dry_run = dry_run
        self.is_copy = dest is not None
        # Other names of a file that is changed where it lies see the change.
        hard_links = "break" if in_place and hard_links == "refuse" else hard_links
        self.target = atomic.target_of(source, dest, hard_links)
        self.in_place = journal.InPlace(self.old) if in_place and not dry_run else None
        self.keep_footer = in_place
        journal.recover(self.old) if self.in_place is None else None
        now, state = time.time_ns(), self.old.stat()
        self.seen, self.settled = atomic.identity(state), atomic.is_settled(state, now)
        self.replacement: atomic.Replacement | None = None

    def __enter__(self) -> _Places:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for begun in (self.in_place, self.replacement):
            if begun is not None:
                begun.__exit__(kind, error, trace)

    def begin(self) -> atomic.Replacement:
        """The new file, begun at the first call."""
        if self.replacement is None:
            self.replacement = atomic.Replacement(self.old, self.seen, self.target, self.settled)
        return self.replacement

    def write(self, copy: int, wipe: list[Range], tail: Callable[[], Iterator[bytes]], verify: Any) -> int:
        """Write what was planned; the size of the new file."""
        if self.in_place is not None:
            return self.in_place.finish(self.seen, wipe, tail, verify)
        size = self.begin().finish(copy, wipe, tail(), verify)
        renewed = self.replacement.renewed if self.replacement is not None and not self.is_copy else None
        if renewed is not None and indexed_folder(self.target) is not None:
            note(self.target, *renewed)
        return size


def _several(columns: Any) -> list[LeafPath]:
    """One column by its name or its tuple of names, or a collection of columns."""
    if isinstance(columns, (str, tuple)):
        return [columns]
    if isinstance(columns, Iterable):
        return list(columns)
    raise TypeError(f"columns must be names, or a dict of options by name, not {type(columns).__qualname__}")


def _chosen(file: FileFilters, columns: Any, fpp: float, max_bytes: int) -> dict[int, _Wish]:
    """The columns that the caller names, with their options."""
    if not isinstance(columns, Mapping):
        return {file._number(column): _Wish(fpp, max_bytes) for column in _several(columns)}
    wishes = {}
    for column, options in columns.items():
        number = file._number(column)
        if options is True:
            wishes[number] = _Wish(fpp, max_bytes)
        elif isinstance(options, Mapping):
            # Values are counted here; `ndv` and `fold` are for writers who must guess.
            if unknown := options.keys() - {"ndv", "fpp", "fold", "max_bytes"}:
                raise ValueError(f"unknown options of column {column!r}: {', '.join(sorted(map(str, unknown)))}")
            rate = options.get("fpp")
            rate = fpp if rate is None else checked_fpp(rate, f"fpp of column {column!r}")
            wishes[number] = _Wish(rate, int(options.get("max_bytes", max_bytes)))
        elif options not in (False, None):
            raise TypeError(f"the options of column {column!r} must be a dict or True, not {options!r}")
    return wishes


def _check(work: _Work, wishes: Iterable[int]) -> None:
    """Refuse what cannot be done before anything is read."""
    file = work.file
    for number in wishes:
        if file._types[number] is None:
            raise _core.UnsupportedError(
                f"column {file._name(number)!r} cannot have a filter: Parquet defines no hash for its type, or this "
                "version does not know the type"
            )
    _readable(work, wishes)


def _readable(work: _Work, wishes: Iterable[int]) -> None:
    for number in wishes:
        if not work.is_open(number):
            raise _core.DecryptionError(f"column {work.file._name(number)!r} is encrypted, and its key is missing")


def _auto(work: _Work, fpp: float, max_bytes: int) -> tuple[dict[int, _Wish], dict[ColumnName, str]]:
    """The columns that may deserve a filter, and why the others do not. Their values decide the rest."""
    file = work.file
    wishes, reasons = {}, {}
    for number, column_type in enumerate(file._types):
        name = file._name(number)
        if column_type is None:
            reasons[name] = "no: Parquet has no hash for its type"
        elif " real" in column_type:
            reasons[name] = "no: floating-point columns are rarely filtered by equality"
        elif not work.is_open(number):
            reasons[name] = "no: its key is missing"
        else:
            wishes[number] = _Wish(fpp, max_bytes)
    return wishes, reasons


class _Work:
    """One file that gets other filters."""

    def __init__(self, file: FileFilters, places: _Places, encryption: Decryption | None) -> None:
        self.file = file
        self.rewriter = _core.Rewriter(file._file)
        self._places = places
        self._encryption = encryption
        self._started = False

    def is_open(self, number: int) -> bool:
        """Whether all metadata of a column can be read."""
        return all(self.rewriter.is_open(row_group, number) for row_group in range(self.file.num_row_groups))

    def start(self) -> None:
        """Begin to copy while filters are made. What is to be wiped of an encrypted file is not known yet."""
        places = self._places
        if not (self._started or places.dry_run or self.file.encrypted or places.keep_footer):
            self._started = True
            places.begin().start(self._plan([], [])[0])

    def _plan(self, add: list[tuple[int, int, int]], drop: list[Chunk]) -> Any:
        keep_footer = self._places.keep_footer
        plan = self.file._drive(lambda fetched: self.rewriter.plan(add, drop, keep_footer, fetched))
        assert plan is not None
        return plan

    def finish(self, drop: list[Chunk], filters: Filters, reasons: dict[ColumnName, str]) -> RewriteReport:
        """Plan the new file, and write it unless nothing changes."""
        file, places, made = self.file, self._places, filters.made
        copy, wipe, placed, footer = self._plan([(*chunk, made[chunk].num_blocks) for chunk in made], drop)
        added = [
            AddedFilter(row_group, file._name(column), offset, length, *made[row_group, column][1:3])
            for row_group, column, offset, length in placed
        ]
        written = not places.dry_run and (places.is_copy or bool(placed or drop))
        size = places.seen[2] if not (placed or drop) else copy + sum(length for *_, length in placed) + len(footer)

        def tail() -> Iterator[bytes]:
            for row_group, column, _, length in placed:
                data = filters.encoded((row_group, column))
                if len(data) != length:
                    raise RuntimeError("a filter does not have the planned size: this is a bug in parsieve")
                yield data
            yield footer

        def verify(path: Path) -> None:
            if not self._is_as_planned(path, added, drop, filters):
                raise RuntimeError(
                    "the new file does not read as planned: this is a bug in parsieve; nothing was replaced"
                )

        if written:
            size = places.write(copy, wipe, tail, verify)
        dropped = [(row_group, file._name(column)) for row_group, column in drop]
        return RewriteReport(
            str(places.target), added, dropped, reasons, places.seen[2], size, file.bytes_fetched, written
        )

    def _is_as_planned(self, path: Path, added: list[AddedFilter], drop: list[Chunk], filters: Filters) -> bool:
        file, made = self.file, filters.made
        changed = set(drop) | made.keys()
        kept = {place for place in file.ranges() if (place.row_group, file._number(place.column)) not in changed}
        ours = {(one.row_group, one.column): one for one in added}
        with FileFilters(LocalFile(path), self._encryption) as again:
            found = set(again.ranges())
            places = [place for place in found if (place.row_group, place.column) in ours]
            if found - set(places) != kept or len(places) != len(ours) or again.num_rows != file.num_rows:
                return False
            for place in places:
                one = ours[place.row_group, place.column]
                # The length is left out where the old metadata use its field for something else.
                if place.offset != one.offset or place.length not in (one.length, None):
                    return False
            for row_group, column in made:
                filter = again.filter(row_group, again._paths[column])
                if filter is None or digest(filter) != made[row_group, column].digest:
                    return False
        return True

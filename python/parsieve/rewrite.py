"""Adding Bloom filters to files that exist, and dropping them: no data page is re-encoded, moved or changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parsieve import _core, atomic
from parsieve._typing import LeafPath
from parsieve.filters import Decryption, FileFilters

ColumnName = str | tuple[str, ...]
Columns = LeafPath | Sequence[LeafPath] | Mapping[Any, Any]

# What other writers take as the most, too.
MAX_BYTES = 128 << 20
# With fewer distinct values in every row group, most row groups hold each of them.
FEW_VALUES = 64


class AddedFilter(NamedTuple):
    """One new filter: where it lies, its distinct values, and the rate of false positives that they let expect."""

    row_group: int
    column: ColumnName
    offset: int
    length: int
    ndv: int
    fpp: float


class RewriteReport(NamedTuple):
    """What `add_filters` or `drop_filters` did, or with `dry_run=True` would do."""

    path: str
    added: list[AddedFilter]
    dropped: list[tuple[int, ColumnName]]
    reasons: dict[ColumnName, str]
    bytes_before: int
    bytes_after: int
    bytes_fetched: int
    written: bool


class _Wish(NamedTuple):
    """The filters that a column is to get."""

    fpp: float
    max_bytes: int


def add_filters(
    source: str | os.PathLike[str],
    dest: str | os.PathLike[str] | None = None,
    columns: Columns = "auto",
    fpp: float = 0.01,
    *,
    max_bytes: int = MAX_BYTES,
    encryption: Decryption | None = None,
    existing: str = "replace",
    hard_links: str = "refuse",
    dry_run: bool = False,
) -> RewriteReport:
    """Add Bloom filters to a Parquet file that exists; all its bytes before the footer stay as they are.

    Only the pages of the chosen columns are read. Each filter is sized by the distinct values of its row group for the
    rate `fpp`, and never larger than `max_bytes`; then the report tells the higher rate. The file is replaced at once:
    whoever reads it, and whatever crashes, sees the old file or the complete new one. Its mode is kept, and its owner
    where the system allows; its times are new. A crash may leave a hidden file `.parsieve-*.tmp` beside it, which can
    be deleted. Hadoop's checksum of the old bytes (`.NAME.crc`) is removed: Hadoop ignores a missing one.

    Args:
        source: the path of a local file. A symbolic link is followed. Files of Delta, Hudi and Iceberg tables are
            refused, for these formats record the sizes of files.
        dest: the path of another file to write, which must not exist; by default the new file replaces the old one.
        columns: a column, several, or `"auto"`: those for which a filter is worth its bytes, with `reasons` in the
            report. A dict as pyarrow's `bloom_filter_options` is taken too: `{"id": {"fpp": 0.001}, "sku": True}`; its
            `ndv` is not needed, since the values are counted.
        fpp: the rate of false positives that each filter keeps.
        max_bytes: the largest filter of one row group.
        encryption: the keys of an encrypted file, as for `open_filters`; new filters are encrypted as their columns.
        existing: filters that are there are replaced (`"replace"`), kept (`"keep"`), or are an error (`"error"`).
        hard_links: `"break"` lets other names of the file keep the old bytes; by default such a file is refused.
        dry_run: read and report, and write nothing.

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
        raise ValueError(f'existing is "replace", "keep" or "error", not {existing!r}')
    if not 0 < fpp < 1:
        raise ValueError(f"fpp lies between 0 and 1, both excluded, not {fpp!r}")
    old, seen, target = _places(source, dest, hard_links)
    with FileFilters(old, encryption) as file:
        new = _core.NewFilters(file._file)
        automatic = isinstance(columns, str) and columns == "auto"
        wishes, reasons = (
            _auto(file, new, fpp, max_bytes) if automatic else (_chosen(file, columns, fpp, max_bytes), {})
        )
        if not automatic:
            _check(file, new, wishes)
        present = {(place.row_group, file._number(place.column)) for place in file.ranges()}
        if existing == "error" and (taken := sorted({column for _, column in present} & wishes.keys())):
            names = ", ".join(str(file._name(column)) for column in taken)
            raise ValueError(f'there are filters already of: {names}; pass existing="replace" or "keep"')
        measured: dict[tuple[int, int], tuple[int, float]] = {}
        for number, wish in wishes.items():
            most = 0
            for row_group in range(file.num_row_groups):
                if existing == "keep" and (row_group, number) in present:
                    continue
                chunk = row_group, number
                made = file._drive(
                    lambda fetched, chunk=chunk, wish=wish: new.make(chunk, wish.fpp, wish.max_bytes, fetched),  # type: ignore[misc]
                    _core.Fetched(),
                )
                assert made is not None
                _, ndv, rate = made
                measured[chunk], most = (ndv, rate), max(most, ndv)
            name = file._name(number)
            if automatic and not any(column == number for _, column in measured):
                reasons[name] = "no: there is nothing to add to"
            elif automatic and most < FEW_VALUES:
                new.forget(number)
                measured = {chunk: of for chunk, of in measured.items() if chunk[1] != number}
                reasons[name] = f"no: at most {most} distinct values in a row group"
            elif automatic:
                reasons[name] = f"yes: up to {most} distinct values in a row group"
        return _finish(file, new, [], measured, reasons, old, seen, target, encryption, dry_run, dest is not None)


def drop_filters(
    source: str | os.PathLike[str],
    dest: str | os.PathLike[str] | None = None,
    columns: LeafPath | Sequence[LeafPath] | None = None,
    *,
    encryption: Decryption | None = None,
    hard_links: str = "refuse",
    dry_run: bool = False,
) -> RewriteReport:
    """Drop the Bloom filters of some columns, or of all: readers no longer find them.

    The file is replaced as by `add_filters`. The filters' own bytes stay in it, unused; only a plaintext filter of an
    encrypted column is filled with zeros.

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
    old, seen, target = _places(source, dest, hard_links)
    with FileFilters(old, encryption) as file:
        new = _core.NewFilters(file._file)
        everything = range(len(file.columns))
        wanted = set(everything) if columns is None else {file._number(column) for column in _several(columns)}
        _readable(file, new, wanted)
        present = [(place.row_group, file._number(place.column)) for place in file.ranges()]
        drop = [chunk for chunk in present if chunk[1] in wanted]
        return _finish(file, new, drop, {}, {}, old, seen, target, encryption, dry_run, dest is not None)


def _places(source: Any, dest: str | os.PathLike[str] | None, hard_links: str) -> tuple[Path, atomic.Identity, Path]:
    """The file to read, its state before anything was read, and the path to write."""
    for place in (source, dest):
        if (isinstance(place, str) and "://" in place) or not isinstance(place, (str, os.PathLike, type(None))):
            raise _core.UnsupportedError(
                "filters are added to and dropped from local files, by their path: an object of a store cannot be "
                "changed, only uploaded anew; copy it, or use an index beside the table"
            )
    if source is None:
        raise TypeError("a source is the path of a local file, not None")
    old = Path(os.path.realpath(source))
    seen = atomic.identity(old.stat())
    return old, seen, atomic.target_of(Path(source), None if dest is None else Path(dest), hard_links)


def _several(columns: Any) -> list[LeafPath]:
    """One column by its name or its tuple of names, or a collection of columns."""
    if isinstance(columns, (str, tuple)):
        return [columns]
    if isinstance(columns, Iterable):
        return list(columns)
    raise TypeError(f"columns are names, or a dict of options by name, not {type(columns).__qualname__}")


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
            wishes[number] = _Wish(fpp if rate is None else float(rate), int(options.get("max_bytes", max_bytes)))
            if not 0 < wishes[number].fpp < 1:
                raise ValueError(f"fpp of column {column!r} lies between 0 and 1, both excluded, not {rate!r}")
        elif options not in (False, None):
            raise TypeError(f"the options of column {column!r} are a dict or True, not {options!r}")
    return wishes


def _check(file: FileFilters, new: _core.NewFilters, wishes: Iterable[int]) -> None:
    """Refuse what cannot be done before anything is read."""
    for number in wishes:
        if file._types[number] is None:
            raise _core.UnsupportedError(
                f"column {file._name(number)!r} cannot have a filter: the format defines no hash for its type, or this "
                "version does not know it"
            )
    _readable(file, new, wishes)


def _readable(file: FileFilters, new: _core.NewFilters, wishes: Iterable[int]) -> None:
    for number in wishes:
        if any(not new.is_open(row_group, number) for row_group in range(file.num_row_groups)):
            raise _core.DecryptionError(f"column {file._name(number)!r} is encrypted, and its key is missing")


def _auto(
    file: FileFilters, new: _core.NewFilters, fpp: float, max_bytes: int
) -> tuple[dict[int, _Wish], dict[ColumnName, str]]:
    """The columns that may deserve a filter, and why the others do not. Their values decide the rest."""
    wishes, reasons = {}, {}
    for number, column_type in enumerate(file._types):
        name = file._name(number)
        if column_type is None:
            reasons[name] = "no: Parquet has no hash for its type"
        elif " real" in column_type:
            reasons[name] = "no: real numbers are seldom asked for by equality"
        elif any(not new.is_open(row_group, number) for row_group in range(file.num_row_groups)):
            reasons[name] = "no: its key is missing"
        else:
            wishes[number] = _Wish(fpp, max_bytes)
    return wishes, reasons


def _finish(
    file: FileFilters,
    new: _core.NewFilters,
    drop: list[tuple[int, int]],
    measured: dict[tuple[int, int], tuple[int, float]],
    reasons: dict[ColumnName, str],
    old: Path,
    seen: atomic.Identity,
    target: Path,
    encryption: Decryption | None,
    dry_run: bool,
    copy_anyway: bool,
) -> RewriteReport:
    """Plan the new file, and write it unless nothing changes."""
    plan = file._drive(lambda fetched: new.plan(drop, fetched))
    assert plan is not None
    copy, wipe, placed, footer = plan
    added = [
        AddedFilter(row_group, file._name(column), offset, length, *measured[row_group, column])
        for row_group, column, offset, length in placed
    ]
    written = not dry_run and (copy_anyway or bool(placed or drop))
    size = seen[2] if not (placed or drop) else copy + sum(length for *_, length in placed) + len(footer)

    def tail() -> Iterator[bytes]:
        for row_group, column, _, length in placed:
            data = new.encode((row_group, column))
            if len(data) != length:
                raise RuntimeError("a filter has not the size that was planned: a defect of parsieve")
            yield data
        yield footer

    def verify(path: Path) -> None:
        changed = set(drop) | {(row_group, column) for row_group, column, *_ in placed}
        kept = {place for place in file.ranges() if (place.row_group, file._number(place.column)) not in changed}
        ours = {(one.row_group, one.column): one for one in added}
        with FileFilters(path, encryption) as again:
            found = set(again.ranges())
            new_places = [place for place in found if (place.row_group, place.column) in ours]
            same = found - set(new_places) == kept and len(new_places) == len(ours) and again.num_rows == file.num_rows
            for place in new_places:
                one = ours[place.row_group, place.column]
                # The length is left out where the old metadata use its field for something else.
                same = same and place.offset == one.offset and place.length in (one.length, None)
            for row_group, column, *_ in placed:
                filter = again.filter(row_group, again._paths[column]) if same else None
                same = filter is not None and new.equals((row_group, column), filter)
        if not same:
            raise RuntimeError(
                "the new file does not read as it was planned: a defect of parsieve; nothing was replaced"
            )

    if written:
        size = atomic.replace(old, seen, target, copy=copy, wipe=wipe, tail=tail(), verify=verify)
    dropped = [(row_group, file._name(column)) for row_group, column in drop]
    fetched = file.bytes_fetched
    return RewriteReport(str(target), added, dropped, reasons, seen[2], size, fetched, written)

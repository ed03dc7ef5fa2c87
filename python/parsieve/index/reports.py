"""Reports of builds, updates and other maintenance of an index."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from parsieve.lake.base import LeftOut
from parsieve.observe.notebook import html_of
from parsieve.wording import count, size

__all__ = [
    "BuildReport",
    "CompactReport",
    "ConvertReport",
    "DropReport",
    "ExpireReport",
    "LeftOut",
    "Remaining",
    "UpdateReport",
]

# How many left-out files a report lists as text.
LISTED = 5
_KINDS = {"sieve": "Sieve index", "bloom": "Bloom index", "both": "Sieve and Bloom index"}
_KINDS |= {"text": "text index", "words": "words index"}


class _Report:
    """Shows a report by its summary, which is its text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<parsieve.index.{type(self).__name__}: {self}>"

    def _repr_html_(self) -> str | None:
        return html_of(self)


@dataclass(frozen=True, slots=True, repr=False)
class BuildReport(_Report):
    """What `Table.build_index` built. `print` it for a summary.

    >>> from parsieve.index import BuildReport
    >>> print(BuildReport({"id": "sieve"}, 200, 4_000_000, 10_500_000, 1_600_000, 3.1))
    id: Sieve index of 200 files, 4,000,000 rows in 3.1 s; 10.5 MB on disk, 1.6 MB read by lookups
    """

    # The kind of index of each column: "sieve", "bloom", "both", "text", "words", or "none" if "auto" found that no
    # index pays off.
    columns: Mapping[str, str]
    # The number of indexed files and of their rows; None if the rows were not counted.
    files: int
    rows: int | None
    # The size of these columns' index on disk, and the part that lookups read. Only updates read the rest.
    bytes_stored: int
    bytes_lookup: int
    seconds: float
    # Files that the index does not cover. Every plan reads them.
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    # The size of the map of pages of the whole index, which `bytes_stored` does not include.
    pages_bytes: int = 0

    def __str__(self) -> str:
        built: dict[str, list[str]] = {}
        for column, kind in self.columns.items():
            if kind != "none":
                built.setdefault(kind, []).append(column)
        summary = f"{count(self.files, 'file')}{_rows(self.rows)} in {self.seconds:.1f} s; {self._sizes()}"
        if len(built) == 1:
            [(kind, columns)] = built.items()
            lines = [f"{', '.join(columns)}: {_KINDS[kind]} of {summary}"]
        else:
            lines = [f"{', '.join(columns)}: {_KINDS[kind]}" for kind, columns in built.items()]
            lines += [summary] if built else []
        return "\n".join([*lines, *self.notes, *_listed(self.left_out)])

    def _sizes(self) -> str:
        return _sizes(self.bytes_stored, self.bytes_lookup, self.pages_bytes)


@dataclass(frozen=True, slots=True, repr=False)
class UpdateReport(_Report):
    """What `Table.update_index` did. `print` it for a summary.

    >>> from parsieve.index import UpdateReport
    >>> print(UpdateReport(("id",), 1, 0, 0, 200, 100, 10_600_000, 1_600_000, 0.1))
    read 1 file, 100 rows in 0.1 s; 200 unchanged; 10.6 MB on disk, 1.6 MB read by lookups
    """

    # The columns that are indexed now.
    columns: tuple[str, ...]
    # Files that were new or changed; files whose filters changed but not their rows; files that were removed from the
    # table; all other files that the index covers.
    files_read: int
    files_renewed: int
    files_removed: int
    files_unchanged: int
    # Rows of the files that were read.
    rows: int
    # The size of the whole index after the update, and the part that lookups read.
    bytes_stored: int
    bytes_lookup: int
    seconds: float
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    # The size of the map of pages of the whole index, which `bytes_stored` does not include.
    pages_bytes: int = 0
    # Files that an automatic compaction read again, and their rows. Some of them may be in `files_read`, too.
    files_compacted: int = 0
    rows_compacted: int = 0

    def __str__(self) -> str:
        others = [
            f"{count:,} {what}"
            for count, what in (
                (self.files_unchanged, "unchanged"),
                (self.files_renewed, "with new filters only"),
                (self.files_removed, "removed"),
            )
            if count
        ]
        read = f"read {count(self.files_read, 'file')}{_rows(self.rows)}" if self.files_read else "read nothing"
        compacted = f"read {count(self.files_compacted, 'file')}{_rows(self.rows_compacted)} to compact the index"
        parts = [
            f"{read} in {self.seconds:.1f} s",
            ", ".join(others),
            compacted if self.files_compacted else "",
            _sizes(self.bytes_stored, self.bytes_lookup, self.pages_bytes),
        ]
        return "\n".join(["; ".join(filter(None, parts)), *self.notes, *_listed(self.left_out)])


@dataclass(frozen=True, slots=True, repr=False)
class CompactReport(_Report):
    """What `Table.compact_index` did. `print` it for a summary.

    >>> from parsieve.index import CompactReport
    >>> print(CompactReport(("id",), 3, 10_500_000, 1_600_000, 0.4, files_read=2, rows=20_000))
    id: 3 updates merged in 0.4 s; read 2 files, 20,000 rows again; 10.5 MB on disk, 1.6 MB read by lookups
    """

    # The columns that were compacted. Columns without updates need no compaction.
    columns: tuple[str, ...]
    updates_merged: int
    # The size of the newest version of the whole index, and the part that lookups read.
    bytes_stored: int
    bytes_lookup: int
    seconds: float
    notes: tuple[str, ...] = ()
    # Files of the table that were read again, and their rows.
    files_read: int = 0
    rows: int = 0
    # Files that could not be read again. The index does not cover them any more, so every plan reads them.
    left_out: tuple[LeftOut, ...] = ()
    # The size of the map of pages of the whole index, which `bytes_stored` does not include.
    pages_bytes: int = 0

    def __str__(self) -> str:
        merged = f"{self.updates_merged:,} {'update' if self.updates_merged == 1 else 'updates'} merged"
        did = f"{', '.join(self.columns)}: {merged} in {self.seconds:.1f} s" if self.columns else "nothing to compact"
        again = f"read {count(self.files_read, 'file')}{_rows(self.rows)} again" if self.files_read else ""
        summary = "; ".join(filter(None, (did, again, _sizes(self.bytes_stored, self.bytes_lookup, self.pages_bytes))))
        return "\n".join([summary, *self.notes, *_listed(self.left_out)])


@dataclass(frozen=True, slots=True, repr=False)
class ConvertReport(_Report):
    """What `Table.convert_index` did. `print` it for a summary.

    >>> from parsieve.index import ConvertReport
    >>> print(ConvertReport(("id",), 200, 4_000_000, 10_500_000, 1_700_000, 1_600_000, 3.1))
    id: converted, 200 files, 4,000,000 rows in 3.1 s; 10.5 MB before, 1.7 MB on disk, 1.6 MB read by lookups
    """

    # The columns that had format 1, which have format 2 now.
    columns: tuple[str, ...]
    # The number of files that were read, and of their rows.
    files: int
    rows: int
    # The size of these columns' index before and after, and the part that lookups read. The earlier files stay until
    # their versions expire.
    bytes_before: int
    bytes_stored: int
    bytes_lookup: int
    seconds: float
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    # The size of the map of pages of the whole index, which `bytes_stored` does not include.
    pages_bytes: int = 0

    def __str__(self) -> str:
        if not self.columns:
            return "\n".join(["nothing to convert", *self.notes])
        files = f"{count(self.files, 'file')}{_rows(self.rows)}"
        did = f"{', '.join(self.columns)}: converted, {files} in {self.seconds:.1f} s"
        sizes = f"{size(self.bytes_before)} before, {_sizes(self.bytes_stored, self.bytes_lookup, self.pages_bytes)}"
        return "\n".join([f"{did}; {sizes}", *self.notes, *_listed(self.left_out)])


@dataclass(frozen=True, slots=True)
class Remaining:
    """Files that could not be removed yet, why, and when they can be.

    >>> from parsieve.index import Remaining
    >>> print(Remaining(2, 928_000, "they may belong to a build that is still running"))
    2 files (928 kB) remain: they may belong to a build that is still running
    """

    files: int
    bytes: int
    reason: str
    # When `expire_index` can remove them; None if that depends on `older_than`.
    until: dt.datetime | None = None

    def __str__(self) -> str:
        verb = "remains" if self.files == 1 else "remain"
        until = f" until {self.until:%Y-%m-%d %H:%M:%S %Z}" if self.until is not None else ""
        return f"{count(self.files, 'file')} ({size(self.bytes)}) {verb}{until}: {self.reason}"


@dataclass(frozen=True, slots=True, repr=False)
class ExpireReport(_Report):
    """What `Table.expire_index` removed, and what remains. `print` it for a summary.

    >>> from parsieve.index import ExpireReport
    >>> print(ExpireReport(3, 12, 42_000_000))
    removed 3 versions and 12 files, 42.0 MB
    """

    versions_removed: int
    files_removed: int
    bytes_freed: int
    # Files that are not part of the newest version and could not be removed yet.
    remaining: tuple[Remaining, ...] = ()

    def plus(self, other: ExpireReport) -> ExpireReport:
        """Add up the reports of two places of one index."""
        return ExpireReport(
            self.versions_removed + other.versions_removed,
            self.files_removed + other.files_removed,
            self.bytes_freed + other.bytes_freed,
            self.remaining + other.remaining,
        )

    def __str__(self) -> str:
        versions = f"{self.versions_removed:,} {'version' if self.versions_removed == 1 else 'versions'}"
        freed = f"removed {versions} and {count(self.files_removed, 'file')}, {size(self.bytes_freed)}"
        return "\n".join([freed, *map(str, self.remaining)])


@dataclass(frozen=True, slots=True, repr=False)
class DropReport(_Report):
    """What `Table.drop_index` dropped and removed, and what remains. `print` it for a summary.

    >>> from parsieve.index import DropReport
    >>> print(DropReport(("id",), 9, 10_500_000))
    dropped id; removed 9 files, 10.5 MB
    """

    columns: tuple[str, ...]
    files_removed: int
    bytes_freed: int
    remaining: tuple[Remaining, ...] = field(default=())

    def __str__(self) -> str:
        dropped = f"dropped {', '.join(self.columns)}" if self.columns else "no index to drop"
        freed = f"{dropped}; removed {count(self.files_removed, 'file')}, {size(self.bytes_freed)}"
        return "\n".join([freed, *map(str, self.remaining)])


def _sizes(stored: int, lookup: int, pages: int = 0) -> str:
    sizes = f"{size(stored)} on disk, {size(lookup)} read by lookups"
    return f"{sizes}, {size(pages)} in the map of pages" if pages else sizes


def _rows(number: int | None) -> str:
    return "" if number is None else f", {count(number, 'row')}"


def _listed(left_out: Sequence[LeftOut]) -> list[str]:
    """Return the left-out files as lines: first those that an update can index, then the others."""
    for_now = [file for file in left_out if file.until_update]
    lasting = [file for file in left_out if not file.until_update]
    return [
        *_listed_under("which every plan reads until the next update", for_now),
        *_listed_under("which every plan reads, even after an update", lasting),
    ]


def _listed_under(which: str, left_out: Sequence[LeftOut]) -> list[str]:
    if not left_out:
        return []
    lines = [f"left out {count(len(left_out), 'file')}, {which}:"]
    lines += [f"  {file}" for file in left_out[:LISTED]]
    return lines + ([f"  and {len(left_out) - LISTED:,} more"] if len(left_out) > LISTED else [])

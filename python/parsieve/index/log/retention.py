"""Drop columns of an index, and remove old versions and the files that only they use."""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import Iterable, Sequence

import pyarrow as pa

from parsieve._core import FormatError
from parsieve.errors import not_indexed
from parsieve.index.log import garbage
from parsieve.index.log.columns import path_of
from parsieve.index.log.commit import BloomState, ColumnState, Commit, find_indexed
from parsieve.index.log.garbage import GARBAGE_AGE, OLDER_THAN, OlderThan
from parsieve.index.log.log import Log
from parsieve.index.log.parts import NOTICES
from parsieve.index.log.publish import Transaction
from parsieve.index.reports import DropReport, ExpireReport, Remaining
from parsieve.io.store.base import Store, Stored
from parsieve.io.store.local import LocalStore
from parsieve.lake.base import ColumnPath
from parsieve.predicate.expressions.expression import index_name


def expire(log: Log, older_than: OlderThan = OLDER_THAN, garbage_age: dt.timedelta = GARBAGE_AGE) -> ExpireReport:
    """Remove versions that are old enough, but never the newest, and the files that only they use.

    A file that no version ever named may belong to a build that is still running, so it must be older than
    `garbage_age`. A build that takes longer than that gets a `ConflictError`.
    """
    # Refuse a wrong argument before anything changes.
    _limit(older_than)
    log.finish_move()
    # Versions that were moved just now are older than the limit if `older_than` is 0.
    limit, span = _limit(older_than)
    versions = log.stored()
    # Remove the oldest first, so that the rest is a complete history.
    first = _first_without_gap([version for version, _ in versions])
    while first < len(versions) - 1 and versions[first][1].modified < limit:
        first += 1
    expired = [version for version, _ in versions[:first]]
    removed = remove(log, expired, garbage_age)
    kept = versions[len(expired) : -1]
    remaining = [*removed.remaining, *_of_versions(log, kept, span)]
    return ExpireReport(len(expired), removed.files_removed, removed.bytes_freed, tuple(remaining))


def drop(log: Log, columns: Sequence[str | Sequence[str]] | None = None, schema: pa.Schema | None = None) -> DropReport:
    """Drop some columns, or all columns with all earlier versions, and remove the files that are no longer needed.

    `columns` are names in `schema`. Without a schema, they are the names in the index.
    """
    newest, dropped = _commit_without(log, columns, schema)
    earlier = [version for version, _ in log.stored() if newest is not None and version < newest.version]
    if newest is None or newest.is_empty:
        removed = remove(log, earlier, GARBAGE_AGE)
        log.leave(newest)
    else:
        # Keep earlier versions, which also contain the other columns, for earlier states of the table.
        removed = remove(log, [], GARBAGE_AGE)
        stored = [(version, file) for version, file in log.stored() if version in earlier]
        removed = ExpireReport(
            0, removed.files_removed, removed.bytes_freed, (*removed.remaining, *_of_versions(log, stored, None))
        )
    names = tuple(sorted(index_name(path) for path in dropped))
    return DropReport(names, removed.files_removed, removed.bytes_freed, removed.remaining)


def _commit_without(
    log: Log, columns: Sequence[str | Sequence[str]] | None, schema: pa.Schema | None
) -> tuple[Commit | None, set[ColumnPath]]:
    """Commit a version without some columns; also return the paths of the columns that were dropped."""

    def is_kept(state: ColumnState | BloomState) -> bool:
        return _name_in(schema, state) not in paths

    transaction = Transaction(log, "drop")
    while True:
        newest = transaction.begin()
        if newest is None:
            return None, set()
        indexed = {_name_in(schema, state) for state in newest.states}
        paths = indexed if columns is None else {path_of(column) for column in columns}
        unknown = paths - indexed
        if unknown:
            raise not_indexed(index_name(min(unknown)), map(index_name, indexed))
        if not paths:
            return newest, paths
        kept = {path: state for path, state in newest.columns.items() if is_kept(state)}
        kept_blooms = {path: state for path, state in newest.blooms.items() if is_kept(state)}
        kept_texts = {key: state for key, state in newest.texts.items() if is_kept(state)}
        if version := transaction.commit(newest.table, columns=kept, blooms=kept_blooms, texts=kept_texts):
            return version, paths


def _name_in(schema: pa.Schema | None, state: ColumnState | BloomState) -> ColumnPath:
    """Return the path of an indexed column in a schema; if it is not there, the path in the index."""
    column = None if schema is None else find_indexed(schema, state)
    return state.path if column is None else column[0]


def remove(log: Log, versions: Sequence[int], garbage_age: dt.timedelta) -> ExpireReport:
    """Remove some versions and the files that only they use. Also remove files that no version uses, if old enough.

    If another version is damaged or cannot be read, nothing is removed, and the error is raised: the index may need the
    versions before it.
    """
    released = _parts(log, versions)
    garbage.referenced_files(log, without=versions)
    freed = log.delete(versions)
    # A writer that was moving the versions may have put one of them back. If it does so later, it finds a gap.
    while versions and (late := [version for version, _ in log.stored() if version <= versions[-1]]):
        freed += log.delete(late)
    collected = garbage.collect(log, garbage_age, released)
    freed += sum(file.size for file in collected.removed)
    remaining = _young(collected.young, garbage_age)
    return ExpireReport(len(versions), len(collected.removed), freed, remaining)


def remove_empty_index(store: Store) -> None:
    """Remove the last version of an index that was dropped, and the empty folders of a local one."""
    log = Log(store)
    newest = log.newest()
    if newest is None or not newest.is_empty:
        return
    versions = {file.name for _, file in log.stored()}
    folders = (*garbage.FOLDERS, NOTICES)
    stored = {file.name for folder in folders for file in store.list(folder)}
    if stored - versions:
        return
    for name in sorted(versions):
        store.delete(name)
    if isinstance(store, LocalStore):
        for path in [*(store.root / folder for folder in folders), store.root]:
            # The folder is not empty if another process has started a build there.
            with contextlib.suppress(OSError):
                path.rmdir()


def _first_without_gap(versions: Sequence[int]) -> int:
    """Return the position of the oldest version after which no version is missing.

    A writer that is killed while it moves versions can leave one that was expired meanwhile.
    """
    gaps = [at for at in range(1, len(versions)) if versions[at] != versions[at - 1] + 1]
    return gaps[-1] if gaps else 0


def _limit(older_than: OlderThan) -> tuple[float, dt.timedelta | None]:
    """Return the time, in seconds since 1970, before which versions are removed, and the age that this means."""
    if isinstance(older_than, dt.datetime):
        if older_than.tzinfo is None:
            raise ValueError("older_than is a datetime without a time zone; add one, such as datetime.UTC")
        return older_than.timestamp(), None
    if isinstance(older_than, (int, float)) and not isinstance(older_than, bool):
        try:
            older_than = dt.timedelta(days=older_than)
        except (OverflowError, ValueError):
            raise ValueError(f"older_than is out of range: {older_than} days; pass a number such as 7") from None
    if not isinstance(older_than, dt.timedelta):
        raise TypeError(
            "older_than must be a number of days, a timedelta or a datetime, such as timedelta(days=7), "
            f"not {older_than!r}"
        )
    if older_than < dt.timedelta(0):
        raise ValueError(
            f"older_than is negative ({older_than / dt.timedelta(days=1):g} days); pass the age in days from which "
            "versions are removed, such as 7, or 0 to remove all versions but the newest"
        )
    # Compute in seconds, because a date a million days ago is out of range.
    return time.time() - older_than.total_seconds(), older_than


def _parts(log: Log, versions: Iterable[int]) -> dict[str, int]:
    """Return the files that some versions reference, with their sizes. Skip damaged versions."""
    sizes: dict[str, int] = {}
    for version in versions:
        with contextlib.suppress(FileNotFoundError, FormatError):
            sizes |= {part.name: part.size for part in log.read(version).parts() if part.name}
    return sizes


def _young(stored: Sequence[Stored], garbage_age: dt.timedelta) -> tuple[Remaining, ...]:
    if not stored:
        return ()
    until = max(file.modified for file in stored) + garbage_age.total_seconds()
    them, they = ("it", "it") if len(stored) == 1 else ("them", "they")
    reason = f"no version uses {them}, but {they} may belong to a build that is still running"
    return (Remaining(len(stored), sum(file.size for file in stored), reason, _datetime_of(until)),)


def _of_versions(log: Log, kept: Sequence[tuple[int, Stored]], span: dt.timedelta | None) -> list[Remaining]:
    """Return the files that only these earlier versions reference."""
    newest = log.newest()
    needed = {part.name for part in newest.parts()} if newest is not None else set()
    sizes = {name: size for name, size in _parts(log, [version for version, _ in kept]).items() if name not in needed}
    if not kept or not sizes:
        return []
    which = "an earlier version uses them" if len(kept) == 1 else f"{len(kept)} earlier versions use them"
    until = None if span is None else _datetime_of(max(stored.modified for _, stored in kept) + span.total_seconds())
    reason = f"{which}; expire_index(older_than=0) removes them now"
    return [Remaining(len(sizes), sum(sizes.values()), reason, until)]


def _datetime_of(seconds: float) -> dt.datetime | None:
    with contextlib.suppress(OverflowError, ValueError, OSError):
        return dt.datetime.fromtimestamp(seconds, dt.UTC)
    return None

"""Find the versions of an index, at its current location or where an older version of the package stored it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from parsieve.errors import IndexNotFoundError
from parsieve.index.log.commit import Commit, TableState
from parsieve.index.log.log import Log
from parsieve.index.log.parts import naming_remedy
from parsieve.io.store.base import NoStore, Store
from parsieve.io.store.local import LocalStore
from parsieve.io.store.open import open_store
from parsieve.lake.base import Lake, Snapshot

# Plans neither write nor remove versions.
if TYPE_CHECKING:
    from parsieve.index.log.garbage import OlderThan
    from parsieve.index.reports import DropReport, ExpireReport


def stores_of(lake: Lake, storage_options: Mapping[str, str] | None) -> tuple[Any, Store | None]:
    """Return where to store the index of a table by default, and where older versions of the package stored it."""
    places = lake.places()
    before = None if places.before is None else open_store(places.before, storage_options)
    return NoStore(places.problem) if places.home is None else places.home, before


class Versions:
    """The versions of the index of a table."""

    def __init__(
        self,
        where: Any,
        storage_options: Mapping[str, str] | None = None,
        before: Store | None = None,
        problem: str = "",
    ) -> None:
        """Build new indexes in a store, unless there is a problem with its location.

        An older version of the package may have stored the index in `before`.
        """
        self._problem = problem
        self._home = Log(open_store(where, storage_options))
        self._before = None if before is None else Log(before)
        # Where the newest version is.
        self.log = self._home

    def newest(self) -> Commit | None:
        """Read the newest version, and use its location from now on. An old index is used until it is dropped."""
        home = self._home.newest()
        if self._before is None or (home is not None and not home.is_empty):
            self.log = self._home
            return home
        before = self._before.newest()
        if before is None:
            # No process builds an index there any more, so do not look again.
            self._before = None
        if before is None or before.is_empty:
            self.log = self._home
            return home
        self.log = self._before or self._home
        return before

    def at(self, newest: Commit, as_of: Snapshot | TableState | int | str) -> Commit:
        """Return the version for a snapshot of the table: the one with its id, else the last one not after its instant.

        If there is no such version, return the newest one.
        """
        if isinstance(as_of, (Snapshot, TableState)):
            table = TableState(as_of.id, as_of.instant)
        else:
            table = TableState(as_of, as_of if isinstance(as_of, int) else -1)
        if table.id is not None and newest.table.id == table.id:
            return newest
        best: int | None = None
        for versions in self._history(newest):
            with_id = (version for version, state in versions if table.id is not None and state.id == table.id)
            before = (version for version, state in versions if state.instant <= table.instant)
            best = next(with_id, next(before, None))
            if best is not None:
                # An earlier version could only cover more files, and is not worth further requests.
                break
        if best is None or best == newest.version:
            return newest
        try:
            return self.log.read(best)
        except FileNotFoundError:
            return newest

    def _history(self, commit: Commit) -> Iterator[Sequence[tuple[int, TableState]]]:
        """Yield the versions with their table states, newest first: those that one file lists at a time."""
        yield [(commit.version, commit.table), *commit.history]
        while commit.history:
            try:
                commit = self.log.read(commit.history[-1][0])
            except FileNotFoundError:
                return
            yield commit.history

    def check_place(self) -> None:
        """Raise `ValueError` if no index of the table must be written to the location."""
        if self._problem:
            raise ValueError(self._problem)

    @contextmanager
    def drafting(self) -> Iterator[Log]:
        """Yield a log to commit to, and remove the files of a build that fails."""
        from parsieve.index.log.drafts import drafting

        self.check_place()
        self.log.store.require_writable()
        with naming_remedy(), drafting(self.log) as log:
            yield log

    def drop(self, columns: Sequence[str | Sequence[str]] | None = None, schema: pa.Schema | None = None) -> DropReport:
        """Drop some columns, or all of them, and remove the files that are no longer needed.

        `columns` are names in `schema`. Without a schema, they are the names in the index.
        """
        from parsieve.index.log import retention

        report = retention.drop(self.log, columns, schema)
        self._tidy()
        return report

    def expire(self, older_than: OlderThan, garbage_age: dt.timedelta) -> ExpireReport:
        """Remove old versions, and files that no version references. The newest version stays."""
        from parsieve.index.log import retention

        report = retention.expire(self.log, older_than, garbage_age)
        if self._before is not None and self._before is not self.log:
            # Also remove files of the old location that were too young when the index there was dropped.
            report = report.plus(retention.expire(self._before, older_than, garbage_age))
        self._tidy()
        return report

    def _tidy(self) -> None:
        """Remove the rest of a dropped index inside the table's folder, where other readers would find it."""
        from parsieve.index.log import retention

        before = None if self._before is None else self._before.store
        if isinstance(before, LocalStore):
            retention.remove_empty_index(before)
        if self._problem:
            retention.remove_empty_index(self._home.store)

    def not_found(self) -> IndexNotFoundError:
        """Return the error for a method that needs an index."""
        return IndexNotFoundError(f"{self.log.store} holds no index; build one first")

    @property
    def cost(self) -> tuple[int, int]:
        """Return the requests made and the bytes read so far, at all locations."""
        stores = [self._home.store, *([] if self._before is None else [self._before.store])]
        return sum(store.requests for store in stores), sum(store.bytes_fetched for store in stores)

"""`TableIndex`: the versions of a table's index in a store, by version and by the table's snapshots."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

from parsieve import _core
from parsieve.errors import IndexNotFoundError
from parsieve.index import inspect
from parsieve.index.accounts import Account
from parsieve.index.bloom import build as bloom
from parsieve.index.log import retention
from parsieve.index.log.commit import Commit, Log, TableState
from parsieve.index.log.drafts import drafting
from parsieve.index.log.renewals import Renewed
from parsieve.index.reports import DropReport, ExpireReport
from parsieve.index.sieve import build, update
from parsieve.index.sieve import compact as upkeep
from parsieve.index.view import View
from parsieve.io.store.base import NoStore, Store
from parsieve.io.store.local import LocalStore
from parsieve.io.store.open import open_store
from parsieve.lake.base import Lake, Location, Snapshot

Column = str | Sequence[str]


class TableIndex:
    """An index in a folder or an object store; there need be none yet.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> from parsieve.index import TableIndex, query
    >>> from parsieve.lake import open_lake
    >>> folder = tempfile.mkdtemp()
    >>> for name, keys in [("a", [1, 5]), ("b", [3, 9])]:
    ...     pq.write_table(pa.table({"k": keys}), f"{folder}/{name}.parquet")
    >>> lake = open_lake(folder)
    >>> index = TableIndex(folder + "/_parsieve")
    >>> view = index.build(lake, lake.snapshot(), ["k"])
    >>> [location.group for location in view.lookup("k", query.equals(pa.scalar(3)))]
    ['b.parquet']
    """

    def __init__(
        self, where: Any, storage_options: Mapping[str, str] | None = None, *, before: Store | None = None
    ) -> None:
        self.store: Store = open_store(where, storage_options)
        self.log = Log(self.store)
        # Where a new index goes, and where an older version of the package may have stored one.
        self._home = self.log
        self._before = None if before is None else Log(before)
        self._newest: View | None = None

    @classmethod
    def of(cls, lake: Lake, where: Any = None, storage_options: Mapping[str, str] | None = None) -> Self:
        """The index of a table, at the place that the caller names, or else at the one that its format has for it."""
        if isinstance(where, cls):
            return where
        if where is not None:
            return cls(where, storage_options)
        places = lake.places()
        before = None if places.before is None else open_store(places.before, storage_options)
        home = NoStore(places.problem) if places.home is None else places.home
        return cls(home, storage_options, before=before)

    @classmethod
    def open(cls, where: Any, storage_options: Mapping[str, str] | None = None) -> Self | None:
        """The index in a store, or None where there is none. A damaged newest version is an error that names it."""
        index = cls(where, storage_options)
        return index if index.refresh() is not None else None

    def newest(self) -> View | None:
        """The newest version that was seen, or looked for if none was; None where there is none."""
        return self._newest or self.refresh()

    def refresh(self) -> View | None:
        """Look for the newest version. What was read of it before is kept.

        An index that an older version of the package stored elsewhere is used until it is dropped.
        """
        commit = self._look()
        if commit is None:
            self._newest = None
        elif self._newest is None or self._newest.commit != commit:
            self._newest = self._view(commit)
        return self._newest

    def _look(self) -> Commit | None:
        """The newest version, and from now on the place where it is."""
        home = self._home.newest()
        if self._before is None or (home is not None and not home.is_empty):
            self._use(self._home)
            return home
        before = self._before.newest()
        if before is None:
            # Nobody builds one there any more, so this is asked only once.
            self._before = None
        if before is None or before.is_empty:
            self._use(self._home)
            return home
        self._use(self._before or self._home)
        return before

    def _use(self, log: Log) -> None:
        if log is not self.log:
            self.log, self.store, self._newest = log, log.store, None

    @property
    def cost(self) -> tuple[int, int]:
        """Requests made and bytes read so far, at all of its places."""
        stores = {id(one): one for one in (self.store, self._home.store, self._before and self._before.store) if one}
        return sum(one.requests for one in stores.values()), sum(one.bytes_fetched for one in stores.values())

    def _view(self, commit: Commit) -> View:
        return View(self.store, commit, self.refresh)

    def at(self, as_of: Snapshot | TableState | int | str | None = None) -> View | None:
        """The version that was made for a snapshot of the table: by its name, else the last one not after its instant.

        Any version is safe to ask, for tokens decide what it may speak of; this one knows most.
        """
        newest = self.newest()
        if newest is None or as_of is None:
            return newest
        if isinstance(as_of, (Snapshot, TableState)):
            wanted = TableState(as_of.id, as_of.instant)
        else:
            wanted = TableState(as_of, as_of if isinstance(as_of, int) else -1)
        if wanted.id is not None and newest.table.id == wanted.id:
            return newest
        best: int | None = None
        for version, state in self._history(newest.commit):
            if wanted.id is not None and state.id == wanted.id:
                best = version
                break
            if best is None and state.instant <= wanted.instant:
                best = version
        if best is None or best == newest.version:
            return newest
        try:
            return self._view(self.log.read(best))
        except FileNotFoundError:
            return newest

    def _history(self, commit: Commit) -> Iterator[tuple[int, TableState]]:
        yield commit.version, commit.table
        while commit.history:
            yield from commit.history
            try:
                commit = self.log.read(commit.history[-1][0])
            except FileNotFoundError:
                return

    def build(
        self,
        lake: Lake,
        snapshot: Snapshot,
        columns: Sequence[Column],
        *,
        memory: int = 1 << 30,
        threads: int | None = None,
        progress: bool | None = None,
        spill: Path | str | None = None,
        options: _core.SieveOptions | None = None,
        account: Account | None = None,
    ) -> View:
        """Index some columns of a snapshot in one scan. At most `memory` of the rows is held, the rest is spilled.

        Files that changed within one tick of the filesystem's clock are waited for once, see `settle`.
        """
        effort = build.Effort(memory, threads, progress, spill, options)
        account = account or Account()
        snapshot = account.settle(lake, snapshot)
        with self._drafting() as log:
            view = self._now(build.build(log, account.watch(lake), snapshot, columns, effort))
        account.warn(self.store)
        return view

    def build_bloom(
        self,
        lake: Lake,
        snapshot: Snapshot,
        columns: Sequence[Column],
        *,
        fpp: float = 0.01,
        memory: int = 1 << 30,
        threads: int | None = None,
        account: Account | None = None,
    ) -> View:
        """Fill a Bloom filter for each location and column, in one scan: it answers for keys alone.

        `memory` bounds the bytes of filters that are held at once; finished ones wait in temporary files. The filter of
        a single slice must fit, and what reading the files takes comes on top.
        """
        effort = build.Effort(memory, threads)
        account = account or Account()
        snapshot = account.settle(lake, snapshot)
        with self._drafting() as log:
            view = self._now(bloom.build(log, account.watch(lake), snapshot, columns, effort, fpp))
        account.warn(self.store)
        return view

    def update(
        self,
        lake: Lake,
        snapshot: Snapshot,
        *,
        differences: Mapping[Location, update.Difference] | None = None,
        memory: int = 1 << 30,
        threads: int | None = None,
        progress: bool | None = None,
        spill: Path | str | None = None,
        compaction: bool = True,
        renewed: Renewed | None = None,
        account: Account | None = None,
    ) -> View:
        """Bring every column to a snapshot: only slices that are new or changed are read.

        A location with a `Difference` from the version that is indexed is not read at all, nor is one that had the same
        rows by the indexed token, as `renewed` tells.
        """
        effort = build.Effort(memory, threads, progress, spill)
        account = account or Account()
        snapshot = account.settle(lake, snapshot)
        watched = account.watch(lake)
        with self._drafting() as log:
            updated = update.update(log, watched, snapshot, effort, differences, compaction, renewed)
            view = self._now(bloom.update(log, watched, snapshot, effort, renewed) or updated)
        account.warn(self.store)
        return view

    def compact(self, columns: Sequence[Column] | None = None, options: _core.SieveOptions | None = None) -> View:
        """Make one base of each column's base and deltas. Older versions keep theirs."""
        with self._drafting() as log:
            return self._now(upkeep.compact(log, columns, options))

    def _drafting(self) -> AbstractContextManager[Log]:
        self.store.require_writable()
        return drafting(self.store)

    def drop(self, columns: Sequence[Column] | None = None) -> DropReport:
        """Forget some columns, or all of them, and remove the files that nobody needs any more."""
        report = retention.drop(self.log, columns)
        self._tidy()
        self.refresh()
        return report

    def expire(
        self,
        older_than: retention.OlderThan = retention.OLDER_THAN,
        garbage_age: dt.timedelta = retention.GARBAGE_AGE,
    ) -> ExpireReport:
        """Remove old versions, and files that no version names. The newest version stays."""
        report = retention.expire(self.log, older_than, garbage_age)
        if self._before is not None and self._before is not self.log:
            # What was dropped there, but was too young to be removed then.
            report = report.plus(retention.expire(self._before, older_than, garbage_age))
        self._tidy()
        return report

    def _tidy(self) -> None:
        """Remove what a dropped index leaves below a plain folder, where it would be in the way of other readers."""
        before = None if self._before is None else self._before.store
        if isinstance(before, LocalStore):
            retention.vanish(before)

    def look(self) -> View | None:
        """`refresh` for who looks at the index itself: what the disk or the network says against it is named."""
        try:
            return self.refresh()
        except OSError as error:
            raise _core.ParsieveError(f"the index in {self.store} cannot be read: {error}") from error

    @property
    def is_empty(self) -> bool:
        """Whether the version that was seen last, if any, indexes no column."""
        return self._newest is None or self._newest.commit.is_empty

    def verify(self, lake: Lake | None = None, snapshot: Snapshot | None = None) -> list[inspect.IndexProblem]:
        """Read every part of the newest version, and with a lake every row; what is damaged, missing or wrong."""
        view = self.look()
        if view is None or view.commit.is_empty:
            raise IndexNotFoundError(f"{self.store} holds no index; build one first")
        return inspect.verify(view, lake, snapshot)

    def stats(self, column: Column) -> inspect.IndexStats:
        """What a column's index costs, and what its answers waste."""
        view = self.newest()
        if view is None:
            raise IndexNotFoundError(f"{self.store} holds no index; build one first")
        return inspect.stats(view, column)

    def _now(self, commit: Commit) -> View:
        self._newest = self._view(commit)
        return self._newest

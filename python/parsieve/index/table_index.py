"""`TableIndex`: the index of a table in a store, with its versions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from parsieve import _core
from parsieve.index.build.expired import ResultT, repeat_if_expired
from parsieve.index.log.garbage import GARBAGE_AGE, OLDER_THAN, OlderThan
from parsieve.index.log.versions import Versions, stores_of
from parsieve.index.view import View
from parsieve.io.store.open import open_store

# Plans need none of the modules that build and change an index, so these are imported where they are used.
if TYPE_CHECKING:
    import pyarrow as pa

    from parsieve.index.accounts import Account
    from parsieve.index.build.renewals import Renewed
    from parsieve.index.inspect import IndexProblem, IndexStats
    from parsieve.index.log.commit import Commit, Layout, TableState, TextContent
    from parsieve.index.log.log import Log
    from parsieve.index.reports import DropReport, ExpireReport
    from parsieve.index.scan.units import Unit
    from parsieve.index.sieve.delta import Differences
    from parsieve.io.store.base import Store
    from parsieve.lake.base import ColumnPath, Lake, Snapshot

Column = str | Sequence[str]


class TableIndex:
    """The index in a folder or an object store. The index need not exist yet.

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
        self,
        where: Any,
        storage_options: Mapping[str, str] | None = None,
        *,
        before: Store | None = None,
        problem: str = "",
    ) -> None:
        """Open a location. If there is a `problem` with it, the index there can be read and dropped, not changed."""
        self._versions = Versions(where, storage_options, before, problem)
        self._newest: View | None = None

    @classmethod
    def of(cls, lake: Lake, where: Any = None, storage_options: Mapping[str, str] | None = None) -> Self:
        """Return the index of a table at a location, or at the default location for its format."""
        if isinstance(where, cls):
            return where
        if where is not None:
            store = open_store(where, storage_options)
            return cls(store, problem=lake.problem_with_index(store))
        home, before = stores_of(lake, storage_options)
        return cls(home, storage_options, before=before)

    @classmethod
    def open(cls, where: Any, storage_options: Mapping[str, str] | None = None) -> Self | None:
        """Open an existing index; return None if there is none. Raises an error if the newest version is damaged."""
        index = cls(where, storage_options)
        return index if index.refresh() is not None else None

    @property
    def loaded(self) -> View | None:
        """The newest version that was loaded, without loading one."""
        return self._newest

    def newest(self) -> View | None:
        """Return the newest version that was loaded, or load it; None if there is no index."""
        return self._newest or self.refresh()

    def refresh(self) -> View | None:
        """Load the newest version. If it is already loaded, its cache is kept.

        If an older version of the package stored the index elsewhere, that index is used until it is dropped.
        """
        commit = self._versions.newest()
        if commit is None:
            self._newest = None
        elif self._newest is None or self._newest.store is not self.store or self._newest.commit != commit:
            self._newest = self._view(commit)
        return self._newest

    @property
    def log(self) -> Log:
        """Return the log of the index, where its newest version is."""
        return self._versions.log

    @property
    def store(self) -> Store:
        """Return the store of the index, where its newest version is."""
        return self.log.store

    @property
    def cost(self) -> tuple[int, int]:
        """Return the requests made and the bytes read so far, at all locations of the index."""
        return self._versions.cost

    def check_place(self) -> None:
        """Raise `ValueError` if no index of the table must be written to the location."""
        self._versions.check_place()

    def at(self, as_of: Snapshot | TableState | int | str | None = None) -> View | None:
        """Return the version for a snapshot of the table: the one with its id, else the last one not after its instant.

        Any version gives correct answers, because it answers only for slices with the tokens it is bound to. This
        version covers the most slices.
        """
        newest = self.newest()
        if newest is None or as_of is None:
            return newest
        commit = self._versions.at(newest.commit, as_of)
        return newest if commit is newest.commit else self._view(commit)

    def _view(self, commit: Commit) -> View:
        return View(self.store, commit, self.refresh)

    def _view_of_newest(self, commit: Commit) -> View:
        self._newest = self._view(commit)
        return self._newest

    def _draft(self, work: Callable[[Log], ResultT]) -> ResultT:
        """Return the result of `work`, which commits to a log. Repeat it if another process expired its version."""

        def draft(_: View | None) -> ResultT:
            with self._versions.drafting() as log:
                return work(log)

        return repeat_if_expired(self, draft)

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
        layouts: Mapping[ColumnPath, Layout] | None = None,
        options: Mapping[str, Any] | None = None,
        account: Account | None = None,
        operation: str = "build",
    ) -> View:
        """Build a Sieve index of some columns of a snapshot in one scan. Rows that exceed `memory` are spilled to disk.

        If files changed within the last tick of the filesystem's clock, this waits for one tick. `options` are further
        arguments of `SieveOptions`.
        """
        from parsieve.index.accounts import Account
        from parsieve.index.local_executor import LocalExecutor
        from parsieve.index.sieve.build import build as build_sieve

        account = account or Account()
        snapshot = account.settle(lake, snapshot)
        with self._versions.drafting() as log:
            executor = LocalExecutor(
                log.store, memory=memory, threads=threads, progress=progress, spill=spill, options=options
            )
            view = self._view_of_newest(
                build_sieve(log, account.watch(lake), snapshot, columns, executor, layouts=layouts, operation=operation)
            )
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
        """Build a Bloom index of some columns in one scan: a filter for each slice and column, which answers for keys.

        `memory` bounds the bytes of filters in memory; finished filters wait in temporary files. The filter of a single
        slice must fit, and reading the files takes additional memory.
        """
        from parsieve.index.accounts import Account
        from parsieve.index.bloom.build import build as build_bloom
        from parsieve.index.local_executor import LocalExecutor

        account = account or Account()
        snapshot = account.settle(lake, snapshot)
        with self._versions.drafting() as log:
            executor = LocalExecutor(log.store, memory=memory, threads=threads)
            view = self._view_of_newest(build_bloom(log, account.watch(lake), snapshot, columns, executor, fpp=fpp))
        account.warn(self.store)
        return view

    def build_text(
        self,
        lake: Lake,
        snapshot: Snapshot,
        columns: Sequence[Column],
        *,
        content: TextContent = "trigrams",
        units: Mapping[ColumnPath, Unit] | None = None,
        fpp: float = 0.02,
        memory: int = 1 << 30,
        threads: int | None = None,
        account: Account | None = None,
    ) -> View:
        """Build a text index of some columns in one scan: a filter of trigrams or words for each unit and column.

        `units` are files unless given. `fpp` is the false positive rate of a trigram or a word, and `memory` bounds the
        bytes of filters as in `build_bloom`.
        """
        from parsieve.index.accounts import Account
        from parsieve.index.local_executor import LocalExecutor
        from parsieve.index.text.build import build as build_text

        account = account or Account()
        snapshot = account.settle(lake, snapshot)
        with self._versions.drafting() as log:
            executor = LocalExecutor(log.store, memory=memory, threads=threads)
            version = build_text(
                log, account.watch(lake), snapshot, columns, executor, units=units, fpp=fpp, content=content
            )
            view = self._view_of_newest(version)
        account.warn(self.store)
        return view

    def map_pages(
        self,
        lake: Lake,
        snapshot: Snapshot,
        pages: bool | None = True,
        *,
        progress: bool | None = None,
        spill: Path | str | None = None,
        account: Account | None = None,
    ) -> View:
        """Build the map of pages of the index, so that readers need no footers, or drop it (False).

        None brings the existing map to the snapshot. If there is none, it builds one if the files of the table are in
        an object store and the index has format 2.
        """
        from parsieve.index.accounts import Account
        from parsieve.index.local_executor import LocalExecutor
        from parsieve.index.pages import maintain

        account = account or Account()
        snapshot = account.settle(lake, snapshot)

        def ensure(log: Log) -> maintain.MappedVersion:
            executor = LocalExecutor(log.store, progress=progress, spill=spill)
            return maintain.ensure(log, lake, snapshot, executor, pages)

        mapped = self._draft(ensure)
        account.leave_unmapped(mapped.left_out)
        if mapped.version is None:
            raise self._versions.not_found()
        return self._view_of_newest(mapped.version)

    def update(
        self,
        lake: Lake,
        snapshot: Snapshot,
        *,
        differences: Differences | None = None,
        memory: int = 1 << 30,
        threads: int | None = None,
        progress: bool | None = None,
        spill: Path | str | None = None,
        compaction: bool = True,
        renewed: Renewed | None = None,
        account: Account | None = None,
    ) -> View:
        """Bring every column, and the map of pages, to a snapshot. Only new and changed slices are read.

        A slice with a `Difference` from the indexed token is not read, nor is one that `renewed` has with the indexed
        token, because it still has the same rows.
        """
        from parsieve.index.accounts import Account
        from parsieve.index.bloom.update import update as update_bloom
        from parsieve.index.local_executor import LocalExecutor
        from parsieve.index.pages import maintain
        from parsieve.index.sieve.update import compact_overgrown
        from parsieve.index.sieve.update import update as update_sieve

        account = account or Account()
        snapshot = account.settle(lake, snapshot)
        watched = account.watch(lake)

        def update(log: Log) -> Commit:
            executor = LocalExecutor(
                log.store, memory=memory, threads=threads, progress=progress, spill=spill, label="update"
            )
            version = update_sieve(
                log, watched, snapshot, executor, differences=differences, renewed=renewed, compaction=False
            )
            if compaction:
                again = account.of_compaction().watch(lake)
                version = compact_overgrown(log, again, snapshot, executor, version)
            version = update_bloom(log, watched, snapshot, executor, renewed=renewed) or version
            mapped = maintain.update(log, lake, snapshot, executor)
            account.leave_unmapped(mapped.left_out)
            return mapped.version or version

        before = self.newest()
        view = self._view_of_newest(self._draft(update))
        account.note_dropped(before, view, snapshot)
        account.warn(self.store)
        return view

    def compact(
        self,
        lake: Lake | None = None,
        snapshot: Snapshot | None = None,
        columns: Sequence[Column] | None = None,
        *,
        purge: bool = False,
        memory: int = 1 << 30,
        threads: int | None = None,
        progress: bool | None = None,
        options: Mapping[str, Any] | None = None,
        account: Account | None = None,
    ) -> View:
        """Replace the base and the deltas of each column by one base. Older versions keep their files.

        A column in format 2 without stored keys needs the table: slices of the snapshot that still have the indexed
        tokens are read again. With `purge`, all of them are. A slice that the table no longer has in this version is
        not covered afterwards. The map of pages gets the files that a new build would write, without reading the table.
        """
        from parsieve.index.accounts import Account
        from parsieve.index.local_executor import LocalExecutor
        from parsieve.index.pages import maintain
        from parsieve.index.sieve.compact import compact as compact_sieve

        account = account or Account()
        watched = None if lake is None else account.watch(lake)

        def compact(log: Log) -> Commit:
            executor = LocalExecutor(
                log.store, memory=memory, threads=threads, progress=progress, label="compact", options=options
            )
            rewrite = options is not None
            version = compact_sieve(log, executor, columns, watched, snapshot, rewrite=rewrite, purge=purge)
            return maintain.compact(log, purge=purge) or version

        view = self._view_of_newest(self._draft(compact))
        account.warn(self.store)
        return view

    def drop(self, columns: Sequence[Column] | None = None, schema: pa.Schema | None = None) -> DropReport:
        """Drop some columns, or all of them, and remove the files that are no longer needed.

        `columns` are names in a schema, or without one, names in the index.
        """
        report = self._versions.drop(columns, schema)
        self.refresh()
        return report

    def expire(
        self,
        older_than: OlderThan = OLDER_THAN,
        garbage_age: dt.timedelta = GARBAGE_AGE,
    ) -> ExpireReport:
        """Remove old versions, and files that no version references. The newest version stays."""
        return self._versions.expire(older_than, garbage_age)

    def look(self, schema: pa.Schema | None = None) -> View | None:
        """Load the newest version, with the names that its columns have in a schema, if one is given.

        Errors of the disk or the network become errors that name the store.
        """
        try:
            view = self.refresh()
            return None if view is None else view.named(schema)
        except OSError as error:
            raise _core.ParsieveError(f"the index in {self.store} cannot be read: {error}") from error

    def require(self) -> View:
        """Load the newest version. Raises `IndexNotFoundError` if there is no index."""
        view = self.look()
        if view is None or view.commit.is_empty:
            raise self._versions.not_found()
        return view

    @property
    def is_empty(self) -> bool:
        """Return whether there is no index, or the loaded version indexes no column."""
        return self._newest is None or self._newest.commit.is_empty

    def verify(self, lake: Lake | None = None, snapshot: Snapshot | None = None) -> list[IndexProblem]:
        """Read every part of the newest version, and return its problems. With a lake, also look up every row."""
        from parsieve.index import inspect

        self.require()
        return repeat_if_expired(
            self, lambda view: inspect.verify(view or self.require(), lake, snapshot), is_broken=bool
        )

    def stats(self, column: Column, schema: pa.Schema | None = None) -> IndexStats:
        """Return the size and precision of a column's index. `column` is a name in a schema, or else in the index."""
        from parsieve.index import inspect

        def stats(view: View | None) -> IndexStats:
            if view is None:
                raise self._versions.not_found()
            return inspect.stats(view.named(schema), column)

        return repeat_if_expired(self, stats)

"""What a table does with its index: builds it, keeps it up to date, looks at it and drops it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from parsieve._typing import ColumnName
from parsieve.advice import Advice, advise_column
from parsieve.index.accounts import Account, bound_tokens
from parsieve.index.bloom import fields_of
from parsieve.index.expiry import OLDER_THAN
from parsieve.index.index import TableIndex
from parsieve.index.inspect import IndexStats
from parsieve.index.lies import IndexProblem
from parsieve.index.renewals import Renewals
from parsieve.index.reports import BuildReport, CompactReport, DropReport, ExpireReport, UpdateReport
from parsieve.index.sizes import lookup_bytes, stored_bytes
from parsieve.lake.base import ColumnPath, Lake

# From so many files on, "auto" measures whether an index pays.
FEW_FILES = 8


class IndexedTable:
    """The methods of `parsieve.Table` that are about its index."""

    _lake: Lake
    _index: TableIndex

    def _paths(self, columns: ColumnName | Sequence[ColumnName], schema: pa.Schema) -> list[ColumnPath]:
        raise NotImplementedError

    def build_index(
        self,
        columns: ColumnName | Sequence[ColumnName],
        kind: str = "auto",
        *,
        memory: int = 1 << 30,
        threads: int | None = None,
        progress: bool | None = None,
        expose: ColumnName | Sequence[ColumnName] = (),
    ) -> BuildReport:
        """Index some columns in one scan of the table.

        An index that a column has of the same kind is replaced. One of the other kind stays, so that a "bloom" index
        beside a "sieve" index is "both"; `drop_index` removes it.

        Returns a report of what was built, how large it is, and which files it leaves out; `print` it for a summary.
        `report.columns` has the kind of each column: "sieve", "bloom", "both", or "none" where "auto" built nothing,
        and `report.notes` says why. Files that were written a moment ago are waited for, at most one tick of the
        filesystem's clock.

        Args:
            columns: A name, a tuple of names below structs, or a list of those.
            kind: "sieve" answers keys and intervals exactly; "bloom" keeps a filter for each file, which answers keys
                alone and rejects those that do not exist; "both" is both, in a scan each; "auto" builds for each column
                what `advise` recommends without queries, which may be nothing.
            memory: Bytes of rows that are held at once; the rest is spilled to the disk.
            threads: None is as many as the machine has.
            progress: A bar on standard error; None shows it if that is a terminal.
            expose: Those of the columns that may be indexed though files encrypt them. The index tells their values to
                whoever can read it; without this, such a column is `UnsupportedError`.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> table = ps.open_table(folder)
        >>> report = table.build_index("id")
        >>> report.columns, report.files, report.rows, report.left_out
        ({'id': 'sieve'}, 1, 2, ())
        """
        if kind not in ("auto", "sieve", "bloom", "both"):
            raise ValueError(f'the kinds of index are "sieve", "bloom", "both" and "auto", not {kind!r}')
        account = Account()
        self._index.refresh()
        snapshot = self._lake.snapshot()
        paths = self._paths(columns, snapshot.schema)
        if not paths:
            raise ValueError("name at least one column to index")
        snapshot = account.settle(self._lake, snapshot)
        lake = self._lake.exposing(self._paths(expose, snapshot.schema))
        chosen = dict.fromkeys(paths, "sieve" if kind == "auto" else kind)
        # A sample of few files says nothing.
        notes = []
        if kind == "auto" and len(snapshot.slices) >= FEW_FILES:
            advice = {path: advise_column(lake, snapshot, path) for path in paths}
            chosen = {path: one.recommendation for path, one in advice.items()}
            notes = [_why_none(one) for one in advice.values() if one.recommendation == "none"]
        sieves = [path for path, one in chosen.items() if one in ("sieve", "both")]
        blooms = [path for path, one in chosen.items() if one in ("bloom", "both")]
        # Of both nothing is built where one cannot be.
        fields_of(snapshot.schema, blooms)
        if sieves:
            self._index.build(
                lake, snapshot, sieves, memory=memory, threads=threads, progress=progress, account=account
            )
        if blooms:
            self._index.build_bloom(lake, snapshot, blooms, memory=memory, threads=threads, account=account)
        return account.built(self._index.newest() if sieves or blooms else None, chosen, notes)

    def update_index(
        self,
        *,
        memory: int = 1 << 30,
        threads: int | None = None,
        progress: bool | None = None,
        compact: bool | None = None,
        expose: ColumnName | Sequence[ColumnName] = (),
    ) -> UpdateReport:
        """Bring the index up to date with the table: only files that are new or changed are read.

        Returns a report of what was read and which files are left out; `print` it for a summary. Files that were
        written a moment ago are waited for, at most one tick of the filesystem's clock.

        `compact` tells whether the index is compacted at once. None does so where a lake's table is copied on write, or
        has just been compacted itself: no file has logs or deletes above it. Otherwise it waits until what updates
        added costs readers more than a compaction.

        A file whose filters alone are others since, by `add_filters` or `drop_filters`, is not read either.
        Files that encrypt an indexed column stay unread, and so are kept by every plan, unless `expose` names it.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> table = ps.open_table(folder)
        >>> report = table.build_index("id")
        >>> pq.write_table(pa.table({"id": [2, 7]}), folder + "/part-1.parquet")
        >>> report = table.update_index()
        >>> report.files_read, report.rows, report.files_unchanged
        (1, 2, 1)
        """
        self._index.refresh()
        account = Account()
        snapshot = account.settle(self._lake, self._lake.snapshot())
        lake = self._lake.exposing(self._paths(expose, snapshot.schema))
        renewals = Renewals.read(self._index.store, snapshot)
        effort: dict[str, Any] = {"memory": memory, "threads": threads, "progress": progress}
        before = bound_tokens(self._index.newest())
        self._index.update(lake, snapshot, **effort, renewed=renewals.tokens, account=account)
        renewals.forget()
        if compact is None:
            compact = self._lake.format != "parquet" and all(piece.clean for piece in snapshot.slices)
        view = self._index.newest()
        if compact and view is not None and any(state.deltas for state in view.columns.values()):
            self._index.compact()
        return account.updated(self._index.newest(), before, renewals.tokens)

    def compact_index(self, columns: ColumnName | Sequence[ColumnName] | None = None) -> CompactReport:
        """Merge what updates added into one set of files. Earlier versions of the index keep theirs until they expire.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> table = ps.open_table(folder)
        >>> report = table.build_index("id")
        >>> pq.write_table(pa.table({"id": [2, 7]}), folder + "/part-1.parquet")
        >>> report = table.update_index()
        >>> table.compact_index("id").updates_merged
        1
        """
        begun = time.monotonic()
        before = self._index.refresh()
        view = self._index.compact(self._named(columns))
        merged = {
            ".".join(path): len(state.deltas)
            for path, state in (before.columns.items() if before is not None else ())
            if path in view.columns and len(view.columns[path].deltas) < len(state.deltas)
        }
        sizes = stored_bytes(view.commit), lookup_bytes(view)
        return CompactReport(tuple(merged), sum(merged.values()), *sizes, time.monotonic() - begun)

    def expire_index(self, older_than: dt.timedelta | dt.datetime | float = OLDER_THAN) -> ExpireReport:
        """Remove old versions of the index, and the files that only they use.

        Returns a report of what was removed, and of what remains, why, and until when; `print` it for a summary.

        The newest version stays. So do files of no version that are younger than a day, since they may belong to a
        build that is still running; a build that fails removes its own.

        Args:
            older_than: An age, in days or as a `timedelta`, or a point in time. 0 removes all versions but the newest.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> table = ps.open_table(folder)
        >>> report = table.build_index("id")
        >>> report = table.build_index("id")
        >>> report = table.expire_index(older_than=0)
        >>> report.versions_removed, report.remaining
        (1, ())
        """
        self._index.refresh()
        return self._index.expire(older_than)

    def drop_index(self, columns: ColumnName | Sequence[ColumnName] | None = None) -> DropReport:
        """Drop the index of some columns, or all of it, and remove the files that nothing needs any more.

        Without `columns`, earlier versions are removed too. With `columns`, earlier versions still hold them, for
        earlier states of the table, until they expire.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> table = ps.open_table(folder)
        >>> report = table.build_index("id")
        >>> table.drop_index().columns
        ('id',)
        >>> table.index_stats()
        {}
        """
        self._index.refresh()
        return self._index.drop(self._named(columns))

    def _named(self, columns: ColumnName | Sequence[ColumnName] | None) -> list[ColumnName] | None:
        if columns is None:
            return None
        listed = [columns] if isinstance(columns, str | tuple) else list(columns)
        view = self._index.newest()
        known = set() if view is None else {*view.commit.columns, *view.commit.blooms}
        # A dot is also a part of names.
        return [(one,) if (one,) in known else one for one in listed]

    def verify_index(self) -> list[IndexProblem]:
        """Compare the index with the table by reading both; what is damaged, missing or wrong, the first lies first.

        Without an index there is nothing to compare: `IndexNotFoundError`.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> table = ps.open_table(folder)
        >>> report = table.build_index("id")
        >>> table.verify_index()
        []
        """
        return self._index.verify(self._lake.exposing(None), self._lake.snapshot())

    def index_kinds(self) -> dict[str, str]:
        """Which columns are indexed, and how: "sieve", "bloom" or "both".

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> table = ps.open_table(folder)
        >>> table.index_kinds()
        {}
        >>> _ = table.build_index("id", kind="bloom")
        >>> table.index_kinds()
        {'id': 'bloom'}
        """
        view = self._index.look()
        if view is None:
            return {}
        blooms = dict.fromkeys(view.commit.blooms, "bloom")
        found = blooms | {path: "both" if path in blooms else "sieve" for path in view.columns}
        return {".".join(path): kind for path, kind in found.items()}

    def index_stats(self) -> dict[str, IndexStats]:
        """What the index of each column costs and wastes.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> table = ps.open_table(folder)
        >>> report = table.build_index("id")
        >>> stats = table.index_stats()["id"]
        >>> stats.keys, stats.rows, stats.locations
        (2, 2, 1)
        """
        view = self._index.look()
        return {} if view is None else {".".join(path): self._index.stats(path) for path in view.columns}


def _why_none(advice: Advice) -> str:
    return f'{advice.column}: no index, {advice.why}; kind="sieve" builds one anyway'

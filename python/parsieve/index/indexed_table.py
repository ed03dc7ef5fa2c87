"""The index methods of a table: build, update, inspect and drop its index."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.index.build.expired import repeat_if_expired
from parsieve.index.log.columns import column_paths, indexed_name, listed_names
from parsieve.index.log.commit import Layout
from parsieve.index.log.garbage import OLDER_THAN
from parsieve.index.table_index import TableIndex
from parsieve.lake.base import Lake
from parsieve.observe.maintenance import maintains
from parsieve.predicate.expressions.expression import index_name

# Plans need none of the modules that build and change an index, so these are imported where they are used.
if TYPE_CHECKING:
    from parsieve._typing import ColumnName
    from parsieve.index.findings import IndexProblem
    from parsieve.index.inspect import IndexStats
    from parsieve.index.reports import (
        BuildReport,
        CompactReport,
        ConvertReport,
        DropReport,
        ExpireReport,
        UpdateReport,
    )


class TableParts(Protocol):
    """The parts of an open table that its index methods use."""

    lake: Lake
    index: TableIndex


class IndexedTable:
    """The index methods of `parsieve.Table`."""

    opened: TableParts

    @property
    def uri(self) -> str:
        """The table's folder."""
        return self.opened.lake.uri

    @maintains("build")
    def build_index(
        self,
        columns: ColumnName | Sequence[ColumnName],
        kind: str = "auto",
        *,
        memory: int = 1 << 30,
        threads: int | None = None,
        progress: bool | None = None,
        expose: ColumnName | Sequence[ColumnName] = (),
        unit: str = "auto",
        fpp: float | None = 0.02,
        keep_keys: bool = False,
        pages: bool | None = None,
    ) -> BuildReport:
        """Build an index of some columns in one scan of the table.

        This replaces an existing index of the same kind. Indexes of other kinds stay: if a column has a "sieve" index
        and you build a "bloom" index, it has "both". `drop_index` removes all of them.

        Returns a report of the kinds and sizes of the index, and of the files that it does not cover. `print` it for a
        summary. `report.columns` maps each column to the kind that was built: "sieve", "bloom", "both", "text",
        "words", or "none". It is "none" if `kind="auto"` built nothing, and `report.notes` then has the reason. If
        files were written just before the call, it waits until they can be indexed, for at most a tick of the
        filesystem's clock.

        Args:
            columns: A name, a tuple of names for a field of a struct, or a list of these.
            kind: "sieve" answers queries for keys and intervals exactly. "bloom" stores a Bloom filter for each
                file and answers only queries for keys. "both" builds both, with one scan for each.
                "text" answers queries for text inside strings: LIKE with any pattern, and regular expressions. "words"
                answers queries for whole words, such as request ids: `has_token`, and LIKE with whole words. "auto"
                builds for each column what `advise` recommends without queries, which may be nothing.
            memory: How many bytes of rows to hold in memory. The rest is spilled to disk.
            threads: The number of threads; None uses one per processor.
            progress: Whether to show a progress bar on standard error; None shows it on a terminal.
            expose: Columns to index although files encrypt them. Anyone who can read the index can read their values.
                An encrypted column that is not listed here raises `UnsupportedError`.
            unit: What a "sieve", "text" or "words" index can skip: a "file", a "row_group", or "rows". With "rows", row
                groups of more than 50,000 rows are divided every 20,000 rows. "auto" chooses for each column.
            fpp: For a Sieve index, how many units a query for a missing key may keep on average. The index stores
                fingerprints of the keys for this, unless they take more bytes than they save. None stores no
                fingerprints. For a "text" or "words" index, the rate of false positives of its filters. The filters of
                a "bloom" index always have a rate of 0.01.
            keep_keys: Whether a Sieve index stores all keys, so that `compact_index` need not read the table again.
            pages: Whether the index also has a map of the pages of all files, so that reading rows needs no footers.
                Updates keep it up to date. True builds the map, and False drops it. None keeps an existing map. If
                there is none, None builds it with a Sieve index of a table in an object store. The map contains no
                values of the table. Encrypted files and Hudi slices with log files have no entry in it.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> table = ps.open_table(folder)
        >>> report = table.build_index("id")
        >>> report.columns, report.files, report.rows, report.left_out
        ({'id': 'sieve'}, 1, 2, ())
        """
        from parsieve.filters.options import checked_fpp
        from parsieve.index.accounts import Account
        from parsieve.index.advice import advise_auto
        from parsieve.index.bloom.build import fields_of
        from parsieve.index.build.kinds import by_content, check_kind
        from parsieve.index.build.unit_choice import check_unit, choose_unit
        from parsieve.index.text.build import check_columns, units_for

        check_kind(kind)
        check_unit(unit)
        rate = None if fpp is None else checked_fpp(fpp)
        account = Account()
        self.opened.index.check_place()
        self.opened.index.refresh()
        snapshot = self.opened.lake.snapshot()
        paths = column_paths(columns, snapshot.schema)
        if not paths:
            raise ValueError("name at least one column to index")
        snapshot = account.settle(self.opened.lake, snapshot)
        lake = self.opened.lake.exposing(column_paths(expose, snapshot.schema))
        chosen = dict.fromkeys(paths, "sieve" if kind == "auto" else kind)
        advice = advise_auto(lake, snapshot, paths) if kind == "auto" else {}
        chosen |= {path: column.recommendation for path, column in advice.items()}
        notes = [
            f'{column.column}: no index, {column.why}; kind="sieve" builds one anyway'
            for column in advice.values()
            if column.recommendation == "none"
        ]
        sieves = [path for path, kind in chosen.items() if kind in ("sieve", "both")]
        blooms = [path for path, kind in chosen.items() if kind in ("bloom", "both")]
        texts = by_content(chosen)
        # Check the columns first, so that nothing is built if one of them cannot be.
        fields_of(snapshot.schema, blooms)
        check_columns(snapshot.schema, [path for texts_of in texts.values() for path in texts_of])
        units = {path: column.unit for path, column in advice.items()} if unit == "auto" else {}
        if sieves:
            layouts = {
                path: Layout(units.get(path) or choose_unit(lake, snapshot, path, unit), rate, bool(keep_keys))
                for path in sieves
            }
            self.opened.index.build(
                lake,
                snapshot,
                sieves,
                memory=memory,
                threads=threads,
                progress=progress,
                layouts=layouts,
                account=account,
            )
        if blooms:
            self.opened.index.build_bloom(lake, snapshot, blooms, memory=memory, threads=threads, account=account)
        for content, texts_of in texts.items():
            effort: dict[str, Any] = {"memory": memory, "threads": threads, "account": account}
            effort |= {
                "units": units_for(lake, snapshot, texts_of, unit) | units,
                "fpp": 0.02 if rate is None else rate,
            }
            self.opened.index.build_text(lake, snapshot, texts_of, content=content, **effort)
        if sieves or blooms or texts:
            self.opened.index.map_pages(lake, snapshot, pages, progress=progress, account=account)
        return account.built(self.opened.index.newest() if sieves or blooms or texts else None, chosen, notes)

    @maintains("update")
    def update_index(
        self,
        *,
        memory: int = 1 << 30,
        threads: int | None = None,
        progress: bool | None = None,
        compact: bool | None = None,
        expose: ColumnName | Sequence[ColumnName] = (),
    ) -> UpdateReport:
        """Bring the index, and its map of pages, up to date with the table. Reads only new and changed files.

        Returns a report of the files that were read, and of the files that are not covered. `print` it for a summary.
        If files were written just before the call, it waits until they can be indexed, for at most one tick of the
        filesystem's clock.

        `compact=True` also compacts the index, and False never does. None compacts it when the earlier updates, or the
        entries of removed files, cost readers more than a compaction. For example, it does so if a quarter of the
        entries belong to removed files. An index in format 1 is compacted after every update of a Delta, Iceberg or
        Hudi table in which no file has logs or deletes.

        If only the filters of a file changed, by `add_filters` or `drop_filters`, the file is not read again. Files
        that encrypt an indexed column are not indexed, so every plan keeps them, unless `expose` names the column.

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
        from parsieve.index.accounts import Account, bound_tokens
        from parsieve.index.build.renewals import Renewals

        self.opened.index.check_place()
        self.opened.index.refresh()
        account = Account()
        snapshot = account.settle(self.opened.lake, self.opened.lake.snapshot())
        lake = self.opened.lake.exposing(column_paths(expose, snapshot.schema))
        renewals = Renewals.read(self.opened.index.store, snapshot)
        effort: dict[str, Any] = {"memory": memory, "threads": threads, "progress": progress}
        before = repeat_if_expired(self.opened.index, bound_tokens)
        effort["compaction"] = compact is not False
        self.opened.index.update(lake, snapshot, **effort, renewed=renewals.tokens, account=account)
        renewals.forget()
        view = self.opened.index.newest()
        outdated = [] if view is None else [state for state in view.columns.values() if state.deltas]
        if compact is None:
            is_clean = snapshot.id is not None and pc.all(snapshot.slices.clean).as_py() is not False
            outdated = [state for state in outdated if state.layout is None and is_clean]
        if outdated and compact is not False:
            paths = [state.path for state in outdated]
            again = account.of_compaction()
            effort = {"memory": memory, "threads": threads, "progress": progress, "account": again}
            self.opened.index.compact(lake, snapshot, paths, **effort)
        return account.updated(self.opened.index.newest(), before, renewals.tokens)

    @maintains("compact")
    def compact_index(
        self,
        columns: ColumnName | Sequence[ColumnName] | None = None,
        purge: bool = False,
        *,
        memory: int = 1 << 30,
        threads: int | None = None,
        progress: bool | None = None,
        expose: ColumnName | Sequence[ColumnName] = (),
    ) -> CompactReport:
        """Merge the index and its updates into one set of files. Earlier versions keep their files until they expire.

        This reads the files of the table that have keys in the changed parts of the index, unless the index stores its
        keys. Files that changed since the last update are not covered afterwards, and neither are files that encrypt an
        indexed column, unless `expose` names it. A map of pages is compacted too, without reading the table.

        Args:
            columns: A name, a tuple of names for a field of a struct, or a list of these. None compacts all columns
                that the table still has.
            purge: Whether to read all files again, so that the new index has no trace of deleted rows. If you then call
                `expire_index(0)`, no version of the index contains these rows. If an indexed column was dropped from
                the table, call `update_index` first.
            memory: How many bytes of rows to hold in memory. The rest is spilled to disk.
            threads: The number of threads; None uses one per processor.
            progress: Whether to show a progress bar on standard error; None shows it on a terminal.
            expose: Columns to read although files encrypt them, as for `build_index`.

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
        from parsieve.index.accounts import Account

        self.opened.index.check_place()
        before = self.opened.index.refresh()
        account = Account()
        snapshot = self.opened.lake.snapshot()
        view = self.opened.index.compact(
            self.opened.lake.exposing(column_paths(expose, snapshot.schema)),
            snapshot,
            self._named(columns, snapshot.schema),
            purge=purge,
            memory=memory,
            threads=threads,
            progress=progress,
            account=account,
        )
        return account.compacted(before, view, snapshot)

    @maintains("convert")
    def convert_index(
        self,
        *,
        memory: int = 1 << 30,
        threads: int | None = None,
        progress: bool | None = None,
        expose: ColumnName | Sequence[ColumnName] = (),
        unit: str = "auto",
        fpp: float | None = 0.02,
        keep_keys: bool = False,
        pages: bool | None = None,
    ) -> ConvertReport:
        """Convert the Sieve indexes of this table that parsieve 0.1 built to format 2.

        Format 2 takes much less space, and can also skip row groups and ranges of rows. parsieve 0.1 cannot read it, so
        its plans then read all files. Apart from a new build, no other method changes the format of an index. The
        conversion reads the indexed columns of the table, and brings the index up to date. Bloom indexes have only one
        format.

        The arguments are the same as for `build_index`. If there is nothing to convert, they have no effect.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> table = ps.open_table(folder)
        >>> report = table.build_index("id")
        >>> print(table.convert_index())
        nothing to convert
        """
        from parsieve.filters.options import checked_fpp
        from parsieve.index.accounts import Account
        from parsieve.index.build.lost import why_lost
        from parsieve.index.build.unit_choice import check_unit, choose_unit

        check_unit(unit)
        rate = None if fpp is None else checked_fpp(fpp)
        self.opened.index.check_place()
        account = Account()
        before = self.opened.index.require()
        snapshot = account.settle(self.opened.lake, self.opened.lake.snapshot())
        before = before.named(snapshot.schema)
        in_format_1 = [state for state in before.columns.values() if state.layout is None]
        reasons = [why_lost(snapshot.schema, state) for state in in_format_1]
        lake = self.opened.lake.exposing(column_paths(expose, snapshot.schema))
        layouts = {
            state.path: Layout(choose_unit(lake, snapshot, state.path, unit), rate, bool(keep_keys))
            for state, reason in zip(in_format_1, reasons, strict=True)
            if reason is None
        }
        notes = [f"{reason}, so its index was not converted" for reason in reasons if reason is not None]
        view = None
        if layouts:
            self.opened.index.build(
                lake,
                snapshot,
                list(layouts),
                memory=memory,
                threads=threads,
                progress=progress,
                layouts=layouts,
                account=account,
                operation="convert",
            )
            view = self.opened.index.map_pages(lake, snapshot, pages, progress=progress, account=account)
        return account.converted(before, view, list(layouts), notes)

    @maintains("expire")
    def expire_index(self, older_than: dt.timedelta | dt.datetime | float = OLDER_THAN) -> ExpireReport:
        """Remove old versions of the index, and the files that only they use.

        Returns a report of the removed versions. For the remaining versions, the report says why they remain and when
        they expire. `print` it for a summary.

        The newest version stays. Files that belong to no version stay until they are a day old, because they may
        belong to a build that is still running. A build that fails removes its own files.

        Args:
            older_than: An age in days or as a `timedelta`, or a `datetime`. 0 removes all versions but the newest.

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
        self.opened.index.refresh()
        return self.opened.index.expire(older_than)

    @maintains("drop")
    def drop_index(self, columns: ColumnName | Sequence[ColumnName] | None = None) -> DropReport:
        """Drop the index of some columns, or of all columns, and remove the files that are no longer needed.

        Without `columns`, earlier versions are removed too. With `columns`, earlier versions still contain these
        columns, for earlier states of the table, until they expire.

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
        self.opened.index.refresh()
        schema = None if columns is None else self.opened.lake.schema_with_ids()
        return self.opened.index.drop(self._named(columns, schema), schema)

    def _named(
        self, columns: ColumnName | Sequence[ColumnName] | None, schema: pa.Schema | None
    ) -> list[ColumnName] | None:
        """Return the paths of indexed columns with these names in a schema."""
        if columns is None:
            return None
        listed = listed_names(columns)
        view = self.opened.index.newest()
        indexed = () if view is None else view.named(schema).commit.indexed
        # A name may contain a dot.
        names = [indexed_name(name, indexed) for name in listed]
        if view is None or all(name in indexed for name in names):
            return names
        current = self.opened.lake.snapshot().schema if schema is None else schema
        return [indexed_name(name, indexed, current) for name in names]

    def verify_index(self) -> list[IndexProblem]:
        """Read the index and the table, and return the problems of the index. Problems that could lose rows come first.

        Raises `IndexNotFoundError` if there is no index.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> table = ps.open_table(folder)
        >>> report = table.build_index("id")
        >>> table.verify_index()
        []
        """
        return self.opened.index.verify(self.opened.lake.exposing(None), self.opened.lake.snapshot())

    def index_kinds(self) -> dict[str, str]:
        """Return the indexed columns with the kind of each index: "sieve", "bloom", "both", "text" or "words".

        A column that has a text index and another one has both names, as in "sieve and text".

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
        view = self.opened.index.look(self.opened.lake.schema_with_ids())
        return {} if view is None else {index_name(path): kind for path, kind in view.kinds.items()}

    def count_uncovered(self) -> dict[str, int]:
        """Return for each indexed column how many files of the table its index does not cover.

        These files are new or changed since the last update of the index. A plan keeps each of them, unless other
        evidence rules it out.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> table = ps.open_table(folder)
        >>> _ = table.build_index("id", kind="sieve")
        >>> pq.write_table(pa.table({"id": [5]}), folder + "/part-1.parquet")
        >>> table.count_uncovered()
        {'id': 1}
        """
        view = self.opened.index.look()
        if view is None:
            return {}
        snapshot = self.opened.lake.snapshot()
        counts = view.named(snapshot.schema).count_uncovered(snapshot.slices)
        return {index_name(path): count for path, count in counts.items()}

    def index_stats(self) -> dict[str, IndexStats]:
        """Return the size and the precision of the index of each column.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> table = ps.open_table(folder)
        >>> report = table.build_index("id")
        >>> stats = table.index_stats()["id"]
        >>> stats.keys, stats.rows, stats.locations
        (2, 2, 1)
        """
        schema = self.opened.lake.schema_with_ids()
        view = self.opened.index.look(schema)
        columns = () if view is None else view.columns
        return {index_name(path): self.opened.index.stats(path, schema) for path in columns}

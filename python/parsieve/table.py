"""`open_table`: a table of Parquet files, whatever its format, and the door to its plans and its index."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa

from parsieve._core import ParsieveError
from parsieve.advice import Advice, advise_column
from parsieve.index.bloom import fields_of
from parsieve.index.index import TableIndex
from parsieve.index.inspect import Lie, Stats
from parsieve.index.renewals import Renewals
from parsieve.index.store import FOLDER
from parsieve.index.view import View
from parsieve.lake.base import AsOf, Lake, Snapshot
from parsieve.lake.detect import open_lake
from parsieve.plan import Plan
from parsieve.planning import check_arguments, make_plan, refuse_stale, report_unknown
from parsieve.predicate.expr import Expr, unknowns
from parsieve.predicate.expr import columns as columns_of
from parsieve.predicate.names import Names
from parsieve.predicate.parse import Params, parse
from parsieve.prune.footer_stats import Footers
from parsieve.prune.questions import Among, ask, leaves

ColumnName = str | tuple[str, ...]
# From so many files on, "auto" measures whether an index pays.
FEW_FILES = 8


class Table:
    """A table, from `open_table`. Threads may share it; what it learns of files is kept for the next plan."""

    def __init__(self, lake: Lake, index_location: Any = None) -> None:
        self._lake = lake
        self._footers = Footers()
        self._last: Snapshot | None = None
        place = lake.beside(FOLDER) if index_location is None else index_location
        self._index = TableIndex(place, lake.storage_options or None)

    def __repr__(self) -> str:
        return f"<parsieve.Table {self.format} {self.uri}>"

    @property
    def format(self) -> str:
        """`parquet`, `delta`, `iceberg` or `hudi`."""
        return self._lake.format

    @property
    def uri(self) -> str:
        """The table's folder."""
        return self._lake.uri

    @property
    def schema(self) -> pa.Schema:
        """The columns that the table has now."""
        return self._lake.snapshot().schema

    def plan(
        self,
        where: Any = None,
        as_of: AsOf = None,
        *,
        keys: Mapping[Any, Any] | None = None,
        row_groups: bool | None = None,
        timezone: str | None = None,
        stale: Literal["keep", "error"] = "keep",
        params: Params | None = None,
        on_unknown: Literal["warn", "error", "ignore"] = "warn",
    ) -> Plan:
        """Find the files, and row groups in them, that can hold a row for which `where` is true.

        Args:
            where: SQL text, a pyarrow or Polars expression, or `[(column, op, value)]` tuples; None is every row.
            as_of: The format's own name of a state (Delta version, Iceberg snapshot id, Hudi instant), or a `datetime`.
            keys: Arrow columns by the names of columns that must have one of their values (a semi-join).
            row_groups: Read footers to judge row groups too. None reads them where nothing else is known of a file.
            timezone: Where the clocks stand of literals that name no zone, beside columns that have one.
            stale: What to do where the index of a column does not hold the table as it is. "keep" keeps the files that
                it does not know; "error" raises `StaleIndexError` if any is left, for jobs that must not be slow. Where
                the table has no index at all, no file is known.
            params: The values of `?` in SQL text, as a list, or of `:name`, as a dict.
            on_unknown: What to do with a part of `where` that parsieve does not understand and that therefore skips no
                file. "warn" emits a `ParsieveWarning` that says how to write it, "error" raises `UnsupportedError`.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> for part in range(3):
        ...     ids = range(part * 100, part * 100 + 100)
        ...     pq.write_table(pa.table({"id": ids}), f"{folder}/part-{part}.parquet")
        >>> plan = ps.open_table(folder).plan("id = 142")
        >>> [path.rpartition("/")[2] for path in plan.files]
        ['part-1.parquet']
        >>> plan.to_arrow()["id"].to_pylist()
        [142]
        """
        if stale not in ("keep", "error"):
            raise ValueError(f'stale is "keep" or "error", not {stale!r}')
        check_arguments(as_of, on_unknown)
        plan = self._plan(self._snapshot(as_of), where, keys, row_groups, timezone, params)
        report_unknown(plan, on_unknown)
        if stale == "error":
            refuse_stale(plan, not self._index.is_empty)
        return plan

    def _plan(
        self,
        snapshot: Snapshot,
        where: Any,
        keys: Mapping[Any, Any] | None = None,
        row_groups: bool | None = None,
        timezone: str | None = None,
        params: Params | None = None,
    ) -> Plan:
        """The same on a snapshot that is at hand."""
        store = self._index.store
        before = store.requests, store.bytes_fetched
        view, notes = self._view(snapshot)
        plan = make_plan(
            self._lake, snapshot, self._footers, view, where, keys, row_groups, timezone, notes, params=params
        )
        plan._count(store.requests - before[0], store.bytes_fetched - before[1])
        return plan

    def _snapshot(self, as_of: AsOf) -> Snapshot:
        """A snapshot; while nothing changes its slices are the same objects, by which others know what they know."""
        snapshot = self._lake.snapshot(as_of)
        last = self._last
        if last is not None and snapshot.slices is not last.slices and _same_slices(last, snapshot):
            snapshot = replace(snapshot, slices=last.slices)
        self._last = snapshot
        return snapshot

    def _view(self, snapshot: Snapshot) -> tuple[View | None, list[str]]:
        """The index as it knows most of a snapshot; what is wrong with it costs speed and nothing else."""
        try:
            self._index.refresh()
            return self._index.at(snapshot), []
        except (ParsieveError, OSError) as error:
            return None, [f"the index cannot be used: {error}"]

    def build_index(
        self,
        columns: ColumnName | Sequence[ColumnName],
        kind: str = "auto",
        *,
        memory: int = 1 << 30,
        threads: int | None = None,
        progress: bool | None = None,
        expose: ColumnName | Sequence[ColumnName] = (),
    ) -> dict[str, str]:
        """Index some columns in one scan of the table; an index that they have is replaced.

        Returns what was built for each column: "sieve", "bloom", "both", or "none" where "auto" found that none pays.

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
        >>> table.build_index("id")
        {'id': 'sieve'}
        >>> list(table.index_stats())
        ['id']
        """
        if kind not in ("auto", "sieve", "bloom", "both"):
            raise ValueError(f'the kinds of index are "sieve", "bloom", "both" and "auto", not {kind!r}')
        snapshot = self._lake.snapshot()
        paths = self._paths(columns, snapshot.schema)
        if not paths:
            raise ValueError("name at least one column to index")
        lake = self._lake.exposing(self._paths(expose, snapshot.schema))
        chosen = dict.fromkeys(paths, "sieve" if kind == "auto" else kind)
        # A sample of few files says nothing.
        if kind == "auto" and len(snapshot.slices) >= FEW_FILES:
            chosen = {path: advise_column(lake, snapshot, path).recommendation for path in paths}
        sieves = [path for path, one in chosen.items() if one in ("sieve", "both")]
        blooms = [path for path, one in chosen.items() if one in ("bloom", "both")]
        # Of both nothing is built where one cannot be.
        fields_of(snapshot.schema, blooms)
        if sieves:
            self._index.build(lake, snapshot, sieves, memory=memory, threads=threads, progress=progress)
        if blooms:
            self._index.build_bloom(lake, snapshot, blooms, memory=memory, threads=threads)
        return {".".join(path): one for path, one in chosen.items()}

    def advise(
        self,
        columns: ColumnName | Sequence[ColumnName] | None = None,
        queries: Sequence[Any] = (),
        *,
        expose: ColumnName | Sequence[ColumnName] = (),
        timezone: str | None = None,
    ) -> list[Advice]:
        """Tell what an index of each column would cost and save, by a sample of the table's files.

        Args:
            columns: None is those of the queries, and without queries all that can be indexed.
            queries: Predicates as `plan` takes them. Without any, keys and intervals both count.
            expose: Columns that would be indexed though files encrypt them, as for `build_index`.
            timezone: Where the clocks stand of literals in `queries` that name no zone, as for `plan`.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> for part in range(9):
        ...     pq.write_table(pa.table({"id": range(part, 900, 9), "n": [7] * 100}), f"{folder}/part-{part}.parquet")
        >>> [(one.column, one.recommendation) for one in ps.open_table(folder).advise()]
        [('id', 'sieve'), ('n', 'none')]
        """
        snapshot = self._lake.snapshot()
        asked = [parse(one, snapshot.schema, timezone) for one in ([queries] if isinstance(queries, str) else queries)]
        if columns is not None:
            paths = self._paths(columns, snapshot.schema)
        elif asked:
            paths = list(dict.fromkeys(column.path for one in asked for column in columns_of(one)))
            if not paths:
                raise ValueError(f"no column is asked for by what is understood of the queries{_left_out(asked)}")
        else:
            paths = [(field.name,) for field in snapshot.schema if not pa.types.is_nested(field.type)]
        intervals = {leaf.column.path for one in asked for leaf in leaves(ask(one)) if not isinstance(leaf, Among)}
        lake = self._lake.exposing(self._paths(expose, snapshot.schema))
        return [advise_column(lake, snapshot, path, ranges=not asked or path in intervals) for path in paths]

    def _paths(self, columns: ColumnName | Sequence[ColumnName], schema: pa.Schema) -> list[tuple[str, ...]]:
        # A name may be empty; `()` is no columns.
        listed = [columns] if columns != () and isinstance(columns, str | tuple) else list(columns)
        names = Names(schema)
        return [names.find([one] if isinstance(one, str) else one).path for one in listed]

    def update_index(
        self,
        *,
        memory: int = 1 << 30,
        threads: int | None = None,
        progress: bool | None = None,
        compact: bool | None = None,
        expose: ColumnName | Sequence[ColumnName] = (),
    ) -> None:
        """Bring the index to the table as it is now: only files that are new or changed are read.

        `compact` tells whether the index is compacted at once. None does so where a lake's table is copied on write, or
        has just been compacted itself: no file has logs or deletes above it. Otherwise it waits until what updates
        added costs readers more than a compaction.

        A file whose filters alone are others since, by `add_filters` or `drop_filters`, is not read either.
        Files that encrypt an indexed column stay unread, and so are kept by every plan, unless `expose` names it.

        >>> import tempfile, time, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> time.sleep(0.1)  # A file of this very moment might still change unseen, and is not bound.
        >>> table = ps.open_table(folder)
        >>> table.build_index("id")
        {'id': 'sieve'}
        >>> pq.write_table(pa.table({"id": [2, 7]}), folder + "/part-1.parquet")
        >>> time.sleep(0.1)
        >>> table.update_index()
        >>> table.index_stats()["id"].locations
        2
        """
        self._index.refresh()
        snapshot = self._lake.snapshot()
        lake = self._lake.exposing(self._paths(expose, snapshot.schema))
        renewals = Renewals.read(self._index.store, snapshot)
        effort: dict[str, Any] = {"memory": memory, "threads": threads, "progress": progress}
        self._index.update(lake, snapshot, **effort, renewed=renewals.tokens)
        renewals.forget()
        if compact is None:
            compact = self._lake.format != "parquet" and all(piece.clean for piece in snapshot.slices)
        view = self._index.newest()
        if compact and view is not None and any(state.deltas for state in view.columns.values()):
            self._index.compact()

    def compact_index(self, columns: ColumnName | Sequence[ColumnName] | None = None) -> None:
        """Make one file set of what updates added. Earlier versions of the index keep theirs until they expire.

        >>> import tempfile, time, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> time.sleep(0.1)  # A file of this very moment might still change unseen, and is not bound.
        >>> table = ps.open_table(folder)
        >>> table.build_index("id")
        {'id': 'sieve'}
        >>> pq.write_table(pa.table({"id": [2, 7]}), folder + "/part-1.parquet")
        >>> time.sleep(0.1)
        >>> table.update_index()
        >>> table.compact_index("id")
        >>> table.index_stats()["id"].deltas
        0
        """
        self._index.refresh()
        self._index.compact(self._named(columns))

    def expire_index(self, older_than: dt.timedelta | dt.datetime) -> tuple[int, int]:
        """Remove old versions of the index, and files that no version names; how many of each.

        The newest version stays, and so do files that are younger than a day, which somebody may be about to name.

        >>> import tempfile, time, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> time.sleep(0.1)  # A file of this very moment might still change unseen, and is not bound.
        >>> table = ps.open_table(folder)
        >>> table.build_index("id")
        {'id': 'sieve'}
        >>> table.build_index("id")
        {'id': 'sieve'}
        >>> import datetime
        >>> table.expire_index(older_than=datetime.timedelta(0))
        (1, 0)
        """
        return self._index.expire(older_than)

    def drop_index(self, columns: ColumnName | Sequence[ColumnName] | None = None) -> None:
        """Forget the index of some columns, or of all of them.

        >>> import tempfile, time, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> time.sleep(0.1)  # A file of this very moment might still change unseen, and is not bound.
        >>> table = ps.open_table(folder)
        >>> table.build_index("id")
        {'id': 'sieve'}
        >>> table.drop_index("id")
        >>> table.index_stats()
        {}
        """
        self._index.refresh()
        self._index.drop(self._named(columns))

    def _named(self, columns: ColumnName | Sequence[ColumnName] | None) -> list[ColumnName] | None:
        if columns is None:
            return None
        listed = [columns] if isinstance(columns, str | tuple) else list(columns)
        view = self._index.newest()
        known = set() if view is None else {*view.commit.columns, *view.commit.blooms}
        # A dot is also a part of names.
        return [(one,) if (one,) in known else one for one in listed]

    def verify_index(self) -> list[Lie]:
        """Compare the index with the table by reading both; what is damaged, missing or wrong, the first lies first.

        Without an index there is nothing to compare: `IndexNotFoundError`.

        >>> import tempfile, time, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> time.sleep(0.1)  # A file of this very moment might still change unseen, and is not bound.
        >>> table = ps.open_table(folder)
        >>> table.build_index("id")
        {'id': 'sieve'}
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

    def index_stats(self) -> dict[str, Stats]:
        """What the index of each column costs and wastes.

        >>> import tempfile, time, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 9]}), folder + "/part-0.parquet")
        >>> time.sleep(0.1)  # A file of this very moment might still change unseen, and is not bound.
        >>> table = ps.open_table(folder)
        >>> table.build_index("id")
        {'id': 'sieve'}
        >>> stats = table.index_stats()["id"]
        >>> stats.keys, stats.rows, stats.locations
        (2, 2, 1)
        """
        view = self._index.look()
        return {} if view is None else {".".join(path): self._index.stats(path) for path in view.columns}


def _same_slices(one: Snapshot, other: Snapshot) -> bool:
    """Whether the slices of two snapshots are the same files with the same live rows, read by the same schema."""
    if len(one.slices) != len(other.slices) or not one.schema.equals(other.schema, check_metadata=True):
        return False
    pairs = zip(one.slices, other.slices, strict=True)
    return all(a is b or (a.same_rows(b) and a.group == b.group and a.partition == b.partition) for a, b in pairs)


def open_table(
    source: Any,
    format: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    index_location: Any = None,
    decryption: Any = None,
) -> Table:
    """The table at a path or URI, in a `(filesystem, path)` pair, or that of a `DeltaTable` or a pyiceberg `Table`.

    Plain folders of Parquet files (hive-partitioned or not), Delta Lake, Iceberg and Hudi are told apart by what lies
    in the folder, or by `format`. The index lies in `_parsieve` below the table, or at `index_location`.

    A plain folder is every file below it, whatever its name, but those whose names begin with `_` or a dot. A single
    file is a table too, whose index lies at `index_location`; patterns of names and lists of files are none.
    `storage_options` have obstore's names for a plain folder (`aws_region`, `aws_endpoint`, `aws_allow_http`), and
    those of its library for a lake's table.

    `decryption` are the keys of a plain folder's encrypted files: a dict of `footer_key`, `column_keys` and
    `aad_prefix`; or `(kms, connection)`, a `KmsClient`, or the function that makes one, and the `KmsConnectionConfig`
    of pyarrow's `CryptoFactory`; or `FileKeys`, by which footers and filters are read, and no rows.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [1, 2]}), folder + "/part-0.parquet")
    >>> ps.open_table(folder).format
    'parquet'
    """
    return Table(open_lake(source, format, storage_options, decryption), index_location)


def _left_out(asked: Sequence[Expr]) -> str:
    parts = [f"{part.text!r} is not ({part.reason})" for one in asked for part in unknowns(one)]
    return "".join(f"; {part}" for part in parts)


def advise(
    table: Any,
    columns: ColumnName | Sequence[ColumnName] | None = None,
    queries: Sequence[Any] = (),
    *,
    decryption: Any = None,
    expose: ColumnName | Sequence[ColumnName] = (),
    timezone: str | None = None,
) -> list[Advice]:
    """What an index of each column of a table would cost and save, before it is built; see `Table.advise`.

    `table` is one from `open_table`, or whatever that takes, `decryption` the keys of its files.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(9):
    ...     pq.write_table(pa.table({"id": range(part, 900, 9)}), f"{folder}/part-{part}.parquet")
    >>> [advice] = ps.advise(folder, queries=["id = 42"])
    >>> round(advice.minmax_reads), round(advice.sieve_reads)
    (9, 1)
    """
    opened = table if isinstance(table, Table) else open_table(table, decryption=decryption)
    return opened.advise(columns, queries, expose=expose, timezone=timezone)

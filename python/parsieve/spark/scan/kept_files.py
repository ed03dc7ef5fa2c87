"""The planner's verdicts for the files that Spark lists: what it does not know, or not in that version, is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow.compute as pc

from parsieve.lake.base import AsOf, Lake, Slice, Snapshot
from parsieve.plan.plan import Plan
from parsieve.predicate.bind import bind
from parsieve.spark.pushdown.catalyst import Filter
from parsieve.spark.pushdown.conditions import Types
from parsieve.spark.scan.file_index import ListedPath
from parsieve.table import Table


class Keeper:
    """Which files a query needs, by the plan of its filter: a `Keep` for the file lists of one DataFrame."""

    def __init__(
        self, spark: Any, table: Table, types: Types, as_of: AsOf = None, also: Sequence[pc.Expression] = ()
    ) -> None:
        """`as_of` is the state that Spark reads; a plain folder is looked at anew at every query.

        `also` are conditions that every row will have to meet of which Spark's scan knows nothing.
        """
        self._spark = spark
        self._table = table
        self._types = types
        self._as_of = as_of
        self._also = tuple(also)
        self._last: Snapshot | None = None
        # Of a plain folder: its files as they were before Spark listed them, and as the last query found them.
        self._before: Snapshot | None = None
        self._now: Snapshot | None = None
        # What the last query was answered by; None where it asked nothing that is understood.
        self.plan: Plan | None = None

    def listed_after(self, snapshot: Snapshot) -> None:
        """Take a state of a plain folder for one that Spark's list is not older than."""
        self._before = snapshot

    def stale(self, paths: Collection[str]) -> set[str]:
        """Those of the paths that are not proven to be the files that Spark listed.

        Spark goes by the sizes in its list: of a longer file that took a listed one's place it would miss rows.
        """
        if self._before is None:
            return set()
        now, self._now = self._now or self._table.opened.snapshot(None), None
        tokens = _tokens(now)
        # The very same slices while nothing changes.
        before = tokens if now.slices is self._before.slices else _tokens(self._before)
        names = {path: comparable(path) for path in paths}
        return {path for path, name in names.items() if name in tokens and (tokens[name] or None) != before.get(name)}

    def __call__(self, paths: Sequence[str], where: Filter) -> set[str]:
        """Those of the paths that can hold a row for which the filter is true, and those that are not known."""
        self.plan = None
        where = where._replace(parts=(*where.parts, *self._also))
        if not where.parts:
            return set(paths)
        snapshot = self._snapshot(paths)
        # It moves what other writers stored as INT96 by the session's zone.
        moments = self._spark.conf.get("spark.sql.parquet.int96TimestampConversion", "false") == "false"
        expr = self._types.question(where, snapshot.schema, moments)
        if expr is None:
            return set(paths)
        self.plan = self._table.opened.plan(bind(expr, snapshot.schema), snapshot)
        return kept(paths, self.plan, None if self._as_of is None else str(self._as_of))

    def _snapshot(self, paths: Sequence[str]) -> Snapshot:
        """The table's state that explains the listed files best; whatever it does not explain is read."""
        lake = self._table.opened.lake
        if lake.format == "parquet":
            # Files may be replaced under their names, so that only their state of now says anything of them.
            self._now = self._table.opened.snapshot(None)
            return self._now
        if self._last is None:
            self._last = self._table.opened.snapshot(None if lake.format == "iceberg" else self._as_of)
            if lake.format == "iceberg" and self._last.id != self._as_of:
                # The current snapshot has the schema of today, another one that of its time.
                self._last = self._table.opened.snapshot(self._as_of)
        elif lake.format == "hudi" and self._as_of is None:
            before = _explained(paths, lake, self._last)
            if before < len(paths):
                now = self._table.opened.snapshot(None)
                if _explained(paths, lake, now) > before:
                    self._last = now
        return self._last

    def __eq__(self, other: object) -> bool:
        # Files that are left out by what Spark asks never change an answer: beside conditions that Spark does not know,
        # tables and states are all that tells two apart.
        return isinstance(other, Keeper) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self._table.format, self._table.uri, str(self._as_of), *map(id, self._also)


def kept(paths: Sequence[str], plan: Plan, instant: str | None = None) -> set[str]:
    """The paths but those that are, as they are listed, files that the plan skips.

    `instant` is that at which Spark reads a Hudi table, if not the latest.
    """
    chosen = set(plan.record.kept)
    pieces = plan.record.snapshot.slices
    alive = {comparable(piece.path) for number, piece in enumerate(pieces) if number in chosen and piece.path}
    skipped = {
        name: piece
        for number, piece in enumerate(pieces)
        if number not in chosen and piece.path and (name := comparable(piece.path)) not in alive
    }
    return {
        path
        for path in paths
        if (piece := skipped.get(comparable(path))) is None or not is_listed(plan.record.lake, piece, path, instant)
    }


def _tokens(snapshot: Snapshot) -> dict[str, str]:
    return {comparable(piece.path): piece.token for piece in snapshot.slices if piece.path}


def _explained(paths: Sequence[str], lake: Lake, snapshot: Snapshot) -> int:
    known = {comparable(piece.path): piece for piece in snapshot.slices if piece.path}
    return sum((piece := known.get(comparable(path))) is not None and is_listed(lake, piece, path) for path in paths)


def is_listed(lake: Lake, piece: Slice, path: str, instant: str | None = None) -> bool:
    """Whether a path, which is that of the slice's base file, was listed for this very version of the slice."""
    if lake.format != "hudi":
        return True
    from parsieve.lake.hudi.table import has_logs

    # The base file stays the same while logs come and are merged into what is read of it.
    logs = path.logs if isinstance(path, ListedPath) else None
    return logs is not None and has_logs(piece, logs, instant)


def comparable(path: str) -> str:
    """A path, the same for the names that engines have for one store."""
    return re.sub(r"^s3[an]://", "s3://", path)

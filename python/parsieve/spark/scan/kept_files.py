"""Keep the files that Spark lists for a query, except the ones that the planner skips."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pyarrow.compute as pc

from parsieve.lake.base import AsOf, Slice, Snapshot
from parsieve.plan.open_table import OpenTable
from parsieve.plan.record import PlanRecord
from parsieve.predicate.bind import bind
from parsieve.spark.pushdown.catalyst import Filter
from parsieve.spark.pushdown.conditions import Types
from parsieve.spark.pushdown.int96 import reads_timestamps
from parsieve.spark.scan.file_index import Kept

# Whether Spark listed a path for this version of the slice, whose base file has that path.
IsSameVersion = Callable[[Slice, str], bool]


class Keeper:
    """A `Keep` that plans the query's filter on a fixed state of the table.

    The formats whose state can change between two queries of a DataFrame override `_snapshot`.
    """

    def __init__(
        self, spark: Any, table: OpenTable, types: Types, as_of: AsOf, also: Sequence[pc.Expression] = ()
    ) -> None:
        """`as_of` is the state that Spark reads.

        `also` contains conditions that the caller will apply to every row, and that Spark's scan does not know.
        """
        self._spark = spark
        self._table = table
        self._types = types
        self._as_of = as_of
        self._also = tuple(also)
        self._planned_on: Snapshot | None = None

    def __call__(self, paths: Sequence[str], where: Filter) -> Kept:
        """Return the paths that may contain a match, and the paths that the plan does not know."""
        where = Filter(where.sql, where.expression, (*where.parts, *self._also))
        if not where.parts:
            return self._kept(paths)
        snapshot = self._snapshot(paths)
        predicate = self._types.predicate(where, snapshot.schema, reads_timestamps(self._spark))
        if predicate is None:
            return self._kept(paths, snapshot)
        plan = self._table.plan(bind(predicate, snapshot.schema), snapshot).record
        return self._kept(without_skipped(paths, plan, self._version_check()), snapshot, plan)

    def _kept(self, paths: Collection[str], snapshot: Snapshot | None = None, plan: PlanRecord | None = None) -> Kept:
        """Return the paths that a query must read, with the state that it was planned on, if any."""
        return Kept(frozenset(paths), plan)

    def _snapshot(self, paths: Sequence[str]) -> Snapshot:
        """Return the state of the table to plan on, given the paths that Spark listed."""
        if self._planned_on is None:
            self._planned_on = self._table.snapshot(self._as_of)
        return self._planned_on

    def _version_check(self) -> IsSameVersion | None:
        """Return what tells whether Spark listed a path in the version of its slice; None if paths tell."""
        return None

    def __eq__(self, other: object) -> bool:
        # Skipping files by Spark's own filter never changes the rows. Only the table, its state and the conditions
        # that Spark does not know do.
        return isinstance(other, Keeper) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self._table.lake.format, self._table.lake.uri, str(self._as_of), *map(id, self._also)


def without_skipped(paths: Sequence[str], plan: PlanRecord, is_same_version: IsSameVersion | None = None) -> set[str]:
    """Return all listed paths except those that the plan skips in the version that Spark listed."""
    kept = set(plan.kept)
    slices = plan.snapshot.slices
    known = [path and comparable(path) for path in slices.path.to_pylist()]
    kept_paths = {known[number] for number in kept}
    skipped = {
        path: number for number, path in enumerate(known) if number not in kept and path and path not in kept_paths
    }

    def is_skipped(path: str) -> bool:
        number = skipped.get(comparable(path))
        return number is not None and (is_same_version is None or is_same_version(slices[number], path))

    return {path for path in paths if not is_skipped(path)}


def comparable(path: str) -> str:
    """Return a path with the scheme that all engines have for the same store."""
    return re.sub(r"^s3[an]://", "s3://", path)

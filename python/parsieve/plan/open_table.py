"""`OpenTable`: what `parsieve.Table` works on. It takes snapshots, finds the index for them and makes plans."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from parsieve._core import ParsieveError
from parsieve.index.build.expired import is_expired
from parsieve.index.table_index import TableIndex
from parsieve.index.view import View
from parsieve.lake.base import AsOf, Lake, Snapshot
from parsieve.observe import spans
from parsieve.plan.evidence.footers import Footers
from parsieve.plan.make import DEFAULTS, PlanOptions, make_plan
from parsieve.plan.plan import Plan
from parsieve.plan.telemetry import attributes_of, count_plan, log_plan
from parsieve.predicate.bind import BoundPredicate

if TYPE_CHECKING:
    from parsieve._typing import IndexLocation


class OpenTable:
    """An open table: its lake, its index, and the footers that plans have read. Threads may share it."""

    def __init__(self, lake: Lake, index: TableIndex, footers: Footers | None = None) -> None:
        self.lake = lake
        self.index = index
        self.footers = Footers() if footers is None else footers
        self._last: Snapshot | None = None

    @classmethod
    def of(cls, lake: Lake, index_location: IndexLocation | TableIndex = None) -> Self:
        """Open the table of a lake, with its index at a location. None is the default location."""
        return cls(lake, TableIndex.of(lake, index_location, lake.storage_options or None))

    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        """Return the table's current state, or an earlier one.

        If the table is unchanged, the snapshot has the same `slices` object as the last one. Caches compare it by
        identity.
        """
        snapshot = self.lake.snapshot(as_of)
        last = self._last
        if last is not None and snapshot.slices is not last.slices and _same_slices(last, snapshot):
            snapshot = replace(snapshot, slices=last.slices)
        self._last = snapshot
        return snapshot

    @property
    def last_snapshot(self) -> Snapshot | None:
        """The last state that was read, without reading it again."""
        return self._last

    def view(self, snapshot: Snapshot) -> tuple[View | None, list[str]]:
        """Return the index version that covers most of a snapshot, and problems with the index.

        A broken index makes a plan slower, but not wrong.
        """
        try:
            self.index.refresh()
            return self.index.at(snapshot), []
        except (ParsieveError, OSError) as error:
            return None, [f"the index cannot be used: {error}"]

    def is_expired(self, view: View) -> bool:
        """Return whether another process removed an index version that this process uses."""
        try:
            return is_expired(self.index, view)
        except (ParsieveError, OSError):
            return False

    def plan(self, bound: BoundPredicate, snapshot: Snapshot, options: PlanOptions = DEFAULTS) -> Plan:
        """Plan a predicate on a snapshot of this table."""
        started = time.perf_counter()
        with spans.span("parsieve.plan") as attributes:
            plan = make_plan(self, snapshot, bound, options)
            seconds = time.perf_counter() - started
            count_plan(plan.record, seconds)
            if attributes is not None:
                attributes |= attributes_of(plan.record)
        log_plan(plan.record, seconds)
        return plan


def _same_slices(earlier: Snapshot, later: Snapshot) -> bool:
    """Return whether two snapshots have the same files with the same live rows and the same schema."""
    return earlier.schema.equals(later.schema, check_metadata=True) and earlier.slices.same_rows(later.slices)

"""A table as an engine sees it: its columns stay the same, and each query plans on the table's current state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa

from parsieve.errors import ConflictError
from parsieve.lake.base import AsOf, Snapshot
from parsieve.observe.logs import PLAN
from parsieve.plan.open_table import OpenTable
from parsieve.plan.pickling import restore_table, table_state
from parsieve.plan.plan import Plan
from parsieve.predicate.bind import BoundPredicate
from parsieve.predicate.builder import explain_unknown
from parsieve.predicate.expr import Computed, element_tests
from parsieve.predicate.normalize import understood_part, without_expressions
from parsieve.predicate.parse import parse


@dataclass(frozen=True)
class LiveTable:
    """An open table with the columns that an engine knows, and the state that its queries see."""

    opened: OpenTable
    as_of: AsOf
    schema: pa.Schema
    # The state that all queries see. None is the state at the time of each query.
    pinned: Snapshot | None = None

    @classmethod
    def of(cls, opened: OpenTable, as_of: AsOf = None, *, pin: bool = False) -> Self:
        """Return a table with the columns that it has now."""
        snapshot = opened.snapshot(as_of)
        return cls(opened, as_of, snapshot.schema, snapshot if pin else None)

    @property
    def uri(self) -> str:
        """The table's folder."""
        return self.opened.lake.uri

    def pin(self) -> Self:
        """Return the same table in the state that it has now, for several queries."""
        return self if self.pinned is not None else replace(self, pinned=self.snapshot(self.schema.names))

    def snapshot(self, names: Sequence[str]) -> Snapshot:
        """Return the state that a query sees, which has the same types of some columns as the engine knows."""
        if self.pinned is not None:
            return self.pinned
        snapshot = self.opened.snapshot(self.as_of)
        for name in names if snapshot.schema is not self.schema else ():
            index = snapshot.schema.get_field_index(name)
            if index < 0 or snapshot.schema.field(index).type != self.schema.field(name).type:
                change = "no longer exists" if index < 0 else f"is now of type {snapshot.schema.field(index).type}"
                raise ConflictError(f"column {name} of {self.uri} {change}: the table has changed; open it again")
        return snapshot

    def plan(self, snapshot: Snapshot, predicate: Any) -> Plan:
        """Plan the parts of a predicate that parsieve understands. The engine must filter the rows again."""
        bound = BoundPredicate(parse(predicate, snapshot.schema, filtered_again=True))
        for part in bound.unknown:
            PLAN.debug("%s", explain_unknown(part))
        plan = self.opened.plan(BoundPredicate(understood_part(bound.expr)), snapshot)
        if not any(isinstance(test, Computed) for test in element_tests(plan.record.expr)):
            return plan
        # The engine computes expressions itself, also of values about which engines disagree.
        return Plan(replace(plan.record, expr=without_expressions(plan.record.expr)))

    def __reduce__(self) -> tuple[Any, ...]:
        if self.pinned is not None:
            raise TypeError(
                f"cannot pickle {self.uri} in a pinned state; open it in the other process, with as_of= if its format "
                "has a history"
            )
        return _restore, (*table_state(self.opened.lake, self.opened.index, self.uri), self.as_of, self.schema)


def _restore(opening: Any, store: Any, as_of: AsOf, schema: pa.Schema) -> LiveTable:
    return LiveTable(restore_table(OpenTable.of, opening, store), as_of, schema)

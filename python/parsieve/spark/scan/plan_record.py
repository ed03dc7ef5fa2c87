"""What Spark needs to know of a plan. Goes away when plans have a public record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parsieve.lake.base import Lake, Snapshot
from parsieve.plan.plan import Plan
from parsieve.predicate.expr import Expr


@dataclass(frozen=True, eq=False)
class PlanRecord:
    """The parts of a plan that Spark reads."""

    lake: Lake
    snapshot: Snapshot
    expr: Expr
    # The numbers of the kept slices.
    kept: list[int]
    notes: list[str]
    plan: Any

    @property
    def skips(self) -> Any:
        """The verdicts on the skipped files."""
        return self.plan.skipped

    @property
    def keeps(self) -> Any:
        """The verdicts on the kept files."""
        return self.plan.kept


def record_of(plan: Plan) -> PlanRecord:
    """Return the record of a plan."""
    return PlanRecord(plan._lake, plan._snapshot, plan._expr, plan._kept, plan._notes, plan)

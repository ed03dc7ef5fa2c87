"""Remove the parts of a pushed Polars predicate that only Polars itself can evaluate."""

from __future__ import annotations

import polars as pl

# A sort with a limit sends a condition that changes while the query runs. A copy of it cannot be evaluated, and some
# versions of Polars panic. It only excludes rows that the sort would drop later, so a source may ignore it.
_DYNAMIC = "dynamic_pred"


def without_dynamic_parts(predicate: pl.Expr) -> pl.Expr | None:
    """Return a predicate without the conditions that Polars changes while a query runs. None means no condition."""
    if _DYNAMIC not in str(predicate):
        return predicate
    static = [part for part in _conjuncts(predicate) if _DYNAMIC not in str(part)]
    return pl.all_horizontal(static) if static else None


def _conjuncts(predicate: pl.Expr) -> list[pl.Expr]:
    """Return the conditions that a predicate combines with AND."""
    parts = predicate.meta.pop()
    if len(parts) != 2:
        return [predicate]
    right, left = parts
    if not ((left & right).meta.eq(predicate) or (right & left).meta.eq(predicate)):
        return [predicate]
    return [*_conjuncts(left), *_conjuncts(right)]

"""Comparisons in which NaN equals nothing and has no order, as IEEE and pyarrow have them, in the order of the form."""

from __future__ import annotations

import math

import pyarrow as pa

from parsieve.predicate.builder import Builder, Operand, never, present
from parsieve.predicate.expr import And, Expr, Operator
from parsieve.predicate.literals import Value


def compare_ieee(build: Builder, operand: Operand, op: Operator, value: Value | None) -> Expr:
    """`operand op value`, in which NaN is found by `!=` alone."""
    column = operand.column
    if value is None or not pa.types.is_floating(column.value_type):
        return build.compare(operand, op, value)
    if isinstance(value, float) and math.isnan(value):
        return present(column, f"{column} = NaN") if op == "!=" else never(column, f"{column} {op} NaN")
    compared = build.compare(operand, op, value)
    if op in (">", ">="):
        return And((compared, build.compare(operand, "!=", math.nan)))
    return compared

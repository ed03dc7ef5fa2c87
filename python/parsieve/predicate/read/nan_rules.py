"""Express comparisons of IEEE 754, where NaN equals nothing and has no order, in the typed form, where it has one."""

from __future__ import annotations

import math

import pyarrow as pa

from parsieve.predicate.builder import Builder, Operand, false_unless_null, true_unless_null
from parsieve.predicate.expr import And, Expr, Operator
from parsieve.predicate.literals import Value


def compare_ieee(build: Builder, operand: Operand, op: Operator, value: Value | None) -> Expr:
    """Build `operand op value` such that NaN matches only `!=`."""
    column = operand.column
    if value is None or not pa.types.is_floating(column.value_type):
        return build.compare(operand, op, value)
    if isinstance(value, float) and math.isnan(value):
        return (
            true_unless_null(column, f"{column} = NaN")
            if op == "!="
            else false_unless_null(column, f"{column} {op} NaN")
        )
    compared = build.compare(operand, op, value)
    if op in (">", ">="):
        return And((compared, build.compare(operand, "!=", math.nan)))
    return compared

"""Prepare a predicate for rendering: normalize it, and reject parts that were not understood."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa

from parsieve._core import UnsupportedError
from parsieve.predicate.builder import Builder, Operand
from parsieve.predicate.expr import And, AnyElement, Compare, Computed, Expr, In, Not, Or, unknowns
from parsieve.predicate.normalize import normalize

Rendered = TypeVar("Rendered")


def join_balanced(parts: Sequence[Rendered], join: Callable[[Rendered, Rendered], Rendered]) -> Rendered:
    """Join many parts as a balanced tree, because engines process expressions recursively."""
    level = list(parts)
    while len(level) > 1:
        pairs = [join(level[number], level[number + 1]) for number in range(0, len(level) - 1, 2)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def prepare(expr: Expr) -> Expr:
    """Return the normalized predicate, with explicit tests for NaN wherever NaN matches.

    The tests are necessary because pyarrow orders NaN differently, and because engines skip row groups by min/max
    statistics, which ignore NaN. Raises `UnsupportedError` if a part was not understood.
    """
    form = normalize(expr)
    check_understood(form)
    return _with_nan(form)


def check_understood(expr: Expr) -> None:
    """Raise `UnsupportedError` if a part of a normalized predicate was not understood."""
    not_understood = unknowns(expr)
    if not_understood:
        raise UnsupportedError(
            f"cannot read the rows, because {not_understood[0].text} is not understood: {not_understood[0].reason}. "
            "Filter ps.scan_polars(table) instead, or the rows of plan.files"
        )


def _with_nan(expr: Expr) -> Expr:
    match expr:
        case And(parts):
            return And(tuple(_with_nan(part) for part in parts))
        case Or(parts):
            return Or(tuple(_with_nan(part) for part in parts))
        case Compare(column, "!=" | ">" | ">=", value) if pa.types.is_floating(column.value_type):
            if math.isnan(value.scalar.as_py()):
                return expr
            return Or((expr, Builder().compare(Operand(column), "=", math.nan)))
        case Computed(condition, expression):
            return Computed(_with_nan(condition), expression)
        case AnyElement(column, condition):
            return AnyElement(column, _with_nan(condition))
        case Not(AnyElement() as test):
            return Not(_with_nan(test))
        case Not(In(column, _)) if pa.types.is_floating(column.value_type):
            return Or((expr, Builder().compare(Operand(column), "=", math.nan)))
    return expr

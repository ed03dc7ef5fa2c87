"""What all renderings begin with: the monotone form, and the refusal of what was not understood."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa

from parsieve._core import UnsupportedError
from parsieve.predicate.builder import Builder, Operand
from parsieve.predicate.expr import And, Compare, Expr, In, Not, Or, unknowns
from parsieve.predicate.normalize import normalize

Made = TypeVar("Made")


def joined(parts: Sequence[Made], join: Callable[[Made, Made], Made]) -> Made:
    """Join many parts as a flat tree, since engines walk expressions recursively."""
    made = list(parts)
    while len(made) > 1:
        pairs = [join(made[at], made[at + 1]) for at in range(0, len(made) - 1, 2)]
        made = pairs + made[len(pairs) * 2 :]
    return made[0]


def renderable(expr: Expr) -> Expr:
    """The monotone form of an expression that is understood whole.

    NaN is named wherever it is among the rows: pyarrow orders it otherwise, and every engine skips row groups by
    statistics that say nothing of it.
    """
    form = _with_nan(normalize(expr))
    found = unknowns(form)
    if found:
        raise UnsupportedError(
            f"cannot read the rows, because {found[0].text} is not understood: {found[0].reason}. Plan without this "
            "condition, and filter the rows yourself"
        )
    return form


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
        case Not(In(column, _)) if pa.types.is_floating(column.value_type):
            return Or((expr, Builder().compare(Operand(column), "=", math.nan)))
    return expr

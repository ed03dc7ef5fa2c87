"""NOT pushed down to the leaves by the logic of three values, so that evidence and engines see monotone trees only.

A row is wanted where the predicate is true; null and false are alike for that. Once no NOT stands above AND or OR,
`Always(None)` can therefore be read as false. NOT stays above leaves other than `Compare`, nowhere else.
"""

from __future__ import annotations

import math

import pyarrow as pa

from parsieve.predicate.builder import distinct
from parsieve.predicate.expr import (
    Always,
    And,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    OutOfType,
    Unknown,
)

_OPPOSITE: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def normalize(expr: Expr, types_are_certain: bool = True) -> Expr:
    """Return the monotone form, which is true for the same rows.

    Rows have the table's types, so `OutOfType` is false for all of them. Pass `types_are_certain=False` to keep these
    leaves for questions about files, which may hold other types.

    >>> import pyarrow as pa
    >>> from parsieve.predicate import normalize, parse
    >>> print(normalize(parse("NOT (a < 5 OR b IS NULL)", pa.schema({"a": pa.int64(), "b": pa.int64()}))))
    a >= 5 AND NOT (b IS NULL)
    """
    return _push(expr, False, types_are_certain)


def _push(expr: Expr, negated: bool, certain: bool) -> Expr:
    match expr:
        case And(parts) | Or(parts):
            return _join([_push(part, negated, certain) for part in parts], isinstance(expr, And) != negated)
        case Not(part):
            return _push(part, not negated, certain)
        case Always(value):
            return Always(bool(value) != negated if value is not None else False)
        case Unknown(text, reason):
            return Unknown(f"NOT ({text})", reason) if negated else expr
        case Compare(column, op, value) if negated:
            # Right with NaN too, because the order of the typed form is total.
            return Compare(column, _OPPOSITE[op], value)
        case OutOfType(column) if certain:
            return Not(IsNull(column)) if negated else Always(False)
        case leaf:
            return Not(leaf) if negated else leaf


def _join(parts: list[Expr], conjunction: bool) -> Expr:
    """AND or OR of monotone parts, flat, without constants."""
    form = And if conjunction else Or
    # Each part once, in their order.
    flat: dict[Expr, None] = {}
    for part in parts:
        if isinstance(part, Always):
            if part.value is not conjunction:
                return part
        elif isinstance(part, form):
            flat.update(dict.fromkeys(part.parts))
        else:
            flat[part] = None
    if not flat:
        return Always(conjunction)
    merged = _merged(list(flat), conjunction)
    return merged[0] if len(merged) == 1 else form(tuple(merged))


def _merged(parts: list[Expr], conjunction: bool) -> list[Expr]:
    """Merge single values: `x = 1 OR x = 2` becomes `x IN (1, 2)`, and `x != 1 AND x != 2` its opposite."""
    lists: dict[Column, list[pa.Array]] = {}
    merged: dict[Column | Expr, None] = {}
    for part in parts:
        column, values = _listed(part, conjunction) or (None, None)
        if column is None:
            merged[part] = None
        else:
            merged[column] = None
            lists.setdefault(column, []).append(values)
    return [_among(one, lists[one], conjunction) if isinstance(one, Column) else one for one in merged]


def _listed(part: Expr, conjunction: bool) -> tuple[Column, pa.Array] | None:
    """Return the values that a part compares its column with, if they can be part of a list."""
    match part:
        case Compare(column, op, value) if op == ("!=" if conjunction else "="):
            return None if _is_apart(value.scalar) else (column, pa.repeat(value.scalar, 1))
        case In(column, values) if not conjunction:
            return column, values
        case Not(In(column, values)) if conjunction:
            return column, values
    return None


def _is_apart(value: pa.Scalar) -> bool:
    """Whether a value is compared alone, since a list would not match all that is equal to it: zeros and NaN."""
    if not pa.types.is_floating(value.type):
        return False
    number = float(value.as_py())
    return number == 0 or math.isnan(number)


def _among(column: Column, lists: list[pa.Array], conjunction: bool) -> Expr:
    values = lists[0] if len(lists) == 1 else distinct(pa.concat_arrays(lists))
    if len(values) == 1:
        return Compare(column, "!=" if conjunction else "=", Literal(values[0]))
    return Not(In(column, values)) if conjunction else In(column, values)

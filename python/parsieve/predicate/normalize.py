"""Push NOT down to the leaves, so that evidence and engines get monotone predicates.

A row is selected if the predicate is true, so null has the same effect as false. Therefore `Always(None)` becomes false
once no NOT is above AND or OR. In the result, NOT occurs only directly above leaves other than `Compare`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pyarrow as pa

from parsieve.predicate.builder import distinct
from parsieve.predicate.expr import (
    Always,
    And,
    AnyElement,
    Column,
    Compare,
    Computed,
    Expr,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    OutOfType,
    Unknown,
    columns,
    walk,
)

_OPPOSITE: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def normalize(expr: Expr, types_are_certain: bool = True) -> Expr:
    """Return an equivalent predicate without NOT above AND and OR; it is true for the same rows.

    Rows have the table's types, so `OutOfType` is never true for them. Pass `types_are_certain=False` to keep these
    leaves, for files that may store other types.

    >>> import pyarrow as pa
    >>> from parsieve.predicate import normalize, parse
    >>> print(normalize(parse("NOT (a < 5 OR b IS NULL)", pa.schema({"a": pa.int64(), "b": pa.int64()}))))
    a >= 5 AND NOT (b IS NULL)
    """
    return _push(expr, False, types_are_certain)


def understood_part(expr: Expr) -> Expr:
    """Return a predicate that is true for each row for which `expr` is true, without parts that were not understood.

    >>> import pyarrow as pa
    >>> from parsieve.predicate import parse
    >>> from parsieve.predicate.normalize import understood_part
    >>> schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
    >>> print(understood_part(parse("NOT (a < 5 OR b % 2 = 1)", schema)))
    a >= 5
    """
    return _weaker(expr, lambda part: isinstance(part, Unknown))


def without_element_tests(expr: Expr) -> Expr:
    """Return a predicate that is true for each row for which `expr` is true, without tests of elements of lists."""
    return _weaker(expr, lambda part: isinstance(part.part if isinstance(part, Not) else part, AnyElement | Computed))


def without_expressions(expr: Expr) -> Expr:
    """Return a predicate that is true for each row for which `expr` is true, without conditions on expressions."""
    return _weaker(expr, lambda part: isinstance(part, Computed))


def columns_of_other_types(expr: Expr) -> list[Column]:
    """Return the columns in which a value that their type cannot represent may make the predicate true."""
    leaves = filter(_is_of_other_type, _leaves(normalize(expr, types_are_certain=False)))
    return list(dict.fromkeys(column for leaf in leaves for column in columns(leaf)))


def _leaves(form: Expr) -> Iterator[Expr]:
    """Yield the leaves of a normalized predicate, with the NOT above them."""
    if isinstance(form, And | Or):
        for part in form.parts:
            yield from _leaves(part)
    else:
        yield form


def _is_of_other_type(leaf: Expr) -> bool:
    """Return whether a leaf of a normalized predicate may be true for a value that the type cannot represent."""
    match leaf:
        case OutOfType():
            return True
        case Computed(condition):
            return any(map(_is_of_other_type, _leaves(condition)))
        case AnyElement(_, condition, key):
            return any(_is_of_other_type(part) for test in (condition, key) if test for part in _leaves(test))
        case Not(AnyElement(_, condition, key)):
            return any(isinstance(part, OutOfType) for test in (condition, key) if test for part in walk(test))
        case _:
            return False


def _weaker(expr: Expr, is_dropped: Callable[[Expr], bool]) -> Expr:
    """Return a predicate in which some leaves are true for all rows."""
    # Without NOT above AND and OR, a part that becomes true can only make more rows match. `OutOfType` stays: the
    # result also plans files that may store other types.
    return normalize(_without(normalize(expr, types_are_certain=False), is_dropped), types_are_certain=False)


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
            # This is correct for NaN too, because the order of the typed form is total.
            return Compare(column, _OPPOSITE[op], value)
        case OutOfType(column) if certain:
            return Not(IsNull(column)) if negated else Always(False)
        case Computed(condition, expression):
            # The condition has the values true, false and null for a row, like a condition on a column.
            inner = _push(condition, negated, certain)
            return inner if isinstance(inner, Always) else Computed(inner, expression)
        case AnyElement(column, condition, key) if key is not None:
            # If the condition is false for the value of the key, the negation is true.
            inner = _push(And((key, Not(condition) if negated else condition)), False, certain)
            return inner if inner == Always(False) else AnyElement(column, inner)
        case AnyElement(column, condition):
            inner = _push(condition, False, certain)
            if inner == Always(False):
                return Not(IsNull(column)) if negated else inner
            return Not(AnyElement(column, inner)) if negated else AnyElement(column, inner)
        case leaf:
            return Not(leaf) if negated else leaf


def _join(parts: list[Expr], conjunction: bool) -> Expr:
    """Join monotone parts by AND or OR, without nested joins of the same kind and without constants."""
    form = And if conjunction else Or
    # A dict keeps the order and removes duplicates.
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
    merged = _merge_values(list(flat), conjunction)
    return merged[0] if len(merged) == 1 else form(tuple(merged))


def _merge_values(parts: list[Expr], conjunction: bool) -> list[Expr]:
    """Merge single values: `x = 1 OR x = 2` becomes `x IN (1, 2)`, and `x != 1 AND x != 2` its opposite."""
    lists: dict[Column, list[pa.Array]] = {}
    merged: dict[Column | Expr, None] = {}
    for part in parts:
        column, values = _mergeable_values(part, conjunction) or (None, None)
        if column is None:
            merged[part] = None
        else:
            merged[column] = None
            lists.setdefault(column, []).append(values)
    return [_join_lists(key, lists[key], conjunction) if isinstance(key, Column) else key for key in merged]


def _mergeable_values(part: Expr, conjunction: bool) -> tuple[Column, pa.Array] | None:
    """Return the values that a part compares its column with, if they can be part of a list."""
    match part:
        case Compare(column, op, value) if op == ("!=" if conjunction else "="):
            return None if _needs_comparison(value.scalar) else (column, pa.repeat(value.scalar, 1))
        case In(column, values) if not conjunction:
            return column, values
        case Not(In(column, values)) if conjunction:
            return column, values
    return None


def _needs_comparison(value: pa.Scalar) -> bool:
    """Return whether a value cannot be in a list: a list would not match both zeros, or all NaNs."""
    if not pa.types.is_floating(value.type):
        return False
    number = float(value.as_py())
    return number == 0 or math.isnan(number)


def _join_lists(column: Column, lists: list[pa.Array], conjunction: bool) -> Expr:
    values = lists[0] if len(lists) == 1 else distinct(pa.concat_arrays(lists))
    if len(values) == 1:
        return Compare(column, "!=" if conjunction else "=", Literal(values[0]))
    return Not(In(column, values)) if conjunction else In(column, values)


def _without(expr: Expr, is_dropped: Callable[[Expr], bool]) -> Expr:
    match expr:
        case And(parts):
            return And(tuple(_without(part, is_dropped) for part in parts))
        case Or(parts):
            return Or(tuple(_without(part, is_dropped) for part in parts))
    return Always(True) if is_dropped(expr) else expr

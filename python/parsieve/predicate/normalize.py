"""NOT pushed down to the leaves by the logic of three values, so that evidence and engines see monotone trees only.

A row is wanted where the predicate is true; null and false are alike for that. Once no NOT stands above AND or OR,
`Always(None)` can therefore be read as false. NOT stays above leaves other than `Compare`, nowhere else.
"""

from __future__ import annotations

from parsieve.predicate.expr import Always, And, Compare, Expr, IsNull, Not, Operator, Or, OutOfType, Unknown

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
    flat: list[Expr] = []
    for part in parts:
        if isinstance(part, Always):
            if part.value is not conjunction:
                return part
        elif isinstance(part, form):
            flat.extend(inner for inner in part.parts if inner not in flat)
        elif part not in flat:
            flat.append(part)
    if not flat:
        return Always(conjunction)
    return flat[0] if len(flat) == 1 else form(tuple(flat))

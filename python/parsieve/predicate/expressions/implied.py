"""Conditions on expressions that follow from conditions on their columns, so that an index of the expression helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from parsieve.predicate.expr import And, Column, Compare, Computed, Expr, In, Literal, Operator, Or, all_of
from parsieve.predicate.expressions.expression import Expression
from parsieve.predicate.expressions.keys import encode_key
from parsieve.predicate.normalize import normalize

_RANGES = ("<", "<=", ">", ">=")


def with_implied(expr: Expr, expressions: Sequence[Expression], types_are_certain: bool) -> Expr:
    """Return an equivalent predicate that also contains the conditions on some expressions that follow from it.

    >>> import pyarrow as pa
    >>> from parsieve.predicate import parse
    >>> from parsieve.predicate.expressions.expression import parse_expression
    >>> from parsieve.predicate.expressions.implied import with_implied
    >>> schema = pa.schema({"email": pa.string()})
    >>> print(with_implied(parse("email = 'A'", schema), [parse_expression("lower(email)", schema)], True))
    email = 'A' AND lower(email) = 'a'
    """
    return _extend(normalize(expr, types_are_certain), expressions) if expressions else expr


def _extend(expr: Expr, expressions: Sequence[Expression]) -> Expr:
    match expr:
        case Or(parts):
            return Or(tuple(_extend(part, expressions) for part in parts))
        case And(parts):
            # A condition on a key follows from several parts together. Disjunctions are extended on their own.
            inner = tuple(_extend(part, expressions) if isinstance(part, Or) else part for part in parts)
            return And((*inner, *_implied(parts, expressions)))
        case _:
            return all_of(expr, *_implied((expr,), expressions))


def _implied(parts: Sequence[Expr], expressions: Sequence[Expression]) -> list[Expr]:
    implied: list[Expr] = []
    for expression in expressions:
        conditions = _on_key(expression, parts) if expression.name == "key" else _on_value(expression, parts)
        implied += [Computed(condition, expression) for condition in conditions]
    return implied


def _on_value(expression: Expression, parts: Sequence[Expr]) -> list[Expr]:
    """Return the conditions on a function of one column.

    Let f be the function, and x the value of a row for which the condition on the column is true. So x is not null. If
    x is outside the domain of f, the index keeps the row for every condition on f. Otherwise x = c implies
    f(x) = f(c), if f(c) is defined. The same holds for a list of values.
    """
    (column,) = expression.columns
    conditions: list[Expr] = []
    for part in parts:
        match part:
            case Compare(tested, "=", value) if tested == column:
                (result,) = expression.compute([pa.array([value.scalar], column.value_type)])[0]
                if result.is_valid:
                    conditions.append(Compare(expression.value, "=", Literal(result)))
            case In(tested, values) if tested == column:
                results, _ = expression.compute([values])
                if not results.null_count:
                    conditions.append(In(expression.value, results.unique()))
    return conditions


def _on_key(expression: Expression, parts: Sequence[Expr]) -> list[Expr]:
    """Return the conditions on a composite key.

    The key of a row is p + e(x) + r. Here p has the parts that equal a value, e(x) is the next part, and r the rest.
    The order of e is the order of the values: if x < c, then p + e(x) + r < p + e(c). If e(x) is a prefix of e(c), it
    is the last part, and r is empty. If x = c, the key begins with p + e(c). Hence:

    - x >= c and x > c imply that the key is >= p + e(c).
    - x < c implies that the key is < p + e(c).
    - x <= c implies that the key is below the least bytes that are greater than all keys with the prefix p + e(c).

    A row has no key if a part is null. So each part needs a condition, and the condition must not be true for null.
    """
    by_column: dict[Column, list[Compare | In]] = {column: [] for column in expression.columns}
    for part in parts:
        if isinstance(part, Compare | In) and part.column in by_column:
            by_column[part.column].append(part)
    if not all(by_column.values()):
        return []
    equal: list[pa.Array] = []
    for column in expression.columns:
        values = _equal_values(by_column[column])
        if values is None or (len(values) > 1 and len(equal) + 1 < len(expression.columns)):
            break
        equal.append(values)
    count = len(expression.columns)

    def encode(arrays: Sequence[pa.Array]) -> pa.Array:
        return encode_key(arrays, count)

    if len(equal) == count:
        longest = len(equal[-1])
        keys = encode([pa.repeat(values[0], longest) for values in equal[:-1]] + [equal[-1]])
        return [Compare(expression.value, "=", Literal(keys[0])) if longest == 1 else In(expression.value, keys)]
    return _range(expression, equal, by_column[expression.columns[len(equal)]], encode) if equal else []


def _equal_values(conditions: Sequence[Compare | In]) -> pa.Array | None:
    """Return the values of a condition that compares a column with `=` or IN."""
    for part in conditions:
        if isinstance(part, In):
            return part.values
        if part.op == "=":
            return pa.array([part.value.scalar], part.value.scalar.type)
    return None


def _range(
    expression: Expression,
    equal: Sequence[pa.Array],
    conditions: Sequence[Compare | In],
    encode: Callable[[Sequence[pa.Array]], pa.Array],
) -> list[Expr]:
    """Return the conditions on a key whose first parts equal a value."""
    first = encode(equal)[0].as_py()
    bounds: list[tuple[Operator, bytes]] = [(">=", first), ("<", _after(first))]
    for part in conditions:
        if isinstance(part, Compare) and part.op in _RANGES:
            key = encode([*equal, pa.array([part.value.scalar], part.value.scalar.type)])[0].as_py()
            if part.op in (">", ">="):
                bounds.append((">=", key))
            else:
                bounds.append(("<", key if part.op == "<" else _after(key)))
    return [Compare(expression.value, op, Literal(pa.scalar(key, pa.binary()))) for op, key in bounds if key]


def _after(key: bytes) -> bytes:
    """Return the least bytes that are greater than all bytes with a prefix; empty if there are none."""
    stem = key.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b""

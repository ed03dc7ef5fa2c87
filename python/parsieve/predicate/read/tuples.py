"""Parse lists of `(column, op, value)` tuples in disjunctive normal form, as in pyarrow and pandas.

The meaning is that of pyarrow. A list is a conjunction, and a list of lists is a disjunction of conjunctions. `in` and
`not in` are never null. NaN equals nothing, except in a list of values for `in`. `contains`, `contains any` and
`contains all` test lists.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from parsieve.errors import ColumnNotFoundError
from parsieve.predicate.builder import Builder, Operand, is_text, make_unknown, python_value
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.expr import Always, And, Expr, IsNull, Not, Operator, Unknown, all_of, any_of
from parsieve.predicate.literals import Value
from parsieve.predicate.messages import NotUnderstoodError, value_text
from parsieve.predicate.read.computed import Expressions
from parsieve.predicate.read.lists import Elements
from parsieve.predicate.read.nan_rules import compare_ieee

_OPERATORS: dict[str, Operator] = {
    "=": "=",
    "==": "=",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}


def parse_tuples(where: Sequence[Any], schema: pa.Schema, zone: str | None) -> Expr:
    """Parse a list of tuples, or a list of such lists."""
    names, build = ColumnNames(schema), Builder(zone)
    if not where:
        return Always(True)
    if all(_is_term(term) for term in where):
        return all_of(*(_term(term, names, build) for term in where))
    if all(isinstance(group, list | tuple) and group and all(_is_term(term) for term in group) for group in where):
        return any_of(*(all_of(*(_term(term, names, build) for term in group)) for group in where))
    raise ValueError(
        "a predicate of tuples is [(column, op, value), …] for AND, or a list of such lists for OR, "
        'as in [[("x", "=", 1)], [("y", "in", [2, 3])]]'
    )


def _is_term(term: Any) -> bool:
    return isinstance(term, tuple) and len(term) == 3 and isinstance(term[1], str)


def _value(operand: Operand, value: Any) -> Value | None:
    """Convert a Python value. For a string column, a UUID becomes its canonical text in lower case."""
    if isinstance(value, uuid.UUID) and is_text(operand.column.value_type):
        return str(value)
    return python_value(value)


def _term(term: tuple[Any, str, Any], names: ColumnNames, build: Builder) -> Expr:
    name, op, value = term
    if not isinstance(name, str) and not (isinstance(name, tuple) and all(isinstance(part, str) for part in name)):
        raise TypeError(f"a column must be a name or a tuple of names, not {name!r}")
    known = [*_OPERATORS, "in", "not in", "contains", "contains any", "contains all", "has token"]
    if op not in known:
        raise ValueError(f"unknown operator {op!r}; use one of {', '.join(known)}")
    expressions = Expressions()
    operand = _operand(name, names, expressions)
    condition = _condition(operand, op, value, build)
    if not operand.column.is_computed or isinstance(condition, Unknown):
        return condition
    return expressions.condition(operand.column, condition)


def _operand(name: str | tuple[str, ...], names: ColumnNames, expressions: Expressions) -> Operand:
    """Return the column of this name, or else the expression with this text."""
    try:
        return Operand(names.find([name] if isinstance(name, str) else name))
    except ColumnNotFoundError:
        operand = expressions.parse(name, names.schema) if isinstance(name, str) else None
        if operand is None:
            raise
        return operand


def _condition(operand: Operand, op: str, value: Any, build: Builder) -> Expr:
    try:
        if op in _OPERATORS:
            return compare_ieee(build, operand, _OPERATORS[op], _value(operand, value))
        if op == "has token":
            return build.has_token(operand, _value(operand, value))
        elements = Elements(operand.column)
        if op == "contains":
            return elements.has_any(build, [_value(elements.operand, value)])
        if isinstance(value, str | bytes) or not (isinstance(value, Collection) or hasattr(value, "__arrow_c_array__")):
            raise TypeError(f"{op!r} takes a list of values, not {value!r}")
        if op in ("contains any", "contains all"):
            wanted = [_value(elements.operand, element) for element in value]
            return elements.has_any(build, wanted) if op == "contains any" else elements.has_all(build, wanted)
        values = [_value(operand, element) for element in value]
        is_member = build.contains(operand, [element for element in values if element is not None])
        null = IsNull(operand.column)
        condition = any_of(null, is_member) if None in values else And((Not(null), is_member))
        return condition if op == "in" else Not(condition)
    except NotUnderstoodError as error:
        return make_unknown(f"{operand.column} {op} {value_text(value)}", error)

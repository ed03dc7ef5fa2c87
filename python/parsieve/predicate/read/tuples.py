"""`[(column, op, value)]` in disjunctive normal form, as pyarrow and pandas take it, to the typed form.

It means what pyarrow makes of it: a list is a conjunction, a list of lists a disjunction of conjunctions, `in` and
`not in` are true or false for a null, and NaN equals nothing.
"""

from __future__ import annotations

import reprlib
import uuid
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from parsieve.predicate.builder import Builder, Operand, is_text, python_value, unknown
from parsieve.predicate.column_names import Names
from parsieve.predicate.expr import Always, And, Expr, IsNull, Not, Operator, both, either
from parsieve.predicate.literals import UnlikeError, Value
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
    """The typed form of a list of tuples, or of a list of such lists."""
    names, build = Names(schema), Builder(zone)
    if not where:
        return Always(True)
    if all(_is_term(term) for term in where):
        return both(*(_term(term, names, build) for term in where))
    if all(isinstance(group, list | tuple) and group and all(_is_term(term) for term in group) for group in where):
        return either(*(both(*(_term(term, names, build) for term in group)) for group in where))
    raise ValueError(
        "a predicate of tuples is [(column, op, value), …] for AND, or a list of such lists for OR, "
        'as in [[("x", "=", 1)], [("y", "in", [2, 3])]]'
    )


def _is_term(term: Any) -> bool:
    return isinstance(term, tuple) and len(term) == 3 and isinstance(term[1], str)


def _value(operand: Operand, value: Any) -> Value | None:
    """A value of Python; a UUID beside a string is its canonical text, in lower case."""
    if isinstance(value, uuid.UUID) and is_text(operand.column.value_type):
        return str(value)
    return python_value(value)


def _term(term: tuple[Any, str, Any], names: Names, build: Builder) -> Expr:
    name, op, value = term
    if not isinstance(name, str) and not (isinstance(name, tuple) and all(isinstance(part, str) for part in name)):
        raise TypeError(f"a column is a name or a tuple of names, not {name!r}")
    operand = Operand(names.find([name] if isinstance(name, str) else name))
    if op not in _OPERATORS and op not in ("in", "not in"):
        raise ValueError(f"{op!r} is none of {', '.join([*_OPERATORS, 'in', 'not in'])}")
    try:
        if op in _OPERATORS:
            return compare_ieee(build, operand, _OPERATORS[op], _value(operand, value))
        if isinstance(value, str | bytes) or not (isinstance(value, Collection) or hasattr(value, "__arrow_c_array__")):
            raise TypeError(f"{op!r} takes a list of values, not {value!r}")
        values = [_value(operand, one) for one in value]
        found = build.contains(operand, [one for one in values if one is not None])
        null = IsNull(operand.column)
        among = either(null, found) if None in values else And((Not(null), found))
        return among if op == "in" else Not(among)
    except UnlikeError as error:
        return unknown(f"{operand.column} {op} {reprlib.repr(value)}", error)

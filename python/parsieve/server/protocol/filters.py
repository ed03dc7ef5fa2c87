"""Translate the filter of a plan request, an expression as JSON. Clients filter again, so a wider condition is exact.

Iceberg's negations are true for null in some clients and null in others, so negated conditions also keep nulls. In
pyiceberg, NaN is not `>= v`, so `not >= v` is true for NaN. So negated comparisons also keep NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from parsieve.predicate.builder import Builder, Operand
from parsieve.predicate.column_names import field_id
from parsieve.predicate.expr import Always, And, Column, Expr, IsNull, Not, Operator, Or, Unknown, any_of
from parsieve.predicate.literals import Value
from parsieve.predicate.messages import NotUnderstoodError, shortened
from parsieve.server.protocol.errors import bad_request
from parsieve.server.protocol.literals import read_literal

# Each operation and its negation.
_NEGATED = {
    "lt": "gt-eq",
    "gt": "lt-eq",
    "eq": "not-eq",
    "in": "not-in",
    "is-null": "not-null",
    "is-nan": "not-nan",
    "starts-with": "not-starts-with",
}
_NEGATED |= {negated: positive for positive, negated in _NEGATED.items()}
_COMPARISONS: dict[str, Operator] = {"lt": "<", "lt-eq": "<=", "gt": ">", "gt-eq": ">=", "eq": "=", "not-eq": "!="}
# What to write for a comparison with zero, since some clients order -0.0 before 0.0.
_WITH_ZERO = {"lt": "lt-eq", "gt": "gt-eq"}
# Deeper filters are wrong input. The JSON parser of Python has a similar limit.
_DEEPEST = 200


class FilterReader:
    """Translates filters that name columns of one Iceberg schema into predicates on the table's Arrow schema."""

    def __init__(self, iceberg_schema: Any, schema: pa.Schema, *, case_sensitive: bool) -> None:
        self._iceberg_schema = iceberg_schema
        self._columns = _columns_by_id(schema)
        self._case_sensitive = case_sensitive
        self._build = Builder()

    def read(self, node: Any, negated: bool = False, depth: int = 0) -> Expr:
        """Return the condition of a filter, or of its negation."""
        if depth > _DEEPEST:
            raise bad_request(f"the filter is nested more than {_DEEPEST} levels deep")
        if isinstance(node, bool):
            return Always(node is not negated)
        if not isinstance(node, dict) or not isinstance(node.get("type"), str):
            raise bad_request(f"{shortened(repr(node))} is not an expression")
        kind = node["type"].lower().replace("_", "-")
        if kind in ("true", "false", "literal"):
            return self._constant(kind, node, negated)
        if kind == "not":
            return self.read(_part(node, "child"), not negated, depth + 1)
        if kind in ("and", "or"):
            parts = tuple(self.read(_part(node, side), negated, depth + 1) for side in ("left", "right"))
            return And(parts) if (kind == "and") is not negated else Or(parts)
        return self._leaf(_NEGATED.get(kind, kind) if negated else kind, node, negated)

    def _constant(self, kind: str, node: dict[str, Any], negated: bool) -> Expr:
        value = node.get("value") if kind == "literal" else kind == "true"
        if not isinstance(value, bool):
            raise bad_request(f"{shortened(repr(node))} is not a constant")
        return Always(value is not negated)

    def _leaf(self, kind: str, node: dict[str, Any], negated: bool) -> Expr:
        try:
            if kind not in _NEGATED:
                raise NotUnderstoodError(f"the operation {shortened(repr(kind))} is not known")
            column, type = self.column(_term(node))
            condition = self._condition(kind, node, column, type)
        except NotUnderstoodError as error:
            return Unknown(shortened(repr(node)), str(error))
        if kind in ("is-null", "not-null") or not (negated or kind.startswith("not-")):
            return condition
        if kind in ("lt", "lt-eq") and pa.types.is_floating(column.value_type):
            # In predicates, NaN is greater than all numbers.
            condition = any_of(condition, self._build.compare(Operand(column), "=", math.nan))
        return any_of(condition, IsNull(column))

    def column(self, name: str) -> tuple[Column, Any]:
        """Return a column of the table and its Iceberg type. An unknown name is the client's error."""
        try:
            field = self._iceberg_schema.find_field(name, case_sensitive=self._case_sensitive)
        except ValueError:
            raise bad_request(f"the table has no column {shortened(repr(name))}") from None
        column = self._columns.get(field.field_id)
        if column is None or not field.field_type.is_primitive:
            raise NotUnderstoodError(f"conditions on {name} are not understood")
        return column, field.field_type

    def _condition(self, kind: str, node: dict[str, Any], column: Column, type: Any) -> Expr:
        operand = Operand(column)
        match kind:
            case "is-null":
                return IsNull(column)
            case "not-null":
                return Not(IsNull(column))
            case "is-nan" | "not-nan":
                raise NotUnderstoodError("tests for NaN exclude nothing")
            case "starts-with" | "not-starts-with":
                begins = any_of(*self._each(node, type, lambda value: self._begins(operand, value)))
                return begins if kind == "starts-with" else Not(begins)
            case "in" | "not-in":
                return self._membership(kind, node, operand, type)
        return any_of(*self._each(node, type, lambda value: self._compare(kind, operand, value)))

    def _begins(self, operand: Operand, value: Value) -> Expr:
        return self._build.starts_with(operand, value)

    def _membership(self, kind: str, node: dict[str, Any], operand: Operand, type: Any) -> Expr:
        values = node.get("values")
        if not isinstance(values, list):
            raise bad_request(f"{kind} needs a list of values")
        meanings = [read_literal(value, type) for value in values]
        if kind == "in":
            return self._build.contains(operand, [value for several in meanings for value in several])
        if any(len(several) > 1 or _is_zero(several[0]) for several in meanings):
            raise NotUnderstoodError("the values depend on how the client rounds them")
        return Not(self._build.contains(operand, [several[0] for several in meanings]))

    def _compare(self, kind: str, operand: Operand, value: Value) -> Expr:
        if _is_zero(value):
            if kind == "not-eq":
                return Always(True)
            kind = _WITH_ZERO.get(kind, kind)
        return self._build.compare(operand, _COMPARISONS[kind], value)

    def _each(self, node: dict[str, Any], type: Any, condition: Callable[[Value], Expr]) -> list[Expr]:
        return [condition(value) for value in read_literal(_part(node, "value"), type)]


def _is_zero(value: Value) -> bool:
    return isinstance(value, float) and value == 0


def _part(node: dict[str, Any], name: str) -> Any:
    if name not in node:
        raise bad_request(f"{shortened(repr(node))} has no {name!r}")
    return node[name]


def _term(node: dict[str, Any]) -> str:
    """Return the name of the column in a condition."""
    term = _part(node, "term")
    if isinstance(term, dict) and term.get("type") == "reference":
        term = term.get("term")
    if isinstance(term, dict):
        raise NotUnderstoodError("conditions on transformed columns exclude nothing")
    if not isinstance(term, str):
        raise bad_request(f"{shortened(repr(term))} is not the name of a column")
    return term


def _columns_by_id(schema: pa.Schema) -> dict[int, Column]:
    """Return the columns of a schema and of its structs, by field ID."""
    columns: dict[int, Column] = {}
    level: list[tuple[tuple[str, ...], pa.Field]] = [((), field) for field in schema]
    while level:
        parents, field = level.pop()
        path, number = (*parents, field.name), field_id(field)
        if number is not None:
            columns[number] = Column(path, field.type, number)
        if pa.types.is_struct(field.type):
            level += [(path, inner) for inner in field.type]
    return columns

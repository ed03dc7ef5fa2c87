"""Build conditions on the values of expressions."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from parsieve._core import UnsupportedError
from parsieve.predicate.builder import Operand
from parsieve.predicate.expr import Column, Computed, Expr, unknowns
from parsieve.predicate.expressions.expression import Expression, parse_expression
from parsieve.predicate.messages import NotUnderstoodError


class Expressions:
    """The expressions that occur in a predicate."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, ...], Expression] = {}

    def operand(self, name: str, column: Column, literals: Sequence[str] = ()) -> Operand:
        """Return a function of a column as one side of a comparison."""
        return self._add(Expression(name, (column,), tuple(literals)))

    def parse(self, text: str, schema: pa.Schema) -> Operand | None:
        """Return the expression with this text as one side of a comparison; None if there is no such function."""
        expression = parse_expression(text, schema)
        if expression is None or len(expression.columns) != 1:
            return None
        return self._add(expression)

    def _add(self, expression: Expression) -> Operand:
        if expression.columns[0].is_repeated:
            raise NotUnderstoodError("nested functions and functions of list elements are not supported")
        try:
            value = expression.value
        except UnsupportedError as error:
            raise NotUnderstoodError(str(error)) from None
        self._by_path[value.path] = expression
        return Operand(value)

    def condition(self, column: Column, condition: Expr) -> Expr:
        """Return a condition on the value of an expression as a condition on its column."""
        expression = self._by_path[column.path]
        if unknowns(condition):
            raise NotUnderstoodError(f"this condition on {column} is not supported")
        return Computed(condition, expression)

"""Find the columns of a typed predicate again in a schema, in which they may have other field ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from parsieve.errors import ColumnNotFoundError
from parsieve.predicate.column_names import ColumnNames, field_id
from parsieve.predicate.elements import element_field
from parsieve.predicate.expr import Always, And, AnyElement, Column, Computed, Expr, Not, Or, Unknown, columns


def rebound(expr: Expr, schema: pa.Schema) -> Expr:
    """Return the predicate about the columns that have these names in a schema.

    Plans find columns by field id. The schema from which the predicate was made may have no ids, or it may be older:
    since then, a column was dropped, and another one got its name.
    """
    names = ColumnNames(schema)
    replacements: dict[Column, Column] = {}
    for column in columns(expr):
        in_schema = names.find(column.path, exact=True)
        if in_schema.path != column.path:
            raise ColumnNotFoundError(f"there is no column {column}; {in_schema} is another column")
        if in_schema.value_type != column.value_type:
            raise TypeError(
                f"column {column} is of type {in_schema.type}, but the predicate was made for {column.type}"
            )
        replacements[column] = in_schema
    if all(column.field_id == in_schema.field_id for column, in_schema in replacements.items()):
        return expr
    return _replaced(expr, replacements)


def _replaced(expr: Expr, replacements: Mapping[Column, Column]) -> Expr:
    match expr:
        case And(parts) | Or(parts):
            return replace(expr, parts=tuple(_replaced(part, replacements) for part in parts))
        case Not(part):
            return Not(_replaced(part, replacements))
        case AnyElement(column, condition, key):
            inside = columns(condition if key is None else And((key, condition)))
            elements = {element: _element(replacements[column], element) for element in inside}
            new_key = None if key is None else _replaced(key, elements)
            return AnyElement(replacements[column], _replaced(condition, elements), new_key)
        case Computed(condition, expression):
            same = replace(expression, columns=tuple(replacements[argument] for argument in expression.columns))
            values = dict.fromkeys(columns(condition), same.value)
            return Computed(_replaced(condition, values), same)
        case Always() | Unknown():
            return expr
    return replace(expr, column=replacements[expr.column])


def _element(container: Column, element: Column) -> Column:
    """Return the column of the elements, keys or values of a list or map."""
    field = element_field(container.type, element.path[-1], container.field_id)
    return replace(element, field_id=None if field is None else field_id(field))

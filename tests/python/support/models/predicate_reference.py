"""A row at a time, by the book: what a typed predicate says of Python values, in SQL's three truths."""

from __future__ import annotations

import math
import operator
from typing import Any

import pyarrow as pa

from parsieve.predicate.expr import Always, And, Compare, Expr, In, IsNull, Not, Or, OutOfType, StartsWith

_OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def truth(expr: Expr, row: dict[str, Any]) -> bool | None:
    match expr:
        case And(parts):
            found = [truth(part, row) for part in parts]
            return False if False in found else None if None in found else True
        case Or(parts):
            found = [truth(part, row) for part in parts]
            return True if True in found else None if None in found else False
        case Not(part):
            inner = truth(part, row)
            return None if inner is None else not inner
        case Always(value):
            return value
        case IsNull(column):
            return _value(row, column.path) is None
        case Compare(column, op, value):
            here = _value(row, column.path)
            return None if here is None else _OPERATORS[op](_key(here), _key(plain(value.scalar)))
        case In(column, values):
            here = _value(row, column.path)
            return None if here is None else any(_key(here) == _key(plain(value)) for value in values)
        case OutOfType(column):
            return None if _value(row, column.path) is None else False
        case StartsWith(column, prefix):
            here = _value(row, column.path)
            return None if here is None else here.startswith(prefix.scalar.as_py())
    raise AssertionError(expr)


def rows(expr: Expr, table: pa.Table) -> list[int]:
    """The numbers of the rows for which `expr` is true."""
    columns = {name: [plain(value) for value in table[name]] for name in table.column_names}
    return [
        number
        for number in range(table.num_rows)
        if truth(expr, {name: values[number] for name, values in columns.items()}) is True
    ]


def plain(scalar: pa.Scalar) -> Any:
    """A scalar as Python compares it; times as their ticks."""
    if not scalar.is_valid:
        return None
    if pa.types.is_temporal(scalar.type):
        return scalar.cast(pa.int32() if scalar.type.bit_width == 32 else pa.int64()).as_py()
    if pa.types.is_struct(scalar.type):
        return {field.name: plain(scalar[field.name]) for field in scalar.type}
    if isinstance(scalar.type, pa.BaseExtensionType):
        return plain(scalar.value)
    if pa.types.is_dictionary(scalar.type):
        return plain(scalar.value)
    return scalar.as_py()


def _key(value: Any) -> Any:
    # NaN is equal to itself and above all others.
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def _value(row: dict[str, Any], path: tuple[str, ...]) -> Any:
    here: Any = row
    for part in path:
        here = None if here is None else here[part]
    return here

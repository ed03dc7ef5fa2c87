"""Evaluate a typed predicate on Python values, one row at a time, with SQL's three-valued logic."""

from __future__ import annotations

import math
import operator
import re
from typing import Any

import pyarrow as pa

from parsieve.predicate.expr import (
    Always,
    And,
    Compare,
    Expr,
    HasToken,
    In,
    IsNull,
    Like,
    Not,
    Or,
    OutOfType,
    StartsWith,
)
from parsieve.predicate.text.like import Pattern, Wildcard

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
            truths = [truth(part, row) for part in parts]
            return False if False in truths else None if None in truths else True
        case Or(parts):
            truths = [truth(part, row) for part in parts]
            return True if True in truths else None if None in truths else False
        case Not(part):
            inner = truth(part, row)
            return None if inner is None else not inner
        case Always(value):
            return value
        case IsNull(column):
            return _value(row, column.path) is None
        case Compare(column, op, value):
            actual = _value(row, column.path)
            return None if actual is None else _OPERATORS[op](_key(actual), _key(plain(value.scalar)))
        case In(column, values):
            actual = _value(row, column.path)
            return None if actual is None else any(_key(actual) == _key(plain(value)) for value in values)
        case OutOfType(column):
            return None if _value(row, column.path) is None else False
        case StartsWith(column, prefix):
            actual = _value(row, column.path)
            return None if actual is None else actual.startswith(prefix.scalar.as_py())
        case Like(column, pattern, ignore_case):
            actual = _value(row, column.path)
            return None if actual is None else _is_like(actual, pattern, ignore_case)
        case HasToken(column, word):
            actual = _value(row, column.path)
            return None if actual is None else word in re.split(r"[^0-9A-Za-z\x80-\U0010ffff]", actual)
    raise AssertionError(expr)


def _is_like(actual: str, pattern: Pattern, ignore_case: bool) -> bool:
    forms = {Wildcard.ONE: ".", Wildcard.ANY: ".*"}
    # The case of the pattern's texts is certain, so the letters of ASCII are all that has another case.
    flags = re.DOTALL | (re.IGNORECASE | re.ASCII if ignore_case else 0)
    written = "".join(forms[token] if isinstance(token, Wildcard) else re.escape(token) for token in pattern)
    return re.fullmatch(written, actual, flags) is not None


def rows(expr: Expr, table: pa.Table) -> list[int]:
    """Return the numbers of the rows for which `expr` is true."""
    columns = {name: [plain(value) for value in table[name]] for name in table.column_names}
    return [
        number
        for number in range(table.num_rows)
        if truth(expr, {name: values[number] for name, values in columns.items()}) is True
    ]


def plain(scalar: pa.Scalar) -> Any:
    """Return a Python value that compares like the scalar. Times become ticks."""
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
    # NaN equals itself and is greater than all other values.
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def _value(row: dict[str, Any], path: tuple[str, ...]) -> Any:
    actual: Any = row
    for part in path:
        actual = None if actual is None else actual[part]
    return actual

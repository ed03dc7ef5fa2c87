"""Write conditions in each language that `Table.plan` accepts."""

from __future__ import annotations

import datetime as dt
import functools
import math
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parsieve.predicate import parse
from support.rows.conditions import (
    ARROW,
    COMPARISONS,
    SQL,
    Condition,
    Every,
    Negation,
    Rules,
    Some,
    Test,
    is_text,
    tests_of,
    value_type_of,
)

_BASIC = (*COMPARISONS, *COMPARISONS, "null", "not null")


@dataclass(frozen=True)
class Language:
    """A predicate language: its rules, its operators, and the shape of its conditions."""

    name: str
    rules: Rules
    ops: tuple[str, ...]
    shape: str
    render: Callable[[Condition, pa.Schema, random.Random], dict[str, Any]]
    # Whether it has literals of a type.
    accepts: Callable[[pa.DataType], bool] = lambda kind: True


class UnsayableError(Exception):
    """A language has no literal for a value."""


def _sql(condition: Condition, schema: pa.Schema, random_: random.Random) -> dict[str, Any]:
    """Return SQL text with positional or named parameters."""
    values: list[Any] = []
    named = random_.random() < 0.5

    def put(value: Any) -> str:
        if value is None:
            return "NULL"
        values.append(value)
        return f":p{len(values) - 1}" if named else "?"

    def text(part: Condition) -> str:
        match part:
            case Every(parts):
                return "(" + " AND ".join(map(text, parts)) + ")"
            case Some(parts):
                return "(" + " OR ".join(map(text, parts)) + ")"
            case Negation(inner):
                return f"NOT ({text(inner)})"
            case Test(path, op, literals):
                column = ".".join('"' + name.replace('"', '""') + '"' for name in path)
                return _sql_test(column, op, literals, put)

    where = text(condition)
    if not values:
        return {"where": where}
    return {"where": where, "params": {f"p{n}": value for n, value in enumerate(values)} if named else values}


def _sql_test(column: str, op: str, literals: tuple[Any, ...], put: Callable[[Any], str]) -> str:
    match op:
        case "null":
            return f"{column} IS NULL"
        case "not null":
            return f"{column} IS NOT NULL"
        case "is":
            return column
        case "prefix" if isinstance(literals[0], str):
            return f"{column} LIKE '" + literals[0].replace("'", "''") + "%'"
        case "prefix":
            raise UnsayableError("a prefix of bytes in SQL")
        case "day":
            if not -700_000 < literals[0] < 2_900_000:
                raise UnsayableError("a day beyond the years 1 to 9999")
            return f"CAST({column} AS DATE) = DATE '{dt.date(1970, 1, 1) + dt.timedelta(days=literals[0])}'"
        case "distinct":
            return f"{column} IS DISTINCT FROM {put(literals[0])}"
        case "between":
            return f"{column} BETWEEN {put(literals[0])} AND {put(literals[1])}"
        case "in" | "not in":
            return f"{column} {op.upper()} ({', '.join(map(put, literals))})"
    return f"{column} {op} {put(literals[0])}"


def _typed(condition: Condition, schema: pa.Schema, random_: random.Random) -> dict[str, Any]:
    """Return a parsed predicate."""
    request = _sql(condition, schema, random_)
    return {"where": parse(request["where"], schema, params=request.get("params"))}


def _tuples(condition: Condition, schema: pa.Schema, random_: random.Random) -> dict[str, Any]:
    """Return a disjunction of conjunctions as lists of tuples."""

    def term(test: Test) -> tuple[Any, str, Any]:
        column = test.path if len(test.path) > 1 else test.path[0]
        if not test.values:
            raise UnsayableError("a test for null")
        if test.op in ("in", "not in"):
            return column, test.op, list(test.values)
        return column, test.op, test.values[0]

    def group(part: Condition) -> list[tuple[Any, str, Any]]:
        return [term(test) for test in tests_of(part)]

    if isinstance(condition, Some):
        return {"where": [group(part) for part in condition.parts]}
    return {"where": group(condition)}


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _arrow(condition: Condition, schema: pa.Schema, random_: random.Random) -> dict[str, Any]:
    """Return a pyarrow expression."""

    def literal(value: Any) -> Any:
        try:
            return value if isinstance(value, pa.Scalar) else pa.scalar(value)
        except (pa.ArrowInvalid, OverflowError):
            raise UnsayableError(f"pyarrow has no scalar for {value!r}") from None

    def expression(part: Condition) -> Any:
        match part:
            case Every(parts):
                return functools.reduce(operator.and_, map(expression, parts))
            case Some(parts):
                return functools.reduce(operator.or_, map(expression, parts))
            case Negation(inner):
                return ~expression(inner)
            case Test(path, op, values):
                return test(pc.field(*path) if len(path) > 1 else pc.field(path[0]), op, values)

    def test(field: Any, op: str, values: tuple[Any, ...]) -> Any:
        match op:
            case "null":
                return field.is_null()
            case "not null":
                return field.is_valid()
            case "is":
                return field
            case "prefix":
                return pc.starts_with(field, values[0])
            case "in" | "not in":
                try:
                    members = pa.array([None if value is None else literal(value) for value in values])
                except (pa.ArrowException, ValueError, TypeError):
                    raise UnsayableError("a list of mixed types") from None
                return field.isin(members) if op == "in" else ~field.isin(members)
        return _FUNCTIONS[op](field, literal(values[0]))

    return {"where": expression(condition)}


def _polars(condition: Condition, schema: pa.Schema, random_: random.Random) -> dict[str, Any]:
    """Return a Polars expression."""
    import polars as pl

    def literal(value: Any) -> Any:
        value = value.as_py() if isinstance(value, pa.Scalar) else value
        if not isinstance(value, bool | int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
            raise UnsayableError("Polars cannot serialize every literal")
        if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
            raise UnsayableError("Polars has no such integer")
        return value

    def expression(part: Condition) -> Any:
        match part:
            case Every(parts):
                return functools.reduce(operator.and_, map(expression, parts))
            case Some(parts):
                return functools.reduce(operator.or_, map(expression, parts))
            case Negation(inner):
                return ~expression(inner)
            case Test(path, op, values):
                if path[0] == "" or path[0] == "*" or path[0].startswith("^"):
                    raise UnsayableError("Polars has no such name")
                column = pl.col(path[0])
                for name in path[1:]:
                    column = column.struct.field(name)
                return test(column, op, values)

    def test(column: Any, op: str, values: tuple[Any, ...]) -> Any:
        match op:
            case "null":
                return column.is_null()
            case "not null":
                return column.is_not_null()
            case "is":
                return column
            case "prefix":
                if not isinstance(values[0], str):
                    raise UnsayableError("a prefix of bytes")
                return column.str.starts_with(values[0])
            case "between":
                return column.is_between(pl.lit(literal(values[0])), pl.lit(literal(values[1])))
        return _FUNCTIONS[op](column, literal(values[0]))

    return {"where": expression(condition)}


def _keys(condition: Condition, schema: pa.Schema, random_: random.Random) -> dict[str, Any]:
    """Return the keys of a semi-join."""
    tests = list(tests_of(condition))
    keys = {test.path: pa.array(list(test.values), test.values[0].type) for test in tests}
    return {"keys": {path if len(path) > 1 else path[0]: values for path, values in keys.items()}}


def _is_for_polars(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind) or is_text(value_type_of(kind)))


def _has_order(kind: pa.DataType) -> bool:
    return not (pt.is_duration(kind) or pt.is_null(kind))


LANGUAGES = [
    Language("sql", SQL, (*_BASIC, "in", "not in", "between", "prefix", "distinct", "is", "day"), "tree", _sql),
    Language("typed", SQL, (*_BASIC, "in", "not in", "between", "prefix", "is"), "tree", _typed),
    Language("tuples", ARROW, (*COMPARISONS, "in", "not in"), "or of ands", _tuples, _has_order),
    Language("arrow", ARROW, (*_BASIC, "in", "not in", "prefix", "is"), "tree", _arrow),
    Language("polars", SQL, (*_BASIC, "between", "prefix", "is"), "tree", _polars, _is_for_polars),
    Language("keys", SQL, ("in",), "keys", _keys, _has_order),
]

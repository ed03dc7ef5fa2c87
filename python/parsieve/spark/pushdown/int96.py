"""What Spark asks of moments in microseconds, asked of a column that holds them in nanoseconds, as INT96 does.

Spark cuts nanoseconds off as it reads, so each of its moments stands for an interval of ours. Writers may count the
nanoseconds of a day from its end; then Spark cuts to the other side, and the interval is one microsecond longer.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.predicate.expr import (
    And,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    OutOfType,
    StartsWith,
    both,
    either,
)
from parsieve.predicate.normalize import normalize

SEEN = pa.timestamp("us", "UTC")
HELD = pa.timestamp("ns")
# So many moments are asked for one by one, more by the interval in which they lie.
FEW = 20
_MOST = 2**63 - 1


def as_seen(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """A schema whose columns of these names are moments as Spark reads them."""
    return pa.schema([field.with_type(SEEN) if field.name in names else field for field in schema], schema.metadata)


def as_held(expr: Expr, names: Collection[str]) -> Expr:
    """What holds of the nanoseconds of every row of which `expr` holds as Spark reads it; it may hold of others."""
    return _held(normalize(expr, types_are_certain=False), frozenset((name,) for name in names))


def _held(expr: Expr, paths: frozenset[tuple[str, ...]]) -> Expr:
    match expr:
        case And(parts):
            return both(*(_held(part, paths) for part in parts))
        case Or(parts):
            return either(*(_held(part, paths) for part in parts))
        case Not(Compare(column) | In(column) | IsNull(column) | StartsWith(column) | OutOfType(column)) if (
            column.path in paths
        ):
            # One moment less of what Spark sees is all nanoseconds still.
            return _present(column)
        case IsNull(column) if column.path in paths:
            return IsNull(_as_held(column))
        case OutOfType(column, text) if column.path in paths:
            return OutOfType(_as_held(column), text)
        case Compare(column, op, value) if column.path in paths:
            micros = value.scalar.cast(pa.int64()).as_py()
            return _compared(column, op, micros)
        case In(column, values) if column.path in paths:
            micros = values.cast(pa.int64())
            if len(micros) <= FEW:
                return either(*(_compared(column, "=", one) for one in micros.to_pylist()))
            ends = pc.min_max(micros).as_py()
            return both(_compared(column, ">=", ends["min"]), _compared(column, "<=", ends["max"]))
        case _:
            return expr


def _compared(column: Column, op: Operator, micros: int) -> Expr:
    least = {"=": micros - 1, ">=": micros - 1, ">": micros}.get(op)
    greatest = {"=": micros, "<=": micros, "<": micros - 1}.get(op)
    bounds: list[Expr] = []
    if least is not None:
        bounds += _bound(column, ">=", least * 1000)
    if greatest is not None:
        bounds += _bound(column, "<=", greatest * 1000 + 999)
    return both(*bounds) if bounds else _present(column)


def _bound(column: Column, op: Operator, nanos: int) -> list[Expr]:
    """Nothing where nanoseconds do not reach."""
    if not -_MOST <= nanos <= _MOST:
        return []
    return [Compare(_as_held(column), op, Literal(pa.scalar(nanos, pa.int64()).cast(HELD)))]


def _present(column: Column) -> Expr:
    return Not(IsNull(_as_held(column)))


def _as_held(column: Column) -> Column:
    return Column(column.path, HELD, column.field_id)
